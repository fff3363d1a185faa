"""Throttling that pauses: what is too short to be told apart is one stretch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from labctl.analysis.results import Cause, ThrottleInterval
from labctl.analysis.throttling.signals import FEWEST, PhaseSignals

NO_PAUSE_S = 1.2
"""A drive that is let go for less than this goes on throttling: a status of fio is half a second
long, and a pause must fill at least one of them for its length to be seen."""

AROUND_NS = 3_000_000_000
BESIDE_NS = 600_000_000
"""A status that is no closer to a pause than this, and no further than that, holds none of it."""

FLICKER = 3
FLICKER_S = 3.0
"""Throttling that goes on and off this often in a row, each time for less than this."""


def as_stretches(
    found: Sequence[ThrottleInterval], phases: Sequence[PhaseSignals]
) -> list[ThrottleInterval]:
    """Slow stretches of a run, thermal ones of a phase joined over pauses; in order of time.

    Not to be done before all causes are known: what a drive did while it was let go is no sign of
    one that throttles.
    """
    result = [item for item in found if item.cause != Cause.THERMAL]
    for phase in phases:
        thermal = [
            item
            for item in found
            if item.cause == Cause.THERMAL and item.phase_index == phase.index
        ]
        result += _on_and_off(_without_pauses(thermal, phase))
    return sorted(result, key=lambda item: (item.begin_ns, -item.end_ns))


def _without_pauses(
    found: Sequence[ThrottleInterval], phase: PhaseSignals
) -> list[ThrottleInterval]:
    """Stretches between which the drive was not let go for ``NO_PAUSE_S``, as one."""
    result: list[ThrottleInterval] = []
    for item in sorted(found, key=lambda one: one.begin_ns):
        if result and _pause_s(phase, result[-1], item) < NO_PAUSE_S:
            result[-1] = _one_of(result[-1], item)
        else:
            result.append(item)
    return result


def _pause_s(phase: PhaseSignals, first: ThrottleInterval, second: ThrottleInterval) -> float:
    """For how long a drive was let go between two stretches, from what it did meanwhile.

    A status at an edge holds some of both levels: how much of it was free follows from its IOPS,
    which are a mean over its time.
    """
    told_s = (second.begin_ns - first.end_ns) / 1e9
    if told_s > 2 * NO_PAUSE_S or len(phase.t_ns) < FEWEST:
        return told_s
    edges = [max(first.begin_ns, first.end_ns - AROUND_NS), first.end_ns - BESIDE_NS]
    edges += [second.begin_ns + BESIDE_NS, min(second.end_ns, second.begin_ns + AROUND_NS)]
    a, b, c, d = np.searchsorted(phase.t_ns, edges)
    held = np.concatenate([phase.iops[a:b], phase.iops[c:d]])
    pause = phase.iops[b:c]
    if not len(held) or not len(pause) or pause.max() <= held.mean():
        return told_s
    free = np.clip((pause - held.mean()) / (pause.max() - held.mean()), 0.0, 1.0)
    beside = slice(max(b - 1, 0), c + 1)
    lengths = np.gradient(phase.t_ns[beside] * 1e-9)[b - beside.start :][: len(free)]
    return float((free * lengths).sum())


def _one_of(first: ThrottleInterval, second: ThrottleInterval) -> ThrottleInterval:
    """Both as one, by the evidence of the first."""
    words = "; let go for a moment"
    parts = first.duration_s, second.duration_s
    during = parts[0] * first.iops_during + parts[1] * second.iops_during
    return replace(
        first,
        end_ns=max(first.end_ns, second.end_ns),
        iops_during=during / sum(parts),
        counters_moved=first.counters_moved or second.counters_moved,
        evidence=first.evidence if words in first.evidence else first.evidence + words,
    )


def _on_and_off(found: Sequence[ThrottleInterval]) -> list[ThrottleInterval]:
    """Throttling that comes and goes faster than it can be told apart is one stretch.

    A drive at its limit may switch each second or two; ``FLICKER`` of such stretches in a row are
    taken together, and the evidence says for what part of the time IOPS were down.
    """
    result: list[ThrottleInterval] = []
    row: list[ThrottleInterval] = []

    def take() -> None:
        result.extend([_joined(row)] if len(row) >= FLICKER else row)
        row.clear()

    for item in found:
        if item.duration_s >= FLICKER_S:
            take()
            result.append(item)
            continue
        if row and (item.begin_ns - row[-1].end_ns) / 1e9 >= FLICKER_S:
            take()
        row.append(item)
    take()
    return result


def _joined(row: Sequence[ThrottleInterval]) -> ThrottleInterval:
    begin_ns, end_ns = row[0].begin_ns, row[-1].end_ns
    down_ns = sum(item.end_ns - item.begin_ns for item in row)
    words = f"on and off {len(row)} times, {down_ns / (end_ns - begin_ns):.0%} of the time down"
    return replace(row[0], end_ns=end_ns, evidence=f"{row[0].evidence}; {words}")
