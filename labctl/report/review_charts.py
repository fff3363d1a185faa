"""The charts of the reviews: headline bars, consistency, mixes, transfer sizes, steady state.

Each comes with its numbers as rows, for a CSV file beside the picture.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from labctl.analysis.averages import Average
from labctl.analysis.consistency import Consistency, Floats, per_second
from labctl.analysis.results import Estimate, PhaseResult
from labctl.analysis.tracking import SteadyReport, Window
from labctl.plan import format_size
from labctl.report.axes import LARGE_BLOCK_BYTES
from labctl.report.charts import (
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
    log_domain,
    log_ticks,
    plain,
)
from labctl.report.numbers import duration, prefixed, with_uncertainty
from labctl.report.sweep_charts import throttle_words

BLUE, AMBER, GREEN = hues(("a", "b", "c"))
_HALF = 500
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
        names = dict.fromkeys(name for row in self.numbers for name in row)
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(names), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.numbers)
        return text.getvalue()


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
    parts = []
    for large, name, title in ((False, "iops", "IOPS"), (True, "mb_per_s", "MB/s")):
        own = [
            row
            for one, row in zip(averages, numbers, strict=True)
            if (one.bytes_per_s >= LARGE_BLOCK_BYTES * one.iops) is large
        ]
        if own:
            parts.append(bars(datasets, own, name, title, BLUE, named=True))
            if any(one.watts for one in averages):
                parts.append(bars(datasets, own, "watts", "mean power (W)", AMBER, named=False))
    caption = (
        "Headline averages of the reviews, from 64 KiB blocks on in MB/s, and the power they took "
        "with its U (k = 2)."
    )
    throttled = list(dict.fromkeys(label for one in averages for label in one.throttled))
    if throttled:
        caption += (
            f" A red triangle marks those in which the drive throttled: {', '.join(throttled)}."
        )
    columns = 2 if any(one.watts for one in averages) else 1
    return Figure(
        finished("headline", "Headline averages", caption, joined(parts, columns), datasets),
        numbers,
    )


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
        "of:N", sort=order, title=None,
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


def consistency_figure(
    result: PhaseResult, t_s: Floats, iops: Floats, found: Consistency, name: str = "consistency"
) -> Figure:
    """IOPS of each second: the whole phase and its last part, each linear and logarithmic."""
    seconds, values = per_second(t_s, iops)
    late = seconds > found.begin_s
    numbers = tuple(
        {"second": float(t), "iops": float(v), "in_tail": bool(inside)}
        for t, v, inside in zip(seconds, values, late, strict=True)
    )
    datasets = Datasets()
    everything = datasets.chart([{"t": row["second"], "y": row["iops"]} for row in numbers])
    tail = datasets.chart(
        [{"t": row["second"], "y": row["iops"]} for row in numbers if row["in_tail"]]
    )
    mean = datasets.chart([{"y": found.mean}])
    length = found.end_s - found.begin_s
    parts = []
    for data, of, title in (
        (everything, values, "whole phase"),
        (tail, values[late], f"last {length:.0f} s"),
    ):
        for log in (False, True):
            if log and not (of > 0).all():
                continue
            parts.append(_scatter(data, of, f"{title}, {'log' if log else 'linear'}", mean, log))
    spread = "" if found.spread is None else f", (max − min)/min {found.spread:.1%}"
    caption = (
        f"{result.phase.label}: IOPS of each second. Over the last {length:.0f} s (red line: their "
        f"mean): {prefixed(found.mean)} ± σ {prefixed(found.std)}, σ/mean "
        f"{found.relative_std:.1%}{spread}."
    )
    if result.throttled:
        caption += f" The drive throttled for {duration(result.throttled_s)} of the phase."
    title = f"Consistency, {result.phase.label}"
    return Figure(finished(name, title, caption, joined(parts, 2), datasets), numbers)


def _scatter(data: alt.Chart, values: Floats, title: str, mean: alt.Chart, log: bool) -> Spec:
    low, high = float(values.min()), float(values.max())
    if log:
        low, high = log_domain(low, high)
        scale = alt.Scale(type="log", domain=[low, high], nice=False)
        axis = alt.Axis(labelExpr=PREFIXED, values=log_ticks(low, high), minExtent=40)
    else:
        scale = alt.Scale(domain=[0, high * 1.1 or 1.0], nice=False)
        axis = alt.Axis(labelExpr=PREFIXED, tickCount=5, minExtent=40)
    x = alt.X("t:Q", title="seconds since the phase began", scale=alt.Scale(zero=False, nice=False))
    y = alt.Y("y:Q", title="IOPS", scale=scale, axis=axis)
    points = data.mark_point(filled=True, size=10, opacity=0.65, color=BLUE).encode(x=x, y=y)
    line = mean.mark_rule(color=RED, strokeWidth=1.2).encode(y=alt.Y("y:Q", scale=scale))
    return plain(alt.layer(points, line).properties(title=title, width=_HALF, height=200))


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
        parts.append(plain(alt.layer(*layers).properties(width=_HALF, height=200)))
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
    scale = alt.Scale(domain=[low - room, high + room], nice=False, zero=False)
    x = alt.X(
        "round:Q", title="round", scale=alt.Scale(domain=[0.5, len(values) + 0.5], nice=False),
        axis=alt.Axis(tickMinStep=1, format="d", tickCount=min(len(values), 12)),
    )  # fmt: skip
    unit = "" if window.unit in window.name else f" ({window.unit})"
    y = alt.Y(
        "y:Q", title=window.name.rpartition(": ")[2] + unit, scale=scale,
        axis=alt.Axis(labelExpr=PREFIXED, tickCount=5, minExtent=40),
    )  # fmt: skip
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
        f"{window.name}: {verdict}", limit=_HALF, color=INK if window.verdict.steady else RED
    )
    return plain(alt.layer(*layers).properties(title=title, width=_HALF, height=200))
