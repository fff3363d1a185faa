"""What a run as a whole shows of its drive, and what follows from it for a single phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from labctl.analysis.throttle_result import Cause, ThrottleInterval
from labctl.analysis.throttling.levels import REDUCED, SHORTEST_S
from labctl.analysis.throttling.signals import PhaseSignals
from labctl.analysis.throttling.temperature import NEAR_WARNING, STEP

CLEARLY_WARMER = 3.0
"""°C: a drive has more sensors than it shows, and throttles by the warmest of them."""

COOLED = 12.0
"""°C below where the drive began to throttle at which that must have ended: a choice."""

FOLLOWS_NS = 3_000_000_000
"""A phase that begins this soon after a slow stretch may have begun slow."""

UNTIL_A_RISE = (Cause.THERMAL, Cause.UNKNOWN)
"""Causes that do not end with the work of a phase: what comes after it is slow until IOPS rise."""


@dataclass(frozen=True, slots=True)
class Known:
    """``fell_celsius``: the coolest at which it was seen to begin to throttle. ``free_iops``: the
    most that a workload did in a phase, or just before it throttled. ``has_heavy_level``: it was
    seen to go from a light to a heavy level."""

    fell_celsius: float | None = None
    free_iops: dict[str, float] = field(default_factory=dict)
    has_heavy_level: bool = False

    def free_of(self, phase: PhaseSignals) -> float | None:
        """What the workload of a phase did when it was free; None when that is not known."""
        return self.free_iops.get(_run_knowledge_work(phase))

    def lets_go(self, phase: PhaseSignals, t_ns: int, iops: float) -> bool:
        """Whether a rise to ``iops`` can be the end of throttling.

        It is when it reaches what the same workload did when it was free. Else a drive is let go
        cooler than it was when it began to throttle: a rise while it is still as warm as that is
        one from a heavy to a light level, in a drive that has both.
        """
        free, celsius = self.free_of(phase), phase.temperature.celsius_at(t_ns)
        if free is not None and iops >= REDUCED * free:
            return True
        fell, margin = self.fell_celsius, -STEP / 2 if self.has_heavy_level else CLEARLY_WARMER
        return fell is None or celsius is None or celsius < fell + margin

    def falls_free(self, phase: PhaseSignals, t_ns: int) -> bool:
        """Whether a drive that begins to throttle at a moment can have been free until then: one
        that falls further, of those that have a heavy level, is warmer than one that begins to
        throttle."""
        celsius = phase.temperature.highest_near(t_ns)
        fell, margin = self.fell_celsius, STEP if self.has_heavy_level else CLEARLY_WARMER
        return fell is None or celsius is None or celsius < fell + margin


NOTHING = Known()


def known(
    phases: Sequence[PhaseSignals],
    found: Sequence[ThrottleInterval],
    starts: Sequence[ThrottleInterval],
    has_heavy_level: bool,
) -> Known:
    """From all slow stretches of a run and slow starts, each phase looked at by itself."""
    by_index = {phase.index: phase for phase in phases}
    begun = [
        (by_index[item.phase_index], item)
        for item in found
        if item.cause == Cause.THERMAL and item.begin_ns > by_index[item.phase_index].begin_ns
    ]
    fell = min((item.celsius for _, item in begun if item.celsius is not None), default=None)
    warmest = [phase.temperature.highest_near(item.begin_ns) for phase, item in begun]
    onset = min((celsius for celsius in warmest if celsius is not None), default=None)
    most: dict[str, float] = {}

    def free(phase: PhaseSignals, iops: float) -> None:
        most[_run_knowledge_work(phase)] = max(most.get(_run_knowledge_work(phase), 0.0), iops)

    for (phase, item), celsius in zip(begun, warmest, strict=True):
        # One that falls warmer than that throttled already.
        if onset is None or celsius is None or celsius < onset + STEP:
            free(phase, item.iops_before)
    last = None
    for phase in phases:
        earlier = stretch_before(last, phase)
        own = [item for item in (*found, *starts) if item.phase_index == phase.index]
        slow = [item for item in own if item.cause in UNTIL_A_RISE]
        extremes = phase.temperature.extremes(phase.begin_ns, phase.end_ns)
        counted = phase.counters.moved(phase.begin_ns, phase.end_ns) is not None
        warm = extremes is not None and fell is not None and extremes[1] >= fell
        if not slow and earlier is None and not counted and not warm and len(phase.iops):
            free(phase, float(np.mean(phase.iops)))
        if not own and earlier is not None and not _has_cooled(phase, earlier):
            own = [replace(earlier, end_ns=phase.end_ns)]
        last = ended_in(phase, own, earlier)
    return Known(fell, most, has_heavy_level)


def _run_knowledge_work(phase: PhaseSignals) -> str:
    return phase.workload or f"phase {phase.index}"


def doubted(
    phase: PhaseSignals, found: Sequence[ThrottleInterval], earlier: Sequence[ThrottleInterval]
) -> list[ThrottleInterval]:
    """The slow stretches of a phase without what cannot be heat after all.

    A drive that was clearly warmer ``earlier`` in the run without throttling does not begin to
    throttle now, unless its counters say so.
    """
    throttled = [
        (one.begin_ns, one.end_ns) for one in (*earlier, *found) if one.cause == Cause.THERMAL
    ]

    def cannot(item: ThrottleInterval) -> float | None:
        if item.cause != Cause.THERMAL or item.counters_moved or item.begin_ns <= phase.begin_ns:
            return None
        before = phase.temperature.highest_outside(item.begin_ns, throttled)
        now = phase.temperature.highest_near(item.begin_ns)
        warmer = now is not None and before is not None and before > now + CLEARLY_WARMER
        return before if warmer else None

    return [
        item
        if (warmer := cannot(item)) is None
        else replace(
            item,
            cause=Cause.WRITE_CACHE
            if phase.writes and item.end_ns >= phase.end_ns
            else Cause.UNKNOWN,
            evidence=f"{item.evidence}; but it was at {warmer:.0f} °C before and did not throttle",
        )
        for item in found
    ]


def stretch_before(last: ThrottleInterval | None, phase: PhaseSignals) -> ThrottleInterval | None:
    """What the phase before ended in (:func:`ended_in`), if this one followed at once."""
    return last if last is not None and phase.begin_ns - last.end_ns < FOLLOWS_NS else None


def ended_in(
    phase: PhaseSignals, own: Sequence[ThrottleInterval], earlier: ThrottleInterval | None
) -> ThrottleInterval | None:
    """The one of a phase's ``own`` slow stretches that lasts until its end and need not end with
    its work. How warm the drive was while it was slow is known since ``earlier``, which the phase
    before ended in."""
    slow = [item for item in own if item.cause in UNTIL_A_RISE and not item.costly]
    last = max(slow, key=lambda item: item.end_ns, default=None)
    if last is None or last.end_ns < phase.end_ns:
        return None
    if earlier is not None and last.begin_ns <= phase.begin_ns:
        return replace(last, begin_ns=earlier.begin_ns, celsius=earlier.celsius)
    return last


def _has_cooled(phase: PhaseSignals, last: ThrottleInterval) -> bool:
    """Whether a drive that was slow got far cooler in a phase than where that began."""
    now = phase.temperature.extremes(phase.begin_ns, phase.end_ns)
    return now is not None and last.celsius is not None and now[0] < last.celsius - COOLED


def since_begin(
    phase: PhaseSignals,
    found: Sequence[ThrottleInterval],
    starts: Sequence[ThrottleInterval],
    before: ThrottleInterval | None,
    released_ns: int | None,
    what: Known,
) -> ThrottleInterval | None:
    """The stretch from the begin of a phase in which it was slow without a fall, if it was.

    ``before``: what the phase before ended in, throttling or for a reason not known.
    ``released_ns``: the rise that ended throttling; ``starts``: slow ones until a rise. Without a
    rise the stretch lasts until the drive falls as a free one does, or the phase ends; what proves
    heat then is what was counted, the temperature, or what the workload did elsewhere.
    """
    begin_ns, end_ns = phase.begin_ns, phase.end_ns
    falls = [item.begin_ns for item in found if item.cause == Cause.THERMAL]
    if not falls:
        counted = phase.counters.throttled_throughout(begin_ns, end_ns)
        if counted is not None:
            return _stretch_from_knowledge(phase, begin_ns, end_ns, Cause.THERMAL, counted, what)
    if before is None:
        return None
    heat = before.cause == Cause.THERMAL
    since = f"the phase before ended {'throttled' if heat else 'slower for a reason not known'}"
    if not heat and starts:
        words = f"{since}; it went on until IOPS rose; {starts[0].evidence}"
        return replace(starts[0], evidence=words)
    if released_ns is not None:
        words = f"{since}; let go where IOPS rose"
        return _stretch_from_knowledge(phase, begin_ns, released_ns, Cause.THERMAL, words, what)
    counted = phase.counters.throttled_inside(begin_ns, end_ns)
    if counted is None:
        end_ns = min([end_ns, *(t_ns for t_ns in falls if what.falls_free(phase, t_ns))])
    free, level = what.free_of(phase), _run_knowledge_level(phase, begin_ns, end_ns)
    if end_ns - begin_ns < SHORTEST_S * 1e9:
        return None
    if counted is None and free is not None and level >= REDUCED * free:
        return None
    proof = counted
    if heat and proof is None:
        proof = phase.temperature.never_cooler(before.begin_ns, before.end_ns, begin_ns, end_ns)
    if heat and proof is None and what.fell_celsius is not None:
        onset = what.fell_celsius + STEP
        if phase.temperature.stays_above(onset, begin_ns, end_ns, SHORTEST_S):
            proof = f"a free drive would have begun to throttle at {what.fell_celsius:.0f} °C"
    warning, own = phase.temperature.warning_celsius, phase.temperature.extremes(begin_ns, end_ns)
    near = warning is not None and own is not None and warning - own[0] <= NEAR_WARNING
    if heat and proof is None and free is not None and near:
        proof = phase.temperature.words(begin_ns, end_ns)
    if proof is not None:
        words = f"{since} and no rise was seen since: {proof}"
        return _stretch_from_knowledge(phase, begin_ns, end_ns, Cause.THERMAL, words, what)
    if falls or (found and not heat) or _has_cooled(phase, before):
        return None
    warm = phase.temperature.words(begin_ns, end_ns)
    words = f"{'may be thermal: ' if heat else ''}{since} and no rise was seen since: {warm}"
    return _stretch_from_knowledge(phase, begin_ns, end_ns, Cause.UNKNOWN, words, what)


def _stretch_from_knowledge(
    phase: PhaseSignals, begin_ns: int, end_ns: int, cause: Cause, evidence: str, what: Known
) -> ThrottleInterval:
    free, level = what.free_of(phase), _run_knowledge_level(phase, begin_ns, end_ns)
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
        celsius=phase.temperature.celsius_at(begin_ns),
    )


def _run_knowledge_level(phase: PhaseSignals, begin_ns: int, end_ns: int) -> float:
    inside = phase.iops[(phase.t_ns >= begin_ns) & (phase.t_ns <= end_ns)]
    return float(np.mean(inside)) if len(inside) else float("nan")
