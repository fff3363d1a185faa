"""The charts of the reviews: headline bars, mixes, transfer sizes, steady state.

Each comes with its numbers as rows, for a CSV file beside the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from labctl.analysis.methods.headline_averages import Average
from labctl.analysis.results import Estimate, PhaseResult
from labctl.analysis.steady_state.tracking import SteadyReport, Window
from labctl.config.plan import format_size
from labctl.report.charts.sweeps import throttle_words
from labctl.report.charts.theme import (
    GROUPED,
    INK,
    PREFIXED,
    RED,
    Chart,
    Datasets,
    Row,
    Spec,
    finished,
    hues,
    joined,
    linear_y,
    plain,
)
from labctl.report.numbers import prefixed, with_uncertainty
from labctl.report.panels import LARGE_BLOCK_BYTES
from labctl.report.text.csv import csv_text

BLUE, AMBER, GREEN = hues(("a", "b", "c"))
HALF_WIDTH = 500
"""Pixels of a chart that stands beside another one."""
TRIANGLE: dict[str, Any] = {
    "shape": "triangle-down",
    "filled": True,
    "size": 60,
    "color": RED,
    "opacity": 1,
}
"""The mark of what throttled."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart and the numbers in it, one row a point, units in the names of the columns."""

    chart: Chart
    numbers: tuple[Row, ...]

    def csv(self) -> str:
        """The numbers as CSV; nothing where there is none."""
        names = tuple(dict.fromkeys(name for row in self.numbers for name in row))
        return csv_text(names, ([row.get(name) for name in names] for row in self.numbers))


def headline_bars(averages: Sequence[Average]) -> Figure | None:
    """A bar for each headline average: IOPS, and beside it the watts they took."""
    if not averages:
        return None
    datasets = Datasets()
    numbers = tuple(
        {
            "figure": one.name,
            "iops": one.iops,
            "mb_per_s": one.bytes_per_s / 1e6,
            **pair("watts", one.watts),
            **pair("iops_per_watt", one.iops_per_watt),
            "throttled": ", ".join(one.throttled),
        }
        for one in averages
    )
    body = work_and_watts(datasets, numbers)
    caption = (
        "Headline averages of the reviews, from 64 KiB blocks on in MB/s, and the power they took "
        "with its U (k = 2)."
    )
    throttled = list(dict.fromkeys(label for one in averages for label in one.throttled))
    if throttled:
        caption += (
            f" A red triangle marks those in which the drive throttled: {', '.join(throttled)}."
        )
    return Figure(finished("headline", "Headline averages", caption, body, datasets), numbers)


def work_and_watts(datasets: Datasets, numbers: Sequence[Row]) -> Spec:
    """A bar for the work of each row, IOPS or from 64 KiB blocks on MB/s, and beside it the watts.

    The columns are those of :func:`bars`, and ``iops``, ``mb_per_s``, ``watts`` with its U.
    """
    powered = any(row["watts"] is not None for row in numbers)
    parts = []
    for large, name, title in ((False, "iops", "IOPS"), (True, "mb_per_s", "MB/s")):
        own = [
            row
            for row in numbers
            if (row["mb_per_s"] * 1e6 >= LARGE_BLOCK_BYTES * row["iops"]) is large
        ]
        if own:
            parts.append(bars(datasets, own, name, title, BLUE, named=True))
            if powered:
                parts.append(bars(datasets, own, "watts", "mean power (W)", AMBER, named=False))
    return joined(parts, 2 if powered else 1)


def pair(name: str, estimate: Estimate | None) -> Row:
    """The columns of a number with its uncertainty: ``name`` and ``name_u``."""
    if estimate is None:
        return {name: None, f"{name}_u": None}
    return {name: estimate.value, f"{name}_u": estimate.u}


def bars(
    datasets: Datasets, numbers: Sequence[Row], name: str, title: str, colour: str, *, named: bool
) -> Spec:
    """Bars of the column ``name``, one a row, called by its column ``figure``; with ``name_u``."""
    rows: list[Row] = []
    for row in numbers:
        value, u = row[name], row.get(f"{name}_u")
        if value is None:
            continue
        text = prefixed(value) if u is None else with_uncertainty(Estimate(value, u))
        low, high = (value, value) if u is None else (value - u, value + u)
        rows.append(
            {
                "of": row["figure"],
                "y": value,
                "low": low,
                "high": high,
                "text": text,
                "throttled": row["throttled"],
            }
        )
    order = [row["figure"] for row in numbers]
    top = max((float(row["high"]) for row in rows), default=1.0)
    data = datasets.chart(rows)
    y = alt.Y(
        "of:N", sort=order, title=None, scale=alt.Scale(domain=order),
        axis=alt.Axis(labels=named, ticks=False, labelLimit=260, labelPadding=6, domain=False),
    )  # fmt: skip
    scale = alt.Scale(domain=[0, top * 1.25 or 1.0], nice=False)
    x = alt.X("y:Q", title=title, scale=scale, axis=alt.Axis(labelExpr=PREFIXED, tickCount=4))
    layers = [
        data.mark_bar(color=colour, height={"band": 0.7}).encode(x=x, y=y),
        data.mark_rule(color=INK).encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y),
        data.mark_text(align="left", dx=6, color=INK, fontSize=11).encode(
            x=alt.X("high:Q", scale=scale), y=y, text="text:N"
        ),
    ]
    marked = [row for row in rows if row["throttled"]]
    if marked:
        triangle = datasets.chart(marked).mark_point(**TRIANGLE)
        tooltip = alt.Tooltip("throttled:N", title="throttled in")
        layers.append(triangle.encode(x=alt.value(6), y=y, tooltip=tooltip))
    size = {"width": 360, "height": max(60, 34 * len(order))}
    return plain(alt.layer(*layers).properties(**size))


def mixed_figure(results: Sequence[PhaseResult]) -> Figure | None:
    """IOPS and watts against the share of reads, a line a mixed workload."""
    mixed = [
        item
        for item in results
        if item.phase.pattern.mixed and item.phase.replay is None and item.iops
    ]
    names = {id(item): _mix_name(item) for item in mixed}
    counts = [list(names.values()).count(name) for name in names.values()]
    if not counts or max(counts) < 2:
        return None
    numbers = tuple(
        {
            "workload": names[id(item)],
            "read_pct": item.phase.read_pct,
            "iops": item.iops,
            "mb_per_s": (item.bytes_per_s or 0.0) / 1e6,
            **pair("watts", item.watts),
            **_throttling(item),
        }
        for item in sorted(mixed, key=lambda one: -one.phase.read_pct)
    )
    caption = "From reads alone (left) to writes alone: work, and mean power with its U (k = 2)."
    caption += throttle_words(mixed)
    shares = sorted({row["read_pct"] for row in numbers}, reverse=True)
    body, datasets = _curves(
        numbers, "workload", "read_pct", shares, "reads (%)",
        (("iops", "IOPS"), ("mb_per_s", "MB/s"), ("watts", "mean power (W)")),
    )  # fmt: skip
    return Figure(finished("mixed", "Mixed reads and writes", caption, body, datasets), numbers)


def _throttling(item: PhaseResult) -> Row:
    """Whether a phase throttled, and what it did while it did not."""
    return {
        "throttled_s": item.throttled_s,
        **pair("iops_unthrottled", item.iops_unthrottled),
        **pair("watts_unthrottled", item.watts_unthrottled),
    }


def _mix_name(item: PhaseResult) -> str:
    phase = item.phase
    return f"{phase.pattern.value} {format_size(phase.block_size_bytes)} QD{phase.queue_depth}"


def transfer_figure(results: Sequence[PhaseResult]) -> Figure | None:
    """MB/s and watts against the size of a transfer, reads and writes."""
    sizes: dict[str, set[int]] = {}
    usable = [item for item in results if item.bytes_per_s and not item.phase.pattern.mixed]
    for item in usable:
        sizes.setdefault(_size_name(item), set()).add(item.phase.block_size_bytes)
    shown = [item for item in usable if len(sizes[_size_name(item)]) > 2]
    if not shown:
        return None
    shown.sort(key=lambda item: item.phase.block_size_bytes)
    numbers = tuple(
        {
            "workload": _size_name(item),
            "block_size_bytes": item.phase.block_size_bytes,
            "size": format_size(item.phase.block_size_bytes),
            "mb_per_s": (item.bytes_per_s or 0.0) / 1e6,
            "iops": item.iops,
            **pair("watts", item.watts),
            **_throttling(item),
        }
        for item in shown
    )
    order = list(dict.fromkeys(row["size"] for row in numbers))
    body, datasets = _curves(
        numbers, "workload", "size", order, "transfer size",
        (("mb_per_s", "MB/s"), ("watts", "mean power (W)")),
    )  # fmt: skip
    caption = "Data rate against the size of a transfer, and mean power with its U (k = 2)."
    caption += throttle_words(shown)
    return Figure(finished("transfer", "Transfer sizes", caption, body, datasets), numbers)


def _size_name(item: PhaseResult) -> str:
    return f"{item.phase.pattern.value} QD{item.phase.queue_depth}"


def _curves(
    numbers: Sequence[Row],
    series: str,
    along: str,
    order: Sequence[Any],
    along_title: str,
    shown: Sequence[tuple[str, str]],
) -> tuple[Spec, Datasets]:
    """A small chart a quantity, a line a series, over an ordinal axis."""
    datasets = Datasets()
    names = tuple(dict.fromkeys(str(row[series]) for row in numbers))
    parts = []
    for name, title in shown:
        rows: list[Row] = [
            {
                "x": row[along],
                "of": row[series],
                "y": row[name],
                "low": row[name] - (row.get(f"{name}_u") or 0.0),
                "high": row[name] + (row.get(f"{name}_u") or 0.0),
                "throttled_s": row["throttled_s"],
            }
            for row in numbers
            if row[name] is not None
        ]
        if not rows:
            continue
        data = datasets.chart(rows)
        top = max(float(row["high"]) for row in rows)
        scale = alt.Scale(domain=[0, top * 1.12 or 1.0], nice=False)
        x = alt.X(
            "x:O", sort=list(order), title=along_title,
            axis=alt.Axis(labelAngle=0, labelOverlap="greedy", grid=False),
        )  # fmt: skip
        labels = GROUPED if name == "mb_per_s" else PREFIXED
        axis = alt.Axis(labelExpr=labels, tickCount=5, minExtent=34)
        y = alt.Y("y:Q", title=title, scale=scale, axis=axis)
        colour = alt.Color(
            "of:N", title=None, scale=alt.Scale(domain=list(names), range=hues(names)),
            legend=alt.Legend(orient="top", direction="horizontal"),
        )  # fmt: skip
        layers = [
            data.mark_line(strokeWidth=1.5).encode(x=x, y=y, color=colour),
            data.mark_point(filled=True, size=36, opacity=1).encode(x=x, y=y, color=colour),
            data.mark_rule(strokeWidth=1.2).encode(
                x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour
            ),
        ]
        marked = [row for row in rows if row["throttled_s"] > 0]
        if marked:
            triangle = datasets.chart(marked).mark_point(**TRIANGLE, yOffset=-12)
            tooltip = alt.Tooltip("throttled_s:Q", title="throttled (s)", format=".1f")
            layers.append(triangle.encode(x=x, y=y, tooltip=tooltip))
        parts.append(plain(alt.layer(*layers).properties(width=HALF_WIDTH, height=200)))
    return joined(parts, 2), datasets


def steady_figure(report: SteadyReport, name: str = "steady") -> Figure | None:
    """Every tracked variable over the rounds, and the measurement window as the standard draws it:
    average, ± half of the allowed range (±10 % for performance), and the least-squares line."""
    if not report.windows:
        return None
    datasets = Datasets()
    parts: list[Spec] = []
    numbers: list[Row] = []
    for tracked, window in zip(report.tracked, report.windows, strict=True):
        parts.append(_convergence(datasets, tracked.values, window))
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
    chart = finished(name, title, caption, joined(parts, 2), datasets)
    return Figure(chart, tuple(numbers))


def _convergence(datasets: Datasets, values: Sequence[float], window: Window) -> Spec:
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
