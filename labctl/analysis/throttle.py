"""When the drive did less than it could, and why: intervals with their evidence.

Where IOPS fell is found in :mod:`labctl.analysis.slowdowns`, why in
:mod:`labctl.analysis.causes`. Here both come together for each phase, and what no single phase can
show: throttling that began in the phase before, and a limit on power that many phases met.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from labctl.analysis.causes import (
    FOLLOWED,
    at_one_ceiling,
    explained,
    followed,
    on_and_off,
    repeated,
    steady_state,
)
from labctl.analysis.heat import STEP
from labctl.analysis.results import ThrottleInterval
from labctl.analysis.signals import Grid, PhaseSignals, on_grid
from labctl.analysis.slowdowns import (
    REDUCED,
    Levels,
    Slowdown,
    highest_return,
    largest_fall,
    rises,
    slowdowns,
)

THROTTLING = ("thermal", "power_limit")
"""Causes that count as throttled time."""

SHORTEST_S = 2.0
"""Shortest slowdown that is told of, but for thermal ones."""

PASSING_S = 1.5
"""A level that falls further within this time is on its way to the next one."""

BURST_S = 5.0
"""A faster start of a phase that reads, up to this long, is no level to hold it to."""

NESTED_S = 8.0
"""Throttling from this long on is searched for other slowdowns inside it, in phases that write."""

HANDED_ON_NS = 3_000_000_000
"""A phase that begins this soon after a throttled stretch may have begun throttled."""


def find_throttling(phases: Sequence[PhaseSignals]) -> tuple[ThrottleInterval, ...]:
    """All slow stretches of a run's phases (in order of time), with cause and evidence."""
    found: list[ThrottleInterval] = []
    whole: list[tuple[PhaseSignals, ThrottleInterval]] = []
    warm: list[PhaseSignals] = []
    free: dict[str, float] = {}
    last: ThrottleInterval | None = None
    onset: float | None = None
    for number, phase in enumerate(phases):
        grid = on_grid(phase)
        hot = last if number and _handed_over(last, phases[number - 1], phase) else None
        intervals = [] if grid is None else _of_phase(phase, grid, hot, onset)
        carried = _throughout(phase, hot, intervals)
        if carried is not None:
            found += [item for item in intervals if item.cause not in ("thermal", "unknown")]
            whole.append((phase, carried))
            # How cool it was while it throttled is known since the first of these phases.
            last = carried if hot is None else replace(carried, begin_ns=hot.begin_ns)
            continue
        found += intervals
        thermal = [item for item in intervals if item.cause == "thermal"]
        begins = [item.celsius for item in thermal if item.begin_ns > phase.begin_ns]
        onset = min((one for one in (onset, *begins) if one is not None), default=None)
        last = max(thermal, key=lambda item: item.end_ns, default=None)
        if hot is not None and not intervals and grid is not None and _stays_hot(phase):
            warm.append(phase)
        elif not thermal and phase.workload and len(phase.iops):
            free[phase.workload] = max(_level(phase), free.get(phase.workload, 0.0))
    # Only now is known what each workload does without throttling.
    told = [_compared(phase, item, free.get(phase.workload)) for phase, item in whole]
    told += [_perhaps(phase, free.get(phase.workload)) for phase in warm]
    found += [item for item in told if item is not None]
    found = at_one_ceiling(found, phases)
    return tuple(sorted(found, key=lambda item: (item.begin_ns, -item.end_ns)))


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
    phase: PhaseSignals, grid: Grid, hot: ThrottleInterval | None, onset: float | None
) -> list[ThrottleInterval]:
    """All slowdowns that show inside a phase."""
    levels = Levels.of(grid)
    found: list[ThrottleInterval] = []
    start = 0
    if hot is not None:
        first = _handed_on(phase, grid, levels, onset)
        if first is not None:
            found.append(explained(phase, grid, first, True))
            start = first.end
    while True:
        items = slowdowns(levels, start)
        lasting = items[-1] if items and items[-1].to_end else None
        closed = items[:-1] if lasting is not None else items
        found += [explained(phase, grid, item, False) for item in closed]
        if lasting is None:
            break
        told, start_again = _lasting(phase, grid, levels, lasting)
        found += told
        if start_again is None:
            break
        start = start_again
    found = [item for item in found if _is_told(item, phase)]
    if phase.writes:
        found += _nested(phase, grid, levels, found)
        found.sort(key=lambda item: item.begin_ns)
    return on_and_off(steady_state(repeated(found, phase)))


def _handed_on(
    phase: PhaseSignals, grid: Grid, levels: Levels, onset: float | None
) -> Slowdown | None:
    """The begin of a phase that goes on throttled, until a rise that lets the drive go.

    A drive is let go cooler than it was when it began to throttle (``onset``). A rise while it is
    still as warm as that is one from a heavy to a light level. None when no rise was seen.
    """
    seen = rises(levels)
    if not seen:
        return None
    for rise in seen:
        celsius = phase.heat.celsius_at(grid.moment(rise))
        if onset is None or celsius is None or celsius < onset - STEP / 2:
            break
    else:
        rise = levels.bounds[-1]
    beside = min((bound for bound in levels.bounds if bound > rise), default=len(grid.x))
    before = levels.after(rise, beside) if rise < beside else levels.mean(seen[-1], rise)
    return Slowdown(0, rise, beside, before, levels.mean(0, rise), at_start=True, to_end=False)


def _lasting(
    phase: PhaseSignals, grid: Grid, levels: Levels, item: Slowdown
) -> tuple[list[ThrottleInterval], int | None]:
    """What a slowdown without an end was, and from where on to search with a new level."""
    whole = explained(phase, grid, item, False)
    if phase.writes:
        split = _split(phase, grid, levels, item)
        if split is not None:
            return split
    if whole.cause == "thermal":
        return [whole], None
    burst = not phase.writes and item.begin <= grid.points(BURST_S)
    return ([] if burst else [whole]), _new_level(levels, item.begin, grid)


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


def _split(
    phase: PhaseSignals, grid: Grid, levels: Levels, item: Slowdown
) -> tuple[list[ThrottleInterval], int | None] | None:
    """A cache that ended while the drive throttled: the throttling ends in a rise to a lower level
    than before it, at which each write takes more energy."""
    rise = highest_return(levels, item)
    if rise is None:
        return None
    at, level = rise
    throttled = replace(item, end=at, during=levels.mean(item.begin, at), to_end=False)
    first = explained(phase, grid, throttled, False)
    if first.cause != "thermal":
        return None
    after = phase.watts_between(
        grid.moment(at) + grid.step_ns, min(grid.moment(at + levels.around + 1), phase.end_ns)
    )
    share = followed(
        phase.idle_watts, (first.watts_before, after), (first.iops_before, level * grid.unit)
    )
    if share is None or share >= FOLLOWED:
        return None
    fall = largest_fall(levels, item.begin, at)
    step = replace(item, begin=fall, during=levels.mean(fall, item.end))
    ended = replace(explained(phase, grid, step, False), cause="write_cache")
    return [first, ended], at


def _nested(
    phase: PhaseSignals, grid: Grid, levels: Levels, found: Sequence[ThrottleInterval]
) -> list[ThrottleInterval]:
    """Slowdowns of another cause while the drive throttled."""
    inside: list[ThrottleInterval] = []
    for item in found:
        if item.cause != "thermal" or item.duration_s < NESTED_S:
            continue
        begin = round((item.begin_ns - grid.begin_ns) / grid.step_ns)
        end = min(round((item.end_ns - grid.begin_ns) / grid.step_ns), len(grid.x))
        bounds = [bound for bound in levels.bounds if begin <= bound <= end]
        while len(bounds) >= 3:
            dips = slowdowns(levels, bounds[0], bounds[-1])
            told = [explained(phase, grid, dip, False) for dip in dips if not dip.to_end]
            inside += [one for one in told if one.cause == "unknown" and _is_told(one, phase)]
            if not dips or not dips[-1].to_end:
                break
            bounds = [bound for bound in bounds if bound >= dips[-1].begin]
    return inside


def _is_told(item: ThrottleInterval, phase: PhaseSignals) -> bool:
    """Whether a slowdown is worth telling: not one too short, nor a slow start without heat."""
    at_start = item.begin_ns <= phase.begin_ns
    long = item.duration_s >= SHORTEST_S - 0.01
    if item.cause == "thermal":
        return long or not at_start
    return long and not at_start


def _throughout(
    phase: PhaseSignals, hot: ThrottleInterval | None, seen: Sequence[ThrottleInterval]
) -> ThrottleInterval | None:
    """A whole phase that was throttled, with what proves it; None without a proof."""
    if not len(phase.iops):
        return None
    words = []
    thermal_s = sum(item.duration_s for item in seen if item.cause == "thermal")
    counted = phase.counters.throttled_throughout(phase.begin_ns, phase.end_ns, thermal_s)
    if counted is not None:
        words.append(counted)
    let_go = any(item.begin_ns <= phase.begin_ns for item in seen if item.cause == "thermal")
    if hot is not None and not let_go:
        fell = any(item.begin_ns > phase.begin_ns for item in seen if item.cause == "thermal")
        kept = phase.heat.never_cooler(hot.begin_ns, hot.end_ns, phase.begin_ns, phase.end_ns, fell)
        if kept is not None:
            words.append(f"the phase before ended throttled and no rise was seen since: {kept}")
    return _whole(phase, "thermal", "; ".join(words)) if words else None


def _whole(phase: PhaseSignals, cause: str, evidence: str) -> ThrottleInterval:
    return ThrottleInterval(
        begin_ns=phase.begin_ns,
        end_ns=phase.end_ns,
        phase_index=phase.index,
        cause=cause,
        evidence=evidence,
        iops_before=float("nan"),
        iops_during=_level(phase),
        watts_before=None,
        watts_during=phase.watts_between(phase.begin_ns, phase.end_ns),
        celsius=phase.heat.celsius_at(phase.begin_ns),
    )


def _compared(
    phase: PhaseSignals, item: ThrottleInterval, free: float | None
) -> ThrottleInterval | None:
    """A whole throttled phase against the same workload unthrottled; None if it did as much."""
    if free is None:
        return item
    if item.iops_during >= REDUCED * free and "counted" not in item.evidence:
        return None
    words = f"IOPS {item.iops_during:.0f}, unthrottled the same workload did {free:.0f}"
    return replace(item, evidence=f"{item.evidence}; {words}", iops_before=free)


def _stays_hot(phase: PhaseSignals) -> bool:
    return phase.heat.stays_hot(phase.begin_ns, phase.end_ns)


def _perhaps(phase: PhaseSignals, free: float | None) -> ThrottleInterval | None:
    """A whole phase after one that ended throttled, the drive never cool since.

    ``free`` is the level of IOPS of the same workload when it was not throttled. Heat alone is no
    proof: without that level it stays open whether the drive held itself back.
    """
    level = _level(phase)
    if free is not None and level >= REDUCED * free:
        return None
    warm = phase.heat.words(phase.begin_ns, phase.end_ns)
    since = f"the phase before ended throttled and the drive has not cooled since: {warm}"
    if free is None:
        words = f"may be thermal: {since}; no level to compare IOPS with"
        return _whole(phase, "unknown", words)
    return _compared(phase, _whole(phase, "thermal", since), free)


def _level(phase: PhaseSignals) -> float:
    return float(np.mean(phase.iops))
