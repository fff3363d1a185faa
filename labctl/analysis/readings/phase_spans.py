"""When each phase of a run began and ended, from the events of its journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from labctl.analysis.estimate import Estimate
from labctl.analysis.readings.channel_series import ChannelSeries
from labctl.analysis.readings.clock_fit import ClockMap
from labctl.analysis.readings.host_clock import host_clock
from labctl.record.events import Event, EventKind, Outcome
from labctl.record.json_values import is_number
from labctl.record.phase import Phase
from labctl.record.point_end import PointEnd
from labctl.record.reader import RunRecord

TIMES = ("begin_ns", "end_ns", "boundary_u_ns")
CLOCK_TIMES = ("clock_begin_ns", "runtime_ns", "begin_not_before_ns", "begin_not_after_ns")
"""Further fields of a phase on a host behind ssh: see
``labctl.capture.phases.fio_window.ClockWindow``."""
SIGNALLED_NS = 2_000_000
"""fio prints milliseconds, and reads its clocks within about one of each other."""
LATEST_NS = 1 << 62
"""Largest number that counts as a time: a sum of two still fits an int64."""


@dataclass(frozen=True, slots=True)
class RecordedOutput:
    """fio's output as the journal has it: how many bytes of it were to be kept, and its last
    document's runtime and I/Os of both directions (0 without a document)."""

    stdout_bytes: int
    runtime_ms: int
    total_ios: int


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """A phase from its first to its last I/O, ns on the run's timebase.

    ``boundary_u_ns`` is the half-width of doubt of both edges. ``outcome`` is "completed",
    "failed" or "interrupted" (it never ended: the run was cut off, or is still on). ``printed`` is
    None in older records and where fio did not begin; ``unfit``: why its output is not whole.
    ``ended``: begin and end were recorded, so that it lasted as long by labctl's clock.
    ``fio_rate``: seconds that fio's clock counted in a second, from ``fio_statuses`` of its
    statuses.
    """

    phase: Phase
    outcome: str
    begin_ns: int
    end_ns: int
    boundary_u_ns: int = 0
    reason: str = ""
    printed: RecordedOutput | None = None
    unfit: str = ""
    ended: bool = False
    fio_rate: Estimate | None = None
    fio_statuses: int = 0
    point_end: PointEnd | None = None
    """How it ended, where that depends on its numbers."""

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
    marks = []
    phases = {phase.index: phase for phase in record.header.phases}
    for event in record.events:
        if event.kind == EventKind.RUN_ENDED:
            marks.append(event.t_ns)
        if event.kind == EventKind.RUN_RESUMED:
            marks += [
                time + 1
                for time in (_phase_span_time(event.data.get("last_ns")), event.t_ns)
                if time
            ]
        if _phase_span_trouble(event, phases) is not None:
            continue
        if event.kind == EventKind.PHASE_STARTED:
            started[event.data["index"]] = event.t_ns
            ended.pop(event.data["index"], None)  # a phase that is done again counts anew
            marks.append(event.t_ns)
        elif event.kind == EventKind.PHASE_ENDED:
            ended[event.data["index"]] = (event.t_ns, event.data)
    clock = host_clock(record)
    spans = []
    for index in sorted(started.keys() | ended.keys()):
        span = _span(phases[index], started.get(index), ended.get(index), marks, last_ns)
        data = ended[index][1] if index in ended else {}
        spans.append(span if clock is None else _mapped_phase_span(span, data, clock))
    return tuple(spans)


def phase_span_problems(record: RunRecord) -> tuple[str, ...]:
    """A line for each event of a phase that cannot be used in full."""
    phases = {phase.index: phase for phase in record.header.phases}
    lines = []
    for event in record.events:
        trouble = _phase_span_trouble(event, phases)
        if trouble is not None:
            lines.append(f"{event.kind} skipped: {trouble}")
        elif event.kind == EventKind.PHASE_ENDED:
            lines += [
                f"phase_ended of phase {event.data['index']}: {key} is not a time, ignored"
                for key in TIMES
                if event.data.get(key) is not None and _phase_span_time(event.data[key]) is None
            ]
    return tuple(lines)


def _phase_span_trouble(event: Event, phases: Mapping[int, Phase]) -> str | None:
    """Why an event about a phase cannot be used; None when it can (or is about something else)."""
    if event.kind not in (EventKind.PHASE_STARTED, EventKind.PHASE_ENDED):
        return None
    index = event.data.get("index")
    if index is None:
        return "it does not say which phase"
    if not isinstance(index, int) or isinstance(index, bool):
        return f"its index {index!r} is not a whole number"
    if index not in phases:
        return f"the run has no phase {index}"
    return None


def _span(
    phase: Phase,
    started_ns: int | None,
    ended: tuple[int, dict[str, Any]] | None,
    marks: Sequence[int],
    last_ns: int,
) -> PhaseSpan:
    """``marks``: when phases were started and the run ended; no phase contains any of them."""
    if ended is None:
        begin_ns = started_ns if started_ns is not None else last_ns
        end_ns = min([last_ns, *(mark for mark in marks if mark > begin_ns)])
        return PhaseSpan(phase, Outcome.INTERRUPTED, begin_ns, max(begin_ns, end_ns))
    ended_ns, data = ended
    begin_ns = _first_phase_span_time(_phase_span_time(data.get("begin_ns")), started_ns, ended_ns)
    end_ns = _first_phase_span_time(_phase_span_time(data.get("end_ns")), ended_ns)
    rate, statuses = _fio_clock(data.get("fio_clock"))
    return PhaseSpan(
        phase=phase,
        outcome=str(data.get("outcome", Outcome.COMPLETED)),
        begin_ns=begin_ns,
        end_ns=max(begin_ns, end_ns),
        boundary_u_ns=max(_phase_span_time(data.get("boundary_u_ns")) or 0, 0),
        reason=str(data.get("reason") or ""),
        printed=_phase_span_printed(data),
        ended=_phase_span_time(data.get("begin_ns")) is not None
        and _phase_span_time(data.get("end_ns")) is not None,
        fio_rate=rate,
        fio_statuses=statuses,
        point_end=PointEnd.from_json(data.get("point")),
    )


def _fio_clock(data: Any) -> tuple[Estimate | None, int]:
    """The rate of fio's clock and from how many statuses it is, as ``phase_ended`` has them."""
    found = data if isinstance(data, dict) else {}
    rate, u, statuses = (found.get(key) for key in ("rate", "u", "statuses"))
    if not (is_number(rate) and is_number(u) and rate > 0 and u >= 0):
        return None, 0
    return Estimate(float(rate), float(u)), statuses if isinstance(statuses, int) else 0


def _phase_span_printed(data: Mapping[str, Any]) -> RecordedOutput | None:
    values = [data.get(field.name) for field in fields(RecordedOutput)]
    whole = [one for one in values if isinstance(one, int) and not isinstance(one, bool)]
    return RecordedOutput(*whole) if len(whole) == len(values) else None


def _mapped_phase_span(span: PhaseSpan, data: Mapping[str, Any], clock: ClockMap) -> PhaseSpan:
    """A phase of a host behind ssh, by all samples of its clock: the capture had only the first.

    The mapping is of the host's wall clock; our own signals bound it from both sides.
    """
    times = [_phase_span_time(data.get(key)) for key in CLOCK_TIMES]
    if None in times:
        return span
    clock_ns, runtime_ns, earliest_ns, latest_ns = (time for time in times if time is not None)
    mapped_ns = int(clock.to_host_ns(np.array([clock_ns]))[0])
    u_ns = min(clock.u_between_ns(mapped_ns, mapped_ns), latest_ns - earliest_ns)
    u_ns += max(_phase_span_time(data.get("status_u_ns")) or 0, 0)
    begin_ns = min(max(mapped_ns, earliest_ns), latest_ns)
    end_ns = begin_ns + runtime_ns
    return replace(
        span, begin_ns=begin_ns, end_ns=end_ns, boundary_u_ns=SIGNALLED_NS + max(round(u_ns), 0)
    )


def _phase_span_time(value: Any) -> int | None:
    """A time as the journal writes it; None for anything else."""
    good = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LATEST_NS
    return value if good else None


def _first_phase_span_time(*times: int | None) -> int:
    return next(time for time in times if time is not None)


def last_datum_ns(record: RunRecord, channels: Mapping[str, ChannelSeries]) -> int:
    """The time of the last datum of the run."""
    lasts = [event.t_ns for event in record.events]
    for channel in channels.values():
        if len(channel):
            stamps = np.ascontiguousarray(channel.stamps[-1:])
            lasts.append(int(channel.clock.to_host_ns(stamps)[0]))
    return max(lasts, default=record.header.anchor.wall_ns)
