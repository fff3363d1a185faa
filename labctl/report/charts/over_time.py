"""The whole run over time: watts, work and temperature under one time axis, and what happened."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import altair as alt
import numpy as np

from labctl.analysis.run.timeline import Curve, Silence, Timeline
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.throttle_result import Cause
from labctl.report import key_figures
from labctl.report.charts.phase_strip import phase_strip
from labctl.report.charts.theme import (
    GROUPED,
    INK,
    PREFIXED,
    RED,
    Chart,
    Datasets,
    Row,
    finished,
    hues,
    plain,
)
from labctl.report.charts.time_axis import WIDTH, TimeAxis
from labctl.report.panels import panels

_TOTAL = "total"
_NO_READINGS = "no readings"
_CAUSE_COLOURS = {
    Cause.THERMAL: RED,
    Cause.POWER_LIMIT: "#d6616b",
    Cause.UNKNOWN: "#ff9896",
    Cause.WRITE_CACHE: "#3182bd",
    Cause.GARBAGE_COLLECTION: "#756bb1",
    Cause.HOST_STALL: "#8c6d31",
}
_SELECTED = "stretch"
"""The selection of a stretch: page.js shows what was drawn in it."""
_LIMITS = {"warning": "#e69f00", "critical": RED}


def time_chart(
    summary: RunSummary, line: Timeline, limits: Mapping[str, float | None]
) -> Chart | None:
    """The run over time; None when nothing was recorded.

    ``limits`` are temperatures to draw, by name: ``warning`` and ``critical``.
    """
    rows = _rows_over_time(summary, line, limits)
    if not rows:
        return None
    datasets = Datasets()
    axis = TimeAxis.of(line)
    silent = any(row.silences for row in rows)
    stretches = _ColouredStretches(summary, axis, datasets, silent=silent)
    charts: list[Any] = [phase_strip(summary, axis, datasets)]
    marks = _mark_rows(summary, axis)
    for row in rows:
        x = axis.x(named=row is rows[-1])
        layers = stretches.layers(x, row.silences) + _lines_over_time(datasets, axis, x, row)
        layers += _limits_over_time(datasets, row.limits) + _marks_over_time(
            datasets, marks, numbered=row is rows[0]
        )
        charts.append(alt.layer(*layers).properties(width=WIDTH, height=row.height))
    whole = alt.vconcat(*charts, spacing=10).resolve_scale(color="independent", fill="shared")
    words = _over_time_caption(summary, line)
    body = plain(whole)
    selections = body.pop("params", [])  # which only the whole specification may have
    chart = finished("run", "The whole run over time", words, body, datasets)
    about: dict[str, Any] = {"narrowest_px": WIDTH}
    if line.watts:
        about["stretch"] = {
            "data": next(name for name, data in datasets.rows.items() if _is_of(data, rows[0])),
            "name": next(iter(rows[0].traces)),
            "unit_s": axis.unit_ns / 1e9,
            "run": summary.run_id,
        }
    return replace(chart, spec={**chart.spec, "params": selections, "usermeta": about})


def _is_of(data: Sequence[Row], row: _Row) -> bool:
    """Whether a dataset is that of the lines of ``row``."""
    return bool(data) and "mean" in data[0] and data[0]["name"] in row.traces


@dataclass(frozen=True, slots=True)
class _Row:
    """One chart under the common time axis. ``labels`` is how its axis writes numbers."""

    title: str
    traces: Mapping[str, Curve]
    height: int
    labels: str
    zero: bool = True
    unit: float = 1.0
    silences: Sequence[Silence] = ()
    limits: Mapping[str, float] = field(default_factory=dict)
    selectable: bool = False
    """Whether a stretch of it can be selected with the mouse."""


def _rows_over_time(
    summary: RunSummary, line: Timeline, limits: Mapping[str, float | None]
) -> tuple[_Row, ...]:
    rails = [name for name in key_figures.rail_names(summary) if name in line.watts]
    rails += [name for name in line.watts if name not in rails]
    total = {_TOTAL: line.total_watts} if line.total_watts and len(rails) > 1 else {}
    watts = {**total, **{name: line.watts[name] for name in rails}}
    small = any(not panel.in_bytes for panel in panels(summary.measured))
    large = any(panel.in_bytes for panel in panels(summary.measured))
    rows = (
        _Row("power (W)", watts, 210, GROUPED, silences=line.power_silences, selectable=True),
        _Row("IOPS", line.iops if small or not large else {}, 140, PREFIXED),
        _Row("data rate (MB/s)", line.bytes_per_s if large else {}, 140, GROUPED, unit=1e6),
        _Row(
            "temperature (°C)",
            line.celsius,
            130,
            GROUPED,
            zero=False,
            silences=line.celsius_silences,
            limits=_limits_in_view(line, limits),
        ),
    )
    return tuple(row for row in rows if row.traces)


def _limits_in_view(line: Timeline, limits: Mapping[str, float | None]) -> dict[str, float]:
    """The limits that matter: the lowest, and each above it once the one below was reached."""
    warmest = max((float(np.nanmax(one.high)) for one in line.celsius.values()), default=-math.inf)
    found: dict[str, float] = {}
    for name, celsius in limits.items():
        if celsius is not None:
            found[name] = celsius
            if warmest < celsius:
                break
    return found


def _over_time_caption(summary: RunSummary, line: Timeline) -> str:
    words = [
        "Lines are means of the readings that fall together at this width; the band around a "
        "line goes from the smallest to the largest of them."
    ]
    if len(line.watts) > 1:
        words.append("The band of the total adds up the bands of the rails.")
    causes = dict.fromkeys(item.cause.words for item in summary.throttling)
    if causes:
        words.append(f"Coloured stretches: {', '.join(causes)}.")
    if summary.marks:
        words.append("Dashed lines with numbers: marks, listed below the results.")
    if line.power_silences or line.celsius_silences:
        words.append("Grey stretches: a meter gave no readings.")
    return " ".join(words)


class _ColouredStretches:
    """The coloured stretches behind the lines, with one legend for all of them."""

    def __init__(
        self, summary: RunSummary, axis: TimeAxis, datasets: Datasets, *, silent: bool
    ) -> None:
        self._axis = axis
        self._datasets = datasets
        self._rows = [
            {
                "t": axis.at(item.begin_ns),
                "t2": axis.at(item.end_ns),
                "what": item.cause.words,
                "text": item.evidence,
            }
            for item in summary.throttling
        ]
        self._colours = {
            item.cause.words: _CAUSE_COLOURS[item.cause] for item in summary.throttling
        }
        if silent:
            self._colours[_NO_READINGS] = "#9a9a9a"

    def layers(self, x: alt.X, silences: Sequence[Silence]) -> list[Any]:
        """The stretches of one chart."""
        silent = [
            {
                "t": self._axis.at(item.begin_ns),
                "t2": self._axis.at(item.end_ns),
                "what": _NO_READINGS,
                "text": item.channel,
            }
            for item in silences
        ]
        rows: list[Row] = [*silent, *self._rows]
        if not rows:
            return []
        fill = alt.Fill(
            "what:N",
            title=None,
            scale=alt.Scale(domain=list(self._colours), range=list(self._colours.values())),
            legend=alt.Legend(orient="top", direction="horizontal", symbolOpacity=0.5),
        )
        mark = self._datasets.chart(rows).mark_rect(opacity=0.28)
        tooltip = [alt.Tooltip("what:N", title="what"), alt.Tooltip("text:N", title="seen")]
        return [mark.encode(x=x, x2="t2:Q", fill=fill, tooltip=tooltip)]


def _over_time_value(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _lines_over_time(datasets: Datasets, axis: TimeAxis, x: alt.X, row: _Row) -> list[Any]:
    rows: list[Row] = [
        {
            "t": axis.at(float(t_ns)),
            "name": name,
            "mean": _over_time_value(mean / row.unit),
            "low": _over_time_value(low / row.unit),
            "high": _over_time_value(high / row.unit),
        }
        for name, trace in row.traces.items()
        for t_ns, mean, low, high in zip(
            trace.t_ns.tolist(),
            trace.mean.tolist(),
            trace.low.tolist(),
            trace.high.tolist(),
            strict=True,
        )
    ]
    names = tuple(row.traces)
    plain = tuple(name for name in names if name != _TOTAL)
    colours = dict(zip(plain, hues(plain), strict=True)) | {_TOTAL: INK}
    scale = alt.Scale(domain=names, range=[colours[name] for name in names])
    legend = alt.Legend(symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=2)
    colour = alt.Color("name:N", title=row.title.partition(" (")[0], scale=scale, legend=legend)
    y_axis = alt.Axis(labelExpr=row.labels, minExtent=34, tickCount=5)
    chart = datasets.chart(rows)

    def y(of: str) -> alt.Y:
        return alt.Y(of, scale=alt.Scale(zero=row.zero, nice=True), title=row.title, axis=y_axis)

    band = chart.mark_area(opacity=0.28, invalid="break-paths-show-domains").encode(
        x=x,
        y=y("low:Q"),
        y2="high:Q",
        color=colour,
    )
    mean = chart.mark_line(strokeWidth=1.1, invalid="break-paths-show-domains").encode(
        x=x, y=y("mean:Q"), color=colour
    )
    if row.selectable:
        # altair would number its name, another one each time
        mean = mean.properties(name="watts").add_params(
            alt.selection_interval(name=_SELECTED, encodings=["x"])
        )
    return [band, mean]


def _mark_rows(summary: RunSummary, axis: TimeAxis) -> list[Row]:
    """The marks that lie on the axis, numbered from 1 on in the order of time."""
    return [
        {"t": axis.at(mark.t_ns), "number": number, "mark": mark.text}
        for number, mark in enumerate(summary.marks, start=1)
        if axis.begin_ns <= mark.t_ns <= axis.end_ns
    ]


def _marks_over_time(datasets: Datasets, rows: list[Row], *, numbered: bool) -> list[Any]:
    """A line at each mark; ``numbered``: with its number above it."""
    if not rows:
        return []
    chart = datasets.chart(rows)
    x, tooltip = alt.X("t:Q"), [alt.Tooltip("number:O"), alt.Tooltip("mark:N")]
    rule = chart.mark_rule(strokeDash=[2, 2], color=INK).encode(x=x, tooltip=tooltip)
    if not numbered:
        return [rule]
    text = chart.mark_text(align="left", baseline="top", dx=2, fontSize=9, color=INK).encode(
        x=x, y=alt.value(0), text="number:O", tooltip=tooltip
    )
    return [rule, text]


def _limits_over_time(datasets: Datasets, limits: Mapping[str, float]) -> list[Any]:
    """Dashed lines where the drive warns and where it stops."""
    if not limits:
        return []
    rows: list[Row] = [
        {"y": celsius, "label": f"{name} {celsius:g} °C", "colour": _LIMITS.get(name, INK)}
        for name, celsius in limits.items()
    ]
    chart = datasets.chart(rows)
    y = alt.Y("y:Q")
    colour = alt.Color("colour:N", scale=None)
    rule = chart.mark_rule(strokeDash=[5, 3]).encode(y=y, color=colour)
    text = chart.mark_text(align="left", baseline="bottom", dx=4, dy=-2, fontSize=10).encode(
        x=alt.value(0), y=y, text="label:N", color=colour
    )
    return [rule, text]
