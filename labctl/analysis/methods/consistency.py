"""Performance consistency: how evenly a drive works once it is worn in, and its dips.

The figures are those of the reviews: mean and standard deviation of the IOPS of each second over
the last 400 s, the deviation divided by the mean (σ alone punishes fast drives), and
(max − min)/min. A dip is a stretch well below the median: garbage collection often makes them come
periodically.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TAIL_S = 400.0
"""How much of the end counts as worn in (the review method's own figure)."""

DIP_BELOW = 0.7
"""A second below this part of the tail's median belongs to a dip."""

DIP_BREAK_S = 2.0
"""Dips closer together than this are one."""

PERIODIC = 0.3
"""Dips are periodic when the standard deviation of their distances is at most this part of the
mean distance."""


@dataclass(frozen=True, slots=True)
class Dips:
    """``depth`` is the part of the IOPS that is lost in a dip (1 is all of it).

    ``period_s`` is from begin to begin (None below two dips).
    """

    count: int
    duration_s: float
    depth: float
    period_s: float | None
    periodic: bool
    begins_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Consistency:
    """IOPS of each second over the tail of a phase.

    ``relative_std`` is σ/mean, ``spread`` is (max − min)/min, None where the drive did
    nothing for a second. ``std`` is that of the seconds (n − 1).
    """

    begin_s: float
    end_s: float
    seconds: int
    mean: float
    std: float
    relative_std: float
    min: float
    max: float
    spread: float | None
    dips: Dips | None


def per_second(t_s: Floats, iops: Floats) -> tuple[Floats, Floats]:
    """IOPS of each whole second that has values: the middle of the second, and their mean."""
    if not len(t_s):
        return np.empty(0), np.empty(0)
    second = np.floor(t_s).astype(np.int64)
    whole, place = np.unique(second, return_inverse=True)
    means = np.bincount(place, weights=iops) / np.bincount(place)
    return (whole + 0.5).astype(np.float64), means.astype(np.float64)


def consistency(t_s: Floats, iops: Floats, tail_s: float = TAIL_S) -> Consistency | None:
    """How even the last ``tail_s`` seconds were; None when they hold fewer than two seconds.

    ``t_s`` are seconds since the phase began, ``iops`` means of short intervals. All of a shorter
    phase counts.
    """
    seconds, values = per_second(t_s, iops)
    if len(seconds):
        keep = seconds > seconds[-1] - tail_s
        seconds, values = seconds[keep], values[keep]
    if len(seconds) < 2:
        return None
    mean = float(values.mean())
    std = float(values.std(ddof=1))
    low, high = float(values.min()), float(values.max())
    return Consistency(
        begin_s=float(seconds[0] - 0.5),
        end_s=float(seconds[-1] + 0.5),
        seconds=len(seconds),
        mean=mean,
        std=std,
        relative_std=std / mean if mean > 0 else float("inf"),
        min=low,
        max=high,
        spread=(high - low) / low if low > 0 else None,
        dips=find_dips(seconds, values),
    )


def find_dips(seconds: Floats, values: Floats) -> Dips | None:
    """The stretches well below the median, each second at its middle; None when there are none.

    A dip that reaches the begin or the end of the tail counts, but its length does not (unless
    there is no other).
    """
    median = float(np.median(values))
    low = np.flatnonzero(values < DIP_BELOW * median)
    if not len(low):
        return None
    breaks = np.flatnonzero(np.diff(seconds[low]) > DIP_BREAK_S)
    firsts = low[np.concatenate([[0], breaks + 1])]
    lasts = low[np.concatenate([breaks, [len(low) - 1]])]
    lengths = seconds[lasts] - seconds[firsts] + 1.0
    whole = (firsts > 0) & (lasts < len(seconds) - 1)
    begins = seconds[firsts] - 0.5
    distances = np.diff(begins)
    depths = [
        1.0 - float(values[first : last + 1].mean()) / median
        for first, last in zip(firsts, lasts, strict=True)
    ]
    even = len(distances) >= 2 and float(distances.std(ddof=1)) <= PERIODIC * float(
        distances.mean()
    )
    return Dips(
        count=len(firsts),
        duration_s=float(np.median(lengths[whole] if whole.any() else lengths)),
        depth=float(np.median(depths)),
        period_s=float(np.median(distances)) if len(distances) else None,
        periodic=even,
        begins_s=tuple(float(begin) for begin in begins),
    )
