"""Which phases come again, and which need not come: rounds until the drive is steady, and what an
interruption or a lost host means to the phases that are done."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

from labctl.analysis.steady import steady_together
from labctl.phase import Pattern, Phase, Role
from labctl.plan import Resume


def later_rounds(phases: Sequence[Phase], last: Phase) -> list[int]:
    """The phases of the rounds that come after the one that ``last`` ends, by index."""
    later = itertools.takewhile(
        lambda phase: phase.round > last.round and phase.sweep_number == last.sweep_number,
        phases[last.index + 1 :],
    )
    return [phase.index for phase in later]


def steady_rounds(phases: Sequence[Phase], iops: Mapping[int, float], last: Phase) -> bool:
    """Whether all tracked points were steady over the last rounds up to that of ``last``.

    ``iops``: what the phases did, by index.
    """
    points: dict[Phase, list[float]] = {}
    for phase in phases[: last.index + 1]:
        did = iops.get(phase.index)
        alike = (phase.sweep, phase.sweep_number) == (last.sweep, last.sweep_number)
        if alike and phase.round and phase.tracked and phase.pattern.io and did is not None:
            points.setdefault(phase.point, []).append(did)
    if not points or any(len(values) < last.round for values in points.values()):
        return False
    return steady_together(list(points.values())) == last.round - 1


def prepared_again(phases: Sequence[Phase], done: Collection[int], resume: Resume) -> Iterator[int]:
    """Phases that are done and yet come again, before the first one that is not.

    That is the cool-down right before it, which all phases of its sweep begin with. Where the
    drive's state matters to the plan, it is also the preparation, from the last purge on, and
    the rounds of its sweep, for the rounds are one series.
    """
    first = next((phase for phase in phases if phase.index not in done), None)
    if first is None or first.role is Role.IDLE_AFTER:
        return
    before = phases[: first.index]
    if before and before[-1].pattern is Pattern.COOL and before[-1].sweep_number:
        yield before[-1].index
    if resume != "prepare":
        return
    steps = [phase for phase in before if phase.role is Role.PREPARE and not phase.sweep_number]
    purges = [phase.index for phase in steps if phase.pattern is Pattern.PURGE]
    yield from (step.index for step in steps if step.index >= max(purges, default=0))
    if first.round and first.sweep_number:
        same = (phase for phase in phases if phase.sweep_number == first.sweep_number)
        yield from (phase.index for phase in same)
