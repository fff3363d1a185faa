"""Steady state after SNIA's Solid State Storage Performance Test Specification (PTS 2.0.2).

Over a window of five rounds the tracked variable y is steady when both hold:

- its range, max(y) − min(y), is at most 20 % of its average;
- the least-squares line through it rises or falls over the window by at most 10 % of the average.

A single phase is judged by the same rule on its five fifths: whether its mean is the mean of one
thing, or of a drive that ran out of cache or throttled on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

WINDOW = 5
RANGE_LIMIT = 0.20
LINE_LIMIT = 0.10

FEWEST_READINGS = 2
"""In each fifth of a phase, or it is not judged."""


@dataclass(frozen=True, slots=True)
class SteadyState:
    """The verdict on one window; ``range`` and ``line`` are fractions of the average."""

    steady: bool
    average: float
    range: float
    line: float
    slope: float
    """Of the least-squares line, in units of y a round."""


def steady_window(rounds: ArrayLike) -> SteadyState:
    """The verdict on all ``rounds`` together. Raises ValueError for fewer than two."""
    y = np.asarray(rounds, dtype=np.float64)
    if y.ndim != 1 or len(y) < 2:
        raise ValueError("a window needs at least two rounds")
    x = np.arange(len(y)) - (len(y) - 1) / 2
    average = float(y.mean())
    slope = float(x @ (y - average) / (x @ x))
    if average <= 0:
        return SteadyState(False, average, float("inf"), float("inf"), slope)
    spread = float(y.max() - y.min()) / average
    line = abs(slope) * (len(y) - 1) / average
    return SteadyState(spread <= RANGE_LIMIT and line <= LINE_LIMIT, average, spread, line, slope)


def steady_throughout(
    t_ns: NDArray[np.int64], values: NDArray[np.float64], begin_ns: int, end_ns: int
) -> bool | None:
    """Whether the means of the five fifths of a phase make a steady window.

    None when a fifth holds fewer than ``FEWEST_READINGS``.
    """
    edges = np.linspace(begin_ns, end_ns, WINDOW + 1)
    fifth = np.clip(np.searchsorted(edges, t_ns, side="right") - 1, 0, WINDOW - 1)
    counts = np.bincount(fifth, minlength=WINDOW)
    if counts.min() < FEWEST_READINGS:
        return None
    return steady_window(np.bincount(fifth, values, minlength=WINDOW) / counts).steady
