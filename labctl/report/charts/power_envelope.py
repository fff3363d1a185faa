"""The power envelope: the largest mean power over any window against the length of the window."""

from __future__ import annotations

import json
import math

import altair as alt

from labctl.analysis.numbers import with_uncertainty
from labctl.analysis.phase_result import PhaseResult, length_text
from labctl.analysis.power.sliding_maxima import WINDOWS_S
from labctl.analysis.run_summary import RunSummary
from labctl.record.phase import Role
from labctl.report.charts.small_multiples import WIDTHS, charts_in_rows, columns_of
from labctl.report.charts.theme import (
    HUES,
    SOFT,
    Chart,
    Datasets,
    Row,
    Spec,
    finished,
    linear_y,
    plain,
)
from labctl.report.panels import panels

_HEIGHT = 220
_IDLE = "idle"
_DASHES = ([1, 0], [6, 3], [2, 2])
"""Behind ten colours, the same ten dashed."""


def envelope_chart(summary: RunSummary) -> Chart | None:
    """A line a phase, a small chart a workload that has two lengths; None where none has."""
    groups = {
        panel.title: [(point.name, point.result) for point in panel.points]
        for panel in panels(summary.points)
    }
    idle = [item for item in summary.phases if item.phase.role is Role.IDLE_BEFORE]
    groups = {
        title: [*members, *((_IDLE, item) for item in idle)] for title, members in groups.items()
    }
    if idle and not groups:
        groups = {_IDLE: [(_IDLE, item) for item in idle]}
    rows = {
        title: [row for name, item in members for row in _envelope_chart_rows(name, item)]
        for title, members in groups.items()
    }
    rows = {
        title: found for title, found in rows.items() if len({row["window"] for row in found}) > 1
    }
    if not rows:
        return None
    lengths = sorted({row["window"] for found in rows.values() for row in found})
    datasets = Datasets()
    columns = columns_of(len(rows))
    top = max(row["high"] for found in rows.values() for row in found)
    parts = [
        _envelope_chart_part(datasets, title, found, lengths, 1.05 * top, WIDTHS[columns])
        for title, found in rows.items()
    ]
    caption = (
        "The largest mean power of all rails over any window of a phase, against the length of the "
        "window, with its uncertainty." + _left_out(summary, lengths)
    )
    body = charts_in_rows(parts, columns)
    if "concat" in body:
        apart = {"color": "independent", "strokeDash": "independent"}
        body["resolve"] = {"scale": apart, "legend": {"color": "independent"}}
    return finished("envelope", "Power envelope", caption, body, datasets)


def _envelope_chart_rows(name: str, result: PhaseResult) -> list[Row]:
    return [
        {
            "phase": name,
            "window": one.window_s,
            "watts": one.watts.value,
            "low": one.watts.value - one.watts.u,
            "high": one.watts.value + one.watts.u,
            "text": f"{name}: {with_uncertainty(one.watts)} W over {length_text(one.window_s)}",
        }
        for one in result.power_envelope
        if one.watts is not None
    ]


def _envelope_chart_part(
    datasets: Datasets,
    title: str,
    rows: list[Row],
    lengths: list[float],
    top: float,
    width: int,
) -> Spec:
    names = list(dict.fromkeys(row["phase"] for row in rows))
    texts = [length_text(length) for length in WINDOWS_S]
    label = f"{json.dumps(texts)}[indexof({json.dumps(WINDOWS_S)}, datum.value)]"
    x = alt.X(
        "window:Q",
        title="length of the window",
        scale=alt.Scale(type="log", domain=[lengths[0] / 1.6, lengths[-1] * 1.6], nice=False),
        axis=alt.Axis(values=lengths, labelExpr=label, labelOverlap="greedy", grid=False),
    )
    scale, axis = linear_y(0.0, top)
    colours = [SOFT if name == _IDLE else HUES[i % len(HUES)] for i, name in enumerate(names)]
    colour = alt.Color(
        "phase:N",
        sort=names,
        scale=alt.Scale(domain=names, range=colours),
        legend=alt.Legend(title=None, orient="bottom", columns=math.ceil(width / 90)),
    )
    dash = alt.StrokeDash(
        "phase:N",
        sort=names,
        scale=alt.Scale(
            domain=names, range=[list(_DASHES[i // len(HUES) % 3]) for i in range(len(names))]
        ),
        legend=None,
    )
    chart = datasets.chart(rows)
    tooltip = alt.Tooltip("text:N", title=" ")
    y = alt.Y("watts:Q", title="power (W)", scale=scale, axis=axis)
    line = chart.mark_line(strokeWidth=1.6).encode(x=x, y=y, color=colour, strokeDash=dash)
    points = chart.mark_point(filled=True, size=28, opacity=1).encode(
        x=x, y=y, color=colour, tooltip=tooltip
    )
    bars = chart.mark_rule().encode(
        x=x, y=alt.Y("low:Q", scale=scale, title="power (W)"), y2="high:Q", color=colour
    )
    layers = alt.layer(line, bars, points).properties(width=width, height=_HEIGHT)
    spec = plain(layers)
    spec["title"] = {"text": title, "limit": 420}
    return spec


def _left_out(summary: RunSummary, lengths: list[float]) -> str:
    """Which lengths are missing, and why: once each."""
    whys: dict[str, list[str]] = {}
    for item in summary.measured:
        for one in item.power_envelope:
            if one.window_s not in lengths and one.why:
                found = whys.setdefault(one.why, [])
                text = length_text(one.window_s)
                if text not in found:
                    found.append(text)
    parts = [f"{', '.join(found)}: {why}" for why, found in whys.items()]
    return f" Left out: {'; '.join(parts[:3])}." if parts else ""
