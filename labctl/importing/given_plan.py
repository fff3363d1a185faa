"""The plan that a person gives: what fio's phases are called, and what fio did not say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from labctl.config.plan import Plan
from labctl.errors import ConfigurationError, Mistake
from labctl.importing.work import Work
from labctl.record.phase import Phase, Role, format_size


def as_planned(works: Sequence[Work], plan: Plan, file: str) -> tuple[Work, ...]:
    """The phases with the sweeps and roles of a plan, in its order, and its pattern, block size,
    queue depth, jobs and read share where fio printed no options.

    Raises ConfigurationError where the plan has another number of phases, or other work than fio
    printed.
    """
    all_of_them = [phase for phase in plan.expand() if phase.pattern.io]
    measured = [phase for phase in all_of_them if phase.role is Role.MEASURE]
    phases = all_of_them if len(all_of_them) == len(works) else measured
    if len(phases) != len(works):
        many = f"{len(measured)} measured phase{'' if len(measured) == 1 else 's'}"
        allowed = f"has {many}, and fio's output {len(works)}: another plan, or files are missing"
        raise ConfigurationError([Mistake(file, "sweeps", None, allowed)])
    mistakes: list[Mistake] = []
    found = []
    for number, (work, phase) in enumerate(zip(works, phases, strict=True), 1):
        if work.stated and (other := _given_plan_differences(work, phase)):
            allowed = f"phase {number} is {phase.label}, and fio's output has {', '.join(other)}"
            mistakes.append(Mistake(work.place, "plan", None, allowed))
        found.append(
            replace(
                work,
                pattern=phase.pattern,
                block_size_bytes=phase.block_size_bytes,
                queue_depth=phase.queue_depth,
                jobs=phase.jobs,
                read_pct=phase.read_pct if phase.pattern.mixed else work.read_pct,
                compress_pct=phase.buffer_compress_pct,
                sweep=phase.sweep,
                sweep_number=phase.sweep_number,
                role=phase.role,
            )
        )
    if mistakes:
        raise ConfigurationError(mistakes)
    return tuple(found)


def _given_plan_differences(work: Work, phase: Phase) -> list[str]:
    """What fio printed that is not the plan's."""
    jobs = f"{work.jobs} job{'' if work.jobs == 1 else 's'}"
    mixed = phase.pattern.mixed
    compared = [
        (str(work.pattern), work.pattern, phase.pattern),
        (format_size(work.block_size_bytes), work.block_size_bytes, phase.block_size_bytes),
        (f"QD{work.queue_depth}", work.queue_depth, phase.queue_depth),
        (jobs, work.jobs, phase.jobs),
        (f"{work.read_pct}% read", mixed and work.read_pct, mixed and phase.read_pct),
        (f"{work.compress_pct}% compressible", work.compress_pct, phase.buffer_compress_pct),
    ]
    return [words for words, printed, planned in compared if printed != planned]
