"""What fio prints: documents in a noisy stream, cumulative totals, final results.

With ``--status-interval`` fio prints one cumulative document after another, with notes and
error lines between them. Interval figures are differences of totals; a cumulative mean is
never taken for a live value. Known variants: fio 2.x (microseconds, KiB, no ``total_ios``),
fio 3.x (nanoseconds, bytes), several ``jobs`` entries, client/server documents with an
"All clients" entry on top of the single ones, both directions in one (``mixed``), latencies
that were not measured. How documents are found: :mod:`labctl.fio.documents`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from labctl.fio.histogram import added, histogram
from labctl.fio.job_values import (
    in_whole_iops,
    is_mixed,
    job_sections,
    job_total_ios,
    latency_of,
    runtime_ms,
    total_bytes,
)
from labctl.fio.percentiles import Bounds, Distribution, percentiles_of
from labctl.fio.status import Totals, document_of_drive, totals_of
from labctl.rounded import rounded


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
    latency_bounds_us: Bounds = field(default_factory=dict)
    """The least and the most that a percentile may be, of those that are not known exactly: of
    several jobs or phases together of which fio prints percentiles alone. The value is their
    middle."""
    latency_histogram: dict[str, int] = field(default_factory=dict)
    """How many I/Os took how long (:mod:`labctl.fio.histogram`): by the lower end of a step in µs,
    "88.39", of which the upper end is 2^¼ times as much. Empty where fio printed no bins."""


@dataclass(frozen=True, slots=True)
class FioResult:
    """The last complete document of an output.

    ``mixed`` is both directions in one, where fio reports them so. Then ``read`` is the same, for
    readers that know two directions only, and ``notes`` has a line about it.
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


def result_of(last: dict[str, Any], drive: str = "") -> FioResult:
    """The result in a document; ``drive``: of several drives only what was done on that one."""
    jobs = jobs_of(document_of_drive(last, drive) if drive else last)
    sides = {
        name: _fio_result_direction([job_sections(job)[name] for job in jobs])
        for name in DIRECTIONS
    }
    mixed = sides["read"] if any(is_mixed(job) for job in jobs) else None
    notes = []
    if mixed is not None:
        notes.append("fio reported reads and writes in one (unified_rw_reporting): shown as reads")
    if any(side is not None and not side.latency_mean_us for side in sides.values()):
        notes.append("fio measured no latency: a mean of 0 is none")
    if any(in_whole_iops(job_sections(job)[name]) for job in jobs for name in DIRECTIONS):
        notes.append("fio counted no operations and gave IOPS rounded down: up to 1 per job low")
    if any(job_total_ios(table_of(job, "trim")) for job in jobs):
        notes.append("fio trimmed, too: trims are not counted here")
    notes += bounds_notes(sides)
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


def _fio_result_direction(sides: Sequence[dict[str, Any]]) -> Direction | None:
    busy = [side for side in sides if job_total_ios(side)]
    if not busy:
        return None
    totals = sum((totals_of(side) for side in busy), start=Totals())
    rates = [_fio_result_rates(side) for side in busy]
    latencies = [latency_of(side) for side in busy]
    bins = [latency.bins_us for latency in latencies]
    values, bounds = percentiles_of(
        [
            Distribution(
                count=job_total_ios(side),
                low=latency.percentiles_us,
                high=latency.percentiles_us,
                min_us=latency.min_us,
                max_us=latency.max_us,
                bins=latency.bins_us,
            )
            for latency, side in zip(latencies, busy, strict=True)
        ]
    )
    return Direction(
        iops=sum(iops for iops, _ in rates),
        bytes_per_s=sum(bytes_per_s for _, bytes_per_s in rates),
        total_ios=totals.ios,
        latency_mean_us=(
            totals.latency_sum_us / totals.latency_count if totals.latency_count else 0.0
        ),
        latency_max_us=max(latency.max_us for latency in latencies),
        latency_percentiles_us=values,
        latency_bounds_us=bounds,
        latency_histogram=histogram(bins) if all(bins) else {},
    )


_NOTED = ("99", "99.9")
"""The percentiles whose bounds are put into a note."""


def _rounded_fio_result(us: float) -> str:
    return f"{rounded(us)}" if us < 1000 else f"{us:.0f}"


def bounds_notes(sides: Mapping[str, Direction | None]) -> tuple[str, ...]:
    """A line for each direction of which some percentiles are known within bounds only."""
    return tuple(
        f"{name} latencies of several together are known within bounds: "
        + ", ".join(
            f"p{percent} {_rounded_fio_result(low)} to {_rounded_fio_result(high)} µs"
            for percent, (low, high) in side.latency_bounds_us.items()
            if percent in _NOTED
        )
        for name, side in sides.items()
        if side is not None and any(percent in side.latency_bounds_us for percent in _NOTED)
    )


def mean_direction(parts: Sequence[Direction]) -> Direction | None:
    """Several phases of the same work as one: mean rates, latencies of all I/Os together.

    None where there is none. Percentiles are of all I/Os, within bounds where the phases differ.
    """
    if not parts:
        return None
    ios = sum(part.total_ios for part in parts)
    values, bounds = percentiles_of([_fio_result_distribution(part) for part in parts])
    return Direction(
        iops=sum(part.iops for part in parts) / len(parts),
        bytes_per_s=sum(part.bytes_per_s for part in parts) / len(parts),
        total_ios=ios,
        latency_mean_us=sum(part.latency_mean_us * part.total_ios for part in parts) / (ios or 1),
        latency_max_us=max(part.latency_max_us for part in parts),
        latency_percentiles_us=values,
        latency_bounds_us=bounds,
        latency_histogram=added(part.latency_histogram for part in parts),
    )


def _fio_result_distribution(part: Direction) -> Distribution:
    exact = {name: (us, us) for name, us in part.latency_percentiles_us.items()}
    rows = {float(name): row for name, row in (exact | part.latency_bounds_us).items()}
    return Distribution(
        count=part.total_ios,
        low={percent: low for percent, (low, _) in rows.items()},
        high={percent: high for percent, (_, high) in rows.items()},
        max_us=part.latency_max_us,
    )


def _fio_result_rates(side: dict[str, Any]) -> tuple[float, float]:
    """Operations and bytes per second of one job over its own runtime."""
    runtime_s = number_at(side, "runtime") / 1000
    if not runtime_s:
        return number_at(side, "iops"), number_at(side, "bw_bytes")
    return job_total_ios(side) / runtime_s, total_bytes(side) / runtime_s
