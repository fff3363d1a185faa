"""Readings that cannot be what the quantity was: repeated, cut off, or lost with the load.

A driver may say so itself; here the readings of any record are looked at, an imported one too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.readings.channel_series import ChannelSeries, Floats

SELDOM_EQUAL = 0.2
"""Share of neighbouring readings that are equal up to which a channel's values are said to move
from reading to reading. Where they repeat more often, a long run of one value proves nothing: the
quantity varies by less than a digit."""

MOSTLY_ONE_DIGIT = 0.44
"""Share of unequal neighbours one digit apart up to which values are said to move by more than a
digit: that of normal readings of which ``SELDOM_EQUAL`` of the neighbours are equal. Where more
are, equal readings follow one another or not as the mean drifts from the middle of a digit to its
edge, and are no independent trials. Steps of the load are few of the moves, however large."""

ONE_DIGIT = 1.5
"""Moves of less than so many times the least are of one digit."""

ALL_DIFFER = 1000
"""Readings without any equal neighbours from which a channel has no digits that matter."""

IMPOSSIBLE = 1e-6
"""Chance of a run of equal readings below which the meter is said to be stuck."""

STUCK_FROM = 20
"""Equal readings in a row from which a meter may be stuck within a phase."""

STUCK_SHARE = 0.1
"""Share of a phase's readings that such a run must have."""

AT_RANGE = 1e-3
"""How close to the end of the range (as a part of it) equal maxima are a wall."""

FEW_AT_WALL = 3
"""Equal maxima from which the end of the range is a wall."""

WALL_SHARE = 0.01
"""Share of a phase's readings that equal maxima must have to be a wall of their own; at least
``FEW_AT_OTHER_WALL`` of them."""

FEW_AT_OTHER_WALL = 8

PILED = 4
"""Times as many as of the next lower value that equal maxima must be to be a wall: the values of a
meter with coarse digits repeat as well, but become fewer towards their highest."""

LOST_WITH_LOAD = 3.0
"""Standard deviations from which losses are said to go with the load (once in 400 phases whose
readings are lost by chance)."""

BY_CHANCE = 0.025
"""Share of the moves of a pattern of gaps that may meet as high (or low) a load as it does where it
is; of more it is chance. Loads that are seldom high are far from normal: there the standard
deviation alone says too much."""

ROUNDING = 1e-9
"""Part of the largest sum over a pattern by which equal sums may differ: those of a Fourier
transform are off by some 1e-15."""

LOST_SHARE = 0.005
"""Share of a phase below which it does not matter where its readings were lost."""

MOST_GAPS = 4096
"""Gaps of a phase after which no more are kept: they tell enough."""

FEWEST_GAPS = 2
"""Gaps from which it is tested whether they go with the load."""

LEVELS = 1024
"""Parts of a phase whose levels are known when a pattern of gaps is moved along it."""

DIGIT_FROM = 4096
"""Readings of a run from which a meter's digit is estimated."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often the readings of a channel in a phase are equal.

    ``equal`` of the ``n`` − 1 neighbouring pairs are; the longest run is of ``longest`` readings
    of ``value``, ``first`` and ``last`` are the runs at the two ends, as (length, value).
    ``at_max`` readings are the ``highest``, ``below_max`` the next lower value, ``at_min`` the
    lowest. Unequal neighbours are ``least_move`` apart at least (inf: none), ``least_moves`` of
    them by no more than that digit.
    """

    n: int
    equal: int
    longest: int
    value: float
    first: tuple[int, float]
    last: tuple[int, float]
    highest: float
    at_max: int
    below_max: int
    at_min: int
    least_move: float
    least_moves: int

    @property
    def elsewhere(self) -> tuple[int, int]:
        """(equal pairs, pairs) outside the longest run."""
        return self.equal - (self.longest - 1), max(self.n - self.longest, 0)


class RepeatCounter:
    """Takes the readings of a channel part by part; O(n), fixed memory."""

    def __init__(self) -> None:
        self._n = self._equal = 0
        self._longest = (0, math.nan)
        self._first: tuple[int, float] | None = None
        self._run = (0, math.nan)
        self._highest: dict[float, int] = {}
        self._low = (math.inf, 0)
        self._least_move, self._least_moves = math.inf, 0

    def add(self, values: Floats) -> None:
        """Take the next readings."""
        if not len(values):
            return
        self._n += len(values)
        self._highest = _two_highest(self._highest, values)
        lowest = float(values.min())
        if lowest <= self._low[0]:
            self._low = _reading_fault_count(self._low, lowest, values)
        differ = values[1:] != values[:-1]
        continues = float(values[0]) == self._run[1]
        if self._longest[0] and len(values) >= ALL_DIFFER and differ.all() and not continues:
            self._end_run()  # no two are equal: nothing new but the run that goes on
            self._run = (1, float(values[-1]))
            return
        self._add_moves(np.abs(values[1:] - values[:-1])[differ])
        if self._run[0] and not continues:
            self._add_moves(np.abs(values[:1] - self._run[1]))
        ends = np.flatnonzero(differ) + 1
        self._equal += len(values) - 1 - len(ends) + continues
        head = int(ends[0]) if len(ends) else len(values)
        head_run = (head + (self._run[0] if continues else 0), float(values[0]))
        if not continues:
            self._end_run()
        self._run = head_run
        if not len(ends):
            return
        self._end_run()
        if len(ends) > 1:
            lengths = np.diff(ends)
            at = int(lengths.argmax())
            self._keep((int(lengths[at]), float(values[ends[at]])))
        self._run = (len(values) - int(ends[-1]), float(values[-1]))

    def _add_moves(self, moves: Floats) -> None:
        """Count the distances of unequal neighbours that are of one digit."""
        if not len(moves):
            return
        least = float(moves.min())
        if ONE_DIGIT * least < self._least_move:
            self._least_moves = 0  # those so far were of more
        self._least_move = min(self._least_move, least)
        self._least_moves += int(np.count_nonzero(moves < ONE_DIGIT * self._least_move))

    def _end_run(self) -> None:
        if not self._run[0]:
            return
        if self._first is None:
            self._first = self._run
        self._keep(self._run)

    def _keep(self, run: tuple[int, float]) -> None:
        if run[0] > self._longest[0]:
            self._longest = run

    def result(self) -> Repeats:
        """What was counted."""
        self._keep(self._run)
        highest = sorted(self._highest, reverse=True)
        return Repeats(
            n=self._n,
            equal=self._equal,
            longest=self._longest[0],
            value=self._longest[1],
            first=self._first or self._run,
            last=self._run,
            highest=highest[0] if highest else math.nan,
            at_max=self._highest[highest[0]] if highest else 0,
            below_max=self._highest[highest[1]] if len(highest) > 1 else 0,
            at_min=self._low[1],
            least_move=self._least_move,
            least_moves=self._least_moves,
        )


def _reading_fault_count(
    before: tuple[float, int], extreme: float, values: Floats
) -> tuple[float, int]:
    """How many readings are ``extreme``, those of the parts before included."""
    count = int(np.count_nonzero(values == extreme))
    return extreme, count + (before[1] if before[0] == extreme else 0)


def _two_highest(before: dict[float, int], values: Floats) -> dict[float, int]:
    """How many readings there are of each of the two highest values so far."""
    highest = float(values.max())
    if len(before) == 2 and highest < min(before):
        return before
    counts = dict(before)
    rest = values
    for _ in range(2):
        if len(rest):
            highest = float(rest.max())
            counts[highest] = counts.get(highest, 0) + int(np.count_nonzero(rest == highest))
            rest = rest[rest < highest]
    return {value: counts[value] for value in sorted(counts, reverse=True)[:2]}


def stuck_in(phases: Sequence[Repeats | None], busy: Sequence[bool]) -> set[int]:
    """The numbers of the phases in which a channel was stuck, of all phases in order of time.

    ``busy``: phases with I/O. Stuck is a value that repeats longer than chance allows where the
    channel's values move from reading to reading otherwise: within a phase with I/O, or from one
    phase into the next although the load changed between them. Nothing is said of a phase without
    I/O alone: a resting drive may draw just one digit; nor of a channel whose values move by no
    more than a digit.
    """
    there = [one for one in phases if one is not None]
    equal = sum(one.elsewhere[0] for one in there)
    pairs = sum(one.elsewhere[1] for one in there)
    unequal = sum(one.n - 1 - one.equal for one in there)
    digit = ONE_DIGIT * min((one.least_move for one in there), default=math.inf)
    by_one = sum(one.least_moves for one in there if one.least_move < digit)
    if by_one > MOSTLY_ONE_DIGIT * unequal:
        return set()
    found: set[int] = set()
    for number, one in enumerate(phases):
        if one is None:
            continue
        long = one.longest >= max(STUCK_FROM, STUCK_SHARE * one.n)
        if busy[number] and long and _is_reading_fault(one.longest, *one.elsewhere):
            found.add(number)
        before = phases[number - 1] if number else None
        if before is None or before.last[1] != one.first[1]:
            continue
        if not (busy[number] or busy[number - 1]):
            continue
        if _is_reading_fault(before.last[0] + one.first[0], equal, pairs):
            found |= {
                which
                for which, run, whole in (
                    (number - 1, before.last[0], before.n),
                    (number, one.first[0], one.n),
                )
                if run >= max(2, WALL_SHARE * whole)
            }
    return found


def _is_reading_fault(run: int, equal: int, pairs: int) -> bool:
    """Whether a run of equal readings cannot be chance where ``equal`` of other ``pairs`` are."""
    if pairs < FEW_AT_OTHER_WALL:
        return False
    chance = (equal + 1) / (pairs + 2)
    return chance <= SELDOM_EQUAL and (pairs + run) * chance ** (run - 1) < IMPOSSIBLE


def clipped(one: Repeats, full_scale: float | None) -> bool:
    """Whether a channel's readings end at a wall: many equal maxima, at the end of its range or at
    a value above which there is nothing, though the rest moves from reading to reading."""
    at_range = full_scale and abs(one.highest - full_scale) <= AT_RANGE * abs(full_scale)
    if at_range and one.at_max >= FEW_AT_WALL:
        return True
    few = max(FEW_AT_OTHER_WALL, WALL_SHARE * one.n)
    if one.at_max < few or one.at_min >= FEW_AT_OTHER_WALL:
        return False
    if one.at_max < PILED * one.below_max:
        return False
    others = one.n - one.at_max
    equal = one.equal - one.at_max  # at most so many pairs are of the wall
    return others >= FEW_AT_OTHER_WALL and equal <= SELDOM_EQUAL * others


class LossTest:
    """Whether the gaps in a rail's current lie where the load was another than otherwise.

    The levels beside the gaps, and the voltage read in them (it sags under load), are held against
    the same pattern of gaps moved along the phase, which meets the load by chance alone (rotation
    of a point pattern against a series: H. W. Lotwick, B. W. Silverman, *J. R. Stat. Soc. B* 44
    (1982) 406). So gaps that come close together while the load was at one level, as when a busy
    host reads nothing for a moment, count as the one occurrence that they are.
    """

    def __init__(self, duration_ns: float) -> None:
        self._watts, self._volts = _GapLevels(duration_ns), _GapLevels(duration_ns)

    def add(
        self, t: Floats, watts: Floats, gaps: NDArray[np.intp], t_volts: Floats, volts: Floats
    ) -> None:
        """The next part of the phase; ``gaps`` are the numbers of the readings before them."""
        self._watts.add_levels(t, watts)
        self._volts.add_levels(t_volts, volts)
        if not len(gaps) or self._watts.full:
            return
        middles = (t[gaps] + t[gaps + 1]) / 2
        self._watts.add_gaps(middles, (watts[gaps] + watts[gaps + 1]) / 2)
        first = np.searchsorted(t_volts, t[gaps], side="right")
        last = np.searchsorted(t_volts, t[gaps + 1], side="left")
        for low, high, middle in zip(first.tolist(), last.tolist(), middles.tolist(), strict=True):
            if high > low:
                nearest = low + int(np.abs(t_volts[low:high] - middle).argmin())
                self._volts.add_gaps(t_volts[nearest : nearest + 1], volts[nearest : nearest + 1])

    def lost_at(self, watts: tuple[float, float], volts: tuple[float, float]) -> float:
        """How many standard deviations more than the mean the load was where readings were lost:
        negative where it was less, 0 where it cannot be told.

        Mean and variance of the ``watts`` and ``volts`` that were read.
        """
        return max(self._watts.deviation(*watts), -self._volts.deviation(*volts), key=abs)


class _GapLevels:
    """A quantity's level over a phase in ``LEVELS`` parts, and its values at the gaps."""

    def __init__(self, duration_ns: float) -> None:
        self._edges = np.linspace(0.0, max(duration_ns, 1.0), LEVELS + 1)[1:-1]
        self._sums, self._counts = np.zeros(LEVELS), np.zeros(LEVELS)
        self._pattern = np.zeros(LEVELS)
        self._gaps = 0
        self._at_gaps = 0.0

    @property
    def full(self) -> bool:
        return self._gaps > MOST_GAPS

    def add_levels(self, t: Floats, values: Floats) -> None:
        cuts = np.searchsorted(t, self._edges)
        first = np.concatenate(([0], cuts))
        counts = np.diff(first, append=len(t))
        some = counts > 0
        if len(t):
            self._sums[some] += np.add.reduceat(values, first[some])
        self._counts += counts

    def add_gaps(self, t: Floats, values: Floats) -> None:
        np.add.at(self._pattern, np.searchsorted(self._edges, t, side="right"), 1.0)
        self._gaps += len(t)
        self._at_gaps += float(values.sum())

    def deviation(self, mean: float, variance: float) -> float:
        """Of the mean at the gaps from the ``mean`` of the phase, in standard deviations."""
        if self._gaps < FEWEST_GAPS or not variance > 0:
            return 0.0
        read = np.flatnonzero(self._counts)
        levels = np.interp(np.arange(LEVELS), read, self._sums[read] / self._counts[read])
        levels -= levels.mean()
        # the mean of the levels at the pattern, for every move of it
        moved = np.fft.irfft(np.fft.rfft(self._pattern).conj() * np.fft.rfft(levels), LEVELS)
        of_moves = float(np.mean(moved**2)) / self._gaps**2
        inside = max(variance - float(np.mean(levels**2)), 0.0) / self._gaps
        apart = (self._at_gaps / self._gaps - mean) / math.sqrt(of_moves + inside)
        more = moved if apart > 0 else -moved
        equal = ROUNDING * float(np.abs(moved).max())
        beyond = float(np.mean(more >= more[0] - equal))
        return apart if beyond <= BY_CHANCE else 0.0


def digit_of(channel: ChannelSeries) -> float:
    """The step of a meter's last digit in the unit of ``channel``; 0 where it shows no digits.

    It shows them where all its values are whole multiples of their smallest difference apart.
    """
    steps = np.diff(np.unique(channel.sampled(DIGIT_FROM)))
    if len(steps) < 2:
        return 0.0
    smallest = float(steps.min())
    multiples = steps / smallest
    if float(multiples.max()) > 1e6 or float(np.abs(multiples - np.rint(multiples)).max()) > 0.02:
        return 0.0
    return smallest * abs(channel.scale)
