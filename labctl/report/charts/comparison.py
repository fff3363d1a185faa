"""Charts of a comparison: one quantity each, small multiples by workload, a line a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt

from labctl.analysis.compare.comparison import (
    ComparedCell,
    ComparedRow,
    ComparedRun,
    Comparison,
)
from labctl.analysis.compare.points import QUANTITIES, ComparedQuantity, named_points, of_drive
from labctl.analysis.estimate import Estimate
from labctl.analysis.numbers import latency_text, repeatable_text, utc
from labctl.analysis.run_summary import RunSummary
from labctl.report.charts.small_multiples import (
    PanelGrid,
    charts_in_rows,
    small_multiple_title,
    top_legend,
)
from labctl.report.charts.theme import (
    INK,
    LATENCY,
    PREFIXED,
    Chart,
    Datasets,
    Row,
    Spec,
    finished,
    hues,
    plain,
    signed,
    triangles,
)
from labctl.report.panels import Panel, panels, placed


def comparison_charts(found: Comparison, first: RunSummary) -> tuple[Chart, ...]:
    """A chart a quantity; ``first`` is the summary of run A, whose sweeps give the panels."""
    shown = [
        ComparedPanel(
            panel if not drive else replace(panel, title=of_drive(drive, panel.title)),
            {
                result.phase.index: of_drive(drive, name) if drive else name
                for name, result in named_points(summary).items()
            },
        )
        for drive, summary in {"": first, **first.drives}.items()
        for panel in panels(summary.points)
    ]
    at_one_place = placed([one.panel for one in shown])
    shown = [replace(one, panel=panel) for one, panel in zip(shown, at_one_place, strict=True)]
    charts = (_chart(found, quantity, shown) for quantity in QUANTITIES)
    return tuple(chart for chart in charts if chart is not None)


@dataclass(frozen=True, slots=True)
class ComparedPanel:
    """A panel of run A, or of a drive in it; ``names`` of its points, by the phase's index."""

    panel: Panel
    names: Mapping[int, str]


def _chart(
    found: Comparison, quantity: ComparedQuantity, shown: Sequence[ComparedPanel]
) -> Chart | None:
    rows = {row.point: row for row in found.quantity(quantity.name)}
    called = drive_names(found.runs)
    if not shown:
        return None
    grid = PanelGrid.of([one.panel for one in shown])
    drawn = [
        (one.panel, points)
        for one in shown
        if (points := _comparison_chart_points(one, rows, called, grid))
    ]
    if not drawn:
        return None
    tops: dict[bool, float] = {}
    for panel, points in drawn:
        highest = max(float(point["high"]) for point in points)
        tops[panel.in_bytes] = max(highest, tops.get(panel.in_bytes, 0.0))
    names, datasets = tuple(called.values()), Datasets()
    parts = [
        _comparison_chart_panel(
            panel, points, quantity, names, datasets, grid, tops[panel.in_bytes]
        )
        for panel, points in drawn
    ]
    title = quantity.title[0].upper() + quantity.title[1:]
    caption = f"{title} of each side along its sweep, ± repeatability (about 95 %) where known."
    if any(cell.throttled for row in rows.values() for cell in row.cells):
        caption += " A red triangle marks a phase in which the drive throttled."
    chart = finished(quantity.name, title, caption, charts_in_rows(parts, grid.columns), datasets)
    return signed(chart, " against ".join(names))


def drive_names(runs: Sequence[ComparedRun]) -> dict[str, str]:
    """What a chart calls each side: its letter, its drive, and what no other side has."""
    sides: dict[str, list[ComparedRun]] = {}
    for run in runs:
        sides.setdefault(run.side, []).append(run)
    first = [each[0] for each in sides.values()]
    for words in (
        [run.drive for run in first],
        [run.drive_model for run in first],
        [f"{run.drive_model} {run.drive_serial}".strip() for run in first],
        [f"{run.drive_model} {utc(run.begin_ns, '%Y-%m-%d %H:%M')}".strip() for run in first],
        [run.run_id for run in first],
    ):
        if all(words) and len(set(words)) == len(first):
            break
    return {
        side: f"{side} {word}" + (f" and {len(each) - 1} more" if len(each) > 1 else "")
        for (side, each), word in zip(sides.items(), words, strict=True)
    }


def _comparison_chart_points(
    one: ComparedPanel,
    rows: Mapping[str, ComparedRow],
    called: Mapping[str, str],
    grid: PanelGrid,
) -> list[Row]:
    found: list[Row] = []
    sides = list(called)
    for point in one.panel.points:
        row = rows.get(one.names[point.result.phase.index])
        if row is None:
            continue
        for cell in row.cells:
            if cell.value is None:
                continue
            again = cell.value.repeatability or 0.0
            found.append(
                {
                    **grid.sides(point.place, sides.index(cell.run), len(sides)),
                    "run": called[cell.run],
                    "y": cell.value.value,
                    "low": cell.value.value - again,
                    "high": cell.value.value + again,
                    "text": _comparison_chart_value(cell.value, row.unit),
                    "throttled": _throttled_text(cell, row.unit),
                }
            )
    return found


def _throttled_text(cell: ComparedCell, unit: str) -> str:
    """The tooltip of a triangle; empty where the drive did not throttle."""
    if not cell.throttled:
        return ""
    if cell.unthrottled is None:
        return "the drive throttled"
    return (
        f"the drive throttled; while it did not: {_comparison_chart_value(cell.unthrottled, unit)}"
    )


def _comparison_chart_value(value: Estimate, unit: str) -> str:
    """With its repeatability; a latency in the unit that suits it."""
    if unit == "µs" and value.repeatability is None:
        return latency_text(value.value)
    return f"{repeatable_text(value)} {unit}"


def _axis_title(quantity: ComparedQuantity) -> str:
    named = quantity.unit in (*quantity.title.split(), "µs")
    return quantity.title if named else f"{quantity.title} ({quantity.unit})"


def _comparison_chart_panel(
    panel: Panel,
    points: list[Row],
    quantity: ComparedQuantity,
    names: tuple[str, ...],
    datasets: Datasets,
    grid: PanelGrid,
    top: float,
) -> Spec:
    scale = alt.Scale(domain=[0, top * 1.1 or 1.0], nice=False)
    labels = LATENCY if quantity.unit == "µs" else PREFIXED
    axis = alt.Axis(labelExpr=labels, tickCount=5, minExtent=44)
    y = alt.Y("y:Q", scale=scale, title=_axis_title(quantity), axis=axis)
    colour = alt.Color(
        "run:N",
        scale=alt.Scale(domain=list(names), range=hues(names)),
        legend=top_legend(),
    )
    data = datasets.chart(points)
    tooltip = [alt.Tooltip("run:N"), alt.Tooltip("text:N", title="mean ± repeatability")]
    middle = grid.x(panel)
    layers: list[Any] = [
        data.mark_rect().encode(
            x=grid.x(panel, "left:Q"),
            x2="right:Q",
            y=y,
            y2=alt.Y2Datum(0),
            color=colour,
            tooltip=tooltip,
        ),
        data.mark_rule(color=INK, strokeWidth=1.2).encode(
            x=middle, y=alt.Y("low:Q", scale=scale), y2="high:Q"
        ),
    ]
    marked = [row for row in points if row["throttled"]]
    if marked:
        seen, high = alt.Tooltip("throttled:N", title=" "), alt.Y("high:Q", scale=scale)
        layers.append(triangles(datasets, marked, middle, high, seen, up_px=8))
    title = small_multiple_title(panel)
    return plain(alt.layer(*layers).properties(title=title, width=grid.width, height=180))
