"""What a meter that integrates only part of the time, at regular times, could have missed.

Such a meter sees a load that repeats in step with it at the same place each time. Its mean is then
wrong by the same amount in every reading, and nothing in the readings shows it. No budget can hold
that: it is said, or the gap or the regularity is taken away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from labctl.analysis.readings.channel_series import ChannelSeries, Floats
from labctl.record.header import RailInfo
from labctl.rounded import rounded

SHORTEST_PERIOD_S = 0.02
"""Loads that repeat faster than this are none of a drive's or a host's housekeeping: garbage
collection, wakes, polls and frames of a queue take longer."""

NOTEWORTHY = 0.1
"""Share of a load's swing that may be misread from which it is said."""

AT_ONCE = 256
PLACES = 32
"""Regularity is that of so many readings in a row, at so many places of a record at most."""

FILLED = 0.9
"""Share of the time from which what a meter integrates is known, whenever it begins."""

EVEN = 0.5
"""Regularity above which readings count as regular."""

FEW_TIMES = 32
"""Readings below which the header says whether they are regular, not their stamps."""

FEWEST = 64
"""Readings in a row below which nothing is said of their regularity."""

CLOSE_THE_GAPS = "dither the meter, or let it integrate without a gap (labctl doctor says how)"
STATE_THE_APERTURE = "say how long the meter integrates, if known (labctl import --aperture-s)"
"""What to do about a blind spot: of a run that labctl measures, and of files that it imports."""


@dataclass(frozen=True, slots=True)
class BlindSpot:
    """How a channel samples. ``integrated``: share of the time that it integrates. ``regular``: 1
    for readings on an even grid, about 0 for readings at random moments."""

    interval_s: float
    integrated: float
    regular: float

    @property
    def misread(self) -> float:
        """Share of its swing by which the mean of a load in step with the meter may be off.

        A load that repeats each ``interval_s`` may be on only while the meter is blind. One that
        repeats after several readings hides at most one edge in a gap of each period.
        """
        blind_s = (1.0 - self.integrated) * self.interval_s
        return self.regular * blind_s / max(self.interval_s, SHORTEST_PERIOD_S)

    @property
    def noteworthy(self) -> bool:
        """Whether a run is to say it."""
        return self.misread > NOTEWORTHY


def regularity(t: Floats) -> float:
    """How far ascending times are on an even grid: 1 wholly, 0 for random moments.

    It is the amplitude with which a load that repeats once in the usual interval would come out
    in the mean of instantaneous readings: |mean of exp(2πi t/T)|, less what chance gives. Readings
    that are missing on a grid do not lower it. 0 for fewer than three times.
    """
    if len(t) < 3:
        return 0.0
    steps = np.diff(t)
    usual = float(np.median(steps))
    if not usual > 0:
        return 0.0
    count = np.concatenate([[0.0], np.cumsum(np.maximum(np.rint(steps / usual), 1.0))])
    apart = count - count.mean()
    interval = float(apart @ t) / float(apart @ apart)
    turns = 2 * np.pi * (t - t[0]) / interval
    square = float(np.cos(turns).mean() ** 2 + np.sin(turns).mean() ** 2)
    by_chance = 1.0 / len(t)
    return math.sqrt(max(square - by_chance, 0.0) / (1.0 - by_chance))


def known_share(channel: ChannelSeries, low: int, high: int, integrated: float) -> float:
    """The share of the time that readings ``low`` to ``high`` take out of what was sampled.

    It is what they integrate (finite population), but for readings at random moments: of a load
    that repeats within an interval each is an independent sample, and however much of the time
    they integrate in all, their mean scatters as that of independent ones. Windows that fill
    nearly all of the time leave no room for random moments.
    """
    if integrated >= FILLED:
        return integrated
    if high - low < FEW_TIMES:
        return 0.0 if channel.info.dither > 0 else integrated
    stamps = channel.stamps[low : min(high, low + AT_ONCE)]
    return integrated if regularity((stamps - stamps[0]) * 1e-9) > EVEN else 0.0


def blind_spot(channel: ChannelSeries) -> BlindSpot | None:
    """How a channel sampled, from its stamps; None with too few readings in a row."""
    n = len(channel)
    if n < FEWEST:
        return None
    length = min(n, AT_ONCE)
    starts = np.unique(np.linspace(0, n - length, min(PLACES, n // length)).astype(np.int64))
    parts = [
        (channel.stamps[start : start + length] - channel.stamps[start]) * 1e-9
        for start in starts.tolist()
    ]
    interval_s = float(np.median([np.median(np.diff(part)) for part in parts]))
    if not interval_s > 0:
        return None
    integrated = min(channel.info.aperture_s / interval_s, 1.0)
    regular = float(np.median([regularity(part) for part in parts]))
    return BlindSpot(interval_s, integrated, regular)


def blind_problems(
    rails: Sequence[RailInfo],
    channels: Mapping[str, ChannelSeries],
    remedy: str = CLOSE_THE_GAPS,
) -> tuple[str, ...]:
    """One line that says which loads the current meters of a run could have misread, and what to
    do about it (``remedy``); or none."""
    found = []
    for name in dict.fromkeys(rail.current for rail in rails):
        spot = blind_spot(channels[name]) if name in channels else None
        if spot is not None and spot.noteworthy:
            integrates = f"integrates {spot.integrated:.0%} of the time, every"
            if not spot.integrated:
                integrates = "does not say how long it integrates, each"
            found.append(
                f"{name} {integrates} {rounded(spot.interval_s * 1e3, 4)} ms "
                f"(by up to {spot.misread:.0%} of its swing)"
            )
    if not found:
        return ()
    return (
        "a load that repeats in step with a meter could be misread, and no ± shows it: "
        + ", ".join(found)
        + f"; {remedy}",
    )
