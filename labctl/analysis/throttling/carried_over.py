"""Throttling that shows no edge: carried over from before, or between two levels that both are it.

A drive throttles from one temperature on and is let go at a lower one. Whether it did in a stretch
in which IOPS neither fell nor rose follows from what was seen elsewhere in the run: what its
counters said, where it began to throttle, and what the same workload did when it was free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from labctl.analysis.results import Cause, ThrottleInterval
from labctl.analysis.throttling.heat import STEP
from labctl.analysis.throttling.signals import PhaseSignals
from labctl.analysis.throttling.slowdowns import REDUCED

CLEARLY_WARMER = 3.0
"""°C: a drive has more sensors than it shows, and throttles by the warmest of them."""

BESIDE_NS = 1_000_000_000
"""A rise this close to the end of a slow stretch is its end."""

COOLING_NS = 10_000_000_000
"""A change of IOPS this long before a drive is cool is where it was let go."""

LEAST_NS = 2_000_000_000
"""A drive must have been too warm for this long, in a stretch that is longer than this."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a run shows of its drive. ``onset_celsius``: it throttles at least from there on.

    ``fell_celsius``: where it began to, as far as readings on either side tell; a sensor that is
    read seldom may have been warmer a moment later. ``let_go_celsius``: the coolest at which it was
    seen to be let go. ``free_iops``: the most that a workload did in a phase, or just before a
    thermal slowdown.
    """

    onset_celsius: float | None
    fell_celsius: float | None
    let_go_celsius: float | None
    free_iops: dict[str, float]

    def free_of(self, phase: PhaseSignals) -> float | None:
        """What the workload of a phase did when it was free; None when that is not known."""
        return self.free_iops.get(_work(phase))


NOTHING = Known(None, None, None, {})


def doubted(
    phase: PhaseSignals,
    found: Sequence[ThrottleInterval],
    earlier: Sequence[ThrottleInterval],
) -> list[ThrottleInterval]:
    """The slow stretches of a phase without what cannot be heat after all.

    A drive that was clearly warmer ``earlier`` in the run without throttling does not begin to
    throttle now, unless its counters say so.
    """
    result: list[ThrottleInterval] = []
    for item in found:
        warmer = None
        if item.cause == Cause.THERMAL and item.begin_ns > phase.begin_ns:
            throttled = [
                (one.begin_ns, one.end_ns)
                for one in (*earlier, *found)
                if one.cause == Cause.THERMAL and one.begin_ns < item.begin_ns
            ]
            warmer = _was_warmer(phase, item, throttled)
        if warmer is None:
            result.append(item)
            continue
        lasting = phase.writes and item.end_ns >= phase.end_ns
        words = f"{item.evidence}; but it was at {warmer:.0f} °C before and did not throttle"
        cause = Cause.WRITE_CACHE if lasting else Cause.UNKNOWN
        result.append(replace(item, cause=cause, evidence=words))
    return result


def _was_warmer(
    phase: PhaseSignals, item: ThrottleInterval, throttled: Sequence[tuple[int, int]]
) -> float | None:
    """The highest °C at which the drive was free before, if it was clearly warmer than now."""
    if item.counters_moved:
        return None
    now = phase.heat.highest_near(item.begin_ns)
    before = phase.heat.warmest_outside(item.begin_ns, throttled)
    clearly = now is not None and before is not None and before > now + CLEARLY_WARMER
    return before if clearly else None


def known(phases: Sequence[PhaseSignals], found: Sequence[ThrottleInterval]) -> Known:
    """From all slow stretches of a run, each phase looked at by itself."""
    begun = [
        (phase, item)
        for phase in phases
        for item in found
        if item.phase_index == phase.index
        and item.cause == Cause.THERMAL
        and item.begin_ns > phase.begin_ns
    ]
    warmest = [phase.heat.highest_near(item.begin_ns) for phase, item in begun]
    onset = min((celsius for celsius in warmest if celsius is not None), default=None)
    near = [phase.heat.celsius_at(item.begin_ns) for phase, item in begun]
    fell = min((celsius for celsius in near if celsius is not None), default=None)
    levels = [
        (_work(phase), item.iops_before)
        for (phase, item), celsius in zip(begun, warmest, strict=True)
        # One that falls warmer than that throttled already.
        if onset is None or celsius is None or celsius < onset + STEP
    ]
    throttled = {item.phase_index for item in found if item.cause == Cause.THERMAL}
    carried = False
    for phase in phases:
        warm = phase.heat.warmest(phase.begin_ns, phase.end_ns)
        cool = fell is None or warm is None or warm < fell
        counted = phase.counters.moved(phase.begin_ns, phase.end_ns) is not None
        free = cool and not carried and not counted
        if phase.index not in throttled and free and len(phase.iops):
            levels.append((_work(phase), float(np.mean(phase.iops))))
        carried = phase.index in throttled
    most: dict[str, float] = {}
    for work, iops in levels:
        most[work] = max(most.get(work, 0.0), iops)
    if fell is None:
        return Known(onset, None, None, most)
    ends = [
        phase.heat.coolest_near(item.end_ns)
        for (phase, item), celsius in zip(begun, near, strict=True)
        # One that began warmer than that may have been a heavy level inside of a light one.
        if celsius is not None and celsius < fell + STEP and item.end_ns < phase.end_ns - BESIDE_NS
    ]
    # Nor is a drive let go warmer than it fell.
    let_go = min((end for end in ends if end is not None and end < fell), default=None)
    return Known(onset, fell, let_go, most)


def _work(phase: PhaseSignals) -> str:
    return phase.workload or f"phase {phase.index}"


def cooled(
    phase: PhaseSignals,
    found: Sequence[ThrottleInterval],
    changes_ns: Sequence[int],
    what: Known,
) -> list[ThrottleInterval]:
    """The slow stretches of a phase, thermal ones until the drive has cooled at the latest.

    A drive that does less for another reason besides need not do more when it is let go; but where
    it is clearly cooler than it was let go at before, it is free. ``changes_ns``: where its IOPS
    changed abruptly.
    """
    return [
        item if item.cause != Cause.THERMAL else _cooled(phase, item, changes_ns, what)
        for item in found
    ]


def _cooled(
    phase: PhaseSignals, item: ThrottleInterval, changes_ns: Sequence[int], what: Known
) -> ThrottleInterval:
    if what.let_go_celsius is None:
        return item
    limit = what.let_go_celsius - STEP
    end_ns = phase.heat.first_below(limit, item.begin_ns + LEAST_NS, item.end_ns)
    if end_ns is None:
        return item
    near = [t_ns for t_ns in changes_ns if max(item.begin_ns, end_ns - COOLING_NS) < t_ns <= end_ns]
    words = f"{item.evidence}; over when it was cooler than {limit:.0f} °C"
    return replace(item, end_ns=max(near, default=end_ns), evidence=words)


def filled(
    phase: PhaseSignals,
    found: Sequence[ThrottleInterval],
    rises_ns: Sequence[int],
    before: ThrottleInterval | None,
    what: Known,
) -> list[ThrottleInterval]:
    """The slow stretches of a phase, with those that show no edge.

    ``rises_ns``: where its IOPS rose abruptly. ``before``: the throttling that the phase before
    ended in, and that this one may have begun in.
    """
    thermal = sorted(
        (item for item in found if item.cause == Cause.THERMAL), key=lambda item: item.begin_ns
    )
    others = [item for item in found if item.cause != Cause.THERMAL]
    # Where a dip of the flash ends, IOPS rise, and the drive is as hot as before.
    ends_ns = [item.end_ns for item in others]
    rises_ns = [t_ns for t_ns in rises_ns if all(abs(t_ns - end) > BESIDE_NS for end in ends_ns)]
    more: list[ThrottleInterval] = []
    at = phase.begin_ns
    for low, high in [*((item.begin_ns, item.end_ns) for item in thermal), (phase.end_ns, 0)]:
        if low - at >= LEAST_NS:
            item = _held(phase, (at, low), rises_ns, before, what)
            more += [] if item is None else [item]
        at = max(at, high)
    if any(item.duration_s >= phase.duration_s for item in more):
        others = [item for item in others if item.cause != Cause.UNKNOWN]
    told = joined([*thermal, *(item for item in more if item.cause == Cause.THERMAL)])
    told += [item for item in more if item.cause != Cause.THERMAL]
    return sorted([*others, *told], key=lambda item: item.begin_ns)


def _held(
    phase: PhaseSignals,
    gap: tuple[int, int],
    rises_ns: Sequence[int],
    before: ThrottleInterval | None,
    what: Known,
) -> ThrottleInterval | None:
    """A stretch between those that were seen, if it was throttled too, with what proves it."""
    begin_ns, end_ns = gap
    at_begin, whole = begin_ns <= phase.begin_ns, gap == (phase.begin_ns, phase.end_ns)
    proofs: list[_Proof] = []
    counted = phase.counters.throttled_throughout(begin_ns, end_ns) if whole else None
    if counted is not None:
        proofs.append(_Proof(end_ns, counted))
    else:
        proofs += [_Proof(*one) for one in phase.counters.throttled_inside(begin_ns, end_ns)]
    free = what.free_of(phase)
    as_good = free is not None and _level(phase, begin_ns, end_ns) >= REDUCED * free
    if not as_good and (not at_begin or before is not None):
        proofs += _too_warm(phase, begin_ns, end_ns, what.onset_celsius)
    if whole and before is not None and not as_good:
        kept = phase.heat.never_cooler(before.begin_ns, before.end_ns, begin_ns, end_ns)
        if kept is not None:
            words = f"the phase before ended throttled and no rise was seen since: {kept}"
            proofs.append(_Proof(end_ns, words))
        elif not proofs and phase.heat.stays_hot(begin_ns, end_ns):
            return _perhaps(phase, free)
    if not proofs:
        return None
    proven_ns = max(proof.until_ns for proof in proofs)
    end_ns = min((t_ns for t_ns in rises_ns if proven_ns <= t_ns < end_ns), default=end_ns)
    words = "; ".join(dict.fromkeys(proof.words for proof in proofs))
    return _stretch(phase, begin_ns, end_ns, Cause.THERMAL, words, free)


@dataclass(frozen=True, slots=True)
class _Proof:
    """That a drive was throttled, at least until a moment."""

    until_ns: int
    words: str


def _too_warm(
    phase: PhaseSignals, begin_ns: int, end_ns: int, onset_celsius: float | None
) -> list[_Proof]:
    """That the drive was warmer than where it begins to throttle before it fell, if it did."""
    if onset_celsius is None:
        return []
    celsius = onset_celsius + STEP
    words = f"a free drive would have begun to throttle at {onset_celsius:.0f} °C"
    until_ns = phase.heat.last_above(celsius, begin_ns, end_ns, LEAST_NS)
    if until_ns is None and end_ns < phase.end_ns:
        then = phase.heat.celsius_at(end_ns)
        until_ns = end_ns if then is not None and then >= celsius else None
    return [] if until_ns is None else [_Proof(until_ns, words)]


def _perhaps(phase: PhaseSignals, free: float | None) -> ThrottleInterval:
    """A whole phase after one that ended throttled, the drive never cool since.

    ``free``: the IOPS of the same workload when it was not throttled, which were more. Heat alone
    is no proof: without that level it stays open whether the drive held itself back.
    """
    warm = phase.heat.words(phase.begin_ns, phase.end_ns)
    since = f"the phase before ended throttled and the drive has not cooled since: {warm}"
    begin_ns, end_ns = phase.begin_ns, phase.end_ns
    if free is None:
        words = f"may be thermal: {since}; no level to compare IOPS with"
        return _stretch(phase, begin_ns, end_ns, Cause.UNKNOWN, words, None)
    return _stretch(phase, begin_ns, end_ns, Cause.THERMAL, since, free)


def _stretch(
    phase: PhaseSignals, begin_ns: int, end_ns: int, cause: Cause, evidence: str, free: float | None
) -> ThrottleInterval:
    level = _level(phase, begin_ns, end_ns)
    if free is not None:
        evidence += f"; IOPS {level:.0f}, unthrottled the same workload did {free:.0f}"
    return ThrottleInterval(
        begin_ns=begin_ns,
        end_ns=end_ns,
        phase_index=phase.index,
        cause=cause,
        evidence=evidence,
        iops_before=float("nan") if free is None else free,
        iops_during=level,
        watts_before=None,
        watts_during=phase.watts_between(begin_ns, end_ns),
        celsius=phase.heat.celsius_at(begin_ns),
    )


def _level(phase: PhaseSignals, begin_ns: int, end_ns: int) -> float:
    inside = phase.iops[(phase.t_ns >= begin_ns) & (phase.t_ns <= end_ns)]
    return float(np.mean(inside)) if len(inside) else float("nan")


def joined(found: Iterable[ThrottleInterval]) -> list[ThrottleInterval]:
    """Stretches that touch as one, with the evidence of each."""
    result: list[ThrottleInterval] = []
    for item in sorted(found, key=lambda one: one.begin_ns):
        if result and item.begin_ns <= result[-1].end_ns:
            last = result[-1]
            first, second = last.duration_s, item.duration_s
            during = (first * last.iops_during + second * item.iops_during) / (first + second)
            result[-1] = replace(
                last,
                end_ns=max(last.end_ns, item.end_ns),
                evidence=f"{last.evidence}; then {item.evidence}",
                iops_during=during,
            )
        else:
            result.append(item)
    return result
