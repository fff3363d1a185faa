"""Steady state after SNIA's Solid State Storage Performance Test Specification (PTS 2.0.2).

Over a window of five rounds the tracked variable y is steady when both hold:

- its range, max(y) − min(y), is at most 20 % of its average;
- the least-squares line through it rises or falls over the window by at most 10 % of the average.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

WINDOW = 5
RANGE_LIMIT = 0.20
LINE_LIMIT = 0.10


@dataclass(frozen=True, slots=True)
class SteadyState:
    """The verdict on one window; ``range`` and ``line`` are fractions of the average (of a
    temperature: °C)."""

    steady: bool
    average: float
    range: float
    line: float
    slope: float
    """Of the least-squares line, in units of y a round."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a window may do: its range and its line as parts of the average, or absolutely."""

    range: float = RANGE_LIMIT
    line: float = LINE_LIMIT
    of_average: bool = True


PTS = Limits()
"""What the standard asks of performance; here also of watts."""

CELSIUS = Limits(range=2.0, line=1.5, of_average=False)
"""Temperature has no standard, and a share of °C means nothing because 0 °C is no zero: 2 °C of
range is two steps of a drive's sensor, and one step makes a line of up to 1.2 °C."""


@dataclass(frozen=True, slots=True)
class Window:
    """A measurement window as the standard draws it.

    ``rounds`` count from 0. Every line is a pair of y, at the first and at the last round.
    """

    name: str
    unit: str
    rounds: tuple[int, ...]
    values: tuple[float, ...]
    verdict: SteadyState
    average: tuple[float, float]
    upper: tuple[float, float]
    """Average + half of the allowed range (110 % of the average for performance)."""
    lower: tuple[float, float]
    slope: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Tracked:
    """A variable that is followed from round to round."""

    name: str
    unit: str
    values: tuple[float, ...]
    limits: Limits = PTS


@dataclass(frozen=True, slots=True)
class SteadyReport:
    """Whether all tracked variables became steady, where, and what each did.

    ``reached_at`` is the round (from 0) that ends the first window in which all are steady; then
    ``windows`` are of that window, else of the last rounds. ``alone_at`` says when each variable
    was steady for itself.
    """

    reached_at: int | None
    tracked: tuple[Tracked, ...]
    windows: tuple[Window, ...]
    alone_at: Mapping[str, int | None]

    @property
    def reached(self) -> bool:
        """Whether there is a steady window."""
        return self.reached_at is not None


def steady_window(rounds: ArrayLike, limits: Limits = PTS) -> SteadyState:
    """The verdict on all ``rounds`` together. Raises ValueError for fewer than two.

    ``range`` and ``line`` are parts of the average, or absolute where ``limits`` are.
    """
    y = np.asarray(rounds, dtype=np.float64)
    if y.ndim != 1 or len(y) < 2:
        raise ValueError("a window needs at least two rounds")
    x = np.arange(len(y)) - (len(y) - 1) / 2
    average = float(y.mean())
    slope = float(x @ (y - average) / (x @ x))
    of = average if limits.of_average else 1.0
    if of <= 0 or not np.isfinite(y).all():
        return SteadyState(False, average, float("inf"), float("inf"), slope)
    spread = float(y.max() - y.min()) / of
    line = abs(slope) * (len(y) - 1) / of
    steady = spread <= limits.range and line <= limits.line
    return SteadyState(steady, average, spread, line, slope)


def steady_from(rounds: ArrayLike, window: int = WINDOW, limits: Limits = PTS) -> int | None:
    """The number (from 0) of the round that ends the first steady window, or None."""
    y = np.asarray(rounds, dtype=np.float64)
    for end in range(window, len(y) + 1):
        if steady_window(y[end - window : end], limits).steady:
            return end - 1
    return None


def steady_together(
    tracked: Sequence[ArrayLike], window: int = WINDOW, limits: Sequence[Limits] | None = None
) -> int | None:
    """The round that ends the first window in which every tracked variable is steady, or None.

    PTS asks this of the IOPS test: 4 KiB 0/100, 64 KiB 65/35 and 1 MiB 100/0 at the same time.
    """
    series = [np.asarray(item, dtype=np.float64) for item in tracked]
    each = limits if limits is not None else [PTS] * len(series)
    for end in range(window, min((len(item) for item in series), default=0) + 1):
        if all(
            steady_window(item[end - window : end], limit).steady
            for item, limit in zip(series, each, strict=True)
        ):
            return end - 1
    return None


def measurement_window(one: Tracked, end: int, window: int = WINDOW) -> Window:
    """The window that ends with round ``end``, with the lines that the standard draws.

    Raises ValueError when there are not so many rounds.
    """
    first = end - window + 1
    if first < 0 or end >= len(one.values):
        raise ValueError(f"{one.name}: no {window} rounds up to round {end}")
    values = one.values[first : end + 1]
    verdict = steady_window(values, one.limits)
    half = one.limits.range / 2 * (abs(verdict.average) if one.limits.of_average else 1.0)
    rise = verdict.slope * (window - 1) / 2
    average = verdict.average
    return Window(
        name=one.name,
        unit=one.unit,
        rounds=tuple(range(first, end + 1)),
        values=values,
        verdict=verdict,
        average=(average, average),
        upper=(average + half, average + half),
        lower=(average - half, average - half),
        slope=(average - rise, average + rise),
    )


def steady_report(tracked: Sequence[Tracked], window: int = WINDOW) -> SteadyReport:
    """Whether and where all ``tracked`` variables are steady together."""
    reached = steady_together(
        [one.values for one in tracked], window, [one.limits for one in tracked]
    )
    rounds = min((len(one.values) for one in tracked), default=0)
    end = reached if reached is not None else rounds - 1
    windows = (
        tuple(measurement_window(one, end, window) for one in tracked) if end >= window - 1 else ()
    )
    alone = {one.name: steady_from(one.values, window, one.limits) for one in tracked}
    return SteadyReport(reached, tuple(tracked), windows, alone)
