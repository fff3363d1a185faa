"""How many I/Os took how long: a row for each point of a sweep, a chart for each workload."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence

import altair as alt

from labctl.analysis.latency import latency_directions
from labctl.analysis.numbers import latency_text, prefixed, significant
from labctl.analysis.run.problems import latencies_are_valid
from labctl.analysis.run_summary import RunSummary
from labctl.fio.histogram import STEP
from labctl.fio.results import Direction
from labctl.report.charts.small_multiples import (
    WIDTHS,
    charts_in_rows,
    columns_of,
    small_multiple_title,
    top_legend,
)
from labctl.report.charts.theme import (
    GRID,
    HUES,
    INK,
    LATENCY,
    Chart,
    Datasets,
    Row,
    Spec,
    finished,
    log_ticks,
    plain,
)
from labctl.report.panels import Panel, panels

_ROW_PX, _LOWER_ROW_PX, _MANY = 30, 20, 12
_LOWEST_PX = 90
"""Of a chart, however few its rows: the name of its axis stands beside it."""
_MOST_TICKS = 6
_TALLEST = 0.88
"""The tallest step of a row, as a part of its height."""
_PERCENTILES = {"50": "50 %", "99": "99 %", "99.9": "99.9 %"}
_DASHES = [[1, 0], [4, 2], [1, 2]]
_COLOURS = {"read": HUES[0], "write": HUES[1]}


def latency_histograms(summary: RunSummary) -> Chart | None:
    """The chart; None where no phase has a histogram."""
    found = [(panel, rows) for panel in panels(summary.points) if (rows := _directions(panel))]
    if not found:
        return None
    edges = [
        float(edge) for _, rows in found for *_, side in rows for edge in side.latency_histogram
    ]
    low, high = min(edges), max(edges) * STEP
    datasets = Datasets()
    ops = tuple(op for op in _COLOURS if any(op == one for _, rows in found for _, one, _ in rows))
    columns = columns_of(len(found))
    parts = [
        _histogram_panel(panel, rows, ops, (low, high), columns, datasets) for panel, rows in found
    ]
    caption = (
        "How many I/Os took how long, on a logarithmic axis with steps of equal width. The tallest "
        "step of each row fills it. The lines are the times within which 50 %, 99 % and 99.9 % of "
        "the I/Os of the row were complete."
    )
    title = "Latency histograms"
    return finished("latency-histograms", title, caption, charts_in_rows(parts, columns), datasets)


def _directions(panel: Panel) -> list[tuple[str, str, Direction]]:
    """Each direction of each point that has a histogram of the drive's own latencies: what it is
    called, the direction, and what was measured."""
    sides = [
        (point.tick, op, side)
        for point in panel.points
        if latencies_are_valid(point.result)
        for op, side in latency_directions(point.result).items()
        if side.latency_histogram
    ]
    both = len({op for _, op, _ in sides}) > 1
    return [(f"{tick} {op}" if both else tick, op, side) for tick, op, side in sides]


def _histogram_panel(
    panel: Panel,
    sides: Sequence[tuple[str, str, Direction]],
    ops: Sequence[str],
    span_us: tuple[float, float],
    columns: int,
    datasets: Datasets,
) -> Spec:
    low, high = span_us
    x_axis = alt.Axis(labelExpr=LATENCY, values=_latency_ticks(low, high), labelOverlap="greedy")
    x_scale = alt.Scale(type="log", domain=[low, high], nice=False)
    x = alt.X("from:Q", scale=x_scale, axis=x_axis, title="latency")
    names = json.dumps([name for name, *_ in sides])
    y_axis = alt.Axis(
        values=[number + 0.5 for number in range(len(sides))],
        labelExpr=f"{names}[floor(datum.value)]",
        grid=False,
        ticks=False,
        domain=False,
        minExtent=44,
        labelOverlap="greedy",
    )
    y_scale = alt.Scale(domain=[len(sides), 0], nice=False)
    y = alt.Y("top:Q", scale=y_scale, axis=y_axis, title=panel.axis.title)
    colours = alt.Scale(domain=list(ops), range=[_COLOURS[op] for op in ops])
    colour = alt.Color("op:N", scale=colours, legend=top_legend() if len(ops) > 1 else None)
    dash = alt.StrokeDash(
        "of:N",
        scale=alt.Scale(domain=list(_PERCENTILES.values()), range=_DASHES),
        legend=alt.Legend(orient="top", title=None, symbolType="stroke", symbolStrokeColor=INK),
    )
    grounds: list[Row] = [{"from": low, "to": high, "top": n + 1} for n in range(len(sides))]
    ground = datasets.chart(grounds).mark_rule(color=GRID).encode(x=x, x2="to:Q", y=y)
    steps = [row for number, side in enumerate(sides) for row in _steps(number, *side)]
    bars = (
        datasets.chart(steps)
        .mark_rect(aria=False)
        .encode(
            x=x,
            x2="to:Q",
            y=y,
            y2="foot:Q",
            color=colour,
            tooltip=[
                alt.Tooltip("at:N", title=panel.axis.title),
                alt.Tooltip("op:N", title="direction"),
                alt.Tooltip("us:N", title="latency"),
                alt.Tooltip("text:N", title="I/Os"),
            ],
        )
    )
    marks = [row for number, side in enumerate(sides) for row in _histogram_marks(number, *side)]
    lines = (
        datasets.chart(marks)
        .mark_rule(color=INK, strokeWidth=1.3)
        .encode(
            x=x,
            y=y,
            y2="foot:Q",
            strokeDash=dash,
            tooltip=[alt.Tooltip("of:N", title="within"), alt.Tooltip("us:N", title="latency")],
        )
    )
    pitch = _ROW_PX if len(sides) <= _MANY else _LOWER_ROW_PX
    height = max(pitch * len(sides), _LOWEST_PX)
    whole = alt.layer(ground, bars, lines)
    return plain(
        whole.properties(title=small_multiple_title(panel), width=WIDTHS[columns], height=height)
    )


def _latency_ticks(low: float, high: float) -> list[float]:
    """Where the axis has numbers: its decades alone, if more would not have room."""
    ticks = log_ticks(low, high)
    decades = [tick for tick in ticks if math.log10(tick).is_integer()]
    return decades if len(ticks) > _MOST_TICKS and len(decades) > 1 else ticks


def _steps(number: int, name: str, op: str, side: Direction) -> Iterator[Row]:
    """The steps of a row, the ``number``-th from the top."""
    total, tallest = sum(side.latency_histogram.values()), max(side.latency_histogram.values())
    for edge, ios in side.latency_histogram.items():
        low, high = float(edge), float(edge) * STEP
        yield {
            "from": low,
            "to": round(high, 4),
            "foot": number + 1,
            "top": round(number + 1 - _TALLEST * ios / tallest, 4),
            "at": name,
            "op": op,
            "us": f"{latency_text(low)} to {latency_text(high)}",
            "text": f"{significant(ios / total * 100, 3)} % ({prefixed(ios)})",
        }


def _histogram_marks(number: int, name: str, op: str, side: Direction) -> Iterator[Row]:
    """Where the percentiles of a row are."""
    for percentile, words in _PERCENTILES.items():
        us = side.latency_percentiles_us.get(percentile)
        if us:
            ends = {"top": number + 1 - _TALLEST, "foot": number + 1}
            yield {"from": us, **ends, "of": words, "us": latency_text(us)}
