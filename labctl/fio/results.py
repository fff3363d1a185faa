"""What fio prints: documents in a noisy stream, cumulative totals, final results.

With ``--status-interval`` fio prints one cumulative document after another, with notes and
error lines between them. Interval figures are differences of totals; a cumulative mean is
never taken for a live value. Known variants: fio 2.x (microseconds, KiB, no ``total_ios``),
fio 3.x (nanoseconds, bytes), several ``jobs`` entries, client/server documents with an
"All clients" entry on top of the single ones, both directions in one (``mixed``), latencies
that were not measured. How documents are found: :mod:`labctl.fio.documents`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from labctl.fio.documents import (
    DIRECTIONS,
    documents,
    error_of,
    jobs_of,
    number,
    number_at,
    table_of,
)
from labctl.fio.job_values import (
    in_whole_iops,
    is_mixed,
    latency_of,
    runtime_ms,
    sections_of,
    total_bytes,
    total_ios,
)
from labctl.fio.status import Totals, _totals, document_of_drive

PERCENTILES = ("50", "90", "95", "99", "99.9", "99.99", "99.999")
"""The latency percentiles that results carry, where fio gave them."""


@dataclass(frozen=True, slots=True)
class Direction:
    """What fio measured in one direction. Latencies are microseconds, completion incl. submit.

    A mean of 0 is one that fio did not measure (``gtod_reduce``): :attr:`FioResult.notes` say so.
    """

    iops: float
    bytes_per_s: float
    total_ios: int
    latency_mean_us: float
    latency_max_us: float
    latency_percentiles_us: dict[str, float]
    """Key is the percentile as text: "50", "90", "95", "99", "99.9", "99.99", "99.999"."""


@dataclass(frozen=True, slots=True)
class FioResult:
    """The last complete document of an output.

    ``mixed`` is both directions in one, where fio told them so. Then ``read`` is the same and
    ``notes`` say it, so that nobody who knows two directions loses it.
    """

    version: str
    runtime_ms: int
    read: Direction | None
    write: Direction | None
    error: str = ""
    notes: tuple[str, ...] = ()
    mixed: Direction | None = None
    user_cpu_pct: float | None = None
    """Time of its workers in user mode, the mean of them in per cent of one core."""
    system_cpu_pct: float | None = None
    clock_rate: float = 1.0
    """Seconds that fio's clock counts in one of the clock that its rates are of."""

    def at_clock_rate(self, rate: float) -> FioResult:
        """The same with rates by a clock of which fio's counts ``rate`` seconds in a second.

        Latencies stay as fio's clock measured them.
        """
        read, write, mixed = (
            side and replace(side, iops=side.iops * rate, bytes_per_s=side.bytes_per_s * rate)
            for side in (self.read, self.write, self.mixed)
        )
        return replace(self, read=read, write=write, mixed=mixed, clock_rate=self.clock_rate * rate)


def last_document(text: str) -> dict[str, Any] | None:
    """The last complete document of an output, or None when there is none."""
    last: dict[str, Any] | None = None
    for document in documents(text):
        last = document
    return last


def final_result(text: str, drive: str = "") -> FioResult | None:
    """The result in an output: that of its last complete document; None when there is none."""
    last = last_document(text)
    return None if last is None else result_of(last, drive)


def result_of(last: dict[str, Any], drive: str = "") -> FioResult:
    """The result that a document tells; ``drive``: of several drives only what was done on that
    one."""
    jobs = jobs_of(document_of_drive(last, drive) if drive else last)
    sides = {name: _direction([sections_of(job)[name] for job in jobs]) for name in DIRECTIONS}
    mixed = sides["read"] if any(is_mixed(job) for job in jobs) else None
    notes = []
    if mixed is not None:
        notes.append("fio told reads and writes in one (unified_rw_reporting): shown as reads")
    if any(side is not None and not side.latency_mean_us for side in sides.values()):
        notes.append("fio measured no latency: a mean of 0 is none")
    if any(in_whole_iops(sections_of(job)[name]) for job in jobs for name in DIRECTIONS):
        notes.append("fio counted no operations and told IOPS rounded down: up to 1 per job low")
    if any(total_ios(table_of(job, "trim")) for job in jobs):
        notes.append("fio trimmed, too: trims are not counted here")
    return FioResult(
        version=str(last.get("fio version", "")),
        runtime_ms=max((runtime_ms(job) for job in jobs), default=0),
        read=sides["read"],
        write=sides["write"],
        error=", ".join(f"fio error {code}" for code in map(error_of, jobs) if code is not None),
        notes=tuple(notes),
        mixed=mixed,
        user_cpu_pct=_cpu_pct(jobs, "usr_cpu"),
        system_cpu_pct=_cpu_pct(jobs, "sys_cpu"),
    )


def _cpu_pct(jobs: Sequence[dict[str, Any]], key: str) -> float | None:
    """The mean over jobs that ran side by side, each weighed by the time of its workers."""
    weighted = [(number(job.get(key)), number_at(job, "job_runtime") or 1.0) for job in jobs]
    known = [(value, weight) for value, weight in weighted if value is not None]
    if not known:
        return None
    return sum(value * weight for value, weight in known) / sum(weight for _, weight in known)


def _direction(sides: Sequence[dict[str, Any]]) -> Direction | None:
    busy = [side for side in sides if total_ios(side)]
    if not busy:
        return None
    totals = sum((_totals(side) for side in busy), start=Totals())
    rates = [_rates(side) for side in busy]
    latencies = [latency_of(side) for side in busy]
    tables = [
        (latency.percentiles_us, total_ios(side))
        for latency, side in zip(latencies, busy, strict=True)
        if latency.percentiles_us
    ]
    return Direction(
        iops=sum(iops for iops, _ in rates),
        bytes_per_s=sum(bytes_per_s for _, bytes_per_s in rates),
        total_ios=totals.ios,
        latency_mean_us=(
            totals.latency_sum_us / totals.latency_count if totals.latency_count else 0.0
        ),
        latency_max_us=max(latency.max_us for latency in latencies),
        latency_percentiles_us=_mixed(tables),
    )


def mean_direction(parts: Sequence[Direction]) -> Direction | None:
    """Several phases of the same work as one: mean rates, latencies of all I/Os together.

    None where there is none. Percentiles are of the mixture (see :func:`_mixed`).
    """
    if not parts:
        return None
    ios = sum(part.total_ios for part in parts)
    tables = [
        ({float(name): us for name, us in part.latency_percentiles_us.items()}, part.total_ios)
        for part in parts
        if part.latency_percentiles_us
    ]
    return Direction(
        iops=sum(part.iops for part in parts) / len(parts),
        bytes_per_s=sum(part.bytes_per_s for part in parts) / len(parts),
        total_ios=ios,
        latency_mean_us=sum(part.latency_mean_us * part.total_ios for part in parts) / (ios or 1),
        latency_max_us=max(part.latency_max_us for part in parts),
        latency_percentiles_us=_mixed(tables),
    )


def _rates(side: dict[str, Any]) -> tuple[float, float]:
    """Operations and bytes per second of one job over its own runtime."""
    runtime_s = number_at(side, "runtime") / 1000
    if not runtime_s:
        return number_at(side, "iops"), number_at(side, "bw_bytes")
    return total_ios(side) / runtime_s, total_bytes(side) / runtime_s


def _mixed(tables: Sequence[tuple[dict[float, float], int]]) -> dict[str, float]:
    """Percentiles of several jobs together; exact for one job.

    For more, each job's distribution is taken as linear in log latency between the percentiles
    that fio printed, weighted by its number of operations, and the mixture is solved by bisection.
    """
    if not tables:
        return {}
    shared = [name for name in PERCENTILES if all(float(name) in table for table, _ in tables)]
    if len(tables) == 1:
        return {name: tables[0][0][float(name)] for name in shared}
    weight = sum(count for _, count in tables)
    result = {}
    for name in shared:
        low = math.log(max(min(table[float(name)] for table, _ in tables), 1e-3))
        high = math.log(max(max(table[float(name)] for table, _ in tables), 1e-3))
        for _ in range(50):
            middle = (low + high) / 2
            below = sum(_share_below(table, middle) * count for table, count in tables) / weight
            low, high = (middle, high) if below < float(name) else (low, middle)
        result[name] = math.exp(high)
    return result


def _share_below(table: dict[float, float], log_us: float) -> float:
    """Percent of a job's operations faster than exp(``log_us``) µs."""
    points = sorted((math.log(max(value, 1e-3)), percent) for percent, value in table.items())
    before = (points[0][0] - 1.0, 0.0)
    for point in points:
        if log_us < point[0]:
            span = point[0] - before[0]
            part = (log_us - before[0]) / span if span else 1.0
            return max(before[1] + part * (point[1] - before[1]), 0.0)
        before = point
    return before[1]
