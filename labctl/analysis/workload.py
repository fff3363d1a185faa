"""Names of workloads: phases with equal names do the same work, in one run or in several."""

from __future__ import annotations

from collections.abc import Iterable

from labctl.analysis.phase_result import PhaseResult
from labctl.record.events import Outcome
from labctl.record.phase import Phase, format_size


def workload_name(phase: Phase, *, depth: bool = True, state: bool = True) -> str:
    """The workload of a phase for people; equal names mean equal work.

    Without ``depth`` the phases of a queue-depth sweep have one name, without ``state`` those of
    a power-state sweep.
    """
    size = phase.replay.name if phase.replay else format_size(phase.block_size_bytes)
    parts = [phase.pattern.value, size]
    if depth:
        parts.append(f"QD{phase.queue_depth}")
    if phase.pattern.mixed:
        parts.append(f"{phase.read_pct}% read")
    if phase.jobs > 1:
        parts.append(f"×{phase.jobs} jobs")
    if phase.buffer_compress_pct:
        parts.append(f"{phase.buffer_compress_pct}% compressible")
    if phase.span_bytes:
        parts.append(f"span {format_size(phase.span_bytes)}")
    if state and phase.power_state is not None:
        parts.append(f"PS{phase.power_state}")
    if state and phase.power_limit_watts is not None:
        parts.append(f"≤{phase.power_limit_watts:g} W")
    return " ".join(parts)


def by_workload(
    results: Iterable[PhaseResult], *, depth: bool = True
) -> dict[str, list[PhaseResult]]:
    """Phases by the name of their workload, in the order of their first phases."""
    found: dict[str, list[PhaseResult]] = {}
    for result in results:
        found.setdefault(workload_name(result.phase, depth=depth), []).append(result)
    return found


def completed_with_io(result: PhaseResult) -> bool:
    """Whether a phase is a result of the drive: it completed and did I/O."""
    return result.outcome == Outcome.COMPLETED and bool(result.iops)


def ordinal(number: int) -> str:
    """1 → ``1st``, 2 → ``2nd``, 11 → ``11th``."""
    tens = number % 100 // 10
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if tens != 1 else "th"
    return f"{number}{ending}"
