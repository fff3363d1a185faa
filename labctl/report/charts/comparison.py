"""Charts of a comparison: one quantity each, small multiples by workload, a line a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import altair as alt

from labctl.analysis.compare.comparison import (
    QUANTITIES,
    ComparedCell,
    ComparedQuantity,
    ComparedRow,
    ComparedRun,
    Comparison,
    named_points,
    of_drive,
)
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
from labctl.report.numbers import prefixed_with_uncertainty
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
    caption = f"{title} of each run along its sweep, with U (k = 2) where it is known."
    if any(cell.throttled for row in rows.values() for cell in row.cells):
        caption += " A red triangle marks a phase in which the drive throttled."
    return finished(quantity.name, title, caption, joined(parts, columns), datasets)


def _legend_names(runs: Sequence[ComparedRun]) -> dict[str, str]:
    """The legend's name of each run: its letter, and what no other run has."""
    for words in (
        [run.drive for run in runs],
        [run.drive_model for run in runs],
        [run.drive_serial for run in runs],
        [run.run_id for run in runs],
    ):
        if all(words) and len(set(words)) == len(runs):
            break
    return {run.name: f"{run.name} {word}" for run, word in zip(runs, words, strict=True)}


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
            known = math.isfinite(cell.value.u)
            u = cell.value.u if known else 0.0
            found.append(
                {
                    "x": point.tick,
                    "run": called[cell.run],
                    "y": cell.value.value,
                    "low": cell.value.value - u,
                    "high": cell.value.value + u,
                    "text": f"{prefixed_with_uncertainty(cell.value)} {row.unit}",
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
    free = prefixed_with_uncertainty(cell.unthrottled)
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
    tooltip = [alt.Tooltip("run:N"), alt.Tooltip("text:N", title="mean ± U")]
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
