"""Slow stretches explained by others like them: dips that come again, the same levels, pauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from labctl.analysis.throttle_result import Cause, ThrottleInterval
from labctl.analysis.throttling.causes import same_energy
from labctl.analysis.throttling.levels import AROUND_S, REDUCED
from labctl.analysis.throttling.signals import FEWEST, PhaseSignals

ALIKE = 0.1
"""Levels that differ by less, as a share of the level before, are the same: what a fall must be
to be recognised at all."""

NO_PAUSE_S = 1.2
"""A drive that is let go for less than this goes on throttling: a status of fio is half a second
long, and a pause must fill at least one of them for its length to be seen."""

BESIDE_NS = 600_000_000
"""A status that is no closer to a pause than this holds none of it."""

FLICKER = 3
"""Throttling that goes on and off this often in a row, each time for less than ``AROUND_S``."""


def repeated_falls_of_flash(
    phase: PhaseSignals, found: Sequence[ThrottleInterval]
) -> list[ThrottleInterval]:
    """The slow stretches of a phase that writes, those of its flash by their names.

    Dips without heat that come again are garbage collection, and a single one in which each write
    took more energy. One step that lasts until the phase ends is the end of a write cache, unless
    it can be one of the dips, cut off; a second one is collection that goes on for good.
    """
    own = [item for item in found if item.cause == Cause.UNKNOWN and _may_be_flash(phase, item)]
    dips = [item for item in own if item.end_ns < phase.end_ns]
    lasting = [item for item in own if item.end_ns >= phase.end_ns]
    longest_s = max((item.duration_s for item in dips), default=0.0)
    cut_off = [
        item
        for item in lasting
        if dips
        and item.begin_ns > dips[-1].begin_ns
        and item.duration_s
        <= (2.0 if abs(item.depth - dips[-1].depth) < ALIKE else 1 + ALIKE) * longest_s
    ]
    again = [*dips, *cut_off]
    known = len(again) > 1 or any(item.costly for item in again)
    words, period_s = _repeated_falls_rhythm(again)
    result: list[ThrottleInterval] = []
    for item in found:
        if known and item in again:
            words_here = f"{item.evidence}{words}"
            item = replace(
                item, cause=Cause.GARBAGE_COLLECTION, evidence=words_here, period_s=period_s
            )
        elif item in lasting:
            first = item is lasting[0]
            cause = Cause.WRITE_CACHE if first else Cause.GARBAGE_COLLECTION
            word = "one lasting step" if first else "a further lasting step"
            evidence = f"{item.evidence}; {word} down in a phase that writes"
            item = replace(item, cause=cause, evidence=evidence)
        result.append(item)
    return result


def _may_be_flash(phase: PhaseSignals, item: ThrottleInterval) -> bool:
    """Where nothing was recorded of heat, only energy tells; without watts either, the flash is
    what is likely of a step that lasts."""
    measured = None not in (item.watts_before, item.watts_during)
    lasts = item.end_ns >= phase.end_ns and not (measured and phase.idle_watts is not None)
    return item.costly or phase.heat_recorded or lasts


def _repeated_falls_rhythm(dips: Sequence[ThrottleInterval]) -> tuple[str, float | None]:
    """Period, duration and depth of dips in words, and the period in s."""
    if len(dips) < 2:
        return "", None
    spacing = np.diff([item.begin_ns for item in dips]) * 1e-9
    period_s = float(np.median(spacing))
    words = f"; {len(dips)} dips, one every {period_s:.0f} s"
    if len(spacing) > 1:
        words += f" (±{spacing.std(ddof=1) / spacing.mean():.0%})"
    lasted = float(np.median([item.duration_s for item in dips]))
    depth = float(np.median([item.depth for item in dips]))
    return f"{words}, {lasted:.1f} s long, {depth:.0%} deep", period_s


def explained_by_others(
    found: Sequence[ThrottleInterval], phases: Sequence[PhaseSignals]
) -> list[ThrottleInterval]:
    """Slow stretches of a run, those of unknown cause that others explain: as deep as a thermal one
    of the same phase, or a dip cut off that is whole elsewhere."""
    by_index = {phase.index: phase for phase in phases}
    result: list[ThrottleInterval] = []
    for item in found:
        phase = by_index[item.phase_index]
        same = [other for other in found if _same_levels(item, other)]
        if item.unproven and any(
            other.cause == Cause.THERMAL and other.phase_index == phase.index for other in same
        ):
            words = f"{item.evidence}; the same levels as in a thermal one of this phase"
            item = replace(item, cause=Cause.THERMAL, evidence=words)
        elif item.cause == Cause.WRITE_CACHE and any(
            other.cause == Cause.GARBAGE_COLLECTION
            and phase.workload
            and by_index[other.phase_index].workload == phase.workload
            for other in same
        ):
            words = f"{item.evidence}; the same two levels as in a dip of another phase"
            item = replace(item, cause=Cause.GARBAGE_COLLECTION, evidence=words)
        result.append(item)
    return result


def heat_or_cache(
    found: Sequence[ThrottleInterval], phases: Sequence[PhaseSignals]
) -> list[ThrottleInterval]:
    """Slow stretches of a run, those that may be heat or the end of a write cache as unknown.

    Any drive stops getting warmer where its watts fall. So that it did, in a drive of which no
    limit is known, is heat only if IOPS rose again anywhere in the run (a cache does not come back
    while it is written to), if a counter moved, or if no operation took more energy than before.
    """
    by_index = {phase.index: phase for phase in phases}
    hot = [item for item in found if item.cause == Cause.THERMAL]
    if not all(_may_be_cache(item, by_index[item.phase_index]) for item in hot):
        return list(found)
    words = "but the end of a write cache may look the same"
    return [
        replace(item, cause=Cause.UNKNOWN, evidence=f"{item.evidence}; {words}")
        if item.cause == Cause.THERMAL
        else item
        for item in found
    ]


def _may_be_cache(item: ThrottleInterval, phase: PhaseSignals) -> bool:
    return (
        phase.writes
        and item.end_ns >= phase.end_ns
        and not phase.temperature.knows_limit
        and phase.counters.moved(item.begin_ns, item.end_ns) is None
        and not same_energy(item, phase.idle_watts)
    )


def _same_levels(item: ThrottleInterval, other: ThrottleInterval) -> bool:
    most = ALIKE * other.iops_before / 2
    return (
        other is not item
        and abs(item.iops_during - other.iops_during) < most
        and abs(item.iops_before - other.iops_before) < most
    )


def without_pauses(
    found: Sequence[ThrottleInterval], phases: Sequence[PhaseSignals]
) -> list[ThrottleInterval]:
    """Slow stretches of a run in order of time, thermal ones of a phase joined over pauses.

    Not to be done before all causes are known: what a drive did while it was let go is no sign of
    one that throttles.
    """
    result = [item for item in found if item.cause != Cause.THERMAL]
    for phase in phases:
        row: list[ThrottleInterval] = []
        for item in sorted(found, key=lambda one: one.begin_ns):
            if item.cause != Cause.THERMAL or item.phase_index != phase.index:
                continue
            if row and _pause_s(phase, row[-1], item) < NO_PAUSE_S:
                row[-1] = joined_stretches(row[-1], item, "; let go for a moment")
            else:
                row.append(item)
        result += _flickering_falls(row)
    return sorted(result, key=lambda item: (item.begin_ns, -item.end_ns))


def _pause_s(phase: PhaseSignals, first: ThrottleInterval, second: ThrottleInterval) -> float:
    """For how long at a time a drive was let go between two stretches, from what it did meanwhile.

    A status holds a mean: how much of its time was free follows from its IOPS. Free time goes on
    through statuses that were free all the time, and into one of them on either side.
    """
    apart_s = (second.begin_ns - first.end_ns) / 1e9
    if len(phase.t_ns) < FEWEST:
        return apart_s
    around_ns = 5 * BESIDE_NS
    edges = [max(first.begin_ns, first.end_ns - around_ns), first.end_ns - BESIDE_NS]
    edges += [second.begin_ns + BESIDE_NS, min(second.end_ns, second.begin_ns + around_ns)]
    a, b, c, d = np.searchsorted(phase.t_ns, edges)
    held = np.concatenate([phase.iops[a:b], phase.iops[c:d]])
    pause = phase.iops[b:c]
    if not len(held) or not len(pause) or pause.max() <= held.mean():
        return apart_s
    # The highest of noisy statuses is above the level that was free.
    level = float(np.fmin(pause.max(), first.iops_before))
    level = level if level > held.mean() else float(pause.max())
    free = np.clip((pause - held.mean()) / (level - held.mean()), 0.0, 1.0)
    beside = slice(max(b - 1, 0), c + 1)
    lengths = np.gradient(phase.t_ns[beside] * 1e-9)[b - beside.start :][: len(free)]
    free_s, longest_s, so_far_s = free * lengths, 0.0, 0.0
    for status, whole in zip(free_s, pause >= REDUCED * level, strict=True):
        longest_s = max(longest_s, so_far_s + status)
        so_far_s = so_far_s + status if whole else status
    return longest_s


def joined_stretches(
    first: ThrottleInterval, second: ThrottleInterval, words: str = ""
) -> ThrottleInterval:
    """Both as one, by the evidence of the first."""
    parts = first.duration_s, second.duration_s
    end_ns = max(first.end_ns, second.end_ns)
    during = first.iops_during
    if second.end_ns > first.end_ns and sum(parts) > 0:
        during = (parts[0] * during + parts[1] * second.iops_during) / sum(parts)
    return replace(
        first,
        end_ns=end_ns,
        iops_during=during,
        counters_moved=first.counters_moved or second.counters_moved,
        evidence=first.evidence if words in first.evidence else first.evidence + words,
    )


def overlapping_as_one(found: Sequence[ThrottleInterval]) -> list[ThrottleInterval]:
    """Stretches of a phase in order; thermal ones that touch are one: a light level and a heavy
    one."""
    result: list[ThrottleInterval] = []
    for item in sorted(found, key=lambda one: (one.cause != Cause.THERMAL, one.begin_ns)):
        touches = item.cause == Cause.THERMAL and result and item.begin_ns <= result[-1].end_ns
        if touches:
            result[-1] = joined_stretches(result[-1], item)
        else:
            result.append(item)
    return sorted(result, key=lambda item: (item.begin_ns, -item.end_ns))


def _flickering_falls(found: Sequence[ThrottleInterval]) -> list[ThrottleInterval]:
    """Throttling that comes and goes faster than its parts can be separated is one stretch.

    A drive at its limit may switch each second or two; ``FLICKER`` of such stretches in a row are
    taken together, and the evidence says for what part of the time IOPS were down.
    """
    rows: list[list[ThrottleInterval]] = []
    for item in found:
        short = item.duration_s < AROUND_S
        near = rows and short and (item.begin_ns - rows[-1][-1].end_ns) / 1e9 < AROUND_S
        if near and rows[-1][-1].duration_s < AROUND_S:
            rows[-1].append(item)
        else:
            rows.append([item])
    result: list[ThrottleInterval] = []
    for row in rows:
        if len(row) < FLICKER:
            result += row
            continue
        down_ns = sum(item.end_ns - item.begin_ns for item in row)
        share = down_ns / (row[-1].end_ns - row[0].begin_ns)
        words = f"{row[0].evidence}; on and off {len(row)} times, {share:.0%} of the time down"
        result.append(replace(row[0], end_ns=row[-1].end_ns, evidence=words))
    return result
