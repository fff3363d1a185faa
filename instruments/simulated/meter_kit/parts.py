"""What simulated meters are built from: configuration, state of the drive, clock, own errors."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from instruments.reading import Accuracy
from instruments.simulated.drive.state_ring import StateReader
from instruments.simulated.meter_kit import data_sheets
from instruments.simulated.meter_kit.clock import MeterClock
from instruments.simulated.meter_kit.config import MeterConfig
from instruments.simulated.meter_kit.probe import Errors, Probe

SHARE_OF_LIMITS = 0.9
"""Errors are drawn within this share of the limits: noise and resolution need a little."""


@dataclass(frozen=True, slots=True)
class MeterParts:
    """All that a meter of a bench is built from. Its errors follow from ``seed`` and its name."""

    config: MeterConfig
    seed: int
    directory: Path
    """Of the bench: the meters' ports and files are made there."""
    state: StateReader

    @property
    def name(self) -> str:
        """The meter's name."""
        return self.config.name

    def new_clock(self) -> MeterClock:
        """A clock with the meter's offset and drift, which begins now: one meter has one."""
        return MeterClock(self.config.clock_offset_s, self.config.drift_ppm)

    def new_rng(self, purpose: str) -> np.random.Generator:
        """Random numbers for one purpose, from their beginning: the same for every start."""
        return rng_of(self.seed, self.name, purpose)

    def probe(self) -> Probe:
        """Its point, through its shunt and its leads."""
        shunt_ohm = true_shunt_ohm(self.config, self.seed)
        return Probe(self.state, self.config.point, shunt_ohm, self.config.leads_add)

    def errors(self, accuracy: Accuracy, purpose: str, noise: float = 0.0) -> Errors:
        """Gain and offset anywhere within the limits of ``accuracy``, and noise."""
        scale = self.config.error_scale
        share = SHARE_OF_LIMITS * scale
        gain, offset = self.new_rng(purpose).uniform(-share, share, 2)
        return Errors(gain * accuracy.of_reading, offset * accuracy.floor, noise * scale)

    def limits(self, of: str = "accuracy", data_sheet: Accuracy | None = None) -> Accuracy:
        """What its errors stay within: a certificate's (in the settings), or the data sheet's.

        ``of`` is how the keys of the settings begin: ``accuracy`` where it measures one quantity,
        else ``voltage`` or ``current``. Raises ValueError where neither has them.
        """
        settings = self.config.settings
        share = settings.get(f"{of}_pct_of_reading")
        floors = [settings[key] for key in settings if key.startswith(f"{of}_floor")]
        if share is not None and floors:
            return Accuracy(float(share) / 100, float(floors[0]), "the settings")
        if data_sheet is None:
            raise ValueError(f"{self.name}: no limits of error of {of} in settings or data sheet")
        return data_sheet

    def range_errors(self, model: str, function: str, range_: float, noise: float) -> Errors:
        """Errors of a multimeter on a range: see :meth:`limits`. ``noise``: share of the range."""
        limits = self.limits(data_sheet=data_sheets.multimeter(model, function, range_))
        return self.errors(limits, f"{function} {range_:g}", noise * range_)


def true_shunt_ohm(config: MeterConfig, seed: int) -> float | None:
    """The shunt's true resistance: somewhere within its tolerance."""
    if config.shunt_ohm is None:
        return None
    drawn = rng_of(seed, config.name, "shunt").uniform(-1, 1)
    share = SHARE_OF_LIMITS * config.error_scale * drawn
    return config.shunt_ohm * (1 + share * config.shunt_tolerance_pct / 100)


def rng_of(seed: int, name: str, purpose: str) -> np.random.Generator:
    """The random numbers of a meter for one purpose."""
    return np.random.default_rng([seed, zlib.crc32(f"{name}/{purpose}".encode())])
