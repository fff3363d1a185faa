"""Slow stretches at a limit of power: the same watts whatever the work wants, and no heat.

A limit is no property of a workload. So one that the drive does not state shows
where different work ends up at the same flat watts, or goes on at the watts at which the phase
before ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from labctl.analysis.throttle_result import Cause, ThrottleInterval
from labctl.analysis.throttling.causes import NEAR_NS
from labctl.analysis.throttling.signals import PhaseSignals

CEILING = 0.02
"""Watts of a limit (means of a second, and of one slowdown and another) differ by less."""

SECOND_NS = 1_000_000_000


def limited(
    found: Sequence[ThrottleInterval],
    starts: Sequence[ThrottleInterval],
    phases: Sequence[PhaseSignals],
) -> list[ThrottleInterval]:
    """The slow stretches of a run, those of a limit of power by their name.

    ``starts``: phases (or their begins) that may have begun slow, of which those are added that are
    at the limit at which the phase before ended, unless heat is proved there.
    """
    by_index = {phase.index: phase for phase in phases}
    result = list(found)
    for before, phase in pairwise(phases):
        last = next(
            (item for item in result if item.phase_index == before.index and _lasts(item, before)),
            None,
        )
        if last is None:
            continue
        start = next((item for item in starts if item.phase_index == phase.index), None)
        start = start or _all_of(phase, last)
        words = _goes_on(last, start, by_index)
        begun = [item for item in result if _power_limit_begins(item, phase)]
        if words is not None and all(item.cause == Cause.UNKNOWN for item in begun):
            result = [item for item in result if item not in begun]
            result.append(replace(start, cause=Cause.POWER_LIMIT, evidence=words))
            limit = f"{last.evidence}; the next phase goes on at the same watts"
            if last.cause == Cause.UNKNOWN:
                result[result.index(last)] = replace(last, cause=Cause.POWER_LIMIT, evidence=limit)
    return [_same_as_others(item, result, by_index) for item in result]


def _all_of(phase: PhaseSignals, last: ThrottleInterval) -> ThrottleInterval:
    """A phase without a rise as one stretch."""
    return replace(
        last,
        begin_ns=phase.begin_ns,
        end_ns=phase.end_ns,
        phase_index=phase.index,
        iops_before=float("nan"),
        iops_during=float(np.mean(phase.iops)) if len(phase.iops) else float("nan"),
        watts_before=None,
        watts_during=phase.watts_between(phase.begin_ns, phase.end_ns),
        celsius=phase.temperature.celsius_at(phase.begin_ns),
        counters_moved=False,
    )


def _lasts(item: ThrottleInterval, phase: PhaseSignals) -> bool:
    """Whether a stretch that may be a limit's lasts until its phase ends."""
    return item.cause in (Cause.UNKNOWN, Cause.POWER_LIMIT) and item.end_ns >= phase.end_ns


def _power_limit_begins(item: ThrottleInterval, phase: PhaseSignals) -> bool:
    return (item.phase_index, item.begin_ns) == (phase.index, phase.begin_ns)


def _goes_on(
    last: ThrottleInterval, start: ThrottleInterval, by_index: Mapping[int, PhaseSignals]
) -> str | None:
    """In words, that the limit at which a phase ended goes on in the next."""
    phase = by_index[start.phase_index]
    state = phase.counters.power_limit(start.begin_ns)
    changes = phase.counters.changes_of_state()
    if last.cause == Cause.POWER_LIMIT and state is not None:
        until_change = any(abs(start.end_ns - t_ns) < NEAR_NS for t_ns in changes)
        if until_change or _same_watts(last, start):
            return f"{state[0]}, as in the phase before"
    if _is_ceiling(last, start, by_index):
        return f"a flat ceiling of {start.watts_during:.2f} W, at which the phase before ended"
    return None


def _same_as_others(
    item: ThrottleInterval,
    found: Sequence[ThrottleInterval],
    by_index: Mapping[int, PhaseSignals],
) -> ThrottleInterval:
    if item.cause != Cause.UNKNOWN:
        return item
    others = [other for other in found if _is_ceiling(item, other, by_index)]
    if not others:
        return item
    more = "s" if len(others) > 1 else ""
    words = (
        f"{item.evidence}; a flat ceiling of {item.watts_during:.2f} W, the same as in "
        f"{len(others)} other slowdown{more} of other workloads"
    )
    return replace(item, cause=Cause.POWER_LIMIT, evidence=words)


def _is_ceiling(
    item: ThrottleInterval, other: ThrottleInterval, by_index: Mapping[int, PhaseSignals]
) -> bool:
    """The same flat watts in slow stretches of different workloads that want different IOPS, of a
    drive whose heat is known."""
    mine, its = by_index[item.phase_index], by_index[other.phase_index]
    return (
        other.cause in (Cause.UNKNOWN, Cause.POWER_LIMIT)
        and (not mine.workload or mine.workload != its.workload)
        and mine.heat_recorded
        and _same_watts(item, other)
        and _power_limit_rates_differ(item.iops_before, other.iops_before)
        and _is_flat(mine, item)
        and _is_flat(its, other)
    )


def _power_limit_rates_differ(one: float, two: float) -> bool:
    """Whether two workloads want clearly more different rates than the watts of a limit differ."""
    return abs(one - two) > 2 * CEILING * max(one, two)


def _same_watts(item: ThrottleInterval, other: ThrottleInterval) -> bool:
    mine, its = item.watts_during, other.watts_during
    return mine is not None and its is not None and abs(mine - its) < CEILING * mine


def _is_flat(phase: PhaseSignals, item: ThrottleInterval) -> bool:
    """Whether watts stayed at one level, below that before."""
    if item.watts_before is None or item.watts_during is None:
        return False
    edges = range(item.begin_ns + SECOND_NS // 2, item.end_ns - SECOND_NS // 2, SECOND_NS)
    watts = [phase.watts_between(a, b) for a, b in pairwise(edges)]
    known = np.array([one for one in watts if one is not None])
    flat = len(known) >= 3 and float(known.std(ddof=1)) < CEILING * float(known.mean())
    return flat and item.watts_before > (1 + 2 * CEILING) * item.watts_during
