"""The mean over time of readings that come part by part, and what it leaves unknown.

Each reading stands for the time around it, half way to the reading before and half way to the one
behind. So the mean is that of the time axis however the interval changes, and a reading that was
lost costs no more than the time that its neighbours have to stand for.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.estimate import Series
from labctl.analysis.stats.running_stats import RunningStats, dot
from labctl.analysis.stats.uncertainty import Scatter, scatter_of_phase
from labctl.analysis.stats.variogram import Variogram

Floats = NDArray[np.float64]

LOST = 1.75
"""Multiple of the usual interval between two readings from which readings are missing."""

STANDS_FOR = 2.5
"""Usual intervals that a reading stands for on either side at most: up to four readings lost in a
row are bridged by their neighbours, of a longer gap only as much at each end."""

BESIDE = 8
"""Steps around one from which the usual interval there is taken."""


LATE = 0.1
"""Share of its interval by which a dithered reading may come later than it was to be asked for."""


def usual_steps(steps: Floats, nominal: float, dither: float = 0.0) -> Floats:
    """The usual interval where each of the ``steps`` between readings is.

    A step counts as usual unless it is longer than ``LOST`` times the median of the ``BESIDE``
    steps around it; there it is that median, or ``nominal`` where there are too few steps. Of
    readings whose moments are drawn from the share ``dither`` of their intervals, those around one
    say nothing: up to 1 + ``dither`` times ``nominal`` nothing is missing.
    """
    n = len(steps)
    if dither > 0 and nominal > 0:
        return np.where(steps > longest_step(nominal, dither), nominal, np.maximum(steps, nominal))
    if n < 3:
        return np.minimum(steps, nominal) if nominal > 0 else steps
    if float(steps.max()) <= LOST * float(steps.min()):
        return steps
    short = float(np.partition(steps, n // 10)[n // 10])
    suspect = np.flatnonzero(steps > LOST * short)
    width = min(BESIDE + 1, n)
    first = np.clip(suspect - BESIDE // 2, 0, n - width)
    around = steps[first[:, None] + np.arange(width)]
    around[np.arange(len(suspect)), suspect - first] = np.inf
    around.sort(axis=1)
    low, high = (width - 2) // 2, (width - 1) // 2
    median = (around[:, low] + around[:, high]) / 2
    usual = steps.copy()
    usual[suspect] = np.where(steps[suspect] > LOST * median, median, steps[suspect])
    return usual


def longest_step(nominal: float, dither: float) -> float:
    """The longest step between dithered readings of which none was lost."""
    return (1.0 + dither + LATE) * nominal


def bridged_steps(t: Floats, nominal: float, most: float, dither: float = 0.0) -> Floats | float:
    """For each step between the times ``t`` the longest that may be interpolated over: ``most``
    usual intervals, dithered ones ``dither`` more. One number where they are all alike."""
    steps = np.diff(t)
    if dither > 0:
        return (most + dither) * max(nominal, 0.0)
    if len(steps) < 3:
        return most * max(nominal, 0.0)
    longest = float(steps.max())
    if longest <= LOST * float(steps.min()):
        return most * longest
    return most * usual_steps(steps, nominal)


def times_stood_for(t: Floats, span: float, nominal: float) -> Floats:
    """The time that each reading of a span stands for; times since it began. The weights of
    :class:`TimeMean`, for readings that are at hand all at once."""
    stood = np.zeros(len(t))
    if not len(t):
        return stood
    steps = np.diff(t)
    first = last = nominal
    if len(steps):
        usual = usual_steps(steps, nominal)
        halves = np.minimum(steps / 2, STANDS_FOR * usual)
        stood[:-1] += halves
        stood[1:] += halves
        first, last = float(usual[0]), float(usual[-1])
    stood[0] += min(max(float(t[0]), 0.0), STANDS_FOR * first)
    stood[-1] += min(max(span - float(t[-1]), 0.0), STANDS_FOR * last)
    return stood


class TimeMean:
    """Takes readings of a span of time part by part; O(n) time, fixed memory.

    Times are in one unit, since the span began.
    """

    def __init__(self, span: float, nominal: float, expected: int, dither: float = 0.0) -> None:
        """``nominal``: the interval where too few readings tell it; ``expected``: about how many
        readings will come; ``dither``: share of the interval that their moments are drawn from."""
        self._span, self._nominal, self._dither = span, nominal, dither
        self._stats = RunningStats(expected)
        self._first = self._last = (math.nan, math.nan)
        self._first_usual = self._last_usual = nominal
        self._shift = 0.0
        self._weight = self._sum = self._squares = 0.0
        self._half_steps_sq = self._steps_sq = self._differences = 0.0
        self._variogram = Variogram()
        self._read = 0.0

    def add(self, t: Floats, values: Floats) -> None:
        """Take the next readings and their ascending times."""
        n = len(t)
        if not n:
            return
        begun = int(self._stats.n > 0)
        if not begun:
            self._first = (float(t[0]), float(values[0]))
            self._shift = float(values[0])
        # the reading before these, where there is one, and these
        shifted, steps = np.empty(begun + n), np.empty(begun + n - 1)
        shifted[:begun] = self._last[1] - self._shift
        np.subtract(values, self._shift, out=shifted[begun:])
        steps[:begun] = t[0] - self._last[0]
        np.subtract(t[1:], t[:-1], out=steps[begun:])
        self._stats.add(values, shifted[begun:])
        self._last = (float(t[-1]), float(values[-1]))
        if len(steps):
            self._add_steps(steps, shifted)

    def _add_steps(self, steps: Floats, values: Floats) -> None:
        usual = usual_steps(steps, self._nominal, self._dither)
        if self._read == 0.0:
            self._first_usual = float(usual[0])
        self._last_usual = float(usual[-1])
        stood = steps
        if usual is not steps:
            stood = np.minimum(steps, 2 * STANDS_FOR * usual)
            weight = float(stood.sum())
            self._read += float(np.where(steps > LOST * usual, usual, steps).sum())
        else:
            weight = float(steps.sum())
            self._read += weight
        self._weight += weight
        low, high = values[:-1], values[1:]
        both = low + high
        self._sum += dot(stood, both) / 2
        squares = values * values
        np.add(squares[:-1], squares[1:], out=both)
        self._squares += dot(stood, both) / 2
        apart = np.subtract(high, low, out=both)
        self._differences += dot(apart, apart)
        if usual is not steps:
            self._variogram.add(np.where(steps > LOST * usual, np.nan, apart))
        else:
            self._variogram.add(apart)
        self._steps_sq += dot(stood, stood)
        apart *= stood
        self._half_steps_sq += dot(apart, apart) / 2

    @property
    def n(self) -> int:
        """How many readings came."""
        return self._stats.n

    def _ends(self) -> tuple[tuple[float, float], ...]:
        """(time, usual interval) from each end of the span to the next reading."""
        return (
            (self._first[0], self._first_usual),
            (self._span - self._last[0], self._last_usual),
        )

    def _stands_at_ends(self) -> list[float]:
        return [min(max(end, 0.0), STANDS_FOR * usual) for end, usual in self._ends()]

    @property
    def stood_for(self) -> float:
        """The time that the readings stand for; 0 without any."""
        return self._weight + sum(self._stands_at_ends()) if self.n else 0.0

    @property
    def covered(self) -> float:
        """The time that readings cover, each one usual interval around its time."""
        if not self.n:
            return 0.0
        return self._read + sum(min(max(end, 0.0), usual / 2) for end, usual in self._ends())

    def missing(self, edge: float) -> float:
        """The time no reading stands for, apart from up to ``edge`` at each end of the span."""
        if not self.n:
            return self._span
        inside = self._last[0] - self._first[0] - self._weight
        ends = zip(self._ends(), self._stands_at_ends(), strict=True)
        return inside + sum(max(end - max(stood, edge), 0.0) for (end, _), stood in ends)

    @property
    def not_covered(self) -> float:
        """The time no reading stands for, and that at both ends which is further than half a usual
        interval from a reading: what happened at the very edges may be of another kind."""
        if not self.n:
            return self._span
        ends = (max(end - usual / 2, 0.0) for end, usual in self._ends())
        return self._last[0] - self._first[0] - self._weight + sum(ends)

    def _moments(self) -> tuple[float, float]:
        """Mean and mean square over time, less the first value."""
        total, squares = self._sum, self._squares
        for stands, (_, value) in zip(
            self._stands_at_ends(), (self._first, self._last), strict=True
        ):
            apart = value - self._shift
            total += stands * apart
            squares += stands * apart**2
        weight = self.stood_for
        if not weight > 0:
            return self._stats.mean - self._shift, 0.0
        return total / weight, squares / weight

    @property
    def mean(self) -> float:
        """The mean over the time that the readings stand for; NaN when nothing came."""
        return self._shift + self._moments()[0] if self.n else math.nan

    @property
    def variance(self) -> float:
        """The variance over time of single readings (n − 1); NaN below two."""
        if self.n < 2:
            return math.nan
        mean, square = self._moments()
        return max(square - mean**2, 0.0) * self.n / (self.n - 1)

    @property
    def step_variance(self) -> float:
        """Half the mean square of the differences between neighbouring readings: the variance of
        what is independent from one to the next (von Neumann 1941). NaN below two."""
        return self._differences / 2 / (self.n - 1) if self.n > 1 else math.nan

    def integrated(self, aperture: float) -> float:
        """Share of the time that the readings integrate, each ``aperture`` long; at most 1."""
        stood = self.stood_for
        return min(self.n * aperture / stood, 1.0) if stood > 0 else 0.0

    def scatter_of_phase(self, integrated: float, noise: float) -> Scatter:
        """Type A uncertainty of the mean over just this span of time.

        See :func:`labctl.analysis.stats.uncertainty.scatter_of_phase`.
        """
        if self.n < 2 or not self._weight > 0:
            return Scatter(u=math.inf, dof=1.0, n_effective=float(self.n))
        ends = sum((2 * stands) ** 2 for stands in self._stands_at_ends()) / 2
        stood = self.stood_for
        between = self._half_steps_sq * self._variogram.left
        square = (between + ends * self.step_variance) / stood**2
        worth = stood**2 / (self._steps_sq + ends) if self._steps_sq + ends > 0 else 1.0
        return scatter_of_phase(square, worth, self.n, integrated, noise)

    def scatter_of_process(self) -> Scatter:
        """How far the mean would come out elsewhere again: with the readings' own dependence."""
        return self._stats.scatter()

    def series(self) -> Series:
        """The statistics so far; ``n_effective`` is that of the process."""
        plain = self._stats.series()
        return Series(
            mean=self.mean,
            min=plain.min,
            max=plain.max,
            std=math.sqrt(self.variance) if self.n > 1 else math.nan,
            n=self.n,
            n_effective=plain.n_effective,
        )


def mean_over_time(t: Floats, values: Floats) -> float:
    """The mean of at least one reading over the time from the first to the last; times ascend."""
    span = float(t[-1] - t[0])
    if not span > 0:
        return float(values.mean())
    stood = times_stood_for(t - t[0], span, span / (len(t) - 1))
    return float(values[0] + stood @ (values - values[0]) / stood.sum())
