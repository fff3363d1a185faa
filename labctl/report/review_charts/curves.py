"""Curves of the review: shares of reads, and block sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from labctl.analysis.results import PhaseResult
from labctl.record.phase import format_size
from labctl.report.charts.small_multiples import throttle_words
from labctl.report.charts.theme import (
    GROUPED,
    PREFIXED,
    Datasets,
    Row,
    Spec,
    finished,
    hues,
    joined,
    plain,
)
from labctl.report.review_charts.review_chart import HALF_WIDTH, TRIANGLE, Figure, estimate_columns


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
            **estimate_columns("watts", item.watts),
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
        **estimate_columns("iops_unthrottled", item.iops_unthrottled),
        **estimate_columns("watts_unthrottled", item.watts_unthrottled),
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
            **estimate_columns("watts", item.watts),
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
