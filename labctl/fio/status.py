"""fio's status while it runs: what was done so far, by direction and by drive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from labctl.fio.documents import DIRECTIONS, error_of, jobs_of, number
from labctl.fio.job_values import (
    DRIVE_JOB,
    job_sections,
    job_total_ios,
    latency_of,
    runtime_ms,
    total_bytes,
)
from labctl.record.timebase import NS_PER_MS

LEAST_INTERVAL_MS = 100
"""fio's last document comes with its exit, however short after the one before: a few
milliseconds say nothing about a rate."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What one direction has done since its job started: operations, bytes, latency sum."""

    ios: int = 0
    bytes: int = 0
    latency_sum_us: float = 0.0
    latency_count: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.ios + other.ios,
            self.bytes + other.bytes,
            self.latency_sum_us + other.latency_sum_us,
            self.latency_count + other.latency_count,
        )


@dataclass(frozen=True, slots=True)
class FioStatus:
    """One cumulative document: totals by direction, summed over jobs.

    ``wall_ms`` is fio's wall clock (None where it prints none), ``runtime_ms`` the time since the
    first job began its I/O. ``drives``: the totals of each drive alone, where there are several.
    ``clock_rate``: seconds that fio's clock counts in a second, where that is known.
    """

    totals: dict[str, Totals]
    runtime_ms: int
    wall_ms: int | None
    errors: tuple[int | str, ...] = ()
    drives: dict[str, dict[str, Totals]] = field(default_factory=dict)
    clock_rate: float = 1.0

    @property
    def total_ios(self) -> int:
        """I/Os of both directions."""
        return sum(totals.ios for totals in self.totals.values())


def status_of(document: dict[str, Any]) -> FioStatus:
    """The totals of a document, summed over all its jobs."""
    jobs = jobs_of(document)
    totals = _totals_by_direction(jobs)
    wall_ms = number(document.get("timestamp_ms"))
    errors = [error_of(job) for job in jobs]
    return FioStatus(
        totals=totals,
        runtime_ms=max((runtime_ms(job) for job in jobs), default=0),
        wall_ms=int(wall_ms) if wall_ms is not None else None,
        errors=tuple(error for error in errors if error is not None),
        drives={name: _totals_by_direction(own) for name, own in _jobs_by_drive(jobs).items()},
    )


def totals_of(side: dict[str, Any]) -> Totals:
    """What a job has done in one direction."""
    latency = latency_of(side)
    return Totals(
        ios=job_total_ios(side),
        bytes=total_bytes(side),
        latency_sum_us=latency.mean_us * latency.count,
        latency_count=latency.count,
    )


def _totals_by_direction(jobs: Sequence[dict[str, Any]]) -> dict[str, Totals]:
    """Totals by direction, summed over jobs."""
    return {
        name: sum((totals_of(job_sections(job)[name]) for job in jobs), start=Totals())
        for name in DIRECTIONS
    }


def _jobs_by_drive(jobs: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The jobs of each drive, where there are several drives."""
    found: dict[str, list[dict[str, Any]]] = {}
    for job in jobs:
        name = job.get("jobname")
        if isinstance(name, str) and name.startswith(DRIVE_JOB):
            found.setdefault(name.removeprefix(DRIVE_JOB), []).append(job)
    return found


def document_of_drive(document: dict[str, Any], drive: str) -> dict[str, Any]:
    """A document of several drives with the jobs of one of them alone."""
    return {**document, "jobs": _jobs_by_drive(jobs_of(document)).get(drive, [])}


def comes_back_empty(before: FioStatus, now: FioStatus, block_bytes: int, in_flight: int) -> bool:
    """Whether an I/O that the status ``before`` counts had ended by ``now`` without its bytes.

    Behind the end of a file, and of a device that is gone, Linux answers a read with no bytes and
    no error; fio counts it and goes on. It counts an I/O when it issues it and its bytes when it
    has ended, and for a status it takes the bytes first and the I/Os later, by any time (3.33:
    ``td_io_queue``, ``io_completed``, ``__show_running_run_stats``). So within one status I/Os are
    ahead of their bytes by more than are in flight. But what an earlier status counts has its bytes
    in any later one, except what may be ``in_flight`` on a drive. After fio's end nothing is
    counted in between, and its last status may be held against itself.

    ``block_bytes``: of the smallest I/O.
    """
    pairs = [(before.drives.get(name, {}), totals) for name, totals in now.drives.items()]
    return any(
        (earlier[side].ios - in_flight) * block_bytes > totals.bytes
        for earlier, later in pairs or [(before.totals, now.totals)]
        for side, totals in later.items()
        if side in earlier
    )


def unfinished(status: FioStatus, block_bytes: int) -> bool:
    """Whether a status counts I/Os that had not ended: with fewer latencies than I/Os, or fewer
    bytes than those of ``block_bytes`` have. What fio prints last does not, but of a replay (3.33).
    """
    return any(
        0 < totals.latency_count < totals.ios or totals.bytes < totals.ios * block_bytes
        for totals in status.totals.values()
    )


@dataclass(frozen=True, slots=True)
class LiveRates:
    """Operations, bytes and mean latency over the last status interval, both directions."""

    iops: float
    bytes_per_s: float
    latency_mean_us: float | None


@dataclass(frozen=True, slots=True)
class Interval:
    """What one direction did between two status documents, ending ``t_ns`` at its middle."""

    t_ns: int
    iops: float
    bytes_per_s: float
    latency_mean_us: float | None


def intervals(
    before: FioStatus | None, after: FioStatus, end_ns: int, begin_ns: int | None = None
) -> dict[str, Interval]:
    """De-cumulate: what each direction did from ``before`` (None: from its first I/O) on.

    Empty when too little time has passed. ``end_ns`` is when ``after`` was true, ``begin_ns`` when
    ``before`` was: given where fio's own runtime is no measure of the time between them.
    """
    span_ms = (after.runtime_ms - (before.runtime_ms if before else 0)) / after.clock_rate
    if begin_ns is not None:
        span_ms = (end_ns - begin_ns) / NS_PER_MS
    if span_ms < LEAST_INTERVAL_MS:
        return {}
    middle_ns = end_ns - round(span_ms * NS_PER_MS / 2)
    result = {}
    for name in DIRECTIONS:
        now = after.totals[name]
        ios, size = now.ios, now.bytes
        latency_us, count = now.latency_sum_us, now.latency_count
        if before is not None:
            then = before.totals[name]
            ios, size = ios - then.ios, size - then.bytes
            latency_us, count = latency_us - then.latency_sum_us, count - then.latency_count
        if now.ios == 0:
            continue
        result[name] = Interval(
            t_ns=middle_ns,
            iops=ios * 1000 / span_ms,
            bytes_per_s=size * 1000 / span_ms,
            latency_mean_us=latency_us / count if count > 0 else None,
        )
    return result
