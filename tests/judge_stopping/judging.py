"""Phases that end by the rule, beside oracles (:mod:`tests.judge_stopping.oracle`).

A meter integrates 20 ms at a random moment of each 100 ms, with a gain error of its own inside its
limits, and fio says each half a second what it did.

Phases come as points of runs of ``POINTS`` do: what stood out at one is known at those after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from labctl.analysis.estimate import Component
from labctl.analysis.stats.time_mean import TimeMean
from labctl.analysis.stats.uncertainty import expanded_u
from labctl.analysis.steady_state.enough import (
    CHECKS_GROW,
    COLLECTION_S,
    Enough,
    Expected,
    Keeps,
    MetersPart,
    Quantity,
    Target,
)
from tests.judge_stopping.loads import STEP_S, Course, Load
from tests.judge_stopping.oracle import EVERY, GAIN, READ_S, Oracle, oracle

STATUS_S, SENSOR_S = 0.5, 2.0
WATTS, IOPS = 6.0, 100_000.0
FIXED_S = 180.0
POINTS = 12
"""That read, or that write, in ``power-per-qd``."""

KNOWN = 200
"""Phases from which the oracles know how those of a process scatter."""

SETTLED = Target()
WITHIN = Target({Quantity.WATTS: 0.005})


@dataclass(frozen=True)
class Ended:
    """A phase, and what is true of it. Times in seconds, errors as shares of what was stated."""

    seconds: float
    stopped: bool
    drawn: float
    """Error of what the phase drew over its U."""
    process: float
    """Error of the process's mean over the repeatability."""
    point: float
    """Error of what was read, as the process's mean, over U of the point."""
    share: float
    """U of the point as a share of the mean."""
    keeps: tuple[Keeps, ...]
    event_s: Mapping[Quantity, float]
    """The largest event that it or an earlier point of its run showed."""


def phase(
    rng: np.random.Generator,
    course: Course,
    number: int,
    target: Target,
    collection_s: float,
    event_s: Mapping[Quantity, float],
) -> Ended:
    """One phase, read and ended by the rule. ``event_s``: of the point before it."""
    truth = WATTS * course.watts[number]
    longest_s = len(truth) * STEP_S
    gain = 1 + GAIN * rng.uniform(-1, 1)
    steps = np.arange(0, len(truth), EVERY) + rng.integers(EVERY, size=len(truth) // EVERY)
    watts = gain * truth[steps]
    times = np.asarray(steps + 1, np.float64) * STEP_S
    iops = IOPS * course.watts[number].reshape(-1, round(STATUS_S / STEP_S)).mean(axis=1)
    expected = Expected(
        longest_s,
        reading_s=READ_S,
        status_s=STATUS_S,
        temperature_s=0.0 if course.celsius is None else SENSOR_S,
        collection_s=collection_s,
        limit_celsius=course.limit_celsius,
        meters=MetersPart(gain=GAIN),
        event_s=event_s,
    )
    rule = Enough(target, expected, ["12V"])
    check_s, fed_s = expected.least_s, 0.0
    while check_s * CHECKS_GROW < collection_s:  # nothing can end before
        check_s *= CHECKS_GROW
    while True:
        now_s = min(check_s + 0.01, longest_s)
        first, last = round(fed_s / READ_S), int(now_s / READ_S + 1e-6)
        for t_s, value in zip(times[first:last].tolist(), watts[first:last].tolist(), strict=True):
            rule.add_watts("12V", t_s, value)
        for k in range(int(fed_s / STATUS_S + 1e-6), int(now_s / STATUS_S + 1e-6)):
            rule.add_iops((k + 1) * STATUS_S, float(iops[k]))
        if course.celsius is not None:
            for k in range(int(fed_s / SENSOR_S + 1e-6), int(now_s / SENSOR_S + 1e-6)):
                shown = round(float(course.celsius[number][round((k + 1) * SENSOR_S / STEP_S) - 1]))
                rule.add_celsius("drive", (k + 1) * SENSOR_S, shown)
        fed_s = last * READ_S
        state = rule.state(now_s)
        if state.enough or now_s >= longest_s:
            break
        check_s *= CHECKS_GROW
    known = state.known[Quantity.WATTS]
    end = round(fed_s / STEP_S)
    read = TimeMean(fed_s, READ_S, last, 1.0)
    read.add(times[:last] - STEP_S / 2, watts[:last])
    scatter = read.scatter_of_phase(0.0, 0.0)
    own_u = expanded_u(
        [
            Component("meters", "B", GAIN * WATTS / 3**0.5, "", distribution="rectangular"),
            Component("scatter", "A", scatter.u, "", dof=scatter.dof),
        ]
    )
    return Ended(
        seconds=fed_s,
        stopped=state.enough,
        drawn=abs(read.mean - float(truth[:end].mean())) / own_u,
        process=abs(read.mean / gain - WATTS * float(course.mean[number])) / known.repeatability,
        point=abs(read.mean - WATTS * float(course.mean[number])) / known.u,
        share=known.share,
        keeps=state.keeps,
        event_s={
            one: max(now, event_s.get(one, 0.0)) for one, now in rule.largest_events_s().items()
        },
    )


@dataclass(frozen=True)
class Judged:
    """All phases of one load."""

    load: Load
    phases: tuple[Ended, ...]
    oracle: Oracle


def judge(load: Load, phases: int, seed: int, target: Target) -> Judged:
    """So many phases of a load."""
    rng = np.random.default_rng([seed, *load.name.encode()])
    course = load.phases(rng, phases)
    collection_s = COLLECTION_S if load.writes else 0.0
    ended: list[Ended] = []
    for k in range(phases):
        event_s = ended[-1].event_s if k % POINTS else {}
        ended.append(phase(rng, course, k, target, collection_s, event_s))
    many = load.phases(rng, KNOWN)
    return Judged(load, tuple(ended), oracle(rng, many, target, collection_s))


def inside_two_periods(judged: Sequence[Judged]) -> int:
    """Phases that ended by the rule before what comes again was whole twice."""
    return sum(
        one.stopped and one.seconds < 2 * item.load.period_s
        for item in judged
        for one in item.phases
    )


@dataclass(frozen=True)
class Row:
    """A kind of load."""

    kind: str
    phases: int
    stopped: int
    drawn: float
    """Of the stopped: what they drew is inside U."""
    process: float
    """Of the stopped: the process's mean is inside the repeatability."""
    point: float
    """Of the stopped: the process's mean is inside the point's U, gain error and all."""
    wrong: float
    """Of all: stopped with a repeatability that does not hold."""
    seconds: float
    """Mean; also of those that were not stopped."""
    over_oracle: float
    """Mean time over the oracle's, of loads for which it reaches the target at all."""
    over_unsure: float
    """Over the oracle's that does not know what no phase shows, of those for which that reaches
    it."""
    over_fixed: float
    """Over the fixed time that reaches the target with the worst of these loads."""
    over_usual: float
    """Over 180 s."""
    share: float
    """Median U."""

    @property
    def refused(self) -> bool:
        """Whether the rule lets hardly any phase of it end: at most one in twenty."""
        return self.stopped <= self.phases / 20

    @property
    def holds(self) -> bool:
        """Whether at most one phase in twenty is stopped with a number that does not hold, and of
        a kind that is not refused at least 95 % of what is stated holds."""
        covered = self.refused or min(self.drawn, self.process) >= 0.95
        return self.wrong <= 0.05 and covered


def row(judged: Sequence[Judged]) -> Row:
    """All loads of a kind together."""
    ended = [one for item in judged for one in item.phases]
    stopped = [one for one in ended if one.stopped]
    wrong = sum(one.process > 1 for one in stopped)
    seconds = float(np.mean([one.seconds for one in ended]))
    worst_s = max(item.oracle.all_s or item.load.longest_s for item in judged)
    return Row(
        kind=judged[0].load.kind,
        phases=len(ended),
        stopped=len(stopped),
        drawn=sum(one.drawn <= 1 for one in stopped) / len(stopped) if stopped else np.nan,
        process=1 - wrong / len(stopped) if stopped else np.nan,
        point=sum(one.point <= 1 for one in stopped) / len(stopped) if stopped else np.nan,
        wrong=wrong / len(ended),
        seconds=seconds,
        over_oracle=over([(item, item.oracle.all_s) for item in judged]),
        over_unsure=over([(item, item.oracle.unsure_s) for item in judged]),
        over_fixed=seconds / worst_s,
        over_usual=seconds / FIXED_S,
        share=float(np.median([one.share for one in ended])),
    )


def over(needed: Sequence[tuple[Judged, float | None]]) -> float:
    """Times as long as needed that phases took, of loads that reach their target at all."""
    took = [(one.seconds, s) for item, s in needed if s is not None for one in item.phases]
    return sum(mine for mine, _ in took) / sum(s for _, s in took) if took else np.nan


def by_kind(loads: Sequence[Load], phases: int, seed: int, target: Target) -> list[list[Judged]]:
    """All loads, those of a kind together."""
    kinds: dict[str, list[Judged]] = {}
    for load in loads:
        kinds.setdefault(load.kind, []).append(judge(load, phases, seed, target))
    return list(kinds.values())
