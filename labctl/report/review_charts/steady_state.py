"""The way to steady state, and its window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from labctl.analysis.steady_state.tracking import SteadyReport, SteadyWindow
from labctl.report.charts.small_multiples import charts_in_rows
from labctl.report.charts.theme import (
    INK,
    RED,
    Datasets,
    Row,
    Spec,
    finished,
    linear_y,
    plain,
)
from labctl.report.review_charts.review_chart import BLUE, HALF_WIDTH, Figure


def steady_figure(report: SteadyReport, name: str = "steady") -> Figure | None:
    """Every tracked variable over the rounds, and the measurement window as the standard draws it:
    average, ± half of the allowed range (±10 % for performance), and the least-squares line."""
    if not report.windows:
        return None
    datasets = Datasets()
    parts: list[Spec] = []
    numbers: list[Row] = []
    for tracked, window in zip(report.tracked, report.windows, strict=True):
        parts.append(_steady_state_chart(datasets, tracked.values, window))
        first, last = window.rounds[0], window.rounds[-1]
        for number, value in enumerate(tracked.values):
            row: Row = {"variable": tracked.name, "unit": tracked.unit, "round": number + 1,
                        "value": value, "in_window": first <= number <= last}  # fmt: skip
            if row["in_window"]:
                at = (number - first) / (last - first)
                row |= {
                    "average": window.average[0],
                    "upper": window.upper[0],
                    "lower": window.lower[0],
                    "slope_line": window.slope[0] + at * (window.slope[1] - window.slope[0]),
                }
            numbers.append(row)
    first, last = report.windows[0].rounds[0] + 1, report.windows[0].rounds[-1] + 1
    verdict = f"All are steady in rounds {first} to {last}."
    if not report.reached:
        verdict = f"Not steady in rounds {first} to {last}: {', '.join(report.not_steady)}."
    caption = (
        "The measurement window: average (solid), allowed range (dotted), least squares (red). "
        f"{verdict}"
    )
    title = f"Steady state, {report.sweep}" if report.sweep else "Steady state"
    chart = finished(name, title, caption, charts_in_rows(parts, 2), datasets)
    return Figure(chart, tuple(numbers))


def _steady_state_chart(datasets: Datasets, values: Sequence[float], window: SteadyWindow) -> Spec:
    first, last = window.rounds[0] + 1, window.rounds[-1] + 1
    inside = set(window.rounds)
    points = datasets.chart(
        [
            {"round": number + 1, "y": value, "in": number in inside}
            for number, value in enumerate(values)
        ]
    )
    lines = [
        ("average", window.average, INK, [1, 0]),
        ("allowed range", window.upper, INK, [2, 3]),
        ("allowed range", window.lower, INK, [2, 3]),
        ("least squares", window.slope, RED, [1, 0]),
    ]
    levels = [*values, window.upper[0], window.lower[0]]
    low, high = min(levels), max(levels)
    room = (high - low) * 0.12 or abs(high) * 0.05 or 1.0
    scale, axis = linear_y(low - room, high + room)
    x = alt.X(
        "round:Q", title="round", scale=alt.Scale(domain=[0.5, len(values) + 0.5], nice=False),
        axis=alt.Axis(tickMinStep=1, format="d", tickCount=min(len(values), 12)),
    )  # fmt: skip
    unit = "" if window.unit in window.name else f" ({window.unit})"
    y = alt.Y("y:Q", title=window.name.rpartition(": ")[2] + unit, scale=scale, axis=axis)
    layers: list[Any] = [
        points.mark_line(color="#b8c4cf", strokeWidth=1.2).encode(x=x, y=y),
        points.mark_point(filled=True, size=44, opacity=1).encode(
            x=x, y=y, color=alt.condition("datum.in", alt.value(BLUE), alt.value("#9aa5b1"))
        ),
    ]
    for name, (begin, end), colour, dash in lines:
        data = datasets.chart(
            [{"round": first, "y": begin, "what": name}, {"round": last, "y": end, "what": name}]
        )
        line = data.mark_line(color=colour, strokeDash=dash, strokeWidth=1.4)
        layers.append(line.encode(x=x, y=y, tooltip=alt.Tooltip("what:N", title=" ")))
    verdict = "steady" if window.verdict.steady else "not steady"
    title = alt.TitleParams(
        f"{window.name}: {verdict}", limit=HALF_WIDTH, color=INK if window.verdict.steady else RED
    )
    return plain(alt.layer(*layers).properties(title=title, width=HALF_WIDTH, height=200))
