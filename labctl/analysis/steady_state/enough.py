"""Whether a phase knows its number well enough to end.

Watts and IOPS of a phase are asked two things: how well they are known as a property of this point
(U, k = 2: what the meters allow, together with how the same phase would come out again), and
whether the phase shows anything that its mean over so short a time is no measure of: a trend, a
range, events too rare to count, heat, throttling. Any of these keeps it going, whatever U is.

*What the longest time would have shown.* The number is that of the whole ``duration_s``. So a
straight line through the phase, and what the phase cannot exclude of one, counts into the
repeatability as far as it would move the mean until then. Nothing less will do: a line that is
hidden in the scatter cannot be told from none (docs/trust.md has the least time).

*What has not come.* Of what comes at random and was not there in T seconds, the rate is below 3/T
(95 %, the rule of three: J. A. Hanley, A. Lippman-Hand, *JAMA* 249 (1983) 1743). What one event
would add, the phase itself cannot know; an earlier point of the same work may have shown it. Then
3/T such events are what the phase cannot exclude, and count as a limit.

*Optional stopping.* Who checks often enough a scatter that is estimated finds it small sometimes.
With a consistent estimate the coverage of a stopped interval tends to the stated one as the target
shrinks (Y. S. Chow, H. Robbins, *Ann. Math. Statist.* 36 (1965) 457, for independent readings;
P. W. Glynn, W. Whitt, *Ann. Appl. Probab.* 2 (1992) 180, for what depends on itself); of targets
that are reached soon nothing is proved. So the phase is checked only at moments that grow by
``CHECKS_GROW``, never before ``least_s``, and what was not good enough at the check before is
stated no better than its target (:func:`stated`). What that leaves is judged by simulation:
``make judge-stopping``, docs/trust.md.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from labctl.analysis.estimate import Component
from labctl.analysis.stats.uncertainty import expanded_u, limit_component, student_factor
from labctl.analysis.steady_state.rule import WINDOW, steady_window
from labctl.analysis.steady_state.slow_part import OF_A_LINE, slow_part
from labctl.analysis.steady_state.time_cells import Floats, TimeCells, total
from labctl.analysis.steady_state.tracking import CELSIUS, PTS

CHECKS_GROW = 1.05
"""Each check comes at so many times the time of the one before."""

FEWEST = 16
"""Independent readings of each quantity, at least."""

SHORTEST_S = 20.0
"""No phase ends before, unless its plan says so: what comes more rarely than a few times in it, the
phase cannot know of."""

COLLECTION_S = 200.0
"""The longest period of garbage collection that is expected of a phase that writes: before it has
gone on for so long, nothing in it can say that there is none."""

EVENTS = 8
"""Times that something must have come which stands out, before its mean counts: of fewer, that come
at random, the number alone is uncertain by more than a third, and of periods two were not whole."""

NOT_SEEN = 3.0
"""Times that something would have come on average in a time in which it came not once, at most, in
19 cases of 20."""

OF_ITS_SIZE = 0.5
"""Share of an earlier event's size from which one of this point counts as the same happening: how
much one adds varies with what it falls on."""

STANDS_OUT = 5.0
"""Standard deviations (by the median of the deviations) from which a batch is an event of its own.
Of 31 normal ones that is one in 10⁵; the deviation is estimated of few."""

BATCHES = 32
"""Of which is asked whether one stands out, up to twice as many."""

ROUNDING = 1e-9
"""Share of a mean up to which what differs is the computer's."""

A_THIRD = 1 / 3
"""Of U, that what time can lower may be where more time does not help: a tenth of the variance."""


class Quantity(StrEnum):
    """What a phase is to know."""

    WATTS = "watts"
    IOPS = "iops"


FLOORS: Mapping[Quantity, float] = {Quantity.WATTS: 0.001, Quantity.IOPS: 0.005}
"""Shares of the mean below which nobody needs its repeatability."""


class Keeps(StrEnum):
    """What keeps a phase going."""

    SHORTEST = "shortest time"
    NO_READINGS = "no readings"
    FEW_READINGS = "too few independent readings"
    TARGET = "not within its target"
    TREND = "rises or falls"
    RANGE = "range too wide"
    DEPENDENCE = "slower than the phase shows"
    RARE = "something came too rarely"
    MAY_COME = "what an earlier point showed may come"
    COLLECTION = "garbage collection may come"
    TEMPERATURE = "temperature rises or falls"
    HEAT = "warms up towards its limit"
    THROTTLING = "throttles"


@dataclass(frozen=True, slots=True)
class Target:
    """What is good enough. ``within``: U as a share of the mean, for each quantity asked for; where
    it is None the phase is to settle, and ``floors`` are the shares below which a repeatability is
    low enough in any case."""

    within: Mapping[Quantity, float] | None = None
    floors: Mapping[Quantity, float] = field(default_factory=lambda: FLOORS)

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Those that are asked for."""
        return tuple(Quantity) if self.within is None else tuple(self.within)


@dataclass(frozen=True, slots=True)
class MetersPart:
    """The limits of the meters, as far as the watts of a phase are concerned: U is ``gain`` times
    the mean, plus ``floor_watts``."""

    gain: float = 0.0
    floor_watts: float = 0.0

    def limit(self, watts: float) -> float:
        """In watts."""
        return self.gain * abs(watts) + self.floor_watts


@dataclass(frozen=True, slots=True)
class Expected:
    """What is known of a phase before it begins. Times in seconds."""

    longest_s: float
    """Its ``duration_s``."""
    shortest_s: float | None = None
    """Its ``min_duration_s``; None: as :meth:`least_s` has it."""
    reading_s: float = 0.1
    """Interval of the slowest rail's readings."""
    status_s: float = 0.5
    """Interval of fio's statuses."""
    temperature_s: float = 0.0
    """Interval at which the temperature is read; 0 where none is."""
    collection_s: float = 0.0
    """The longest period of garbage collection that may come, 0 where nothing is written."""
    limit_celsius: float | None = None
    """The temperature from which the drive throttles, where it is known."""
    meters: MetersPart = field(default_factory=MetersPart)
    event_s: Mapping[Quantity, float] = field(default_factory=dict)
    """The largest event that an earlier point of the same work showed (:class:`Events`)."""

    @property
    def least_s(self) -> float:
        """The least time that the phase takes."""
        if self.shortest_s is not None:
            return self.shortest_s
        slowest_s = max(self.reading_s, self.status_s)
        return max(FEWEST * slowest_s, 2 * self.temperature_s, SHORTEST_S)


@dataclass(frozen=True, slots=True)
class Known:
    """How well a phase knows a quantity, in its unit."""

    mean: float
    u: float
    """About 95 %, of the mean as a property of this point: the meters' part and the scatter."""
    meters_u: float
    """The meters' part alone: what no time lowers."""
    repeatability: float
    """The part that time lowers: of the scatter, and of what the mean would still move until the
    longest time."""
    target_u: float
    """What ``u`` (of a target) or ``repeatability`` (to be settled) must not exceed."""
    independent: float
    """Independent readings that the phase is worth."""
    event_s: float
    """The largest event that it showed (:class:`Events`)."""
    keeps: tuple[Keeps, ...]

    @property
    def share(self) -> float:
        """U as a share of the mean."""
        return self.u / self.mean if self.mean > 0 else math.inf


@dataclass(frozen=True, slots=True)
class State:
    """A phase at one moment: as it was known at the last check."""

    checked_s: float
    known: Mapping[Quantity, Known]
    keeps: tuple[Keeps, ...]
    """All that keeps it going, each once; nothing does where it is enough."""

    @property
    def enough(self) -> bool:
        """Whether the phase may end."""
        return not self.keeps


class Enough:
    """The readings of one drive in one phase, and whether they are enough.

    Times are seconds since the phase began. Takes a reading in O(1); memory is fixed.
    """

    def __init__(self, target: Target, expected: Expected, rails: Collection[str]) -> None:
        self._target, self._expected = target, expected
        self._rails = {name: TimeCells(expected.reading_s) for name in rails}
        self._iops = TimeCells(expected.status_s)
        self._celsius: dict[str, TimeCells] = {}
        self._last: tuple[float, dict[Quantity, Known]] = (-1.0, {})
        self._found: tuple[float, dict[Quantity, Known]] = (-1.0, {})

    def add_watts(self, rail: str, t_s: float, watts: float) -> None:
        """A reading of a rail."""
        self._rails[rail].add(t_s, watts)

    def add_iops(self, t_s: float, iops: float) -> None:
        """What fio did from the status before to that at ``t_s``."""
        self._iops.add(t_s, iops)

    def add_celsius(self, sensor: str, t_s: float, celsius: float) -> None:
        """A reading of a temperature."""
        found = self._celsius.get(sensor)
        if found is None:
            width_s = max(self._expected.temperature_s, 1.0)
            found = self._celsius[sensor] = TimeCells(width_s)
        found.add(t_s, celsius)

    def state(self, now_s: float, *, throttles: bool = False) -> State:
        """How it stands. ``throttles``: whether the drive's thermal counters moved in this phase.

        What is known is of the last check, so asking more often does not end a phase sooner.
        """
        checked_s = last_check(now_s, self._expected.least_s)
        if self._last[0] != checked_s:
            self._check(checked_s)
        known = self._last[1]
        keeps = dict.fromkeys(keep for one in known.values() for keep in one.keeps)
        keeps |= dict.fromkeys(self._around(now_s, checked_s, throttles))
        return State(checked_s, known, tuple(keeps))

    def largest_events_s(self) -> Mapping[Quantity, float]:
        """The largest event of all that came so far, of each quantity (:class:`Events`)."""
        latest_s = max(one.last_s for one in (*self._rails.values(), self._iops))
        return {one: self._known(one, latest_s).event_s for one in self._target.quantities}

    def _around(self, now_s: float, checked_s: float, throttles: bool) -> Iterator[Keeps]:
        """What keeps the phase going beside its numbers."""
        expected = self._expected
        if checked_s < expected.least_s:
            yield Keeps.SHORTEST
        if checked_s < expected.collection_s:
            yield Keeps.COLLECTION
        series = [*self._rails.values(), self._iops] if self._rails else [self._iops]
        waits_s = 3 * max(expected.reading_s, expected.status_s, 1.0)
        if any(now_s - one.last_s > waits_s for one in series):
            yield Keeps.NO_READINGS
        for one in self._celsius.values():
            yield from heat(one, now_s, expected)
        if throttles:
            yield Keeps.THROTTLING

    def _check(self, checked_s: float) -> None:
        """Find what is known by then, and what is stated of it."""
        before_s, wanted = checked_s / CHECKS_GROW, self._target.quantities
        found = {quantity: self._known(quantity, checked_s) for quantity in wanted}
        stated_now = found
        if before_s > self._expected.least_s * (1 - ROUNDING):
            before = self._found[1]
            if not math.isclose(self._found[0], before_s):
                before = {quantity: self._known(quantity, before_s) for quantity in wanted}
            stated_now = {q: stated(found[q], before[q], self._target) for q in wanted}
        self._found, self._last = (checked_s, found), (checked_s, stated_now)

    def _known(self, quantity: Quantity, checked_s: float) -> Known:
        cells = list(self._rails.values()) if quantity is Quantity.WATTS else [self._iops]
        width_s, means = total(cells)
        means = means[: int(checked_s / width_s + 1e-6)]
        limit = 0.0
        if quantity is Quantity.WATTS and len(means):
            limit = self._expected.meters.limit(float(means.mean()))
        times = self._expected.longest_s / max(len(means) * width_s, width_s)
        event_s = self._expected.event_s.get(quantity, 0.0)
        return known(means, limit, self._target, quantity, times, width_s, event_s)


def last_check(now_s: float, least_s: float) -> float:
    """The moment of the last check up to ``now_s``; 0 before the first: they grow by
    ``CHECKS_GROW``, and one of them is ``least_s``."""
    if now_s <= 0:
        return 0.0
    number = math.floor(math.log(now_s / least_s, CHECKS_GROW) + 1e-9)
    return float(least_s * CHECKS_GROW**number)


def known(
    cells: Floats,
    limit: float,
    target: Target,
    quantity: Quantity,
    times: float = 1.0,
    width_s: float = 1.0,
    event_s: float = 0.0,
) -> Known:
    """What the means over equal ``cells`` of ``width_s`` say. ``limit``: of the meters, in their
    unit; ``times``: how many times as long the phase may become; ``event_s``: of
    :class:`Expected`."""
    n = len(cells)
    mean = float(cells.mean()) if n else math.nan
    if n < FEWEST // 2:
        few = (Keeps.FEW_READINGS,)
        return Known(mean, math.inf, limit, math.inf, 0.0, float(n), 0.0, few)
    slow = slow_part(cells)
    moves = float(np.ptp(cells)) > ROUNDING * abs(mean)
    seen = events(cells, width_s) if moves else Events()
    ahead = max(times - 1, 0.0)
    scatter = math.hypot(slow.u_of_mean(n * width_s), slow.u_of_line * OF_A_LINE * ahead)
    white = slow.u * math.hypot(1, OF_A_LINE * ahead)
    drift = slow.end * ahead
    came = seen.largest_s >= event_s * OF_ITS_SIZE  # then it is in the scatter already
    missed = 0.0 if came else NOT_SEEN * event_s / (n * width_s) * abs(mean)
    u = expanded_u(
        [
            limit_component("meters", limit, ""),
            limit_component("drift", drift, ""),
            limit_component("missed", missed, ""),
            Component("scatter", "A", scatter, "", dof=slow.dof),
        ]
    )
    k = student_factor(slow.dof)
    again = k * scatter + drift + missed
    if target.within is None:
        target_u = max(A_THIRD * u, target.floors.get(quantity, 0.0) * abs(mean))
        reached = again <= target_u
    else:
        target_u = target.within[quantity] * abs(mean)
        reached = u <= target_u
    out_of_reach = target.within is not None and limit > target_u
    parts = {
        Keeps.TARGET: math.inf if out_of_reach else k * white,
        Keeps.TREND: drift,
        Keeps.MAY_COME: missed,
        Keeps.DEPENDENCE: k * math.sqrt(max(scatter**2 - white**2, 0.0)),
    }
    keeps = [] if reached else [max(parts, key=parts.__getitem__)]
    independent = float(n)
    if moves and slow.u > 0:
        independent = min(float(cells.var(ddof=1)) / slow.u**2, independent)
    if independent < FEWEST:
        keeps.append(Keeps.FEW_READINGS)
    if moves:
        keeps += unlike_its_mean(cells)
    if 0 < seen.count < EVENTS:
        keeps.append(Keeps.RARE)
    return Known(mean, u, limit, again, target_u, independent, seen.largest_s, tuple(keeps))


def stated(now: Known, before: Known, target: Target) -> Known:
    """What is stated of a number: where it was not good enough at the check ``before``, no better
    than its target.

    The first check at which a number is good enough is one that underrates its error more often
    than not. An interval of a width that was fixed beforehand does not suffer from when it was
    ended (Y. S. Chow, H. Robbins, *Ann. Math. Stat.* 36 (1965) 457).
    """
    settled = target.within is None
    if (before.repeatability if settled else before.u) <= before.target_u:
        return now
    if settled:
        repeatability = max(now.repeatability, now.target_u)
        u = max(now.u, math.hypot(now.meters_u, repeatability))
    else:
        left = math.sqrt(max(now.target_u**2 - now.meters_u**2, 0.0))
        repeatability, u = max(now.repeatability, left), max(now.u, now.target_u)
    return replace(now, u=u, repeatability=repeatability)


def unlike_its_mean(cells: Floats) -> list[Keeps]:
    """What the means over ``cells`` show that makes their mean no measure of the process."""
    found = []
    fifths = [float(part.mean()) for part in np.array_split(cells, WINDOW)]
    verdict = steady_window(fifths)
    if verdict.line > PTS.line:
        found.append(Keeps.TREND)
    if verdict.range > PTS.range:
        found.append(Keeps.RANGE)
    return found


@dataclass(frozen=True, slots=True)
class Events:
    """What stood out in a phase."""

    count: int = 0
    """How often; neighbouring batches that stand out are one event."""
    largest_s: float = 0.0
    """What the largest one that began and ended within the phase added to or took from the usual
    level, in seconds of the mean."""


def events(cells: Floats, width_s: float) -> Events:
    """What stands out of batches of ``cells``, which are means over ``width_s``."""
    merged = max(len(cells) // BATCHES, 1)
    batches = cells[len(cells) % merged :].reshape(-1, merged).mean(axis=1)
    apart = batches - np.median(batches)
    usual = float(np.median(np.abs(apart))) * 1.4826
    outside = np.abs(apart) > STANDS_OUT * usual if usual > 0 else apart != 0
    edges = np.diff(outside.astype(np.int8), prepend=0, append=0)
    begins, ends = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)
    came_and_went = (begins > 0) & (ends < len(batches))
    sums = np.concatenate([[0.0], np.cumsum(apart)])
    sizes = np.abs(sums[ends] - sums[begins])[came_and_went]
    mean = abs(float(batches.mean()))
    largest = float(sizes.max(initial=0.0)) / mean if mean > 0 else 0.0
    return Events(len(begins), largest * merged * width_s)


def heat(cells: TimeCells, now_s: float, expected: Expected) -> Iterator[Keeps]:
    """Whether a temperature still moves (the rule of rounds: its fifths), and whether it would
    reach its limit before the longest time is over. What counts is the newest half, and not less
    than the shortest phase: how warm it was before is in the readings."""
    width_s = cells.width_s
    celsius = cells.means(width_s)
    newest = math.ceil(max(expected.least_s, now_s / 2) / width_s)
    celsius = celsius[-newest:]
    if len(celsius) < 2:
        return
    fifths: Sequence[Floats] = np.array_split(celsius, min(WINDOW, len(celsius)))
    verdict = CELSIUS.verdict([float(part.mean()) for part in fifths])
    if not verdict.steady:
        yield Keeps.TEMPERATURE
    if expected.limit_celsius is not None:
        per_s = verdict.slope * len(fifths) / (len(celsius) * width_s)
        last = float(celsius[-1])
        if last + max(per_s, 0.0) * (expected.longest_s - now_s) >= expected.limit_celsius:
            yield Keeps.HEAT
