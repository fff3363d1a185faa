"""Replays of traces: data rate, service time, how long the drive was busy; fresh against full.

Busy is the time in which any I/O was in flight. Where the target is a block device the kernel
counts it (``io_ticks`` of ``/sys/class/block/*/stat``, in its own ticks of 1 to 10 ms: short I/Os
far apart count as busier than they are). Elsewhere only a bound is known: by Little's law
IOPS × latency I/Os are in flight on average, and the drive is busy for at most that part of the
time, nor for more than all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from labctl.analysis.estimate import Estimate
from labctl.analysis.latency import latency_max_us, latency_mean_us, latency_percentile_us
from labctl.analysis.methods.qos import SlowShare, slow_shares
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.readings.channel_series import host_channel_series
from labctl.analysis.readings.fio_output import drive_document
from labctl.analysis.run.problems import latencies_are_valid
from labctl.analysis.run_summary import RunSummary
from labctl.fio.status import status_of
from labctl.record.events import EventKind, Outcome
from labctl.record.reader import RunRecord

KERNEL, BOUND = "kernel", "at most"

OFF_PACE = 1.05
"""Ratio of the durations of a replay and its trace, either way, from which it is off pace. A slower
drive falls behind. On a busy host fio runs ahead: once late, it shortens every pause by that much
until it sleeps again (``iolog_delay`` of iolog.c, fio 3.33 and later)."""


@dataclass(frozen=True, slots=True)
class Busy:
    """``part`` of the time in which I/O was in flight; ``source`` is KERNEL or BOUND."""

    part: float
    source: str


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """One replay of a trace. Service times are from the submission of an I/O to its completion;
    None, and no ``slow`` shares, where fio saw completions late.

    ``trace_s`` is how long the trace took where it was recorded, None where its pace was not kept
    on purpose. The ``_part`` fields compare with the first replay of the same trace in the run
    (None for it).
    """

    phase_index: int
    sweep: str
    label: str
    trace: str
    duration_s: float
    trace_s: float | None
    total_bytes: float
    mb_per_s: float
    iops: float
    service_mean_us: float | None
    service_p999_us: float | None
    service_max_us: float | None
    slow: tuple[SlowShare, ...]
    busy: Busy | None
    watts: Estimate | None
    joules_per_gb: Estimate | None
    service_part: float | None
    rate_part: float | None
    throttled_s: float = 0.0

    @property
    def is_off_pace(self) -> bool:
        """Whether it took clearly longer or shorter than the trace did."""
        if self.trace_s is None:
            return False
        longer, shorter = max(self.duration_s, self.trace_s), min(self.duration_s, self.trace_s)
        return longer > OFF_PACE * shorter


def replay_results(record: RunRecord, summary: RunSummary) -> tuple[ReplayResult, ...]:
    """Every completed replay of a run, in its order."""
    busy_s = {
        event.data.get("index"): float(event.data["disk_busy_s"])
        for event in record.events
        if event.kind == EventKind.PHASE_ENDED
        and isinstance(event.data.get("disk_busy_s"), int | float)
    }
    found: list[ReplayResult] = []
    first: dict[str, ReplayResult] = {}
    for item in summary.measured:
        if item.phase.replay is None or item.outcome != Outcome.COMPLETED or not item.iops:
            continue
        one = _result(record, item, busy_s.get(item.phase.index), first.get(item.phase.label))
        first.setdefault(item.phase.label, one)
        found.append(one)
    return tuple(found)


def _result(
    record: RunRecord, item: PhaseResult, busy_s: float | None, first: ReplayResult | None
) -> ReplayResult:
    known = latencies_are_valid(item)
    service_us = latency_mean_us(item) if known else None
    replay = item.phase.replay
    bytes_per_s = item.bytes_per_s or 0.0
    document = drive_document(record, item) or {}
    total_bytes = _total_bytes(document) or bytes_per_s * item.duration_s
    assert item.iops and replay is not None
    joules = None
    if item.joules is not None and total_bytes:
        gigabytes = total_bytes * 1e-9
        joules = item.joules.scaled(1.0 / gigabytes)
    return ReplayResult(
        phase_index=item.phase.index,
        sweep=item.phase.sweep,
        label=item.phase.label,
        trace=replay.name,
        duration_s=item.duration_s,
        trace_s=(item.phase.duration_s or None) if replay.stalls else None,
        total_bytes=total_bytes,
        mb_per_s=bytes_per_s * 1e-6,
        iops=item.iops,
        service_mean_us=service_us,
        service_p999_us=latency_percentile_us(item, "99.9") if known else None,
        service_max_us=latency_max_us(item) if known else None,
        slow=slow_shares(document) if known else (),
        busy=_replay_busy(record, item, busy_s),
        watts=item.watts,
        joules_per_gb=joules,
        service_part=_replay_part(service_us, None if first is None else first.service_mean_us),
        rate_part=_replay_part(bytes_per_s * 1e-6, None if first is None else first.mb_per_s),
        throttled_s=item.throttled_s,
    )


def _total_bytes(document: dict[str, Any]) -> int:
    """Bytes that fio counted; 0 where it did not."""
    return sum(side.bytes for side in status_of(document).totals.values())


def _replay_part(value: float | None, first: float | None) -> float | None:
    return value / first if value is not None and first else None


def _replay_busy(record: RunRecord, item: PhaseResult, busy_s: float | None) -> Busy | None:
    if busy_s is not None:
        return Busy(min(busy_s / item.duration_s, 1.0), KERNEL)
    return _replay_busy_bound(record, item) if latencies_are_valid(item) else None


def _replay_busy_bound(record: RunRecord, item: PhaseResult) -> Busy | None:
    """From the I/Os in flight on average in each of fio's intervals."""
    in_flight: dict[int, float] = {}
    for side in ("read", "write"):
        t_ns, iops = host_channel_series(record, f"fio.{side}.iops").between(
            item.begin_ns, item.end_ns + 1
        )
        at_ns, mean_us = host_channel_series(record, f"fio.{side}.latency_mean_us").between(
            item.begin_ns, item.end_ns + 1
        )
        known = dict(zip(at_ns.tolist(), mean_us.tolist(), strict=True))
        for t, rate in zip(t_ns.tolist(), iops.tolist(), strict=True):
            in_flight[t] = in_flight.get(t, 0.0) + rate * known.get(t, 0.0) * 1e-6
    if not in_flight:
        return None
    return Busy(float(np.mean([min(one, 1.0) for one in in_flight.values()])), BOUND)
