"""Watts, work and latency along the axis of each sweep, one small chart a workload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt

from labctl.analysis.estimate import Estimate
from labctl.analysis.latency import latency_directions
from labctl.analysis.numbers import (
    latency_text,
    prefixed,
    prefixed_value,
    scaled,
    significant,
    value_only,
    with_uncertainty,
)
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run.problems import latencies_are_valid
from labctl.analysis.run_summary import RunSummary
from labctl.report import key_figures
from labctl.report.charts.small_multiples import (
    PanelGrid,
    charts_in_rows,
    small_multiple_title,
    throttle_words,
    top_legend,
)
from labctl.report.charts.theme import (
    GROUPED,
    HUES,
    INK,
    LATENCY,
    PREFIXED,
    Chart,
    Datasets,
    Row,
    Spec,
    finished,
    hues,
    log_ticks,
    plain,
    triangles,
)
from labctl.report.panels import Panel, PanelPoint, panels

_MEAN, _SLOWEST = "mean", "slowest"
_PERCENTILES = {"99 %": "99", "99.9 %": "99.9"}
_LATENCIES = (_MEAN, *_PERCENTILES, _SLOWEST)


def sweep_charts(summary: RunSummary) -> tuple[Chart, ...]:
    """Watts, work and latency along each sweep; a chart without anything to show is left out."""
    found = panels(summary.points)
    charts = (
        _sweep_watts_chart(summary, found),
        _sweep_work_chart(summary, found),
        _sweep_latency_chart(summary, found),
    )
    return tuple(chart for chart in charts if chart is not None)


def _sweep_triangles(
    datasets: Datasets,
    grid: PanelGrid,
    panel: Panel,
    heights: Mapping[float, float],
    scale: alt.Scale,
    up_px: int,
) -> Iterator[Any]:
    """A red triangle over each throttled phase; ``heights`` by place."""
    rows: list[Row] = [
        {"x": point.place, "y": heights[point.place], "text": _throttled_text(point.result)}
        for point in panel.points
        if point.result.throttled and point.place in heights
    ]
    if rows:
        y, tooltip = alt.Y("y:Q", scale=scale), alt.Tooltip("text:N", title=" ")
        yield triangles(datasets, rows, grid.x(panel), y, tooltip, up_px=up_px)


def _throttled_text(result: PhaseResult) -> str:
    """What a throttled phase did, and what it did while it did not throttle."""
    if result.watts_unthrottled is None and result.iops_unthrottled is None:
        return "the drive throttled"
    watts = with_uncertainty(result.watts_unthrottled)
    iops = prefixed_value(result.iops_unthrottled)
    return f"the drive throttled; while it did not: {watts} W, {iops} IOPS"


def _sweep_error_span(estimate: Estimate) -> Row:
    return {"low": estimate.value - estimate.u, "high": estimate.value + estimate.u}


def _stacked_sweep_watts(point: PanelPoint) -> float:
    rails = sum(rail.watts.value for rail in point.result.rails.values())
    total = point.result.watts
    return max(rails, total.value + total.u if total else 0.0)


def _sweep_watts_chart(summary: RunSummary, found: Sequence[Panel]) -> Chart | None:
    top = max(
        (_stacked_sweep_watts(point) for panel in found for point in panel.points), default=0.0
    )
    if top <= 0:
        return None
    grid = PanelGrid.of(found)
    datasets = Datasets()
    if summary.idle_watts is not None:  # a phase without watts of one rail may be below it
        top = max(top, summary.idle_watts.value)
    scale = alt.Scale(domain=[0, top * 1.2], nice=False, zero=True)
    small = [_sweep_watts_panel(summary, panel, grid, scale, datasets) for panel in found]
    partly = [point for panel in found for point in panel.points if _is_part(point.result)]
    idle = " The dashed line is the power of idling." if summary.idle_watts is not None else ""
    if partly:
        idle += " A pale bar has not all rails: its height is not the drive's power."
    caption = (
        "Mean power of each phase, stacked by rail. The error bar is the expanded uncertainty "
        f"(about 95 %) of the total.{idle}{throttle_words(summary.measured)}"
    )
    return finished("watts", "Watts", caption, charts_in_rows(small, grid.columns), datasets)


def _is_part(result: PhaseResult) -> bool:
    """Whether the watts of a rail are missing, so that the others are no total."""
    return bool(result.rails) and result.watts is None


def _sweep_watts_panel(
    summary: RunSummary, panel: Panel, grid: PanelGrid, scale: alt.Scale, datasets: Datasets
) -> Spec:
    rails = key_figures.rail_names(summary)
    x = grid.x(panel)
    colours = alt.Scale(domain=list(rails), range=hues(rails))
    layers: list[Any] = [
        datasets.chart(_bar_rows(panel, grid, rails))
        .mark_rect()
        .encode(
            x=grid.x(panel, "left:Q"),
            x2="right:Q",
            y=alt.Y("from:Q", scale=scale, title="mean power (W)"),
            y2="to:Q",
            color=alt.Color("rail:N", scale=colours, legend=top_legend()),
            opacity=alt.Opacity("opacity:Q", scale=None),
            tooltip=[alt.Tooltip("rail:N"), alt.Tooltip("text:N", title="mean ± U")],
        )
    ]
    total = datasets.chart(
        [
            {
                "x": point.place,
                **_sweep_error_span(point.result.watts),
                "label": value_only(point.result.watts),
                "text": f"{with_uncertainty(point.result.watts)} W",
            }
            for point in panel.points
            if point.result.watts is not None
        ]
    )
    layers.append(_error_bars(total, x, scale))
    if not grid.crowded:
        high = alt.Y("high:Q", scale=scale)
        halo = total.mark_text(dy=-9, fontSize=10, color="white", stroke="white", strokeWidth=3)
        label = total.mark_text(dy=-9, fontSize=10, color=INK)
        layers += [one.encode(x=x, y=high, text="label:N") for one in (halo, label)]
    heights = {
        point.place: _stacked_sweep_watts(point)
        for point in panel.points
        if _stacked_sweep_watts(point)
    }
    layers.extend(_sweep_triangles(datasets, grid, panel, heights, scale, 26))
    if summary.idle_watts is not None:
        layers.append(_idle_line(datasets, summary.idle_watts, scale))
    return plain(
        alt.layer(*layers).properties(
            title=small_multiple_title(panel), width=grid.width, height=220
        )
    )


def _bar_rows(panel: Panel, grid: PanelGrid, rails: Sequence[str]) -> list[Row]:
    """The part of each rail in the bar of each phase, one upon the other."""
    rows: list[Row] = []
    for point in panel.points:
        top = 0.0
        for name in rails:
            rail = point.result.rails.get(name)
            if rail is None:
                continue
            below, top = top, top + rail.watts.value
            rows.append(
                {
                    **grid.sides(point.place),
                    "from": below,
                    "to": top,
                    "rail": name,
                    "opacity": 0.35 if _is_part(point.result) else 1.0,
                    "text": f"{with_uncertainty(rail.watts)} W",
                }
            )
    return rows


def _idle_line(datasets: Datasets, idle: Estimate, scale: alt.Scale) -> Any:
    """A dashed line at the power of idling, with its name in the legend."""
    name = f"idle {significant(idle.value, 3)} W"
    legend = alt.Legend(
        orient="top", title=None, symbolType="stroke", symbolStrokeColor=INK, symbolSize=250
    )
    dash = alt.Scale(domain=[name], range=[[4, 3]])
    rule = datasets.chart([{"y": idle.value, "what": name}]).mark_rule(color=INK, strokeWidth=1.2)
    return rule.encode(
        y=alt.Y("y:Q", scale=scale),
        strokeDash=alt.StrokeDash("what:N", scale=dash, legend=legend),
    )


def _error_bars(chart: alt.Chart, x: alt.X, scale: alt.Scale, title: str = "") -> Any:
    y = alt.Y("low:Q", scale=scale, title=title) if title else alt.Y("low:Q", scale=scale)
    ends = [
        chart.mark_tick(orient="horizontal", color=INK, size=9, thickness=1.2).encode(
            x=x, y=alt.Y(end, scale=scale)
        )
        for end in ("low:Q", "high:Q")
    ]
    rule = chart.mark_rule(color=INK, strokeWidth=1.2).encode(
        x=x, y=y, y2="high:Q", tooltip=alt.Tooltip("text:N", title="± U")
    )
    return alt.layer(rule, *ends)


def _sweep_work_chart(summary: RunSummary, found: Sequence[Panel]) -> Chart | None:
    points = [point for panel in found for point in panel.points]
    if not any(point.result.iops for point in points):
        return None
    grid = PanelGrid.of(found)
    datasets = Datasets()
    efficient = any(point.result.iops_per_watt for point in points)
    tops: dict[str, float] = {}
    for panel in found:
        for unit, rows in _work_rows(panel):
            highest = max((float(row["high"]) for row in rows), default=0.0)
            tops[unit] = max(highest, tops.get(unit, 0.0))
    small = [_work_panel(panel, grid, tops, datasets, efficient=efficient) for panel in found]
    caption = "Work of each phase along its axis."
    if efficient:
        caption = (
            "Work of each phase (above) and work per energy (below). The error bar is the expanded "
            "uncertainty (about 95 %)."
        )
    caption += throttle_words(summary.measured)
    return finished(
        "work", "Work and efficiency", caption, charts_in_rows(small, grid.columns), datasets
    )


def _work_rows(panel: Panel) -> tuple[tuple[str, list[Row]], tuple[str, list[Row]]]:
    """The unit and the rows of the work, and those of the work per energy."""
    rate_title, per_title = ("MB/s", "MB/J") if panel.in_bytes else ("IOPS", "IOPS/W")
    rates: list[Row] = []
    efficiencies: list[Row] = []
    for point in panel.points:
        result = point.result
        at = {"x": point.place, "at": point.name}
        rate = result.bytes_per_s if panel.in_bytes else result.iops
        if rate is not None:
            rate = rate / 1e6 if panel.in_bytes else rate
            text = f"{prefixed(rate)} {rate_title}"
            rates.append({**at, "y": rate, "low": rate, "high": rate, "text": text})
        per_energy = (
            scaled(result.bytes_per_joule, 1e-6) if panel.in_bytes else result.iops_per_watt
        )
        if per_energy is not None:
            row = {**at, "y": per_energy.value, **_sweep_error_span(per_energy)}
            efficiencies.append({**row, "text": with_uncertainty(per_energy)})
    return (rate_title, rates), (per_title, efficiencies)


def _work_panel(
    panel: Panel,
    grid: PanelGrid,
    tops: Mapping[str, float],
    datasets: Datasets,
    *,
    efficient: bool,
) -> Spec:
    (rate_title, rates), (per_title, efficiencies) = _work_rows(panel)
    top = tops[rate_title]
    upper = _sweep_line(datasets, grid, panel, rates, rate_title, top, HUES[0], named=not efficient)
    upper = upper.properties(title=small_multiple_title(panel), width=grid.width, height=150)
    if not efficient:
        return plain(upper)
    top = tops[per_title]
    lower = _sweep_line(datasets, grid, panel, efficiencies, per_title, top, HUES[2], named=True)
    lower = lower.properties(width=grid.width, height=150)
    return {"vconcat": [plain(upper), plain(lower)], "spacing": 16, "bounds": "flush"}


def _sweep_line(
    datasets: Datasets,
    grid: PanelGrid,
    panel: Panel,
    rows: list[Row],
    title: str,
    top: float,
    colour: str,
    *,
    named: bool,
) -> Any:
    """A line along the axis, with error bars where its rows have them, up to ``top``."""
    scale = alt.Scale(domain=[0, top * 1.15 or 1.0], nice=False)
    x = grid.x(panel, named=named)
    numbers = GROUPED if panel.in_bytes else PREFIXED
    axis = alt.Axis(labelExpr=numbers, tickCount=5, minExtent=34)
    y = alt.Y("y:Q", scale=scale, title=title, axis=axis)
    chart = datasets.chart(rows)
    tooltip = [alt.Tooltip("at:N", title=" "), alt.Tooltip("text:N", title=title)]
    layers: list[Any] = [
        chart.mark_line(color=colour, strokeWidth=1.5).encode(x=x, y=y),
        chart.mark_point(color=colour, filled=True, size=36, opacity=1).encode(
            x=x, y=y, tooltip=tooltip
        ),
    ]
    if any(row["high"] > row["low"] for row in rows):
        layers.append(_error_bars(chart, x, scale, title))
    heights = {row["x"]: row["y"] for row in rows}
    layers.extend(_sweep_triangles(datasets, grid, panel, heights, scale, 12))
    return alt.layer(*layers)


def _sweep_latency_chart(summary: RunSummary, found: Sequence[Panel]) -> Chart | None:
    values = [row for panel in found for row in _latency_rows(panel)]
    if not values:
        return None
    grid = PanelGrid.of(found)
    datasets = Datasets()
    low = min(row["us"] for row in values)
    high = max(row["us"] for row in values)
    low, top = low * 0.7, high * 1.4
    if any(result.throttled for result in summary.measured):
        top = max(top, high * (high / low) ** 0.2)  # a sixth of the height, for the triangles
    scale = alt.Scale(type="log", domain=[low, top], nice=False)
    ticks = log_ticks(low, top)
    both = len({row["op"] for row in values}) > 1
    small = [_latency_panel(panel, grid, scale, ticks, datasets, both=both) for panel in found]
    dashes = " Reads are drawn solid, writes dashed." if both else ""
    caption = (
        "Time from submitting an I/O to its completion: the mean, what 99 % and 99.9 % of them "
        f"stay under, and the slowest. Logarithmic.{dashes}{throttle_words(summary.measured)}"
    )
    return finished("latency", "Latency", caption, charts_in_rows(small, grid.columns), datasets)


def _latency_rows(panel: Panel) -> list[Row]:
    rows: list[Row] = []
    for point in panel.points:
        if not latencies_are_valid(point.result):
            continue
        for op, direction in latency_directions(point.result).items():
            latencies_us = {
                name: direction.latency_percentiles_us.get(percentile)
                for name, percentile in _PERCENTILES.items()
            }
            latencies_us |= {_MEAN: direction.latency_mean_us, _SLOWEST: direction.latency_max_us}
            for name, us in latencies_us.items():
                if us is not None and us > 0:
                    text = latency_text(us)
                    rows.append({"x": point.place, "op": op, "of": name, "us": us, "text": text})
    return rows


def _latency_panel(
    panel: Panel,
    grid: PanelGrid,
    scale: alt.Scale,
    ticks: list[float],
    datasets: Datasets,
    *,
    both: bool,
) -> Spec:
    chart = datasets.chart(_latency_rows(panel))
    x = grid.x(panel)
    axis = alt.Axis(labelExpr=LATENCY, values=ticks, minExtent=44)
    y = alt.Y("us:Q", scale=scale, title="latency", axis=axis)
    colour = alt.Color(
        "of:N",
        scale=alt.Scale(domain=_LATENCIES, range=hues(_LATENCIES)),
        legend=top_legend(),
    )
    tooltip = [
        alt.Tooltip("op:N", title="direction"),
        alt.Tooltip("of:N", title="latency"),
        alt.Tooltip("text:N", title="value"),
    ]
    line = chart.mark_line(strokeWidth=1.5).encode(x=x, y=y, color=colour)
    point = chart.mark_point(filled=True, size=36, opacity=1).encode(
        x=x, y=y, color=colour, tooltip=tooltip
    )
    if both:
        dash = alt.Scale(domain=["read", "write"], range=[[1, 0], [5, 3]])
        line = line.encode(strokeDash=alt.StrokeDash("op:N", scale=dash, legend=top_legend()))
        point = point.encode(detail="op:N")
    heights: dict[float, float] = {}
    for row in _latency_rows(panel):
        heights[row["x"]] = max(row["us"], heights.get(row["x"], 0.0))
    marks = _sweep_triangles(datasets, grid, panel, heights, scale, 14)
    layers = alt.layer(line, point, *marks)
    return plain(layers.properties(title=small_multiple_title(panel), width=grid.width, height=200))
