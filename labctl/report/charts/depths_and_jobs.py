"""Queue depths against jobs, where a sweep varies both: a table each of work, watts and both."""

from __future__ import annotations

from collections.abc import Sequence

from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run_summary import RunSummary
from labctl.report.charts.number_table import Field, TableAxes, number_table
from labctl.report.charts.small_multiples import charts_in_rows, throttle_words
from labctl.report.charts.theme import (
    Chart,
    Datasets,
    Spec,
    finished,
)
from labctl.report.panels import LARGE_BLOCK_BYTES, depths_and_jobs

_WIDTH = 300


def depths_and_jobs_chart(summary: RunSummary) -> Chart | None:
    """Three tables a workload; None where no sweep varies both."""
    found = depths_and_jobs(summary.points)
    if not found:
        return None
    datasets = Datasets()
    parts = [
        part for workload, results in found.items() for part in _tables(datasets, workload, results)
    ]
    shown = [result for results in found.values() for result in results]
    caption = (
        "Work, mean power and work per energy at each queue depth (of each job) and number of "
        f"jobs.{throttle_words(shown, 'number')}"
    )
    title = "Queue depths and jobs"
    return finished("jobs", title, caption, charts_in_rows(parts, 3), datasets)


def _tables(datasets: Datasets, workload: str, results: Sequence[PhaseResult]) -> list[Spec]:
    depths = sorted({result.phase.queue_depth for result in results})
    jobs = sorted({result.phase.jobs for result in results})
    axes = TableAxes(
        [str(one) for one in depths], "queue depth", [str(one) for one in jobs], "jobs", _WIDTH
    )
    in_bytes = results[0].phase.block_size_bytes >= LARGE_BLOCK_BYTES
    tables = (
        ("MB/s" if in_bytes else "IOPS", [_depths_and_jobs_rate(one, in_bytes) for one in results]),
        ("mean power (W)", [None if one.watts is None else one.watts.value for one in results]),
        ("MB/J" if in_bytes else "IOPS/W", [_per_energy(one, in_bytes) for one in results]),
    )
    specs = []
    for title, values in tables:
        fields = [
            Field(str(one.phase.queue_depth), str(one.phase.jobs), value, one.throttled)
            for one, value in zip(results, values, strict=True)
            if value is not None
        ]
        if fields:
            specs.append(number_table(datasets, axes, fields, f"{workload}: {title}"))
    return specs


def _depths_and_jobs_rate(result: PhaseResult, in_bytes: bool) -> float | None:
    if not in_bytes:
        return result.iops
    return None if result.bytes_per_s is None else result.bytes_per_s / 1e6


def _per_energy(result: PhaseResult, in_bytes: bool) -> float | None:
    found = result.bytes_per_joule if in_bytes else result.iops_per_watt
    return None if found is None else found.value / (1e6 if in_bytes else 1.0)
