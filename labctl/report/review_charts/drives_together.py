"""One chart a method with all drives in it, as reviews print them.

What is drawn are the numbers of the charts that each run has of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from labctl.analysis.numbers import latency_text, prefixed
from labctl.record.phase import format_size
from labctl.report.charts.small_multiples import charts_in_rows, top_legend
from labctl.report.charts.theme import (
    INK,
    LATENCY,
    PREFIXED,
    Chart,
    Datasets,
    Row,
    Spec,
    finished,
    hues,
    linear_y,
    plain,
    triangles,
)
from labctl.report.panels import LARGE_BLOCK_BYTES, places_of
from labctl.report.review_charts.review_chart import HALF_WIDTH, Figure

IOPS, RATE, WATTS = ("iops", "IOPS"), ("mb_per_s", "MB/s"), ("watts", "mean power (W)")
_DRIVE_PX = 18
"""Height of the bar of one drive."""


@dataclass(frozen=True, slots=True)
class _Curves:
    """How the numbers of a chart are drawn as curves: along ``x``, one chart for each of
    ``part_by`` and each quantity, the columns and titles of which are ``shown``."""

    x: str
    title: str
    shown: tuple[tuple[str, str], ...]
    part_by: str = ""
    points: bool = True
    log2: bool = False


_CURVES = {
    "mixed": _Curves("read_pct", "reads (%)", (IOPS, WATTS), "workload"),
    "transfer": _Curves("block_size_bytes", "transfer size", (RATE, WATTS), "workload", log2=True),
    "consistency": _Curves("second", "seconds since the phase began", (IOPS, WATTS), points=False),
    "saturation": _Curves(
        "gb_written", "written (GB)", (IOPS, WATTS, ("latency_mean_us", "mean latency"))
    ),
    "soak": _Curves(
        "second", "seconds since the soak began", (("mean", ""),), "quantity", points=False
    ),
}
_BARS = {
    "headline": (IOPS, RATE, WATTS, ("iops_per_watt", "IOPS/W")),
    "efficiency": (("iops_per_watt", "IOPS/W"), ("mb_per_s_per_watt", "MB/s/W"), WATTS),
    "conditioned": (IOPS, RATE, WATTS),
    "replay": (RATE, ("service_mean_us", "mean service time"), WATTS),
}


def drives_together(runs: Mapping[str, Sequence[Figure]]) -> tuple[Chart, ...]:
    """The charts of the methods that at least two drives have; ``runs``: the charts of each, by
    the drive's name, which is that of its run in every legend.

    Figures belong together by method and title, which says the workload; those with one title in
    the order of their runs. The number in a figure's name counts within its run only.
    """
    drives = tuple(runs)
    found: dict[tuple[str, str, int], dict[str, Figure]] = {}
    for drive, figures in runs.items():
        seen: Counter[tuple[str, str]] = Counter()
        for figure in figures:
            key = re.sub(r"-\d+$", "", figure.chart.name), figure.chart.title
            found.setdefault((*key, seen[key]), {})[drive] = figure
            seen[key] += 1
    charts: list[Chart] = []
    numbers: Counter[str] = Counter()
    for (method, title, _), of_drives in found.items():
        if len(of_drives) > 1:
            numbers[method] += 1
            name = f"{method}-{numbers[method]}" if numbers[method] > 1 else method
            chart = _chart(method, f"method-{name}", title, of_drives, drives)
            charts += [] if chart is None else [chart]
    return tuple(charts)


def _chart(
    method: str, name: str, title: str, found: Mapping[str, Figure], drives: Sequence[str]
) -> Chart | None:
    rows = [{**row, "drive": drive} for drive, figure in found.items() for row in figure.numbers]
    datasets = Datasets()
    if method in _CURVES:
        parts = list(_drives_together_curves(datasets, rows, _CURVES[method], drives))
    elif method in _BARS:
        parts = list(_drives_together_bars(datasets, rows, _BARS[method], drives))
    else:
        return None
    caption = "The same method on each drive."
    if any(_drives_together_throttled(row) for row in rows):
        caption += " A red triangle marks where a drive throttled."
    return finished(name, title, caption, charts_in_rows(parts, 2), datasets) if parts else None


def _drives_together_throttled(row: Row) -> bool:
    return bool(row.get("throttled") or row.get("throttled_s"))


def _drives_together_colour(drives: Sequence[str]) -> alt.Color:
    scale = alt.Scale(domain=list(drives), range=hues(tuple(drives)))
    return alt.Color("drive:N", scale=scale, legend=top_legend())


def _drives_together_labels(column: str) -> str:
    return LATENCY if column.endswith("_us") else PREFIXED


def _drives_together_curves(
    datasets: Datasets, rows: Sequence[Row], how: _Curves, drives: Sequence[str]
) -> Iterator[Spec]:
    for part in dict.fromkeys(row[how.part_by] if how.part_by else "" for row in rows):
        own = [row for row in rows if not how.part_by or row[how.part_by] == part]
        for column, title in how.shown:
            known = [row for row in own if row.get(column) is not None]
            if known:
                heading = str(part) if how.part_by and title else ""
                yield _drives_together_curve(
                    datasets, known, how, column, title or str(part), heading, drives
                )


def _drives_together_curve(
    datasets: Datasets,
    known: Sequence[Row],
    how: _Curves,
    column: str,
    title: str,
    heading: str,
    drives: Sequence[str],
) -> Spec:
    values = sorted({row[how.x] for row in known})
    at = dict(zip(values, places_of(values) if how.log2 else values, strict=True))
    rows: list[Row] = [
        {
            "x": at[row[how.x]],
            "y": row[column],
            "drive": row["drive"],
            "marked": _drives_together_throttled(row),
        }
        for row in known
    ]
    highest = max(float(row["y"]) for row in rows)
    scale, axis = linear_y(0.0, highest * 1.1 or 1.0, _drives_together_labels(column))
    x_axis = alt.Axis(grid=False)
    if how.log2:
        texts = [format_size(value) for value in values]
        label = f"{texts}[indexof({list(at.values())}, datum.value)]"
        x_axis = alt.Axis(values=list(at.values()), labelExpr=label, grid=False)
    x = alt.X(
        "x:Q", title=how.title, scale=alt.Scale(nice=False, zero=False, padding=10), axis=x_axis
    )
    y = alt.Y("y:Q", title=title, scale=scale, axis=axis)
    data, colour = datasets.chart(rows), _drives_together_colour(drives)
    layers: list[Any] = [
        data.mark_line(strokeWidth=1.5 if how.points else 1.0).encode(x=x, y=y, color=colour)
    ]
    if how.points:
        point = data.mark_point(filled=True, size=36, opacity=1)
        layers.append(point.encode(x=x, y=y, color=colour, tooltip=alt.Tooltip("drive:N")))
    marked = [row for row in rows if row["marked"]]
    if marked and how.points:
        tooltip = alt.Tooltip("drive:N", title="throttled")
        layers.append(triangles(datasets, marked, x, y, tooltip, up_px=10))
    words = {"title": alt.TitleParams(heading, limit=HALF_WIDTH)} if heading else {}
    return plain(alt.layer(*layers).properties(width=HALF_WIDTH, height=200, **words))


def _drives_together_bars(
    datasets: Datasets,
    rows: Sequence[Row],
    shown: Sequence[tuple[str, str]],
    drives: Sequence[str],
) -> Iterator[Spec]:
    for column, title in shown:
        known = [row for row in rows if row.get(column) is not None and _is_usual(row, column)]
        if known:
            yield _drives_together_bar(datasets, known, column, title, drives)


def _is_usual(row: Row, column: str) -> bool:
    """Whether work is given so: in operations, from 64 KiB blocks on in MB/s."""
    if column not in ("iops", "mb_per_s") or not row.get("iops") or "service_mean_us" in row:
        return True
    large = row["mb_per_s"] * 1e6 >= LARGE_BLOCK_BYTES * row["iops"]
    return large is (column == "mb_per_s")


def _drives_together_bar(
    datasets: Datasets, known: Sequence[Row], column: str, title: str, drives: Sequence[str]
) -> Spec:
    figures = list(dict.fromkeys(row["figure"] for row in known))
    rows: list[Row] = [
        {
            "of": row["figure"],
            "drive": row["drive"],
            "y": row[column],
            "low": row[column] - (row.get(f"{column}_u") or 0.0),
            "high": row[column] + (row.get(f"{column}_u") or 0.0),
            "text": latency_text(row[column]) if column.endswith("_us") else prefixed(row[column]),
            "marked": _drives_together_throttled(row),
        }
        for row in known
    ]
    top = max(float(row["high"]) for row in rows)
    scale = alt.Scale(domain=[0, top * 1.2 or 1.0], nice=False)
    axis = alt.Axis(labelExpr=_drives_together_labels(column), tickCount=4)
    x = alt.X("y:Q", title=title, scale=scale, axis=axis)
    y = alt.Y(
        "of:N", title=None, scale=alt.Scale(domain=figures, paddingInner=0.25),
        axis=alt.Axis(ticks=False, labelLimit=260, labelPadding=6, domain=False),
    )  # fmt: skip
    offset = alt.YOffset("drive:N", scale=alt.Scale(domain=list(drives)))
    data, end = datasets.chart(rows), alt.X("high:Q", scale=scale)
    layers = [
        data.mark_bar().encode(x=x, y=y, yOffset=offset, color=_drives_together_colour(drives)),
        data.mark_rule(color=INK).encode(
            x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, yOffset=offset
        ),
        data.mark_text(align="left", dx=6, color=INK, fontSize=10).encode(
            x=end, y=y, yOffset=offset, text="text:N"
        ),
    ]
    marked = [row for row in rows if row["marked"]]
    if marked:
        tooltip = alt.Tooltip("drive:N", title="throttled")
        mark = triangles(datasets, marked, alt.value(6), y, tooltip, up_px=0, yOffset=offset)
        layers.append(mark)
    height = len(figures) * (len(drives) * _DRIVE_PX + 8)
    return plain(alt.layer(*layers).properties(width=340, height=height))
