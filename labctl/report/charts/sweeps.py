"""Watts, work and latency along the axis of each sweep, one small chart a workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from labctl.analysis.latency import directions
from labctl.analysis.results import Estimate, PhaseResult, RunSummary
from labctl.analysis.run.problems import latencies_are_valid
from labctl.report import key_figures
from labctl.report.charts.small_multiples import PanelGrid, panel_title, throttle_words, top_legend
from labctl.report.charts.theme import (
    GROUPED,
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
    log_ticks,
    plain,
)
from labctl.report.numbers import (
    prefixed,
    prefixed_value,
    scaled,
    significant,
    value_only,
    with_uncertainty,
)
from labctl.report.panels import Panel, PanelPoint, panels

_MEAN, _SLOWEST = "mean", "slowest"
_PERCENTILES = {"99 %": "99", "99.9 %": "99.9"}
_LATENCIES = (_MEAN, *_PERCENTILES, _SLOWEST)


def sweep_charts(summary: RunSummary) -> tuple[Chart, ...]:
    """Watts, work and latency along each sweep; a chart without anything to show is left out."""
    found = panels(summary.points)
    charts = (_watts(summary, found), _work(summary, found), _latency(summary, found))
    return tuple(chart for chart in charts if chart is not None)


def _triangles(
    datasets: Datasets, grid: PanelGrid, panel: Panel, heights: dict[str, float], scale: alt.Scale
) -> Iterator[alt.Chart]:
    """A red triangle over each throttled phase; ``heights`` by tick."""
    rows: list[Row] = [
        {"x": point.tick, "y": heights[point.tick], "text": _throttled_text(point.result)}
        for point in panel.points
        if point.result.throttled and point.tick in heights
    ]
    if rows:
        mark = datasets.chart(rows).mark_point(**{**TRIANGLE, "size": 70}, yOffset=-26)
        yield mark.encode(
            x=grid.x(panel), y=alt.Y("y:Q", scale=scale), tooltip=alt.Tooltip("text:N", title=" ")
        )


def _throttled_text(result: PhaseResult) -> str:
    """What a throttled phase did, and what it did while it did not throttle."""
    if result.watts_unthrottled is None and result.iops_unthrottled is None:
        return "the drive throttled"
    watts = with_uncertainty(result.watts_unthrottled)
    iops = prefixed_value(result.iops_unthrottled)
    return f"the drive throttled; while it did not: {watts} W, {iops} IOPS"


def _span(estimate: Estimate) -> Row:
    return {"low": estimate.value - estimate.u, "high": estimate.value + estimate.u}


def _stacked(point: PanelPoint) -> float:
    rails = sum(rail.watts.value for rail in point.result.rails.values())
    total = point.result.watts
    return max(rails, total.value + total.u if total else 0.0)


def _watts(summary: RunSummary, found: Sequence[Panel]) -> Chart | None:
    top = max((_stacked(point) for panel in found for point in panel.points), default=0.0)
    if top <= 0:
        return None
    grid = PanelGrid.of(found)
    datasets = Datasets()
    if summary.idle_watts is not None:  # a phase without watts of one rail may be below it
        top = max(top, summary.idle_watts.value)
    scale = alt.Scale(domain=[0, top * 1.2], nice=False, zero=True)
    small = [_watts_panel(summary, panel, grid, scale, datasets) for panel in found]
    partly = [point for panel in found for point in panel.points if _is_part(point.result)]
    idle = " The dashed line is the idle power." if summary.idle_watts is not None else ""
    if partly:
        idle += " A pale bar has not all rails: its height is not the drive's power."
    caption = (
        "Mean power of each phase, stacked by rail. The error bar is the expanded uncertainty "
        f"(about 95 %) of the total.{idle}{throttle_words(summary.measured)}"
    )
    return finished("watts", "Watts", caption, joined(small, grid.columns), datasets)


def _is_part(result: PhaseResult) -> bool:
    """Whether the watts of a rail are missing, so that the others are no total."""
    return bool(result.rails) and result.watts is None


def _watts_panel(
    summary: RunSummary, panel: Panel, grid: PanelGrid, scale: alt.Scale, datasets: Datasets
) -> Spec:
    rails = key_figures.rail_names(summary)
    x = grid.x(panel)
    y = alt.Y("watts:Q", stack="zero", scale=scale, title="mean power (W)")
    bars = datasets.chart(
        [
            {
                "x": point.tick,
                "rail": name,
                "order": rails.index(name),
                "watts": rail.watts.value,
                "opacity": 0.35 if _is_part(point.result) else 1.0,
                "text": f"{with_uncertainty(rail.watts)} W",
            }
            for point in panel.points
            for name, rail in point.result.rails.items()
        ]
    )
    colours = alt.Scale(domain=list(rails), range=hues(rails))
    layers: list[Any] = [
        bars.mark_bar().encode(
            x=x,
            y=y,
            color=alt.Color("rail:N", scale=colours, title="rail", legend=top_legend()),
            order=alt.Order("order:Q"),
            opacity=alt.Opacity("opacity:Q", scale=None),
            tooltip=[alt.Tooltip("rail:N"), alt.Tooltip("text:N", title="mean ± U")],
        )
    ]
    total = datasets.chart(
        [
            {
                "x": point.tick,
                **_span(point.result.watts),
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
    heights = {point.tick: _stacked(point) for point in panel.points if _stacked(point)}
    layers.extend(_triangles(datasets, grid, panel, heights, scale))
    if summary.idle_watts is not None:
        idle = datasets.chart([{"y": summary.idle_watts.value}])
        rule = idle.mark_rule(strokeDash=[4, 3], color=INK, opacity=0.8)
        layers.append(rule.encode(y=alt.Y("y:Q", scale=scale)))
    return plain(
        alt.layer(*layers).properties(title=panel_title(panel), width=grid.width, height=220)
    )


def _error_bars(chart: alt.Chart, x: alt.X, scale: alt.Scale, title: str = "") -> Any:
    y = alt.Y("low:Q", scale=scale, title=title) if title else alt.Y("low:Q", scale=scale)
    ends = [
        chart.mark_tick(color=INK, size=9, thickness=1.2).encode(x=x, y=alt.Y(end, scale=scale))
        for end in ("low:Q", "high:Q")
    ]
    rule = chart.mark_rule(color=INK, strokeWidth=1.2).encode(
        x=x, y=y, y2="high:Q", tooltip=alt.Tooltip("text:N", title="± U")
    )
    return alt.layer(rule, *ends)


def _work(summary: RunSummary, found: Sequence[Panel]) -> Chart | None:
    points = [point for panel in found for point in panel.points]
    if not any(point.result.iops for point in points):
        return None
    grid = PanelGrid.of(found)
    datasets = Datasets()
    efficient = any(point.result.iops_per_watt for point in points)
    small = [_work_panel(panel, grid, datasets, efficient=efficient) for panel in found]
    caption = "Work of each phase along its axis."
    if efficient:
        caption = (
            "Work of each phase (above) and work per energy (below). The error bar is the expanded "
            "uncertainty (about 95 %)."
        )
    caption += throttle_words(summary.measured)
    return finished("work", "Work and efficiency", caption, joined(small, grid.columns), datasets)


def _work_panel(panel: Panel, grid: PanelGrid, datasets: Datasets, *, efficient: bool) -> Spec:
    rate_title = "MB/s" if panel.in_bytes else "IOPS"
    rates: list[dict[str, Any]] = []
    efficiencies: list[Row] = []
    for point in panel.points:
        result = point.result
        rate = result.bytes_per_s if panel.in_bytes else result.iops
        if rate is not None:
            rate = rate / 1e6 if panel.in_bytes else rate
            rates.append({"x": point.tick, "y": rate, "text": f"{prefixed(rate)} {rate_title}"})
        per_energy = (
            scaled(result.bytes_per_joule, 1e-6) if panel.in_bytes else result.iops_per_watt
        )
        if per_energy is not None:
            row = {"x": point.tick, "y": per_energy.value, **_span(per_energy)}
            efficiencies.append({**row, "text": with_uncertainty(per_energy)})
    upper = _line(datasets, grid, panel, rates, rate_title, "#0072b2", named=not efficient)
    upper = upper.properties(title=panel_title(panel), width=grid.width, height=150)
    if not efficient:
        return plain(upper)
    title = "MB/J" if panel.in_bytes else "IOPS/W"
    lower = _line(datasets, grid, panel, efficiencies, title, "#009e73", named=True)
    lower = lower.properties(width=grid.width, height=150)
    return {"vconcat": [plain(upper), plain(lower)], "spacing": 16, "bounds": "flush"}


def _line(
    datasets: Datasets,
    grid: PanelGrid,
    panel: Panel,
    rows: list[Row],
    title: str,
    colour: str,
    *,
    named: bool,
) -> Any:
    top = max((float(row["high"] if "high" in row else row["y"]) for row in rows), default=1.0)
    scale = alt.Scale(domain=[0, top * 1.15 or 1.0], nice=False)
    x = grid.x(panel, named=named)
    numbers = GROUPED if panel.in_bytes else PREFIXED
    axis = alt.Axis(labelExpr=numbers, tickCount=5, minExtent=34)
    y = alt.Y("y:Q", scale=scale, title=title, axis=axis)
    chart = datasets.chart(rows)
    tooltip = [alt.Tooltip("x:O", title=panel.axis.title), alt.Tooltip("text:N", title=title)]
    layers: list[Any] = [
        chart.mark_line(color=colour, strokeWidth=1.5).encode(x=x, y=y),
        chart.mark_point(color=colour, filled=True, size=36, opacity=1).encode(
            x=x, y=y, tooltip=tooltip
        ),
    ]
    if any("low" in row for row in rows):
        layers.append(_error_bars(chart, x, scale, title))
    throttled = {point.tick for point in panel.points if point.result.throttled}
    marks = [row for row in rows if row["x"] in throttled]
    if marks:
        triangle = datasets.chart(marks).mark_point(**TRIANGLE, yOffset=-12)
        layers.append(triangle.encode(x=x, y=y))
    return alt.layer(*layers)


def _latency(summary: RunSummary, found: Sequence[Panel]) -> Chart | None:
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
    return finished("latency", "Latency", caption, joined(small, grid.columns), datasets)


def _latency_rows(panel: Panel) -> list[Row]:
    rows: list[Row] = []
    for point in panel.points:
        if not latencies_are_valid(point.result):
            continue
        for op, direction in directions(point.result).items():
            latencies_us = {
                name: direction.latency_percentiles_us.get(percentile)
                for name, percentile in _PERCENTILES.items()
            }
            latencies_us |= {_MEAN: direction.latency_mean_us, _SLOWEST: direction.latency_max_us}
            for name, us in latencies_us.items():
                if us is not None and us > 0:
                    text = f"{significant(us, 3)} µs"
                    rows.append({"x": point.tick, "op": op, "of": name, "us": us, "text": text})
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
    axis = alt.Axis(labelExpr=PREFIXED, values=ticks, minExtent=34)
    y = alt.Y("us:Q", scale=scale, title="latency (µs)", axis=axis)
    colour = alt.Color(
        "of:N",
        title="latency",
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
        line = line.encode(
            strokeDash=alt.StrokeDash("op:N", scale=dash, title="direction", legend=top_legend())
        )
        point = point.encode(detail="op:N")
    heights: dict[str, float] = {}
    for row in _latency_rows(panel):
        heights[row["x"]] = max(row["us"], heights.get(row["x"], 0.0))
    marks = _triangles(datasets, grid, panel, heights, scale)
    layers = alt.layer(line, point, *marks)
    return plain(layers.properties(title=panel_title(panel), width=grid.width, height=200))
