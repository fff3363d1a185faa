"""Whether the drive throttled in a phase: yes, no, or it cannot be excluded – and why.

Silence is no proof. A phase that was slow from end to end looks like any other; what excludes it
is a drive that stayed cool, or one that counts and did not, or the same workload that did no more
when it was free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from labctl.analysis.throttle_result import THROTTLING, Cause, ThrottleInterval, ThrottleVerdict
from labctl.analysis.throttling.levels import STALLED, Levels, is_restless
from labctl.analysis.throttling.signals import FEWEST, PhaseSignals, on_grid
from labctl.analysis.throttling.temperature import NEAR_WARNING

NONE = "none seen"
THROTTLED = "throttled"
OPEN = "cannot be excluded"


def verdict(phase: PhaseSignals, found: Sequence[ThrottleInterval]) -> ThrottleVerdict:
    """What is known about throttling in a phase. ``found``: the slow stretches of the run."""
    own = [item for item in found if item.phase_index == phase.index]
    throttled = [item for item in own if item.cause in THROTTLING]
    if throttled:
        causes = " and ".join(dict.fromkeys(item.cause.replace("_", " ") for item in throttled))
        return ThrottleVerdict(THROTTLED, f"{causes}: {throttled[0].evidence}")
    counted = phase.counters.moved(phase.begin_ns, phase.end_ns)
    if counted is not None:
        return ThrottleVerdict(
            OPEN, f"the drive's own counters moved ({counted}), but no stretch stands out"
        )
    said = phase.counters.said(phase.begin_ns, phase.end_ns)
    if said is not None:
        return ThrottleVerdict(OPEN, f"{said}, but no stretch stands out")
    unknown = [item for item in own if item.cause == Cause.UNKNOWN]
    if unknown:
        return ThrottleVerdict(OPEN, f"slower for a reason not known: {unknown[0].evidence}")
    if phase.counters.stood_still(phase.begin_ns, phase.end_ns):
        return ThrottleVerdict(NONE, "the drive counts its throttling, and did not in this phase")
    few = len(phase.iops) < FEWEST
    own_celsius = phase.temperature.extremes(phase.begin_ns, phase.end_ns)
    if own_celsius is None:
        return ThrottleVerdict(
            OPEN, "neither the drive's temperature nor a counter that moves was recorded"
        )
    coolest, warmest = own_celsius
    warning = phase.temperature.warning_celsius
    limit = _cool_below(phase, found)
    if warning is not None and limit is not None and warmest < limit:
        return ThrottleVerdict(NONE, f"at most {warmest:.0f} °C, warning at {warning:.0f} °C")
    may_hide_heat = [
        item
        for item in own
        if item.cause != Cause.HOST_STALL or item.iops_during >= STALLED * item.iops_before
    ]
    if may_hide_heat:
        return ThrottleVerdict(OPEN, f"heat may hide behind this: {may_hide_heat[0].evidence}")
    fell = _iops_fell_for_verdict(phase, own)
    if fell:
        says = "names no warning temperature" if warning is None else f"warns at {warning:.0f} °C"
        words = f"IOPS fell by {fell:.0%}, more than they scatter, at {warmest:.0f} °C"
        return ThrottleVerdict(OPEN, f"{words}; the drive {says}")
    if warning is None:
        if few:
            return ThrottleVerdict(OPEN, "too short, and the drive names no warning temperature")
        unproven = [item for item in found if item.unproven]
        if unproven:
            words = "may be heat, and the drive names no warning temperature"
            return ThrottleVerdict(OPEN, f"{words}: {unproven[0].evidence}")
        if limit is not None and coolest >= limit:
            return ThrottleVerdict(
                OPEN, f"it was never below {coolest:.0f} °C, and throttled at {limit:.0f} °C"
            )
        return ThrottleVerdict(NONE, "no abrupt fall; the drive names no warning temperature")
    near = f"{warmest:.0f} °C, warning at {warning:.0f} °C, and no counter that moves"
    if few:
        return ThrottleVerdict(OPEN, f"too short to see a change, {near}")
    if is_restless(on_grid(phase)):
        return ThrottleVerdict(OPEN, f"IOPS go up and down from status to status: {near}")
    if limit is not None and coolest < limit:
        return ThrottleVerdict(NONE, f"{coolest:.0f} to {warmest:.0f} °C without a fall")
    return ThrottleVerdict(OPEN, f"it may have been slow from end to end: {near}")


def _cool_below(phase: PhaseSignals, found: Sequence[ThrottleInterval]) -> float | None:
    """°C below which the drive is certainly free: clear of its warning, and cooler than it was
    anywhere in the run where it throttled, or was slow for a reason not known: its sensor may be
    far from what it throttles by."""
    warning = phase.temperature.warning_celsius
    limits = [] if warning is None else [warning - NEAR_WARNING]
    for item in found:
        celsius = phase.temperature.extremes(item.begin_ns, item.end_ns)
        if item.cause in (Cause.THERMAL, Cause.UNKNOWN) and celsius is not None:
            limits.append(celsius[0])
    return min(limits, default=None)


def _iops_fell_for_verdict(phase: PhaseSignals, own: Sequence[ThrottleInterval]) -> float:
    """By what part IOPS fell in a phase, as far as their scatter does not explain it; 0 when they
    did not. Levels that any of its slow stretches ``own`` overlaps are left out."""
    grid = on_grid(phase)
    if grid is None:
        return 0.0
    levels = Levels.of(grid)
    top = most = 0.0
    for steps in levels.steps:
        begin_ns, end_ns = grid.moment(steps[0]), grid.moment(steps[1])
        if any(item.begin_ns < end_ns and item.end_ns > begin_ns for item in own):
            continue
        level = levels.mean(*steps)
        if top and math.log(top / level) > levels.doubt(steps):
            most = max(most, 1 - level / top)
        top = max(top, level)
    return most
