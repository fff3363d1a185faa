"""What one job of fio's document says, by direction."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from labctl.fio.documents import DIRECTIONS, MIXED, number, number_at, table_of

DRIVE_JOB = "drive-"
"""Where several drives work at once, what a drive's job is called before the drive's name."""


def job_sections(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What a job did by direction; both in one count as reads where fio does not split them."""
    sides = {name: table_of(job, name) for name in DIRECTIONS}
    return {"read": table_of(job, MIXED), "write": {}} if is_mixed(job) else sides


def is_mixed(job: dict[str, Any]) -> bool:
    """Whether fio counted both directions as one (``unified_rw_reporting``)."""
    apart = any(job_total_ios(table_of(job, name)) for name in DIRECTIONS)
    return bool(table_of(job, MIXED)) and not apart


def runtime_ms(job: dict[str, Any]) -> int:
    """Time since the first I/O. ``job_runtime`` is a sum over jobs with group_reporting."""
    sides = max(number_at(side, "runtime") for side in job_sections(job).values())
    return int(sides or number_at(job, "job_runtime"))


@dataclass(frozen=True, slots=True)
class Latency:
    """One of the latencies that fio gives, in µs; fio 3.x has ``*_ns``, fio 2.x microseconds."""

    mean_us: float
    max_us: float
    count: int
    percentiles_us: dict[float, float]
    min_us: float = 0.0
    bins_us: dict[float, int] = field(default_factory=dict)
    """How many I/Os took how long, where fio printed it (``json+``)."""


NOT_MEASURED = Latency(0.0, 0.0, 0, {})


def measured_latency(side: dict[str, Any], name: str, ios: int) -> Latency | None:
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
            return Latency(
                mean * scale,
                number_at(values, "max") * scale,
                count,
                percentiles,
                number_at(values, "min") * scale,
                _job_bins_us(values) if key.endswith("_ns") else {},
            )
    return None


def _job_bins_us(values: dict[str, Any]) -> dict[float, int]:
    """fio's bins by their latency in µs. Those of fio 2.x have numbers in place of latencies, and
    are left out; so are all where one of them is no count."""
    found: dict[float, int] = {}
    for name, count in table_of(values, "bins").items():
        ns, ios = number(name), number(count)
        if ns is None or ios is None:
            return {}
        found[ns * 1e-3] = found.get(ns * 1e-3, 0) + int(ios)
    return {us: ios for us, ios in found.items() if ios}


def latency_of(side: dict[str, Any]) -> Latency:
    """Total latency; where it was not measured, of submission and completion together."""
    ios = job_total_ios(side)
    total, completion = measured_latency(side, "lat", ios), measured_latency(side, "clat", ios)
    if total is not None and total.count:
        return (
            total if total.percentiles_us or completion is None else _with_table(total, completion)
        )
    if completion is None:
        return total or NOT_MEASURED
    submission = measured_latency(side, "slat", ios) or NOT_MEASURED
    mean_us = completion.mean_us + (submission.mean_us if completion.count else 0.0)
    both = replace(completion, mean_us=mean_us)
    return _with_table(both, total) if total is not None and total.percentiles_us else both


def _with_table(latency: Latency, other: Latency) -> Latency:
    """``latency`` with the percentiles of another one, and all that goes with them."""
    return replace(
        latency, percentiles_us=other.percentiles_us, min_us=other.min_us, bins_us=other.bins_us
    )


def job_total_ios(side: dict[str, Any]) -> int:
    """I/Os of one direction; early fio 2 prints IOPS and milliseconds instead."""
    total = number(side.get("total_ios"))
    if total is not None:
        return int(total)
    return round(number_at(side, "iops") * number_at(side, "runtime") / 1000)


def in_whole_iops(side: dict[str, Any]) -> bool:
    """Early fio 2 (2.1.4, 2.1.11) prints no ``total_ios``, and IOPS without a fraction."""
    return "total_ios" not in side and isinstance(side.get("iops"), int) and job_total_ios(side) > 0


def total_bytes(side: dict[str, Any]) -> int:
    """Bytes of one direction; early fio 2 prints KiB under the same key."""
    size = int(number_at(side, "io_bytes"))
    in_bytes = any(key in side for key in ("io_kbytes", "bw_bytes", "lat_ns", "clat_ns"))
    return size if in_bytes else size * 1024
