"""What the charts of a review share: a chart with its numbers, bars, and curves.

The numbers are rows for a CSV file beside the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from labctl.analysis.estimate import Estimate
from labctl.analysis.numbers import estimate_columns, latency_text, prefixed, with_uncertainty
from labctl.analysis.phase_result import PhaseResult
from labctl.report.charts.small_multiples import charts_in_rows
from labctl.report.charts.theme import (
    GROUPED,
    INK,
    LATENCY,
    PREFIXED,
    Chart,
    Datasets,
    Row,
    Spec,
    hues,
    plain,
    triangles,
)
from labctl.report.csv_text import csv_text
from labctl.report.panels import LARGE_BLOCK_BYTES

BLUE, AMBER, GREEN = hues(("a", "b", "c"))
HALF_WIDTH = 500
"""Pixels of a chart beside another one."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart and the numbers in it, one row a point, units in the names of the columns."""

    chart: Chart
    numbers: tuple[Row, ...]

    def csv(self) -> str:
        """The numbers as CSV; nothing where there is none."""
        names = tuple(dict.fromkeys(name for row in self.numbers for name in row))
        return csv_text(names, ([row.get(name) for name in names] for row in self.numbers))


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
            parts.append(bars(datasets, own, name, title, BLUE))
            if powered:
                parts.append(bars(datasets, own, "watts", "mean power (W)", AMBER))
    return charts_in_rows(parts, 2 if powered else 1)


def bars(datasets: Datasets, numbers: Sequence[Row], name: str, title: str, colour: str) -> Spec:
    """Bars of the column ``name``, one a row, called by its column ``figure``; with ``name_u``."""
    rows: list[Row] = []
    for row in numbers:
        value, u = row[name], row.get(f"{name}_u")
        if value is None:
            continue
        of_time = latency_text(value) if name.endswith("_us") else prefixed(value)
        text = of_time if u is None else with_uncertainty(Estimate(value, u))
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
        axis=alt.Axis(ticks=False, labelLimit=260, labelPadding=6, domain=False),
    )  # fmt: skip
    scale = alt.Scale(domain=[0, top * 1.25 or 1.0], nice=False)
    labels = LATENCY if name.endswith("_us") else PREFIXED
    x = alt.X("y:Q", title=title, scale=scale, axis=alt.Axis(labelExpr=labels, tickCount=4))
    layers = [
        data.mark_bar(color=colour, height={"band": 0.7}).encode(x=x, y=y),
        data.mark_rule(color=INK).encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y),
        data.mark_text(align="left", dx=6, color=INK, fontSize=11).encode(
            x=alt.X("high:Q", scale=scale), y=y, text="text:N"
        ),
    ]
    marked = [row for row in rows if row["throttled"]]
    if marked:
        tooltip = alt.Tooltip("throttled:N", title="throttled in")
        layers.append(triangles(datasets, marked, alt.value(6), y, tooltip, up_px=0))
    size = {"width": 360, "height": max(60, 34 * len(order))}
    return plain(alt.layer(*layers).properties(**size))


def review_throttling_columns(item: PhaseResult) -> Row:
    """Whether a phase throttled, and what it did while it did not."""
    return {
        "throttled_s": item.throttled_s,
        **estimate_columns("iops_unthrottled", item.iops_unthrottled),
        **estimate_columns("watts_unthrottled", item.watts_unthrottled),
    }


def quantity_charts(
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
            tooltip = alt.Tooltip("throttled_s:Q", title="throttled (s)", format=".1f")
            layers.append(triangles(datasets, marked, x, y, tooltip, up_px=12))
        parts.append(plain(alt.layer(*layers).properties(width=HALF_WIDTH, height=200)))
    return charts_in_rows(parts, 2), datasets
