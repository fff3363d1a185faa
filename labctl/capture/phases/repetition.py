"""Which phases come again: what an interruption or a lost host means to those that are done."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from labctl.config.sweeps import Resume
from labctl.record.phase import Pattern, Phase, Role


def repeated_preparation(
    phases: Sequence[Phase], done: Collection[int], resume: Resume
) -> Iterator[int]:
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
