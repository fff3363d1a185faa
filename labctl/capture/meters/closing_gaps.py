"""What part of the time a meter is blind, and which settings close the gap or break the regularity.

``labctl doctor`` and ``labctl range`` say it before a run; what a run could have misread is
:mod:`labctl.analysis.power.blind_spots`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from instruments.driver_kit.base_settings import NplcSettings
from instruments.reading import Channel
from labctl.analysis.power.blind_spots import BlindSpot
from labctl.capture.meters.find_ranges import settings_of
from labctl.config.rig import Rig
from labctl.rounded import rounded

OVERHEAD: Final = 1.05
"""An interval without a gap over the integration time: a meter needs some time from reading to
reading, and says so where it is more."""

COMMON_PERIODS_S: Final = (1 / 120, 0.01, 1 / 60, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0)
"""What timers of hosts and firmware, and the mains, repeat at."""

_HARMONICS: Final = 10
_SLOWER: Final = 20
"""Loads of shorter periods than this part of the interval are not looked at: no interval keeps
clear of all of them."""


_MOST_NPLC: Final = 12
"""Of a meter that takes any number: what a DMM6500 takes."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How an instrument samples the current of a rail, and what would close its blind spot."""

    instrument: str
    spot: BlindSpot
    dither: float
    remedies: tuple[str, ...]
    """Lines for the rig, any of which will do; empty where there is no blind spot, or no remedy."""

    @property
    def gap_in_words(self) -> str:
        """What it integrates, and when."""
        if not self.spot.integrated:
            return "does not say how long it integrates"
        blind = 1.0 - self.spot.integrated
        if blind < 0.005:
            return "integrates without a gap"
        moments = "random moments" if self.dither > 0 else "regular times"
        return f"blind for {blind:.0%} of the time, read at {moments}"


def samplings(rig: Rig) -> Iterator[Sampling]:
    """How each instrument that measures a rail's current samples, in the rig's order."""
    wanted = {rail.current.channel for rail in rig.file.rails.values()}
    for name, channels in rig.channels.items():
        for channel in channels:
            if f"{name}.{channel.name}" in wanted and channel.interval_s > 0:
                yield _sampling_gap(name, settings_of(rig, name), channel)
                break


def _sampling_gap(name: str, settings: Any, channel: Channel) -> Sampling:
    integrated = min(channel.aperture_s / channel.interval_s, 1.0)
    spot = BlindSpot(channel.interval_s, integrated, regular=0.0 if channel.dither > 0 else 1.0)
    remedies = tuple(_settings_closing_gap(settings, channel)) if spot.noteworthy else ()
    return Sampling(name, spot, channel.dither, remedies)


def _settings_closing_gap(settings: Any, channel: Channel) -> Iterator[str]:
    if hasattr(settings, "dither"):
        if not settings.dither:
            yield "dither = true"
        else:
            least_s = rounded(2 * channel.aperture_s, 4)
            yield f"interval_s = {least_s}, or more, so that dither can act"
        return
    if not isinstance(settings, NplcSettings):
        return
    if not settings.sets_interval:
        yield "a larger nplc: interval_s follows from it"
        return
    nplc, interval_s = without_gap(settings)
    yield f"nplc = {nplc:g} and interval_s = {interval_s:g}"
    odd_s = without_ratios(settings.interval_s, settings.aperture_s)
    if odd_s != settings.interval_s:
        yield f"interval_s = {odd_s:g} (no simple ratio to the periods of usual loads)"


def without_gap(settings: NplcSettings) -> tuple[float, float]:
    """nplc and interval_s that leave (nearly) no gap and are no slower than it is now.

    From one mains period on the integration time is a whole number of them.
    """
    most = settings.interval_s * settings.mains_hz / OVERHEAD
    allowed = settings.nplcs or (*range(1, math.floor(min(most, _MOST_NPLC)) + 1), settings.nplc)
    nplc = max([one for one in allowed if settings.nplc <= one <= most], default=settings.nplc)
    return nplc, _rounded_up(nplc / settings.mains_hz * OVERHEAD)


def without_ratios(interval_s: float, least_s: float) -> float:
    """The interval within a tenth of ``interval_s`` whose multiples and those of common periods
    keep clear of each other best, and at least ``least_s``.

    The m-th part of a load with the period R that is sampled every T comes out as a beat of
    |m T/R - k| cycles a reading, with about 1/m of its amplitude; the mean of n readings keeps
    1/(π n) of that over the beat. The smallest m·|m T/R - k| is made as large as it gets.
    """
    digit = 10.0 ** (math.floor(math.log10(interval_s)) - 3)
    first, last = math.ceil(0.9 * interval_s / digit), math.floor(1.1 * interval_s / digit)
    candidates = [float(rounded(number * digit, 4)) for number in range(first, last + 1)]
    fitting = [one for one in candidates if one >= least_s * OVERHEAD]
    best = max(fitting, key=_gap_irregularity, default=interval_s)
    return best if _gap_irregularity(best) > _gap_irregularity(interval_s) else interval_s


def _gap_irregularity(interval_s: float) -> float:
    found = [1.0]
    for period_s in COMMON_PERIODS_S:
        for order in range(1, _HARMONICS + 1):
            cycles = order * interval_s / period_s
            if period_s * _SLOWER >= interval_s and cycles >= 0.5:
                found.append(abs(cycles - round(cycles)) * order)
    return min(found)


def _rounded_up(seconds: float) -> float:
    digit = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return round(math.ceil(seconds / digit - 1e-9) * digit, 9)
