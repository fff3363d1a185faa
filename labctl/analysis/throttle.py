"""When the drive did less than it could, and why: intervals with their evidence.

Where IOPS fell is found in :mod:`labctl.analysis.slowdowns`, why in
:mod:`labctl.analysis.causes`. Here both come together for each phase, and what no single phase can
show: throttling that began in the phase before, and a limit on power that many phases met.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from labctl.analysis.carried import doubted, filled, known
from labctl.analysis.causes import (
    alike,
    at_one_ceiling,
    explained,
    on_and_off,
    repeated,
    steady_state,
)
from labctl.analysis.heat import STEP
from labctl.analysis.results import ThrottleInterval
from labctl.analysis.signals import Grid, PhaseSignals, on_grid
from labctl.analysis.slowdowns import (
    ABRUPT,
    Levels,
    Slowdown,
    rises,
    slowdowns,
)
from labctl.analysis.writing import PASSING_S, slow_stretches

THROTTLING = ("thermal", "power_limit")
"""Causes that count as throttled time."""

SHORTEST_S = 2.0
"""Shortest slowdown that is told of, but for thermal ones."""

BURST_S = 5.0
"""A faster start of a phase that reads, up to this long, is no level to hold it to."""

HANDED_ON_NS = 3_000_000_000
"""A phase that begins this soon after a throttled stretch may have begun throttled."""

NO_PAUSE_NS = 1_250_000_000
"""A pause of throttling that is told as shorter is the shortest level that there can be, two
statuses of fio: the drive may have been let go for any part of it."""


def find_throttling(phases: Sequence[PhaseSignals]) -> tuple[ThrottleInterval, ...]:
    """All slow stretches of a run's phases (in order of time), with cause and evidence."""
    grids = [on_grid(phase) for phase in phases]
    cuts = [None if grid is None else (grid, Levels.of(grid)) for grid in grids]
    alone: list[ThrottleInterval] = []
    for phase, cut in zip(phases, cuts, strict=True):
        seen = [] if cut is None else _of_phase(phase, *cut, None, None)
        alone += doubted(phase, seen, alone)
    what = known(phases, alone)
    found: list[ThrottleInterval] = []
    last: ThrottleInterval | None = None
    for number, (phase, cut) in enumerate(zip(phases, cuts, strict=True)):
        hot = last if number and _handed_over(last, phases[number - 1], phase) else None
        seen = [] if cut is None else _of_phase(phase, *cut, hot, what.onset_celsius)
        seen = doubted(phase, alike(seen), found)
        intervals = filled(phase, seen, [] if cut is None else _rises(*cut), hot, what)
        found += intervals
        thermal = [item for item in intervals if item.cause == "thermal"]
        last = max(thermal, key=lambda item: item.end_ns, default=None)
        if last is not None and hot is not None and last.begin_ns <= phase.begin_ns:
            # How cool it was while it throttled is known since the first of these phases.
            last = replace(last, begin_ns=hot.begin_ns)
    found = _without_pauses(at_one_ceiling(found, phases))
    return tuple(sorted(found, key=lambda item: (item.begin_ns, -item.end_ns)))


def _without_pauses(found: Sequence[ThrottleInterval]) -> list[ThrottleInterval]:
    """Thermal stretches of a phase that are no further apart than can be resolved, as one.

    Not before the end: what a drive did while it was let go is no sign of one that throttles.
    """
    thermal: list[ThrottleInterval] = []
    for item in sorted(found, key=lambda one: one.begin_ns):
        if item.cause != "thermal":
            continue
        last = thermal[-1] if thermal else None
        if (
            last is not None
            and item.phase_index == last.phase_index
            and item.begin_ns - last.end_ns < NO_PAUSE_NS
        ):
            thermal[-1] = _one_of(last, item)
        else:
            thermal.append(item)
    return [*(item for item in found if item.cause != "thermal"), *thermal]


def _one_of(first: ThrottleInterval, second: ThrottleInterval) -> ThrottleInterval:
    """Both as one, by the evidence of the first."""
    words = "; let go for a moment"
    parts = first.duration_s, second.duration_s
    during = parts[0] * first.iops_during + parts[1] * second.iops_during
    return replace(
        first,
        end_ns=max(first.end_ns, second.end_ns),
        iops_during=during / sum(parts),
        counters_moved=first.counters_moved or second.counters_moved,
        evidence=first.evidence if words in first.evidence else first.evidence + words,
    )


def throttled_stretches(
    intervals: Sequence[ThrottleInterval], index: int
) -> tuple[tuple[int, int], ...]:
    """Stretches (ns) of a phase in which the drive held itself back, in order and apart.

    ``THROTTLING`` causes only.
    """
    stretches = sorted(
        (item.begin_ns, item.end_ns)
        for item in intervals
        if item.phase_index == index and item.cause in THROTTLING
    )
    apart: list[tuple[int, int]] = []
    for begin_ns, end_ns in stretches:
        if apart and begin_ns <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], end_ns))
        else:
            apart.append((begin_ns, end_ns))
    return tuple(apart)


def throttled_s(intervals: Sequence[ThrottleInterval], index: int) -> float:
    """Seconds of a phase in which the drive held itself back (``THROTTLING`` causes only)."""
    return sum(end - begin for begin, end in throttled_stretches(intervals, index)) / 1e9


def _handed_over(last: ThrottleInterval | None, before: PhaseSignals, phase: PhaseSignals) -> bool:
    """Whether the phase before ended throttled, and this one followed at once."""
    return (
        last is not None
        and last.end_ns >= before.end_ns
        and phase.begin_ns - before.end_ns < HANDED_ON_NS
    )


def _of_phase(
    phase: PhaseSignals,
    grid: Grid,
    levels: Levels,
    hot: ThrottleInterval | None,
    onset: float | None,
) -> list[ThrottleInterval]:
    """All slowdowns that show inside a phase."""
    if phase.writes:
        lets_go = partial(_lets_go, phase, grid, onset)
        found = slow_stretches(phase, grid, levels, hot is not None, lets_go)
        told = [item for item in found if _is_told(item, phase)]
        return on_and_off(steady_state(repeated(told, phase)))
    found = []
    start = 0
    if hot is not None:
        first = _handed_on(phase, grid, levels, onset)
        if first is not None:
            found.append(explained(phase, grid, first, True))
            start = first.end
    lasting = True
    while lasting:
        lasting = False
        for item in slowdowns(levels, start):
            seen = explained(phase, grid, item, False)
            lasting = item.to_end and seen.cause != "thermal"
            if not lasting or item.begin > grid.points(BURST_S):
                found.append(seen)
            # What falls for good without heat leaves a new level to hold the drive to.
            start = _new_level(levels, item.begin, grid)
    return on_and_off([item for item in found if _is_told(item, phase)])


def _new_level(levels: Levels, begin: int, grid: Grid) -> int:
    """Where the level after a lasting step begins: the status in which it fell holds some of the
    level before."""
    later = [bound for bound in levels.bounds if bound > begin]
    passing = (
        len(later) > 1
        and later[0] - begin <= grid.points(PASSING_S)
        and levels.mean(later[0], later[1]) < levels.mean(begin, later[0])
    )
    return later[0] if passing else begin


def _handed_on(
    phase: PhaseSignals, grid: Grid, levels: Levels, onset: float | None
) -> Slowdown | None:
    """The begin of a phase that goes on throttled, until a rise that lets the drive go; None when
    no rise was seen."""
    seen = rises(levels)
    if not seen:
        return None
    rise = next((rise for rise in seen if _lets_go(phase, grid, onset, rise)), levels.bounds[-1])
    beside = min((bound for bound in levels.bounds if bound > rise), default=len(grid.x))
    before = levels.after(rise, beside) if rise < beside else levels.mean(seen[-1], rise)
    return Slowdown(0, rise, beside, before, levels.mean(0, rise), at_start=True, to_end=False)


def _rises(grid: Grid, levels: Levels) -> list[int]:
    """The moments (ns) at which IOPS rose abruptly."""
    return [
        grid.moment(low)
        for previous, low, high in zip(
            levels.bounds, levels.bounds[1:], levels.bounds[2:], strict=False
        )
        if levels.before(low, previous) < ABRUPT * levels.after(low, high)
    ]


def _lets_go(phase: PhaseSignals, grid: Grid, onset: float | None, rise: int) -> bool:
    """Whether a rise can be the end of throttling.

    A drive is let go cooler than it was when it began to throttle (``onset``). A rise while it is
    still as warm as that is one from a heavy to a light level.
    """
    celsius = phase.heat.celsius_at(grid.moment(rise))
    return onset is None or celsius is None or celsius < onset - STEP / 2


def _is_told(item: ThrottleInterval, phase: PhaseSignals) -> bool:
    """Whether a slowdown is worth telling: not one too short, nor a slow start without heat."""
    at_start = item.begin_ns <= phase.begin_ns
    long = item.duration_s >= SHORTEST_S - 0.01
    if item.cause == "thermal":
        return long or not at_start
    return long and not at_start
