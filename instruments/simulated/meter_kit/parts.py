"""What simulated meters are built from: configuration, state of the drive, clock, own errors."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from instruments import drivers
from instruments.driver_kit import specifications
from instruments.driver_kit.base_settings import accuracy_from_rig
from instruments.reading import Accuracy, Channel
from instruments.simulated.drive.state_ring import StateReader
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

    def range_errors(self, model: str, function: str, range_: float, noise: float) -> Errors:
        """Errors on a range: within the data sheet's limits, or else those in the settings.

        ``noise`` is a share of the range.
        """
        settings = self.config.settings
        accuracy = specifications.accuracy(model, function, range_) or accuracy_from_rig(
            float(settings["accuracy_pct_of_reading"]), float(settings["accuracy_floor"])
        )
        return self.errors(accuracy, f"{function} {range_:g}", noise * range_)

    def channels(self, driver: str, **address: str) -> Mapping[str, Channel]:
        """The channels that a driver describes for the settings, by name."""
        settings = {**address, **self.config.settings}
        made = drivers.create(self.name, driver, settings, time.monotonic_ns)
        return {channel.name: channel for channel in made.channels}


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
