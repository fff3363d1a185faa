"""Whether the drive throttled in a phase: yes, no, or it cannot be excluded – and why.

Silence is no proof. A phase that was slow from end to end looks like any other; what excludes it
is a drive that stayed cool, or one that counts and did not, or the same workload that did no more
when it was free.
"""

from __future__ import annotations

from collections.abc import Sequence

from labctl.analysis.results import THROTTLING, Cause, ThrottleInterval, ThrottleVerdict
from labctl.analysis.throttling.levels import STALLED, is_restless
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
    busy_host = [
        item
        for item in own
        if item.cause == Cause.HOST_STALL and item.iops_during >= STALLED * item.iops_before
    ]
    if busy_host:
        return ThrottleVerdict(OPEN, f"heat may hide behind this: {busy_host[0].evidence}")
    if warning is None:
        if few:
            return ThrottleVerdict(OPEN, "too short, and the drive names no warning temperature")
        unproven = [item for item in own if item.cause == Cause.WRITE_CACHE and not item.costly]
        unproven += [item for item in found if item.cause == Cause.UNKNOWN]
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
    anywhere in the run where it throttled."""
    warning = phase.temperature.warning_celsius
    limits = [] if warning is None else [warning - NEAR_WARNING]
    for item in found:
        celsius = phase.temperature.extremes(item.begin_ns, item.end_ns)
        if item.cause == Cause.THERMAL and celsius is not None:
            limits.append(celsius[0])
    return min(limits, default=None)
