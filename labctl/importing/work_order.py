"""Phases in the order of their time, none at the same time as another."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from labctl.errors import ConfigurationError, Mistake
from labctl.importing.work import Work
from labctl.importing.work_times import BY_END
from labctl.record.timebase import NS_PER_MS, NS_PER_S

FASTEST = 1.2
"""Seconds that fio's clock may count in a second: a public sweep has 30.0 s of runtime in 27.8 s.
Phases that overlap by more worked at the same time."""

ALIKE = 0.03
"""How far the rates of one clock may be apart."""

BY_STEPS = ", and the steps of the watts"

START_NS = 200 * NS_PER_MS
"""Half of how long the next fio takes to begin its I/O."""


def in_turn(works: Sequence[Work]) -> tuple[Work, ...]:
    """The phases in order, where none begins before the one before it ended; what is unknown of
    their times may make them overlap. Raises ConfigurationError."""
    found = _by_their_ends(sorted(works, key=lambda one: (one.end_ns, one.begin_ns)))
    for i, j in itertools.pairwise(range(len(found))):
        before, after = found[i], found[j]
        overlap_ns = before.end_ns - after.begin_ns
        if overlap_ns <= 0:
            continue
        if overlap_ns > before.boundary_u_ns + after.boundary_u_ns:
            seconds = overlap_ns / NS_PER_S
            words = (
                f"began {seconds:.1f} s before {before.place} ended: two that worked at the same "
                "time cannot be told apart by watts"
            )
            raise ConfigurationError([Mistake(after.place, "fio", None, words)])
        middle_ns = after.begin_ns + overlap_ns // 2
        found[i] = replace(before, end_ns=middle_ns)
        found[j] = replace(after, begin_ns=middle_ns)
    return tuple(found)


def seen_at(works: Sequence[Work], shifts: Sequence[tuple[float, float]]) -> tuple[Work, ...]:
    """The phases where the steps of the watts are, none of them shorter: of each what to add to its
    times, and what is then unknown of them (s)."""
    found: list[Work] = []
    for work, (shift_s, u_s) in zip(works, shifts, strict=True):
        shift_ns = round(shift_s * NS_PER_S)
        late_ns = max(found[-1].end_ns - work.begin_ns - shift_ns, 0) if found else 0
        by_ns = shift_ns + late_ns
        found.append(
            replace(
                work,
                begin_ns=work.begin_ns + by_ns,
                end_ns=work.end_ns + by_ns,
                boundary_u_ns=round(u_s * NS_PER_S) + late_ns,
                timed_by=work.timed_by + BY_STEPS if shift_ns else work.timed_by,
                traces=tuple(replace(one, t_ns=one.t_ns + by_ns) for one in work.traces),
            )
        )
    return tuple(found)


def _by_their_ends(works: list[Work]) -> list[Work]:
    """The phases whose end alone is known, shorter where fio counted more seconds than there were
    between their ends: its clock runs fast then, in all of them."""
    rates = []
    for before, after in itertools.pairwise(works):
        overlap_ns = before.end_ns - after.begin_ns
        if after.timed_by != BY_END or overlap_ns <= before.boundary_u_ns + after.boundary_u_ns:
            continue
        room_ns = after.end_ns - before.end_ns - START_NS
        if room_ns > 0:
            rates.append((after.end_ns - after.begin_ns) / room_ns)
    if not rates or max(rates) > FASTEST or max(rates) - min(rates) > ALIKE:
        return works
    rate = float(np.median(rates))
    lengths = [one.end_ns - one.begin_ns for one in works if one.timed_by == BY_END]
    apart = (max(rates) - min(rates)) / 2 + rate * START_NS / max(lengths)
    found = []
    for one in works:
        if one.timed_by == BY_END:
            length_ns = one.end_ns - one.begin_ns
            one = replace(
                one,
                begin_ns=one.end_ns - round(length_ns / rate),
                boundary_u_ns=one.boundary_u_ns + round(length_ns * apart / rate**2),
                timed_by="its end, and that fio counts more seconds than lie between two ends",
            )
        found.append(one)
    return found
