"""When each phase of a run began and ended, from the events of its journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from labctl.plan import Phase
from labctl.record import RunRecord


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """A phase from its first to its last I/O, ns on the run's timebase.

    ``boundary_u_ns`` is the half-width of doubt of both edges. ``outcome`` is "completed",
    "failed" or "interrupted" (it never ended: the run was cut off, or is still on).
    """

    phase: Phase
    outcome: str
    begin_ns: int
    end_ns: int
    boundary_u_ns: int = 0
    reason: str = ""

    @property
    def duration_ns(self) -> int:
        """Nanoseconds from begin to end."""
        return self.end_ns - self.begin_ns


def phase_spans(record: RunRecord, last_ns: int) -> tuple[PhaseSpan, ...]:
    """Every phase that was started, in the order of the plan.

    ``last_ns`` is the time of the last datum of the run: there a phase ends that has no end.
    """
    started: dict[int, int] = {}
    ended: dict[int, tuple[int, dict[str, Any]]] = {}
    for event in record.events:
        if event.kind == "phase_started":
            started[int(event.data["index"])] = event.t_ns
        elif event.kind == "phase_ended":
            ended[int(event.data["index"])] = (event.t_ns, event.data)
    phases = {phase.index: phase for phase in record.header.phases}
    return tuple(
        _span(phases[index], started.get(index), ended.get(index), last_ns)
        for index in sorted(started.keys() | ended.keys())
        if index in phases
    )


def _span(
    phase: Phase,
    started_ns: int | None,
    ended: tuple[int, dict[str, Any]] | None,
    last_ns: int,
) -> PhaseSpan:
    if ended is None:
        begin_ns = started_ns if started_ns is not None else last_ns
        return PhaseSpan(phase, "interrupted", begin_ns, max(begin_ns, last_ns))
    ended_ns, data = ended
    begin_ns = _first(data.get("begin_ns"), started_ns, ended_ns)
    end_ns = _first(data.get("end_ns"), ended_ns)
    return PhaseSpan(
        phase=phase,
        outcome=str(data.get("outcome", "completed")),
        begin_ns=begin_ns,
        end_ns=max(begin_ns, end_ns),
        boundary_u_ns=int(data.get("boundary_u_ns") or 0),
        reason=str(data.get("reason") or ""),
    )


def _first(*times: int | None) -> int:
    return next(int(time) for time in times if time is not None)
