"""Why a drive slowed down: what went with a slowdown in temperature, watts, counters and I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from labctl.analysis.results import Cause, ThrottleInterval
from labctl.analysis.throttling.signals import PhaseSignals, SteppedIops
from labctl.analysis.throttling.slowdowns import AROUND_S, FLOOR, STALLED, Slowdown, inner

WATTS_ROSE = 1.01
"""Watts during over watts before, above which the drive did not hold itself back."""

WORK_WATTS = 0.5
"""Watts above idle before a slowdown, from which on it is judged how watts followed IOPS."""

FOLLOWED = 0.7
BUSY_WATTS = 1.5
"""Share of the fall of IOPS by which the watts of the work must have fallen for a drive that
writes to have held itself back: its energy per operation stays as it was. Past the end of a write
cache, and while it collects garbage, each write costs more energy. What a drive takes above idle
just for being busy, however little it does, does not fall: up to ``BUSY_WATTS`` (a choice) are
allowed for it, and at most two thirds of the watts above idle."""

KEPT_WORKING = 0.5
"""Share of the watts above idle that are left while no I/O gets through, above which the drive
was busy with itself."""

SAME_CEILING = 0.015
LEAST_ABOVE_CEILING = 1.05
OTHER_IOPS = 1.2
FLAT = 0.02
"""A power limit: watts (means of a second) scatter by less than ``FLAT`` around one ceiling,
equal to within ``SAME_CEILING`` in slowdowns of different workloads, IOPS ``OTHER_IOPS`` apart,
and ``LEAST_ABOVE_CEILING`` times as much was drawn before."""

LONG_ENOUGH_S = 3.0

BLIP_S = 2.0
"""A slowdown shorter than this is no sign of heat where its host was busy just then."""

UNPROVEN = (Cause.UNKNOWN, Cause.WRITE_CACHE)
ALIKE = 0.05
"""Levels before and during that differ by less are the same."""

_NS = 1_000_000_000


def explained(
    phase: PhaseSignals, grid: SteppedIops, item: Slowdown, carried_over: bool
) -> ThrottleInterval:
    """A slowdown as an interval with its cause and what shows it.

    ``carried_over``: the phase before ended throttled by heat.
    """
    begin_ns, end_ns = grid.moment(item.begin), grid.moment(item.end)
    if item.end >= len(grid.x) - 1:
        end_ns = phase.end_ns
    before, during = item.before * grid.unit, item.during * grid.unit
    beside, inside = _windows(grid, item)
    watts_before, watts_during = (
        phase.watts_between(grid.moment(first), min(grid.moment(last), phase.end_ns))
        if last > first
        else None
        for first, last in (beside, inside)
    )
    seen = [f"IOPS {before:.0f} → {during:.0f}"]
    if watts_before is not None and watts_during is not None:
        seen.append(f"watts {watts_before:.2f} → {watts_during:.2f}")
    result = ThrottleInterval(
        begin_ns=begin_ns,
        end_ns=end_ns,
        phase_index=phase.index,
        cause=Cause.UNKNOWN,
        evidence="",
        iops_before=before,
        iops_during=during,
        watts_before=watts_before,
        watts_during=watts_during,
        celsius=phase.heat.celsius_at(begin_ns),
    )
    judged = _cause(phase, grid, item, result, carried_over)
    return replace(judged, evidence="; ".join([*seen, judged.evidence]))


def _windows(grid: SteppedIops, item: Slowdown) -> tuple[tuple[int, int], tuple[int, int]]:
    """Steps just before (at the start of a phase: just after) a slowdown, and those in it.

    A status stands for a whole step: the one next to an edge may belong to either side, and is
    left out where there are others.
    """
    around = grid.points(AROUND_S)
    if item.at_start:
        beside = inner(item.end, min(item.end + around + 1, item.beside))
    else:
        beside = inner(max(item.begin - around - 1, item.beside), item.begin)
    # Of one without an end its first seconds: more may have happened later.
    end = min(item.end, item.begin + 2 * around) if item.to_end else item.end
    if end == len(grid.x) and end - item.begin > 2:
        return beside, (item.begin + 1, end)  # the edge of its phase is known
    return beside, inner(item.begin, end)


def followed(
    idle_watts: float | None,
    watts: tuple[float | None, float | None],
    iops: tuple[float, float],
) -> float | None:
    """By what share of the fall of IOPS the watts above idle fell; None when it cannot be told."""
    before, during = watts
    if idle_watts is None or before is None or during is None:
        return None
    above = before - idle_watts
    fall = 1 - iops[1] / iops[0] if iops[0] > 0 else 0.0
    if above < WORK_WATTS or fall <= 0:
        return None
    return (before - during) / above / fall


def held_back(
    phase: PhaseSignals, grid: SteppedIops, more: tuple[int, int], less: tuple[int, int]
) -> bool | None:
    """Whether watts went with IOPS between two stretches of steps as in a drive that holds itself
    back in the one that did ``less``; None when it cannot be told. Judged by the seconds of each
    that are next to the other."""
    around = 2 * grid.points(AROUND_S)
    if more[0] >= less[1]:
        more, less = (
            (more[0], min(more[1], more[0] + around)),
            (max(less[0], less[1] - around), less[1]),
        )
    more, less = inner(*more), inner(*less)
    watts = [
        phase.watts_between(grid.moment(first), min(grid.moment(last), phase.end_ns))
        for first, last in (more, less)
    ]
    share = followed(phase.idle_watts, (watts[0], watts[1]), (grid.iops(*more), grid.iops(*less)))
    return None if share is None else not _costly(share, watts[0], phase.idle_watts)


def _costly(share: float, before: float | None, idle_watts: float | None) -> bool:
    """Whether watts fell less than they do when a drive holds itself back."""
    if before is None or idle_watts is None:
        return False
    busy = min(BUSY_WATTS / (before - idle_watts), 2 / 3)
    return share < FOLLOWED * (1 - busy)


def _cause(
    phase: PhaseSignals,
    grid: SteppedIops,
    item: Slowdown,
    seen: ThrottleInterval,
    carried_over: bool,
) -> ThrottleInterval:
    """``seen`` with its cause, and what of the evidence is more than its levels."""
    watts = seen.watts_before, seen.watts_during
    beside, inside = _windows(grid, item)
    share = None
    if beside[1] > beside[0]:
        iops = grid.iops(*beside), grid.iops(*inside)
        share = followed(phase.idle_watts, watts, iops)
    if item.during < STALLED * item.before:
        cause, words = _standstill(phase, grid, item, seen)
        return replace(seen, cause=cause, evidence="; ".join(words))
    rose = watts[0] is not None and watts[1] is not None and watts[1] > WATTS_ROSE * watts[0]
    goes_on = item.at_start and carried_over
    costly = (
        phase.writes
        and not goes_on
        and not _counted_here(phase, grid, item)
        and share is not None
        and _costly(share, watts[0], phase.idle_watts)
    )
    heat = phase.heat.at_limit(seen.begin_ns, seen.end_ns, item.at_start, carried_over)
    # Counters are read seldom: where the drive was known to be cool, some other stretch moved them.
    cool = heat is None and phase.heat.knows_limit
    counted = phase.counters.moved(seen.begin_ns, seen.end_ns, closely=cool)
    if counted is None and not costly:
        host = _host(phase, grid, item, heat is not None and not rose)
        if host is not None:
            words = [host] if heat is None else [host, heat]
            return replace(seen, cause=Cause.HOST_STALL, evidence="; ".join(words))
    if not costly and not rose and (heat is not None or counted is not None):
        words = [heat] if heat is not None else []
        words += [f"the drive's own counters moved: {counted}"] if counted is not None else []
        moved = counted is not None
        return replace(seen, cause=Cause.THERMAL, evidence="; ".join(words), counters_moved=moved)
    limit = _limited(phase, seen)
    if limit is not None:
        return replace(seen, cause=Cause.POWER_LIMIT, evidence=limit)
    if phase.writes and share is not None and not (costly or rose or phase.heat_recorded):
        evidence = (
            "each operation took as much energy as before, as in a drive that holds itself back; "
            "neither temperature nor counters were recorded"
        )
        return replace(seen, cause=Cause.UNKNOWN, evidence=evidence)
    words = ["without a link to temperature" if heat is None else heat]
    if costly:
        words.append("each write took more energy than before")
    if phase.writes and item.to_end:
        words = ["one lasting step down in a phase that writes", *words]
    cause = Cause.WRITE_CACHE if phase.writes and item.to_end else Cause.UNKNOWN
    return replace(seen, cause=cause, evidence="; ".join(words), costly=costly)


def _host(phase: PhaseSignals, grid: SteppedIops, item: Slowdown, as_heat: bool) -> str | None:
    """What the drive's host was short of in a slowdown, if that accounts for it; or, if it looks
    as heat does, may do so."""
    beside, inside = (
        (grid.moment(first), min(grid.moment(last), phase.end_ns))
        for first, last in _windows(grid, item)
    )
    fall = 1 - item.during / item.before if item.before > 0 else 0.0
    risen = phase.host.why(beside, inside, fall)
    if risen is not None or not as_heat:
        return risen
    if item.end - item.begin < grid.points(BLIP_S):
        return phase.host.near(grid.moment(item.begin), grid.moment(item.end))
    return phase.host.throughout(beside, inside, fall)


def _counted_here(phase: PhaseSignals, grid: SteppedIops, item: Slowdown) -> bool:
    """Whether the drive counted that it began to throttle, and this is the deepest fall between
    the two looks that saw it."""
    looks = phase.counters.began(grid.moment(item.begin))
    if looks is None:
        return False
    around = [round((t_ns - grid.begin_ns) / grid.step_ns) for t_ns in looks]
    low, high = max(around[0], 2), min(around[1], len(grid.x) - 1)
    x = np.log(np.maximum(grid.x, FLOOR))
    falls = [x[at - 2 : at].mean() - x[at : at + 2].mean() for at in range(low, high)]
    return bool(falls) and abs(low + int(np.argmax(falls)) - item.begin) <= grid.points(1.0)


def _standstill(
    phase: PhaseSignals, grid: SteppedIops, item: Slowdown, seen: ThrottleInterval
) -> tuple[Cause, list[str]]:
    """No I/O at all: the host's fault unless the drive went on taking power."""
    words = ["no I/O got through"]
    late = bool(grid.late[item.begin : item.end].mean() > 0.5)
    margin = (seen.end_ns - seen.begin_ns) // 4
    silent = phase.silent_between(seen.begin_ns + margin, seen.end_ns - margin)
    if late:
        words.append("fio itself did not report")
    if silent:
        words.append("every series that this machine stamps stopped")
    if late or silent:
        return Cause.HOST_STALL, words
    before, during, idle = seen.watts_before, seen.watts_during, phase.idle_watts
    if before is not None and during is not None and idle is not None:
        above = before - idle
        if above >= WORK_WATTS and during - idle > KEPT_WORKING * above:
            return Cause.UNKNOWN, [*words, "while fio reported and the drive went on taking power"]
    return Cause.HOST_STALL, words


def _limited(phase: PhaseSignals, seen: ThrottleInterval) -> str | None:
    """The power state that explains a slowdown: it was changed at its begin."""
    near = 5 * _NS
    if not any(abs(t_ns - seen.begin_ns) < near for t_ns in phase.counters.changes_of_state()):
        return None
    limit = phase.counters.power_limit(seen.begin_ns + near)
    return None if limit is None else f"{limit[0]} since then"


def alike(found: Sequence[ThrottleInterval]) -> list[ThrottleInterval]:
    """What fell from the same level to the same level as a thermal slowdown of the phase was one.

    A sensor that is read each ten seconds may miss the peak of each second one.
    """
    thermal = [item for item in found if item.cause == Cause.THERMAL]
    return [_like_another(item, thermal) if item.cause in UNPROVEN else item for item in found]


def light_levels(found: Sequence[ThrottleInterval], phase: PhaseSignals) -> list[ThrottleInterval]:
    """A lasting fall of a phase that reads was heat when a thermal one goes on from it, and the
    drive had never been as warm before: a light level, and then a heavy one."""
    if phase.writes:
        return list(found)
    return [_light_level(item, found, phase) for item in found]


def _light_level(
    item: ThrottleInterval, found: Sequence[ThrottleInterval], phase: PhaseSignals
) -> ThrottleInterval:
    now, before = (
        phase.heat.highest_near(item.begin_ns),
        phase.heat.warmest_outside(item.begin_ns, ()),
    )
    warmest = now is not None and before is not None and now > before
    heavier = any(
        other.cause == Cause.THERMAL
        and item.begin_ns < other.begin_ns
        and other.end_ns <= item.end_ns
        for other in found
    )
    if item.cause != Cause.UNKNOWN or not warmest or not heavier:
        return item
    words = f"{item.evidence}; the warmest of the run so far, and a thermal one goes on from it"
    return replace(item, cause=Cause.THERMAL, evidence=words)


def _like_another(item: ThrottleInterval, thermal: Sequence[ThrottleInterval]) -> ThrottleInterval:
    pairs = ((item.iops_before, "iops_before"), (item.iops_during, "iops_during"))
    same = any(
        all(abs(value - getattr(other, name)) < ALIKE * value for value, name in pairs)
        for other in thermal
    )
    if not same or item.costly:
        return item
    words = f"{item.evidence}; the same levels as in a thermal one of this phase"
    return replace(item, cause=Cause.THERMAL, evidence=words)


def at_one_ceiling(
    found: Sequence[ThrottleInterval], phases: Sequence[PhaseSignals]
) -> list[ThrottleInterval]:
    """Slowdowns of different workloads that all end at the same watts are a limit on power."""
    by_index = {phase.index: phase for phase in phases}
    flat = [
        item
        for item in found
        if item.cause == Cause.UNKNOWN
        and item.watts_before is not None
        and item.watts_during is not None
        and item.watts_before > LEAST_ABOVE_CEILING * item.watts_during
        and _is_flat(by_index[item.phase_index], item)
    ]
    result = list(found)
    for number, item in enumerate(result):
        others = [other for other in flat if item in flat and _same_ceiling(item, other)]
        if others:
            watts = item.watts_during or 0.0
            words = (
                f"{item.evidence}; a flat ceiling of {watts:.2f} W, the same as in "
                f"{len(others)} other slowdown{'s' if len(others) > 1 else ''} of other workloads"
            )
            result[number] = replace(item, cause=Cause.POWER_LIMIT, evidence=words)
    return result


def _same_ceiling(item: ThrottleInterval, other: ThrottleInterval) -> bool:
    mine, its = item.watts_during or 0.0, other.watts_during or 0.0
    more, less = sorted((item.iops_during, other.iops_during), reverse=True)
    return (
        item.phase_index != other.phase_index
        and abs(mine - its) <= SAME_CEILING * mine
        and more > OTHER_IOPS * less
    )


def _is_flat(phase: PhaseSignals, item: ThrottleInterval) -> bool:
    if item.duration_s < LONG_ENOUGH_S + 1:
        return False
    edges = np.arange(item.begin_ns + _NS // 2, item.end_ns - _NS // 2, _NS)
    watts = [phase.watts_between(int(a), int(b)) for a, b in pairwise(edges.tolist())]
    known = np.array([one for one in watts if one is not None])
    return len(known) >= LONG_ENOUGH_S and float(known.std(ddof=1)) < FLAT * float(known.mean())
