"""Block sizes against read shares: the IOPS and LATENCY tests of SNIA PTS 2.0.2.

The standard plots a line a read share over the block size, both logarithmic, and gives a table of
block sizes and read shares. Here each table has one beside it of the watts, at the same points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from labctl.analysis.latency import latency_max_us, latency_mean_us
from labctl.analysis.numbers import estimate_columns
from labctl.analysis.phase_result import PhaseResult
from labctl.record.phase import format_size
from labctl.report.charts.number_table import Field, TableAxes, number_table
from labctl.report.charts.small_multiples import charts_in_rows, throttle_words
from labctl.report.charts.theme import (
    Datasets,
    Row,
    Spec,
    finished,
    log_y,
    plain,
)
from labctl.report.review_charts.review_chart import Figure

LEAST_SIZES, LEAST_SHARES = 3, 3
_WIDTH = 500
_SHARES = ("#08306b", "#08519c", "#2171b5", "#4292c6", "#fd8d3c", "#e6550d", "#a63603")
"""Of read shares from much to little: blue reads, orange writes."""


def matrices(points: Sequence[PhaseResult]) -> list[list[PhaseResult]]:
    """The points of each mixed sweep of several block sizes and several read shares."""
    sweeps: dict[tuple[int, int, int], list[PhaseResult]] = {}
    for item in points:
        phase = item.phase
        if phase.pattern.mixed and phase.replay is None and item.iops:
            key = (phase.sweep_number, phase.queue_depth, phase.jobs)
            sweeps.setdefault(key, []).append(item)
    return [
        found
        for found in sweeps.values()
        if len({item.phase.block_size_bytes for item in found}) >= LEAST_SIZES
        and len({item.phase.read_pct for item in found}) >= LEAST_SHARES
    ]


def matrix_figures(points: Sequence[PhaseResult]) -> tuple[Figure, ...]:
    """A figure each of :func:`matrices`.

    ``points`` are the results of the points: of rounds the means over the window.
    """
    return tuple(
        _matrix_figure(found, f"matrix-{number}" if number > 1 else "matrix")
        for number, found in enumerate(matrices(points), start=1)
    )


def _matrix_numbers(item: PhaseResult) -> Row:
    phase = item.phase
    return {
        "block_size_bytes": phase.block_size_bytes,
        "size": format_size(phase.block_size_bytes),
        "read_pct": phase.read_pct,
        "iops": item.iops,
        "mb_per_s": (item.bytes_per_s or 0.0) / 1e6,
        **estimate_columns("watts", item.watts),
        **estimate_columns("iops_per_watt", item.iops_per_watt),
        "latency_mean_us": latency_mean_us(item),
        "latency_max_us": latency_max_us(item),
        "throttled_s": item.throttled_s,
    }


def _matrix_figure(found: Sequence[PhaseResult], name: str) -> Figure:
    numbers = [_matrix_numbers(item) for item in found]
    numbers.sort(key=lambda row: (row["block_size_bytes"], -row["read_pct"]))
    phase = found[0].phase
    single = phase.queue_depth * phase.jobs == 1
    datasets = Datasets()
    tables = (
        (("latency_mean_us", "mean latency"), ("latency_max_us", "slowest I/O"))
        if single
        else (("iops", "IOPS"),)
    )
    tables = (*tables, ("watts", "mean power (W)"), ("iops_per_watt", "IOPS/W"))
    parts = [] if single else [_matrix_lines(datasets, numbers)]
    parts += [
        _matrix_table(datasets, numbers, column, title)
        for column, title in tables
        if any(row[column] is not None for row in numbers)
    ]
    jobs = f" × {phase.jobs} jobs" if phase.jobs > 1 else ""
    caption = (
        f"{phase.pattern.value} at QD {phase.queue_depth}{jobs}: every block size with every read "
        f"share, and the power at the same points.{throttle_words(found, 'number')}"
    )
    body = charts_in_rows(parts, 2)
    title = f"Block sizes and read shares, {phase.sweep}"
    return Figure(finished(name, title, caption, body, datasets), tuple(numbers))


def _matrix_read_shares(numbers: Sequence[Row]) -> list[str]:
    return [f"{share} %" for share in sorted({row["read_pct"] for row in numbers}, reverse=True)]


def _matrix_block_sizes(numbers: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["size"] for row in numbers))


def _matrix_lines(datasets: Datasets, numbers: Sequence[Row]) -> Spec:
    """IOPS over the block size, a line a read share, logarithmic."""
    rows: list[Row] = [
        {"x": row["size"], "y": row["iops"], "of": f"{row['read_pct']} %"} for row in numbers
    ]
    scale, axis = log_y(min(row["y"] for row in rows), max(row["y"] for row in rows))
    shares = _matrix_read_shares(numbers)
    colours = [
        _SHARES[round(n * (len(_SHARES) - 1) / (len(shares) - 1))] for n in range(len(shares))
    ]
    data = datasets.chart(rows)
    x = alt.X(
        "x:O", sort=_matrix_block_sizes(numbers), title="block size (bytes)",
        axis=alt.Axis(labelAngle=0, grid=False),
    )  # fmt: skip
    y = alt.Y("y:Q", title="IOPS", scale=scale, axis=axis)
    colour = alt.Color(
        "of:N", title="reads", scale=alt.Scale(domain=shares, range=colours),
        legend=alt.Legend(orient="top", direction="horizontal"),
    )  # fmt: skip
    tooltip = [alt.Tooltip("x:O"), alt.Tooltip("of:N", title="reads"), alt.Tooltip("y:Q")]
    layers: list[Any] = [
        data.mark_line(strokeWidth=1.5).encode(x=x, y=y, color=colour),
        data.mark_point(filled=True, size=36, opacity=1).encode(
            x=x, y=y, color=colour, tooltip=tooltip
        ),
    ]
    return plain(alt.layer(*layers).properties(width=_WIDTH, height=_matrix_height(numbers)))


def _matrix_height(numbers: Sequence[Row]) -> int:
    return max(150, 30 * len(_matrix_block_sizes(numbers)))


def _matrix_table(datasets: Datasets, numbers: Sequence[Row], column: str, title: str) -> Spec:
    """Block sizes down, read shares across."""
    fields = [
        Field(f"{row['read_pct']} %", row["size"], row[column], bool(row["throttled_s"]))
        for row in numbers
        if row[column] is not None
    ]
    axes = TableAxes(
        _matrix_read_shares(numbers),
        "reads",
        _matrix_block_sizes(numbers),
        "block size (bytes)",
        _WIDTH,
    )
    return number_table(datasets, axes, fields, title, "µs" if column.endswith("_us") else "")
