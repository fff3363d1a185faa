"""How busy each core of the drive's host was, along the axis of each sweep."""

from __future__ import annotations

import altair as alt

from labctl.analysis.run_summary import RunSummary
from labctl.report.charts.small_multiples import PanelGrid, charts_in_rows, small_multiple_title
from labctl.report.charts.theme import (
    CELL_INK,
    Chart,
    Datasets,
    Row,
    Spec,
    finished,
    plain,
)
from labctl.report.panels import Panel, panels

_CELL_HEIGHT = 18
_TALLEST = 480
_READABLE_CORES = 24
"""More are drawn without their per cent."""


def cpu_chart(summary: RunSummary) -> Chart | None:
    """A map of cores and queue depths (or what a sweep varies); None where no core was watched."""
    found = [
        panel
        for panel in panels(summary.points)
        if any(point.result.cpu is not None for point in panel.points)
    ]
    if not found:
        return None
    grid = PanelGrid.of(found)
    datasets = Datasets()
    small = [_cpu_use_panel(panel, grid, datasets) for panel in found]
    caption = (
        "How busy each core of the drive's host was in each phase, in per cent of its time: "
        "everything that ran there, not fio alone."
    )
    return finished(
        "cpu", "Processor, core by core", caption, charts_in_rows(small, grid.columns), datasets
    )


def _cpu_use_panel(panel: Panel, grid: PanelGrid, datasets: Datasets) -> Spec:
    rows = _rows(panel, grid)
    cores = list(dict.fromkeys(str(row["core"]) for row in rows))
    chart = datasets.chart(rows)
    y = alt.Y("core:O", sort=cores, title="core", axis=alt.Axis(labelOverlap="greedy"))
    scale = alt.Scale(domain=[0, 100], scheme="blues")
    cells = chart.mark_rect().encode(
        x=grid.x(panel, "left:Q"),
        x2="right:Q",
        y=y,
        color=alt.Color(
            "busy:Q",
            scale=scale,
            legend=alt.Legend(orient="top", direction="horizontal", title="busy (%)"),
        ),
        tooltip=[alt.Tooltip("core:N"), alt.Tooltip("text:N", title="busy")],
    )
    layers = [cells]
    if len(cores) <= _READABLE_CORES and not grid.crowded:
        colour = alt.condition("datum.busy > 60", alt.value("#ffffff"), alt.value(CELL_INK))
        text = chart.mark_text(fontSize=10).encode(
            x=grid.x(panel), y=y, text="label:N", color=colour
        )
        layers.append(text)
    height = min(max(len(cores), 2) * _CELL_HEIGHT, _TALLEST)
    return plain(
        alt.layer(*layers).properties(
            title=small_multiple_title(panel), width=grid.width, height=height
        )
    )


def _rows(panel: Panel, grid: PanelGrid) -> list[Row]:
    return [
        {
            **grid.cell(point.place),
            "core": core,
            "busy": busy,
            "label": f"{busy:.0f}",
            "text": f"{busy:.1f} %",
        }
        for point in panel.points
        if point.result.cpu is not None
        for core, busy in point.result.cpu.cores_pct.items()
    ]
