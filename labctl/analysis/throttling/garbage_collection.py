"""Slowdowns of the flash told apart: a cache that ended, and housekeeping that comes again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from labctl.analysis.results import Cause, ThrottleInterval
from labctl.analysis.throttling.signals import PhaseSignals

AS_DEEP = 0.1
"""Dips whose depths differ by less (as a share of the level before) are equally deep."""


def repeated(found: Sequence[ThrottleInterval], phase: PhaseSignals) -> list[ThrottleInterval]:
    """Dips of a writing phase that come again, without heat, are the drive's housekeeping.

    So is a single one in which each write took more energy. A dip that the end of the phase cut
    off is one more of them when it is no longer than they are, or not twice as long and as deep.
    Where nothing was recorded of heat, only energy tells.
    """
    dips = [
        item
        for item in found
        if item.cause == Cause.UNKNOWN and (item.costly or phase.heat_recorded)
    ]
    if not phase.writes or not dips:
        return list(found)
    longest_ns = max(item.end_ns - item.begin_ns for item in dips)
    dips += [
        item
        for item in found
        if item.cause == Cause.WRITE_CACHE
        and item.begin_ns > dips[-1].begin_ns
        and item.end_ns - item.begin_ns
        <= (2.0 if abs(item.depth - dips[-1].depth) <= AS_DEEP else 1.2) * longest_ns
    ]
    if len(dips) < 2 and not dips[0].costly:
        return list(found)
    words, period_s = "", None
    if len(dips) > 1:
        spacing = np.diff([item.begin_ns for item in dips]) * 1e-9
        period_s = float(np.median(spacing))
        words = f"; {len(dips)} dips, one every {period_s:.0f} s"
        if len(spacing) > 1:
            words += f" (±{spacing.std(ddof=1) / spacing.mean():.0%})"
        lasted = float(np.median([item.duration_s for item in dips]))
        depth = 1 - float(np.median([item.iops_during / item.iops_before for item in dips]))
        words += f", {lasted:.1f} s long, {depth:.0%} deep"
    return [
        replace(
            item,
            cause=Cause.GARBAGE_COLLECTION,
            evidence=item.evidence + words,
            period_s=period_s,
        )
        if item in dips
        else item
        for item in found
    ]


def steady_state(found: Sequence[ThrottleInterval]) -> list[ThrottleInterval]:
    """A second lasting step in one phase is garbage collection that has begun for good."""
    steps = [item for item in found if item.cause == Cause.WRITE_CACHE]
    later = {id(item) for before, item in pairwise(steps) if item.begin_ns > before.begin_ns}
    return [
        replace(
            item,
            cause=Cause.GARBAGE_COLLECTION,
            evidence=f"{item.evidence}; the second such step: spare blocks are used up",
        )
        if id(item) in later
        else item
        for item in found
    ]


def cut_off(
    found: Sequence[ThrottleInterval], phases: Sequence[PhaseSignals]
) -> list[ThrottleInterval]:
    """A dip that its phase cut off, and that another phase of the same workload shows whole."""
    work = {phase.index: phase.workload for phase in phases}
    dips = [item for item in found if item.cause == Cause.GARBAGE_COLLECTION]
    return [
        replace(
            item,
            cause=Cause.GARBAGE_COLLECTION,
            evidence=f"{item.evidence}; the same two levels as in a dip of another phase",
        )
        if item.cause == Cause.WRITE_CACHE
        and work[item.phase_index]
        and any(
            work[item.phase_index] == work[dip.phase_index] and _same_levels(item, dip)
            for dip in dips
        )
        else item
        for item in found
    ]


def _same_levels(item: ThrottleInterval, dip: ThrottleInterval) -> bool:
    low = abs(item.iops_during - dip.iops_during) < AS_DEEP * dip.iops_before
    return low and abs(item.iops_before - dip.iops_before) < AS_DEEP * dip.iops_before
