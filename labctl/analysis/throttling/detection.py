"""When the drive did less than it could, and why: intervals with their evidence.

Where IOPS fell is found in :mod:`labctl.analysis.throttling.slowdowns`, why in
:mod:`labctl.analysis.throttling.causes`. Here both come together for each phase, and what no
single phase can show: throttling that began in the phase before, and a limit on power that many
phases met.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from labctl.analysis.results import THROTTLING, Cause, ThrottleInterval
from labctl.analysis.throttling.carried_over import NOTHING, Known, cooled, doubted, filled, known
from labctl.analysis.throttling.causes import alike, at_one_ceiling, explained, light_levels
from labctl.analysis.throttling.garbage_collection import cut_off, repeated, steady_state
from labctl.analysis.throttling.heat import STEP
from labctl.analysis.throttling.pauses import as_stretches
from labctl.analysis.throttling.signals import PhaseSignals, SteppedIops, on_grid
from labctl.analysis.throttling.slowdowns import ABRUPT, REDUCED, Levels, Slowdown, rises, slowdowns
from labctl.analysis.throttling.write_slowdowns import PASSING_S, slow_stretches

SHORTEST_S = 2.0
"""Shortest slowdown that is told of, but for thermal ones."""

BURST_S = 5.0
"""A faster start of a phase that reads, up to this long, is no level to hold it to."""

HANDED_ON_NS = 3_000_000_000
"""A phase that begins this soon after a throttled stretch may have begun throttled."""


def find_throttling(phases: Sequence[PhaseSignals]) -> tuple[ThrottleInterval, ...]:
    """All slow stretches of a run's phases (in order of time), with cause and evidence."""
    grids = [on_grid(phase) for phase in phases]
    cuts = [None if grid is None else (grid, Levels.of(grid)) for grid in grids]
    alone: list[ThrottleInterval] = []
    for phase, cut in zip(phases, cuts, strict=True):
        seen = [] if cut is None else _of_phase(phase, *cut, None, NOTHING)
        alone += doubted(phase, seen, alone)
    what = known(phases, alone)
    phases = [
        replace(one, heat=replace(one.heat, onset_celsius=what.fell_celsius)) for one in phases
    ]
    found: list[ThrottleInterval] = []
    last: ThrottleInterval | None = None
    for number, (phase, cut) in enumerate(zip(phases, cuts, strict=True)):
        hot = last if number and _handed_over(last, phases[number - 1], phase) else None
        seen = [] if cut is None else _of_phase(phase, *cut, hot, what)
        seen = doubted(phase, light_levels(alike(seen), phase), found)
        changes = [] if cut is None else _changes(*cut)
        rises_ns = [t_ns for t_ns, rose in changes if rose]
        intervals = filled(phase, seen, rises_ns, hot, what)
        intervals = cooled(phase, intervals, [t_ns for t_ns, _ in changes], what)
        found += intervals
        thermal = [item for item in intervals if item.cause == Cause.THERMAL]
        last = max(thermal, key=lambda item: item.end_ns, default=None)
        if last is not None and hot is not None and last.begin_ns <= phase.begin_ns:
            # How cool it was while it throttled is known since the first of these phases.
            last = replace(last, begin_ns=hot.begin_ns)
    return tuple(as_stretches(at_one_ceiling(cut_off(found, phases), phases), phases))


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
    grid: SteppedIops,
    levels: Levels,
    hot: ThrottleInterval | None,
    what: Known,
) -> list[ThrottleInterval]:
    """All slowdowns that show inside a phase."""
    if phase.writes:
        lets_go = partial(_lets_go, phase, grid, levels, what)
        found = slow_stretches(phase, grid, levels, hot is not None, lets_go)
        told = [item for item in found if _is_told(item, phase)]
        return steady_state(repeated(told, phase))
    found = []
    start = 0
    if hot is not None:
        first = _handed_on(phase, grid, levels, what)
        if first is not None:
            found.append(explained(phase, grid, first, True))
            start = first.end
    lasting = True
    while lasting:
        lasting = False
        for item in slowdowns(levels, start):
            seen = explained(phase, grid, item, False)
            lasting = item.to_end and seen.cause != Cause.THERMAL
            if not lasting or item.begin > grid.points(BURST_S):
                found.append(seen)
            # What falls for good without heat leaves a new level to hold the drive to.
            start = _new_level(levels, item.begin, grid)
    return [item for item in found if _is_told(item, phase)]


def _new_level(levels: Levels, begin: int, grid: SteppedIops) -> int:
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
    phase: PhaseSignals, grid: SteppedIops, levels: Levels, what: Known
) -> Slowdown | None:
    """The begin of a phase that goes on throttled, until a rise that lets the drive go; None when
    no rise was seen."""
    seen = rises(levels)
    if not seen:
        return None
    lets_go = partial(_lets_go, phase, grid, levels, what)
    rise = next((rise for rise in seen if lets_go(rise)), levels.bounds[-1])
    beside = min((bound for bound in levels.bounds if bound > rise), default=len(grid.x))
    before = levels.after(rise, beside) if rise < beside else levels.mean(seen[-1], rise)
    return Slowdown(0, rise, beside, before, levels.mean(0, rise), at_start=True, to_end=False)


def _changes(grid: SteppedIops, levels: Levels) -> list[tuple[int, bool]]:
    """The moments (ns) at which IOPS changed abruptly, and whether they rose."""
    steps = zip(levels.bounds, levels.bounds[1:], levels.bounds[2:], strict=False)
    beside = [(at, levels.before(at, low), levels.after(at, high)) for low, at, high in steps]
    return [
        (grid.moment(at), before < after)
        for at, before, after in beside
        if min(before, after) < ABRUPT * max(before, after)
    ]


def _lets_go(
    phase: PhaseSignals, grid: SteppedIops, levels: Levels, what: Known, rise: int
) -> bool:
    """Whether a rise can be the end of throttling.

    It is when it reaches what the same workload did when it was free. Else a drive is let go cooler
    than it was when it began to throttle: a rise while it is still as warm as that is one from a
    heavy to a light level.
    """
    free = what.free_of(phase)
    steps = [step for step in pairwise(levels.bounds) if rise <= step[0] <= rise + levels.around]
    reached = grid.unit * max((levels.mean(*step) for step in steps), default=0.0)
    if free is not None and reached >= REDUCED * free:
        return True
    onset, celsius = what.fell_celsius, phase.heat.celsius_at(grid.moment(rise))
    return onset is None or celsius is None or celsius < onset - STEP / 2


def _is_told(item: ThrottleInterval, phase: PhaseSignals) -> bool:
    """Whether a slowdown is worth telling: not one too short, nor a slow start without heat."""
    at_start = item.begin_ns <= phase.begin_ns
    long = item.duration_s >= SHORTEST_S - 0.01
    if item.cause == Cause.THERMAL:
        return long or not at_start
    return long and not at_start
