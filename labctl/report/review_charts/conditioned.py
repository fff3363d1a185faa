"""The chart of the same work on the fresh and on the conditioned drive."""

from __future__ import annotations

from collections.abc import Sequence

from labctl.analysis.methods.conditioned import Conditioned
from labctl.analysis.numbers import estimate_columns
from labctl.analysis.phase_result import PhaseResult
from labctl.report.charts.small_multiples import throttle_words
from labctl.report.charts.theme import Datasets, Row, finished
from labctl.report.review_charts.review_chart import Figure, work_and_watts


def conditioned_figure(
    found: Sequence[Conditioned], phases: Sequence[PhaseResult]
) -> Figure | None:
    """Two bars for each work that was done before the drive was filled and after it: its IOPS (from
    64 KiB blocks on MB/s), and the watts. ``phases``: those of the run."""
    if not found:
        return None
    by_index = {item.phase.index: item for item in phases}
    shown = [
        (f"{one.workload}, {state}", by_index[index])
        for one in found
        for state, index in (("fresh", one.fresh_index), ("conditioned", one.conditioned_index))
    ]
    numbers = tuple(_conditioned_row(name, item) for name, item in shown)
    datasets = Datasets()
    body = work_and_watts(datasets, numbers)
    changes = "; ".join(f"{one.workload} {one.iops_change:+.1%}" for one in found)
    caption = (
        "The same work before the drive was filled and after it, and the power it took with its U "
        f"(about 95 %). Work conditioned against fresh: {changes}."
        f"{throttle_words([item for _, item in shown])}"
    )
    chart = finished("conditioned", "Conditioned against fresh", caption, body, datasets)
    return Figure(chart, numbers)


def _conditioned_row(name: str, item: PhaseResult) -> Row:
    return {
        "figure": name,
        "iops": item.iops or 0.0,
        "mb_per_s": (item.bytes_per_s or 0.0) / 1e6,
        **estimate_columns("watts", item.watts),
        **estimate_columns("iops_per_watt", item.iops_per_watt),
        "throttled": item.phase.label if item.throttled else "",
    }
