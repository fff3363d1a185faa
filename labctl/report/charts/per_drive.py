"""What each of several drives did along the axis of each sweep: its work, and its watts."""

from __future__ import annotations

from collections.abc import Callable

import altair as alt

from labctl.analysis.numbers import prefixed, with_uncertainty
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run import drives as run_drives
from labctl.analysis.run_summary import RunSummary
from labctl.report.charts.small_multiples import (
    PanelGrid,
    charts_in_rows,
    small_multiple_title,
    top_legend,
)
from labctl.report.charts.theme import (
    GROUPED,
    PREFIXED,
    Chart,
    Datasets,
    Row,
    Spec,
    finished,
    hues,
    plain,
)
from labctl.report.panels import Panel, panels

Value = Callable[[Panel, PhaseResult], tuple[float, str] | None]
"""What is drawn of a phase, and its text; None where it was not measured."""


def drive_charts(summary: RunSummary) -> tuple[Chart, ...]:
    """Work and watts of each drive; none where there is one drive."""
    if not summary.drives:
        return ()
    charts = (
        _per_drive_chart(
            summary,
            "drives_work",
            "Work, drive by drive",
            "Work of each drive while all of them worked.",
            _per_drive_work,
        ),
        _per_drive_chart(
            summary,
            "drives_watts",
            "Watts, drive by drive",
            "Mean power of each drive, of all its rails, while all of them worked.",
            _per_drive_watts,
        ),
    )
    return tuple(chart for chart in charts if chart is not None)


def _per_drive_work(panel: Panel, result: PhaseResult) -> tuple[float, str] | None:
    if panel.in_bytes:
        rate = None if result.bytes_per_s is None else result.bytes_per_s / 1e6
        return None if rate is None else (rate, f"{prefixed(rate)} MB/s")
    return None if result.iops is None else (result.iops, f"{prefixed(result.iops)} IOPS")


def _per_drive_watts(panel: Panel, result: PhaseResult) -> tuple[float, str] | None:
    watts = result.watts
    return None if watts is None else (watts.value, f"{with_uncertainty(watts)} W")


def _per_drive_chart(
    summary: RunSummary, name: str, title: str, caption: str, value: Value
) -> Chart | None:
    found = [panel for panel in panels(summary.points) if _per_drive_rows(summary, panel, value)]
    if not found:
        return None
    grid, datasets = PanelGrid.of(found), Datasets()
    small = [_per_drive_panel(summary, panel, value, grid, datasets) for panel in found]
    return finished(name, title, caption, charts_in_rows(small, grid.columns), datasets)


def _per_drive_panel(
    summary: RunSummary, panel: Panel, value: Value, grid: PanelGrid, datasets: Datasets
) -> Spec:
    drives = tuple(summary.drives)
    chart = datasets.chart(_per_drive_rows(summary, panel, value))
    x = grid.x(panel)
    work = "MB/s" if panel.in_bytes else "IOPS"
    numbers = GROUPED if panel.in_bytes or value is _per_drive_watts else PREFIXED
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(zero=True),
        title="mean power (W)" if value is _per_drive_watts else work,
        axis=alt.Axis(labelExpr=numbers, tickCount=5, minExtent=34),
    )
    colour = alt.Color(
        "drive:N",
        scale=alt.Scale(domain=drives, range=hues(drives)),
        legend=top_legend(),
    )
    line = chart.mark_line(strokeWidth=1.5).encode(x=x, y=y, color=colour)
    tooltip = [alt.Tooltip("drive:N"), alt.Tooltip("text:N", title="value")]
    point = chart.mark_point(filled=True, size=36, opacity=1)
    marks = point.encode(x=x, y=y, color=colour, tooltip=tooltip)
    return plain(
        alt.layer(line, marks).properties(
            title=small_multiple_title(panel), width=grid.width, height=180
        )
    )


def _per_drive_rows(summary: RunSummary, panel: Panel, value: Value) -> list[Row]:
    return [
        {"x": point.place, "drive": drive, "value": shown[0], "text": shown[1]}
        for point in panel.points
        for drive, _, result in run_drives.by_drive(summary, point.result)
        if (shown := value(panel, result)) is not None
    ]
