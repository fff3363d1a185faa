"""The chart of an energy-efficiency test: work per watt of each workload, and idle watts.

The metrics are those of SNIA Emerald: IOPS/W and MB/s/W active, capacity/W in ready idle.
"""

from __future__ import annotations

from collections.abc import Sequence

from labctl.analysis.methods.idle import IdleResult
from labctl.analysis.numbers import estimate_columns, with_uncertainty
from labctl.analysis.phase_result import PhaseResult
from labctl.report.charts.small_multiples import charts_in_rows, throttle_words
from labctl.report.charts.theme import Datasets, Row, finished
from labctl.report.panels import LARGE_BLOCK_BYTES
from labctl.report.review_charts.review_chart import (
    AMBER,
    BLUE,
    GREEN,
    Figure,
    bars,
)

MOST_POINTS = 16
"""More are in the charts along the sweeps, not a bar each."""

LEAST_WORKLOADS = 3
"""Fewer are the curves of a sweep, which have charts of their own."""


def efficiency_figure(points: Sequence[PhaseResult], idle: Sequence[IdleResult]) -> Figure | None:
    """Bars of each point and of each idle phase; None where there is no idling or too little, or
    too much, to set side by side."""
    shown = [item for item in points if item.iops_per_watt is not None and not item.phase.round]
    workloads = {(item.phase.pattern, item.phase.block_size_bytes) for item in shown}
    rested = [one for one in idle if one.watts is not None]
    if not rested or len(workloads) < LEAST_WORKLOADS or len(shown) > MOST_POINTS:
        return None
    datasets = Datasets()
    small = [item for item in shown if item.phase.block_size_bytes < LARGE_BLOCK_BYTES]
    large = [item for item in shown if item.phase.block_size_bytes >= LARGE_BLOCK_BYTES]
    active = [_efficiency_row(item) for item in small], [_efficiency_row(item) for item in large]
    idling = [
        {"figure": one.label, "throttled": "", **estimate_columns("watts", one.watts)}
        for one in rested
    ]
    parts = []
    for rows, name, title, colour in (
        (active[0], "iops_per_watt", "IOPS/W", BLUE),
        (active[1], "mb_per_s_per_watt", "MB/s/W", GREEN),
    ):
        if rows:
            parts.append(bars(datasets, rows, name, title, colour))
            parts.append(bars(datasets, rows, "watts", "mean power (W)", AMBER))
    parts.append(bars(datasets, idling, "watts", "mean power idling (W)", AMBER))
    caption = (
        "Work per watt of each workload, from 64 KiB blocks on in MB/s/W, with the power that it "
        f"took; below, the power of idling. U with k = 2.{throttle_words(shown)} The metrics of "
        "SNIA Emerald, but no Emerald result: its sequence and stability rule were not followed."
    )
    last = rested[-1]
    if last.gb_per_watt is not None:
        caption += f" Ready idle ({last.label}): {with_uncertainty(last.gb_per_watt)} GB/W."
    numbers = (*active[0], *active[1], *idling)
    return Figure(
        finished("efficiency", "Efficiency", caption, charts_in_rows(parts, 2), datasets),
        tuple(numbers),
    )


def _efficiency_row(item: PhaseResult) -> Row:
    per_watt = item.bytes_per_joule
    mb_per_joule = None if per_watt is None else per_watt.scaled(1e-6)
    return {
        "figure": item.phase.label,
        **estimate_columns("iops_per_watt", item.iops_per_watt),
        **estimate_columns("mb_per_s_per_watt", mb_per_joule),
        **estimate_columns("watts", item.watts),
        "throttled": item.phase.label if item.throttled else "",
    }
