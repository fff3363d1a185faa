"""Quantities that are tracked from round to round until all are steady in one window.

IOPS and watts are judged as SNIA's PTS judges performance; temperature has limits of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from labctl.analysis.steady_state.rule import (
    LINE_LIMIT,
    RANGE_LIMIT,
    WINDOW,
    SteadyState,
    steady_window,
)


@dataclass(frozen=True, slots=True)
class SteadyLimits:
    """Limits of a steady window's range and line, as fractions of the average or absolute."""

    range: float = RANGE_LIMIT
    line: float = LINE_LIMIT
    of_average: bool = True

    def verdict(self, rounds: ArrayLike) -> SteadyState:
        """The verdict on all ``rounds``; ``range`` and ``line`` of it are parts of the average, or
        absolute. Raises ValueError for fewer than two."""
        y = np.asarray(rounds, dtype=np.float64)
        found = steady_window(y)
        spread, line = found.range, found.line
        if not self.of_average:
            spread, line = float(y.max() - y.min()), abs(found.slope) * (len(y) - 1)
        steady = spread <= self.range and line <= self.line
        return SteadyState(steady, found.average, spread, line, found.slope)


PTS = SteadyLimits()
"""The limits of the standard for performance; here also for watts."""

CELSIUS = SteadyLimits(range=2.0, line=1.5, of_average=False)
"""Temperature has no standard, and a share of °C means nothing because 0 °C is no zero: 2 °C of
range is two steps of a drive's sensor, and one step makes a line of up to 1.2 °C."""


@dataclass(frozen=True, slots=True)
class SteadyWindow:
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
class TrackedQuantity:
    """A quantity that is tracked from round to round."""

    name: str
    unit: str
    values: tuple[float, ...]
    limits: SteadyLimits = PTS


@dataclass(frozen=True, slots=True)
class SteadyReport:
    """Whether all tracked variables became steady, where, and what each did.

    ``reached_at`` is the round (from 0) that ends the first window in which all are steady; then
    ``windows`` are of that window, else of the last rounds. ``alone_at``: when each variable
    was steady for itself.
    """

    reached_at: int | None
    tracked: tuple[TrackedQuantity, ...]
    windows: tuple[SteadyWindow, ...]
    alone_at: Mapping[str, int | None]
    sweep: str = ""
    """Whose rounds they are; empty for work that just came again and again."""

    @property
    def not_steady(self) -> tuple[str, ...]:
        """The variables that are not steady in the window."""
        return tuple(one.name for one in self.windows if not one.verdict.steady)

    @property
    def reached(self) -> bool:
        """Whether there is a steady window."""
        return self.reached_at is not None


def measurement_window(one: TrackedQuantity, end: int) -> SteadyWindow:
    """The window that ends with round ``end``, with the lines that the standard draws.

    Raises ValueError when there are not so many rounds.
    """
    first = end - WINDOW + 1
    if first < 0 or end >= len(one.values):
        raise ValueError(f"{one.name}: no {WINDOW} rounds up to round {end}")
    values = one.values[first : end + 1]
    verdict = one.limits.verdict(values)
    half = one.limits.range / 2 * (abs(verdict.average) if one.limits.of_average else 1.0)
    rise = verdict.slope * (WINDOW - 1) / 2
    average = verdict.average
    return SteadyWindow(
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


def steady_round(tracked: Sequence[TrackedQuantity]) -> int | None:
    """The round (from 0) that ends the first window in which all are steady, or None."""
    for end in range(WINDOW, min((len(one.values) for one in tracked), default=0) + 1):
        if all(one.limits.verdict(one.values[end - WINDOW : end]).steady for one in tracked):
            return end - 1
    return None


def steady_report(tracked: Sequence[TrackedQuantity]) -> SteadyReport:
    """Whether and where all ``tracked`` variables are steady together."""
    rounds = min((len(one.values) for one in tracked), default=0)
    reached = steady_round(tracked)
    return _report(tracked, reached if reached is not None else rounds - 1, reached)


def last_window_report(tracked: Sequence[TrackedQuantity], sweep: str) -> SteadyReport:
    """Whether all are steady in the last window, which the results of a sweep are the mean of."""
    end = min((len(one.values) for one in tracked), default=0) - 1
    last = end >= WINDOW - 1 and all(
        one.limits.verdict(one.values[end - WINDOW + 1 : end + 1]).steady for one in tracked
    )
    return replace(_report(tracked, end, end if last else None), sweep=sweep)


def _report(tracked: Sequence[TrackedQuantity], end: int, reached: int | None) -> SteadyReport:
    """With the windows that end with round ``end``."""
    windows = tuple(measurement_window(one, end) for one in tracked) if end >= WINDOW - 1 else ()
    alone = {one.name: steady_round([one]) for one in tracked}
    return SteadyReport(reached, tuple(tracked), windows, alone)
