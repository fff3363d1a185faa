"""The mains ripple that integration and averaging leave in a mean.

A reading shorter than a mains period holds some of the supply's ripple. Many readings average it
out, unless they come at (nearly) the same place of it each time: then it is a constant error that
no scatter shows.
"""

from __future__ import annotations

import math

from labctl.record.header import ChannelInfo

MAINS_RIPPLE = 0.005
"""Amplitude of ripple on a rail, as a fraction of it: the most that the ATX design guide allows
on 12 V (120 mV from peak to peak)."""

MAINS_WANDERS = 0.002
"""How far the frequency of the mains may be from its nominal value (EN 50160: ±1 % for 99.5 % of
a year; in a synchronous grid hardly ever over 0.2 %)."""

HARMONICS = (1, 2)
"""Of the mains: half-wave and full-wave rectified."""

NOTEWORTHY = 0.1
"""Part of the ripple from which a run has a line among its problems."""


def left_of_ripple(info: ChannelInfo, duration_s: float) -> float:
    """The part of the ripple's amplitude (0 to 1) that may be in a mean over ``duration_s``.

    0 where the integration time is a whole number of mains periods, or the mains are not known.
    """
    if not (info.mains_hz and info.interval_s and duration_s):
        return 0.0
    return max(_of_harmonic(info, order * info.mains_hz, duration_s) for order in HARMONICS)


def _of_harmonic(info: ChannelInfo, ripple_hz: float, duration_s: float) -> float:
    periods = info.aperture_s * ripple_hz
    if abs(periods - round(periods)) < 1e-6 and round(periods):
        return 0.0
    in_one = abs(math.sin(math.pi * periods) / (math.pi * periods)) if periods else 1.0
    cycles = ripple_hz * info.interval_s
    beat_hz = abs(cycles - round(cycles)) / info.interval_s - MAINS_WANDERS * ripple_hz
    if beat_hz <= 0:
        return in_one
    readings = duration_s / info.interval_s
    return in_one * min(1.0, 1.0 / (readings * math.sin(math.pi * beat_hz * info.interval_s)))
