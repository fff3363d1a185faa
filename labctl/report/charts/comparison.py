"""Charts of a comparison: one quantity each, small multiples by workload, a line a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import altair as alt

from labctl.analysis.compare.comparison import (
    ComparedCell,
    ComparedRow,
    ComparedRun,
    Comparison,
)
from labctl.analysis.compare.points import QUANTITIES, ComparedQuantity, named_points, of_drive
from labctl.analysis.results import RunSummary
from labctl.report.charts.small_multiples import panel_title, top_legend
from labctl.report.charts.theme import (
    INK,
    PREFIXED,
    TRIANGLE,
    Chart,
    Datasets,
    Row,
    Spec,
    finished,
    hues,
    joined,
    plain,
)
from labctl.report.numbers import repeatable_text
from labctl.report.panels import Panel, panels

_WIDTHS = {1: 760, 2: 465, 3: 300}


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
    called = _legend_names(found.runs)
    names = tuple(called.values())
    datasets = Datasets()
    parts: list[Spec] = []
    columns = min(max(len(shown), 1), 3)
    for one in shown:
        points = _points(one.panel, rows, one.names, called)
        if points:
            parts.append(_panel(one.panel, points, quantity, names, datasets, _WIDTHS[columns]))
    if not parts:
        return None
    title = quantity.title[0].upper() + quantity.title[1:]
    caption = f"{title} of each side along its sweep, ± repeatability (about 95 %) where known."
    if any(cell.throttled for row in rows.values() for cell in row.cells):
        caption += " A red triangle marks a phase in which the drive throttled."
    return finished(quantity.name, title, caption, joined(parts, columns), datasets)


def _legend_names(runs: Sequence[ComparedRun]) -> dict[str, str]:
    """The legend's name of each side: its letter, and what no other side has."""
    sides: dict[str, list[ComparedRun]] = {}
    for run in runs:
        sides.setdefault(run.side, []).append(run)
    first = [each[0] for each in sides.values()]
    for words in (
        [run.drive for run in first],
        [run.drive_model for run in first],
        [run.drive_serial for run in first],
        [run.run_id for run in first],
    ):
        if all(words) and len(set(words)) == len(first):
            break
    return {
        side: f"{side} {word}" + (f" and {len(each) - 1} more" if len(each) > 1 else "")
        for (side, each), word in zip(sides.items(), words, strict=True)
    }


def _points(
    panel: Panel,
    rows: Mapping[str, ComparedRow],
    names: Mapping[int, str],
    called: Mapping[str, str],
) -> list[Row]:
    found: list[Row] = []
    for point in panel.points:
        row = rows.get(names[point.result.phase.index])
        if row is None:
            continue
        for cell in row.cells:
            if cell.value is None:
                continue
            again = cell.value.repeatability or 0.0
            found.append(
                {
                    "x": point.tick,
                    "run": called[cell.run],
                    "y": cell.value.value,
                    "low": cell.value.value - again,
                    "high": cell.value.value + again,
                    "text": f"{repeatable_text(cell.value)} {row.unit}",
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
    free = repeatable_text(cell.unthrottled)
    return f"the drive throttled; while it did not: {free} {unit}"


def _axis_title(quantity: ComparedQuantity) -> str:
    named = quantity.unit in quantity.title
    return quantity.title if named else f"{quantity.title} ({quantity.unit})"


def _panel(
    panel: Panel,
    points: list[Row],
    quantity: ComparedQuantity,
    names: tuple[str, ...],
    datasets: Datasets,
    width: int,
) -> Spec:
    ticks = [point.tick for point in panel.points]
    x = alt.X(
        "x:O", sort=ticks, scale=alt.Scale(domain=ticks), title=panel.axis.title,
        axis=alt.Axis(labelAngle=0, labelOverlap="greedy", grid=False),
    )  # fmt: skip
    top = max(float(row["high"]) for row in points)
    scale = alt.Scale(domain=[0, top * 1.1 or 1.0], nice=False)
    axis = alt.Axis(labelExpr=PREFIXED, tickCount=5, minExtent=34)
    y = alt.Y("y:Q", scale=scale, title=_axis_title(quantity), axis=axis)
    colour = alt.Color(
        "run:N",
        title=None,
        scale=alt.Scale(domain=list(names), range=hues(names)),
        legend=top_legend(),
    )
    data = datasets.chart(points)
    tooltip = [alt.Tooltip("run:N"), alt.Tooltip("text:N", title="mean ± repeatability")]
    offset = alt.XOffset("run:N", sort=list(names))
    layers = [
        data.mark_bar().encode(x=x, xOffset=offset, y=y, color=colour, tooltip=tooltip),
        data.mark_rule(color=INK, strokeWidth=1.2).encode(
            x=x, xOffset=offset, y=alt.Y("low:Q", scale=scale), y2="high:Q"
        ),
    ]
    marked = [row for row in points if row["throttled"]]
    if marked:
        triangle = datasets.chart(marked).mark_point(**{**TRIANGLE, "size": 50}, yOffset=-8)
        tooltip = [alt.Tooltip("run:N"), alt.Tooltip("throttled:N", title=" ")]
        high = alt.Y("high:Q", scale=scale)
        layers.append(triangle.encode(x=x, xOffset=offset, y=high, tooltip=tooltip))
    title = panel_title(panel)
    return plain(alt.layer(*layers).properties(title=title, width=width, height=180))
