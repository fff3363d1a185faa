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
from dataclasses import dataclass, field
from typing import Any

from labctl.fio.documents import (
    DIRECTIONS,
    MIXED,
    DocumentStream,
    documents,
    error_of,
    jobs_of,
    number,
    number_at,
    table_of,
)

__all__ = [
    "DIRECTIONS",
    "DRIVE_JOB",
    "PERCENTILES",
    "Direction",
    "DocumentStream",
    "FioResult",
    "Status",
    "Totals",
    "comes_back_empty",
    "document_of_drive",
    "documents",
    "final_result",
    "last_document",
    "mean_direction",
    "result_of",
    "status_of",
    "unfinished",
]

PERCENTILES = ("50", "90", "95", "99", "99.9", "99.99", "99.999")
"""The latency percentiles that results carry, where fio gave them."""


DRIVE_JOB = "drive-"
"""Where several drives work at once, what a drive's job is called before the drive's name."""


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
class Status:
    """One cumulative document: totals by direction, summed over jobs.

    ``wall_ms`` is fio's wall clock (None where it prints none), ``runtime_ms`` the time since the
    first job began its I/O. ``drives``: the totals of each drive alone, where there are several.
    """

    totals: dict[str, Totals]
    runtime_ms: int
    wall_ms: int | None
    errors: tuple[int | str, ...] = ()
    drives: dict[str, dict[str, Totals]] = field(default_factory=dict)

    @property
    def total_ios(self) -> int:
        """I/Os of both directions."""
        return sum(totals.ios for totals in self.totals.values())


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


def _sections(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What a job did by direction; both in one count as reads where they are not told apart."""
    sides = {name: table_of(job, name) for name in DIRECTIONS}
    return {"read": table_of(job, MIXED), "write": {}} if _is_mixed(job) else sides


def _is_mixed(job: dict[str, Any]) -> bool:
    apart = any(_total_ios(table_of(job, name)) for name in DIRECTIONS)
    return bool(table_of(job, MIXED)) and not apart


def status_of(document: dict[str, Any]) -> Status:
    """The totals of a document, summed over all its jobs."""
    jobs = jobs_of(document)
    totals = _totals_of(jobs)
    wall_ms = number(document.get("timestamp_ms"))
    errors = [error_of(job) for job in jobs]
    return Status(
        totals=totals,
        runtime_ms=max((_runtime_ms(job) for job in jobs), default=0),
        wall_ms=int(wall_ms) if wall_ms is not None else None,
        errors=tuple(error for error in errors if error is not None),
        drives={name: _totals_of(own) for name, own in _jobs_by_drive(jobs).items()},
    )


def _totals_of(jobs: Sequence[dict[str, Any]]) -> dict[str, Totals]:
    """Totals by direction, summed over jobs."""
    return {
        name: sum((_totals(_sections(job)[name]) for job in jobs), start=Totals())
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


def comes_back_empty(before: Status, now: Status, block_bytes: int, in_flight: int) -> bool:
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


def unfinished(status: Status, block_bytes: int) -> bool:
    """Whether a status counts I/Os that had not ended: with fewer latencies than I/Os, or fewer
    bytes than those of ``block_bytes`` have. What fio prints last does not, but of a replay (3.33).
    """
    return any(
        0 < totals.latency_count < totals.ios or totals.bytes < totals.ios * block_bytes
        for totals in status.totals.values()
    )


def _runtime_ms(job: dict[str, Any]) -> int:
    """Time since the first I/O. ``job_runtime`` is a sum over jobs with group_reporting."""
    sides = max(number_at(side, "runtime") for side in _sections(job).values())
    return int(sides or number_at(job, "job_runtime"))


@dataclass(frozen=True, slots=True)
class _Latency:
    """One of the latencies that fio gives, in µs; fio 3.x has ``*_ns``, fio 2.x microseconds."""

    mean_us: float
    max_us: float
    count: int
    percentiles_us: dict[float, float]


_NOT_MEASURED = _Latency(0.0, 0.0, 0, {})


def _measured(side: dict[str, Any], name: str, ios: int) -> _Latency | None:
    """``lat``, ``clat`` or ``slat``; None where it was not measured."""
    for key, scale in ((f"{name}_ns", 1e-3), (name, 1.0)):
        values = table_of(side, key)
        count = ios if number(values.get("N")) is None else int(number_at(values, "N"))
        pairs = [
            (number(percent), number(value))
            for percent, value in table_of(values, "percentile").items()
        ]
        percentiles = {
            percent: value * scale for percent, value in pairs if percent and value is not None
        }
        mean = number(values.get("mean"))
        if mean is None or not count:
            mean, count = 0.0, 0
        if count or percentiles:
            return _Latency(mean * scale, number_at(values, "max") * scale, count, percentiles)
    return None


def _latency(side: dict[str, Any]) -> _Latency:
    """Total latency; where it was not measured, of submission and completion together."""
    ios = _total_ios(side)
    total, completion = _measured(side, "lat", ios), _measured(side, "clat", ios)
    if total is not None and total.count:
        percentiles = total.percentiles_us or (completion or total).percentiles_us
        return _Latency(total.mean_us, total.max_us, total.count, percentiles)
    if completion is None:
        return total or _NOT_MEASURED
    submission = _measured(side, "slat", ios) or _NOT_MEASURED
    return _Latency(
        completion.mean_us + (submission.mean_us if completion.count else 0.0),
        completion.max_us,
        completion.count,
        (total or completion).percentiles_us or completion.percentiles_us,
    )


def _totals(side: dict[str, Any]) -> Totals:
    latency = _latency(side)
    return Totals(
        ios=_total_ios(side),
        bytes=_total_bytes(side),
        latency_sum_us=latency.mean_us * latency.count,
        latency_count=latency.count,
    )


def _total_ios(side: dict[str, Any]) -> int:
    total = number(side.get("total_ios"))
    if total is not None:
        return int(total)
    return round(number_at(side, "iops") * number_at(side, "runtime") / 1000)


def _told_in_whole_iops(side: dict[str, Any]) -> bool:
    """Early fio 2 (2.1.4, 2.1.11) prints no ``total_ios``, and IOPS without a fraction."""
    return "total_ios" not in side and isinstance(side.get("iops"), int) and _total_ios(side) > 0


def _total_bytes(side: dict[str, Any]) -> int:
    size = int(number_at(side, "io_bytes"))
    in_bytes = any(key in side for key in ("io_kbytes", "bw_bytes", "lat_ns", "clat_ns"))
    return size if in_bytes else size * 1024


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
    sides = {name: _direction([_sections(job)[name] for job in jobs]) for name in DIRECTIONS}
    mixed = sides["read"] if any(_is_mixed(job) for job in jobs) else None
    notes = []
    if mixed is not None:
        notes.append("fio told reads and writes in one (unified_rw_reporting): shown as reads")
    if any(side is not None and not side.latency_mean_us for side in sides.values()):
        notes.append("fio measured no latency: a mean of 0 is none")
    if any(_told_in_whole_iops(_sections(job)[name]) for job in jobs for name in DIRECTIONS):
        notes.append("fio counted no operations and told IOPS rounded down: up to 1 per job low")
    if any(_total_ios(table_of(job, "trim")) for job in jobs):
        notes.append("fio trimmed, too: trims are not counted here")
    return FioResult(
        version=str(last.get("fio version", "")),
        runtime_ms=max((_runtime_ms(job) for job in jobs), default=0),
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
    told = [(number(job.get(key)), number_at(job, "job_runtime") or 1.0) for job in jobs]
    known = [(value, weight) for value, weight in told if value is not None]
    if not known:
        return None
    return sum(value * weight for value, weight in known) / sum(weight for _, weight in known)


def _direction(sides: Sequence[dict[str, Any]]) -> Direction | None:
    busy = [side for side in sides if _total_ios(side)]
    if not busy:
        return None
    totals = sum((_totals(side) for side in busy), start=Totals())
    rates = [_rates(side) for side in busy]
    latencies = [_latency(side) for side in busy]
    tables = [
        (latency.percentiles_us, _total_ios(side))
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
    return _total_ios(side) / runtime_s, _total_bytes(side) / runtime_s


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
