"""What fio prints: documents in a noisy stream, cumulative totals, final results.

With ``--status-interval`` fio prints one cumulative document after another, with notes and
error lines between them. Interval figures are differences of totals; a cumulative mean is
never taken for a live value. Known variants: fio 2.x (microseconds, KiB, no ``total_ios``),
fio 3.x (nanoseconds, bytes), several ``jobs`` entries, client/server documents with an
"All clients" entry on top of the single ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

DIRECTIONS = ("read", "write")
PERCENTILES = ("50", "90", "95", "99", "99.9", "99.99")
"""The latency percentiles that results carry, where fio gave them."""

_DECODER = json.JSONDecoder()
_ALL_CLIENTS = "All clients"


@dataclass(frozen=True, slots=True)
class Direction:
    """What fio measured in one direction. Latencies are microseconds, completion incl. submit."""

    iops: float
    bytes_per_s: float
    total_ios: int
    latency_mean_us: float
    latency_max_us: float
    latency_percentiles_us: dict[str, float]
    """Key is the percentile as text: "50", "95", "99", "99.9", "99.99"."""


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
    first job began its I/O.
    """

    totals: dict[str, Totals]
    runtime_ms: int
    wall_ms: int | None
    errors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FioResult:
    """The last complete document of an output."""

    version: str
    runtime_ms: int
    read: Direction | None
    write: Direction | None
    error: str = ""
    notes: tuple[str, ...] = field(default=())


class DocumentStream:
    """Cuts complete documents out of fio's standard output as it comes."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._rest = ""
        self.stray_lines = 0

    def feed(self, text: str) -> list[dict[str, Any]]:
        """The documents that ``text`` completes. Lines outside documents are counted."""
        found = []
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if line == "{" or (line.startswith("{") and not self._lines):
                self.stray_lines += len(self._lines)
                self._lines = [line]
            elif self._lines:
                self._lines.append(line)
            else:
                self.stray_lines += 1
            if line.startswith("}") and self._lines:
                document = _decode(self._lines)
                if document is None:
                    self.stray_lines += len(self._lines)
                else:
                    found.append(document)
                self._lines = []
        return found


def _decode(lines: Sequence[str]) -> dict[str, Any] | None:
    for candidate in (lines, [line for line in lines if not line.startswith(("fio:", "note:"))]):
        try:
            document = json.loads("\n".join(candidate))
        except ValueError:
            continue
        return document if isinstance(document, dict) and _jobs(document) else None
    return None


def documents(text: str) -> Iterator[dict[str, Any]]:
    """Every complete document in ``text``, whatever stands around them."""
    position = 0
    while (position := text.find("{", position)) >= 0:
        if position and text[position - 1] != "\n":
            position += 1
            continue
        try:
            document, end = _DECODER.raw_decode(text, position)
        except ValueError:
            position += 1
            continue
        position = end
        if isinstance(document, dict) and _jobs(document):
            yield document


def _jobs(document: dict[str, Any]) -> list[dict[str, Any]]:
    clients = document.get("client_stats")
    if isinstance(clients, list):
        jobs = [item for item in clients if item.get("jobname") == _ALL_CLIENTS] or clients
    else:
        jobs = document.get("jobs", [])
    return [job for job in jobs if isinstance(job, dict) and any(key in job for key in DIRECTIONS)]


def status_of(document: dict[str, Any]) -> Status:
    """The totals of a document, summed over all its jobs."""
    jobs = _jobs(document)
    scale = _microseconds_per_unit(document)
    totals = {
        name: sum((_totals(job.get(name, {}), scale) for job in jobs), start=Totals())
        for name in DIRECTIONS
    }
    wall_ms = document.get("timestamp_ms")
    return Status(
        totals=totals,
        runtime_ms=max((_runtime_ms(job) for job in jobs), default=0),
        wall_ms=int(wall_ms) if wall_ms is not None else None,
        errors=tuple(int(job["error"]) for job in jobs if job.get("error")),
    )


def _runtime_ms(job: dict[str, Any]) -> int:
    """Time since the first I/O. ``job_runtime`` is a sum over jobs with group_reporting."""
    sides = max(int(job.get(name, {}).get("runtime", 0)) for name in DIRECTIONS)
    return sides or int(job.get("job_runtime", 0))


def _microseconds_per_unit(document: dict[str, Any]) -> float:
    """1 for fio 2.x, which gives microseconds; 0.001 for fio 3.x, which gives nanoseconds."""
    jobs = _jobs(document)
    return 1e-3 if any("lat_ns" in job.get(name, {}) for job in jobs for name in DIRECTIONS) else 1


def _latency(side: dict[str, Any]) -> dict[str, Any]:
    found = side.get("lat_ns") or side.get("lat") or {}
    return found if isinstance(found, dict) else {}


def _totals(side: dict[str, Any], scale: float) -> Totals:
    ios = _total_ios(side)
    latency = _latency(side)
    count = int(latency.get("N", ios))
    mean = float(latency.get("mean", 0.0))
    return Totals(
        ios=ios,
        bytes=_total_bytes(side),
        latency_sum_us=mean * scale * count,
        latency_count=count,
    )


def _total_ios(side: dict[str, Any]) -> int:
    if "total_ios" in side:
        return int(side["total_ios"])
    return round(float(side.get("iops", 0.0)) * float(side.get("runtime", 0)) / 1000)


def _total_bytes(side: dict[str, Any]) -> int:
    size = int(side.get("io_bytes", 0))
    return size if "io_kbytes" in side else size * 1024


def final_result(text: str) -> FioResult | None:
    """The result in an output: its last complete document, or None when there is none."""
    last: dict[str, Any] | None = None
    for document in documents(text):
        last = document
    if last is None:
        return None
    status = status_of(last)
    scale = _microseconds_per_unit(last)
    sides = {
        name: _direction([job.get(name, {}) for job in _jobs(last)], scale) for name in DIRECTIONS
    }
    return FioResult(
        version=str(last.get("fio version", "")),
        runtime_ms=status.runtime_ms,
        read=sides["read"],
        write=sides["write"],
        error=", ".join(f"fio error {code}" for code in status.errors),
    )


def _direction(sides: Sequence[dict[str, Any]], scale: float) -> Direction | None:
    busy = [side for side in sides if _total_ios(side)]
    if not busy:
        return None
    totals = sum((_totals(side, scale) for side in busy), start=Totals())
    rates = [_rates(side) for side in busy]
    tables = [(_percentiles(side, scale), _total_ios(side)) for side in busy]
    return Direction(
        iops=sum(iops for iops, _ in rates),
        bytes_per_s=sum(bytes_per_s for _, bytes_per_s in rates),
        total_ios=totals.ios,
        latency_mean_us=(
            totals.latency_sum_us / totals.latency_count if totals.latency_count else 0.0
        ),
        latency_max_us=max(float(_latency(side).get("max", 0)) for side in busy) * scale,
        latency_percentiles_us=_mixed([(table, weight) for table, weight in tables if table]),
    )


def _rates(side: dict[str, Any]) -> tuple[float, float]:
    """Operations and bytes per second of one job over its own runtime."""
    runtime_s = float(side.get("runtime", 0)) / 1000
    if not runtime_s:
        return 0.0, 0.0
    return _total_ios(side) / runtime_s, _total_bytes(side) / runtime_s


def _percentiles(side: dict[str, Any], scale: float) -> dict[float, float]:
    """Percentile → µs, of total latency where fio gave it, else of completion latency."""
    for key in ("lat_ns", "lat", "clat_ns", "clat"):
        table = side.get(key, {}).get("percentile") if isinstance(side.get(key), dict) else None
        if table:
            pairs = ((float(name), float(value) * scale) for name, value in table.items())
            return {percent: value for percent, value in pairs if percent > 0}
    return {}


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
