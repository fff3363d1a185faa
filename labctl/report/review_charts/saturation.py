"""The charts of a write saturation test: what a drive does the more was written to it.

SNIA PTS 2.0.2 (WSAT) plots IOPS and response times against the bytes written, linear and
logarithmic; here with the power beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from labctl.analysis.numbers import estimate_columns
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.steady_state.rule import WINDOW
from labctl.record.reader import RunRecord
from labctl.report.charts.small_multiples import charts_in_rows, throttle_words
from labctl.report.charts.theme import (
    GROUPED,
    INK,
    LATENCY,
    PREFIXED,
    Chart,
    Datasets,
    Row,
    Spec,
    finished,
    linear_y,
    log_y,
    plain,
    triangles,
)
from labctl.report.review_charts.review_chart import (
    AMBER,
    BLUE,
    GREEN,
    Figure,
)
from labctl.rounded import rounded

_WIDTH = 500


def saturation_figures(record: RunRecord, summary: RunSummary) -> tuple[Figure, ...]:
    """A figure a sweep that writes one point again and again, at least as often as a window has
    rounds."""
    sweeps: dict[int, list[PhaseResult]] = {}
    for item in summary.measured:
        if item.phase.round and item.iops:
            sweeps.setdefault(item.phase.sweep_number, []).append(item)
    written = [
        rounds
        for rounds in sweeps.values()
        if len(rounds) >= WINDOW
        and len({item.phase.point for item in rounds}) == 1
        and rounds[0].phase.directions == ("write",)
    ]
    return tuple(
        _saturation_figure(
            record, summary, rounds, f"saturation-{number}" if number > 1 else "saturation"
        )
        for number, rounds in enumerate(written, start=1)
    )


def _saturation_numbers(record: RunRecord, rounds: Sequence[PhaseResult]) -> list[Row]:
    """A row a round: what was written when it ended, and what the drive did in it."""
    drives = max(len(record.header.drives), 1)
    phase = rounds[0].phase
    each_bytes = phase.span_bytes or record.header.drive.size_bytes
    written, rows = 0.0, []
    for item in rounds:
        side = item.write
        assert side is not None and item.iops
        written += side.total_ios * phase.block_size_bytes
        rows.append(
            {
                "round": item.phase.round,
                "minutes": (item.end_ns - rounds[0].begin_ns) / 60e9,
                "gb_written": written * 1e-9,
                "drive_writes": written / (each_bytes * drives) if each_bytes else None,
                "iops": item.iops,
                "latency_mean_us": side.latency_mean_us or None,
                "latency_p99.9_us": side.latency_percentiles_us.get("99.9"),
                "latency_max_us": side.latency_max_us or None,
                **estimate_columns("watts", item.watts),
                **estimate_columns("iops_per_watt", item.iops_per_watt),
                "celsius_max": item.celsius_max,
                "throttled_s": item.throttled_s,
            }
        )
    return rows


def _saturation_figure(
    record: RunRecord, summary: RunSummary, rounds: Sequence[PhaseResult], name: str
) -> Figure:
    numbers = _saturation_numbers(record, rounds)
    counted = numbers[0]["drive_writes"] is not None
    along = "drive_writes" if counted else "gb_written"
    title = "drive writes (capacities written)" if counted else "written (GB)"
    window = next(
        (one for one in summary.steady_rounds if one.sweep_number == rounds[0].phase.sweep_number),
        None,
    )
    datasets = Datasets()
    shown: list[tuple[str, str, str, bool]] = [
        ("iops", "IOPS, linear", BLUE, False),
        ("iops", "IOPS, logarithmic", BLUE, True),
        ("watts", "mean power (W)", AMBER, False),
        ("latency_mean_us", "mean latency", GREEN, False),
    ]
    parts = [
        _saturation_panel(datasets, numbers, along, title, column, what, colour, log=log)
        for column, what, colour, log in shown
        if any(row[column] is not None for row in numbers)
    ]
    last = numbers[-1]
    caption = (
        f"{rounds[0].phase.point.label}: each point is a round of {rounds[0].phase.duration_s:g} "
        f"s, drawn where it ends. In all {rounded(last['gb_written'])} GB in "
        f"{rounded(last['minutes'])} min"
    )
    caption += f", {last[along]:.2f} capacities." if counted else "."
    if rounds[0].phase.span_bytes and record.header.drive.size_bytes:
        caption += " A capacity is the part of the drive that the plan works on."
    if window is not None and window.reached:
        caption += f" Steady from round {window.window[0]}."
    elif window is not None:
        caption += " No steady state."
    caption += throttle_words(rounds)
    sweep = rounds[0].phase.sweep
    chart: Chart = finished(
        name, f"Write saturation, {sweep}", caption, charts_in_rows(parts, 2), datasets
    )
    return Figure(chart, tuple(numbers))


def _saturation_panel(
    datasets: Datasets,
    numbers: Sequence[Row],
    along: str,
    along_title: str,
    column: str,
    title: str,
    colour: str,
    *,
    log: bool,
) -> Spec:
    rows: list[Row] = []
    for row in numbers:
        value, u = row[column], row.get(f"{column}_u") or 0.0
        if value is not None:
            rows.append(
                {"x": row[along], "y": value, "low": value - u, "high": value + u,
                 "round": row["round"], "throttled_s": row["throttled_s"]}
            )  # fmt: skip
    values = [row["y"] for row in rows]
    low, high = min(values), max(float(row["high"]) for row in rows)
    labels = GROUPED if column == "watts" else LATENCY if column.endswith("_us") else PREFIXED
    scale, axis = log_y(low, high) if log else linear_y(0.0, high * 1.12 or 1.0, labels)
    x = alt.X(
        "x:Q", title=along_title, scale=alt.Scale(domain=[0, rows[-1]["x"] * 1.02], nice=False),
        axis=alt.Axis(tickCount=8, grid=False),
    )  # fmt: skip
    y = alt.Y("y:Q", title=title, scale=scale, axis=axis)
    tooltip = [
        alt.Tooltip("round:Q"),
        alt.Tooltip("x:Q", title=along_title, format=".3f"),
        alt.Tooltip("y:Q", title=title, format=".4~s"),
    ]
    data = datasets.chart(rows)
    crowded = len(rows) > 200
    layers: list[Any] = [
        data.mark_line(strokeWidth=0.8, opacity=0.5, color=colour).encode(x=x, y=y),
        data.mark_point(filled=True, size=8 if crowded else 30, opacity=1, color=colour).encode(
            x=x, y=y, tooltip=tooltip
        ),
    ]
    if column == "watts" and not crowded:
        layers.append(
            data.mark_rule(color=INK, strokeWidth=1).encode(
                x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q"
            )
        )
    marked = [row for row in rows if row["throttled_s"]]
    if marked:
        throttled = alt.Tooltip("throttled_s:Q", title="throttled (s)", format=".1f")
        layers.append(triangles(datasets, marked, x, y, throttled, up_px=10))
    return plain(alt.layer(*layers).properties(width=_WIDTH, height=200))
