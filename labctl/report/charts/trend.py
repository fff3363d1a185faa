"""Charts of a series of runs: all points of a quantity through the months, and those that moved."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from typing import Literal

import altair as alt

from labctl.analysis.compare.conditions import FIRMWARE
from labctl.analysis.compare.series_table import WATCHED
from labctl.analysis.compare.trend_results import TrendRow, TrendSeries
from labctl.analysis.numbers import significant, utc
from labctl.analysis.stats.series_candidates import CandidateKind
from labctl.report.charts.small_multiples import charts_in_rows, top_legend
from labctl.report.charts.theme import (
    HUES,
    INK,
    LATENCY,
    LINE,
    PREFIXED,
    SOFT,
    Chart,
    Datasets,
    Row,
    Spec,
    finished,
    plain,
    signed,
)
from labctl.report.trend_words import DAY, span_of, title_of, trend_words_with_u

COLUMNS = 3
WIDTH, HEIGHT = 310, 170
MOST_PANELS = 12
"""Moved points that are drawn, the clearest first; the others are in the tables."""
_DATES = 4
"""Dates along an axis."""
_VALUE, _MIDDLE, _LEVEL = "a point", "middle of all points", "level"


def trend_charts(series: TrendSeries, name: str) -> tuple[Chart, ...]:
    """A chart with all points, a panel a quantity, and one of the points that moved most."""
    charts = [_whole_trend_chart(series, name), _moved_trend_chart(series, name)]
    source = f"{title_of(series)}: {span_of(series)}"
    return tuple(signed(chart, source) for chart in charts if chart is not None)


def _whole_trend_chart(series: TrendSeries, name: str) -> Chart | None:
    """Each point against its middle, in per cent."""
    datasets, parts = Datasets(), []
    for quantity, kind in WATCHED.items():
        rows = [row for row in series.rows if row.quantity == quantity]
        if rows and len(series.runs) > 1:
            points, middle = _against_middle(rows)
            title = f"{kind.title}, change from the median"
            parts.append(
                _trend_chart_panel(
                    series, datasets, points, middle, _MIDDLE, title, "%", PREFIXED, HUES[0]
                )
            )
    if not parts:
        return None
    caption = (
        "Every point of a run as a dot, in per cent of its median over the runs, and the median of "
        "all points as a line. " + _trend_chart_marks(series)
    )
    title = "All points through the runs"
    return finished(f"{name}-all", title, caption, charts_in_rows(parts, COLUMNS), datasets)


def _against_middle(rows: Sequence[TrendRow]) -> tuple[list[Row], list[Row]]:
    points: list[Row] = []
    by_run: dict[int, list[float]] = {}
    for row in rows:
        known = [value for value in row.values if value is not None]
        if not known:
            continue
        usual = statistics.median(known)
        for run, value in enumerate(row.values, start=1):
            if value is not None:
                change = (value / usual - 1.0) * 100.0
                by_run.setdefault(run, []).append(change)
                text = f"{row.point}: {significant(change, 2)} %"
                points.append({"run": run, "y": change, "text": text})
    middle = [{"run": run, "y": statistics.median(by_run[run])} for run in sorted(by_run)]
    return points, middle


def _moved_trend_chart(series: TrendSeries, name: str) -> Chart | None:
    """The points that moved most surely: each run's value, and the levels."""
    rows = {(row.quantity, row.point): row for row in series.rows}
    sure = {
        (one.quantity, one.point): one
        for change in series.changes
        for one in change.moved
        if not one.by_meters
    }
    ratio = {key: abs(one.change.value) / max(one.change.u, 1e-12) for key, one in sure.items()}
    shown = sorted(sure, key=lambda key: -ratio[key])[:MOST_PANELS]
    if not shown:
        return None
    datasets, parts = Datasets(), []
    for key in shown:
        row, kind = rows[key], WATCHED[key[0]]
        points: list[Row] = [
            {"run": run, "y": value, "text": f"{significant(value)} {row.unit}"}
            for run, value in enumerate(row.values, start=1)
            if value is not None
        ]
        levels: list[Row] = [
            {"run": run, "y": level}
            for run, level in enumerate(row.levels, start=1)
            if level is not None
        ]
        title = f"{row.point}: {trend_words_with_u(sure[key])}"
        labels = LATENCY if row.unit == "µs" else PREFIXED
        parts.append(
            _trend_chart_panel(
                series, datasets, points, levels, _LEVEL, title, kind.title, labels, HUES[1]
            )
        )
    more = len(sure) - len(shown)
    caption = "The points that moved, those that are clearest first: a dot a run, the levels as a "
    caption += (
        "line. " + _trend_chart_marks(series) + (f" {more} more are in the tables." if more else "")
    )
    title = "What moved"
    return finished(f"{name}-moved", title, caption, charts_in_rows(parts, COLUMNS), datasets)


def _trend_chart_marks(series: TrendSeries) -> str:
    text = "Dashed: another firmware."
    if any(change.kind is CandidateKind.STEP for change in series.changes):
        text = "A solid rule with its number is a step, a dashed one another firmware."
    return text


def _trend_chart_panel(
    series: TrendSeries, datasets: Datasets, points: list[Row], line: list[Row], line_name: str,
    title: str, axis: str, labels: str, hue: str,
) -> Spec:  # fmt: skip
    values = [row["y"] for row in (*points, *line)]
    low, high = min(values), max(values)
    room = max(high - low, abs(high) * 1e-3, 1e-9) * 0.12
    y_scale = alt.Scale(domain=[low - room, high + 2 * room], nice=False, zero=False)
    y_axis = alt.Axis(labelExpr=labels, tickCount=5, minExtent=44)
    y = alt.Y("y:Q", scale=y_scale, title=axis, axis=y_axis)
    x = _runs_axis(series)
    # a level goes on until the next one begins; in a drift it goes from run to run
    steps = line_name == _LEVEL and len({row["y"] for row in line}) < len(line) / 2
    between: Literal["step", "linear"] = "step" if steps else "linear"
    key = alt.Color(
        "what:N",
        scale=alt.Scale(domain=[_VALUE, line_name], range=[SOFT, hue]),
        legend=top_legend(),
    )
    dots = datasets.chart([{**row, "what": _VALUE} for row in points])
    through = datasets.chart([{**row, "what": line_name} for row in line])
    tooltip = [alt.Tooltip("run:Q"), alt.Tooltip("text:N", title=" ")]
    dense = len(points) > 4 * len(series.runs)
    layers = [
        *_rules(series, datasets, x),
        dots.mark_circle(size=14 if dense else 30, opacity=0.3 if dense else 0.8).encode(
            x=x, y=y, color=key, tooltip=tooltip
        ),
        through.mark_line(strokeWidth=2.2, interpolate=between).encode(x=x, y=y, color=key),
    ]
    heading = alt.TitleParams(title, limit=WIDTH)
    return plain(alt.layer(*layers).properties(title=heading, width=WIDTH, height=HEIGHT))


def _runs_axis(series: TrendSeries) -> alt.X:
    """Runs in their order, at equal distances, with some of their dates."""
    n = len(series.runs)
    step = max(1, math.ceil((n - 1) / _DATES)) if n > 1 else 1
    ticks = list(range(1, n + 1, step))
    dates = [utc(series.runs[run - 1].begin_ns, DAY) for run in ticks]
    label = f"{json.dumps(dates)}[indexof({json.dumps(ticks)}, datum.value)]"
    axis = alt.Axis(values=ticks, labelExpr=label, grid=False, labelOverlap="greedy")
    scale = alt.Scale(domain=[0.5, n + 0.5], nice=False, zero=False)
    return alt.X("run:Q", scale=scale, title=None, axis=axis)


def _rules(series: TrendSeries, datasets: Datasets, x: alt.X) -> list[alt.Chart]:
    firmware: list[Row] = [
        {"run": run.number - 0.5, "text": str(one)}
        for run in series.runs
        for one in run.changed
        if one.name.partition(" of ")[0] == FIRMWARE
    ]
    steps: list[Row] = [
        {"run": change.run - 0.5, "number": str(number)}
        for number, change in enumerate(series.changes, start=1)
        if change.kind is CandidateKind.STEP
    ]
    layers = []
    if firmware:
        drawn = datasets.chart(firmware).mark_rule(color=LINE, strokeDash=[4, 3])
        layers.append(drawn.encode(x=x, tooltip=[alt.Tooltip("text:N", title=" ")]))
    if steps:
        data = datasets.chart(steps)
        layers.append(data.mark_rule(color=INK, strokeWidth=1.2).encode(x=x))
        text = data.mark_text(color=INK, align="left", dx=4, baseline="top", fontWeight="bold")
        layers.append(text.encode(x=x, y=alt.value(0), text="number:N"))
    return layers
