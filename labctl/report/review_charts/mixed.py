"""The chart of mixed reads and writes: work and watts against the share of reads."""

from __future__ import annotations

from collections.abc import Sequence

from labctl.analysis.numbers import estimate_columns
from labctl.analysis.phase_result import PhaseResult
from labctl.record.phase import format_size
from labctl.report.charts.small_multiples import throttle_words
from labctl.report.charts.theme import finished
from labctl.report.review_charts.review_chart import (
    Figure,
    quantity_charts,
    review_throttling_columns,
)


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
            **review_throttling_columns(item),
        }
        for item in sorted(mixed, key=lambda one: -one.phase.read_pct)
    )
    caption = (
        "From reads alone (left) to writes alone: work, and mean power with its U (about 95 %)."
    )
    caption += throttle_words(mixed)
    shares = sorted({row["read_pct"] for row in numbers}, reverse=True)
    body, datasets = quantity_charts(
        numbers, "workload", "read_pct", shares, "reads (%)",
        (("iops", "IOPS"), ("mb_per_s", "MB/s"), ("watts", "mean power (W)")),
    )  # fmt: skip
    return Figure(finished("mixed", "Mixed reads and writes", caption, body, datasets), numbers)


def _mix_name(item: PhaseResult) -> str:
    phase = item.phase
    return f"{phase.pattern.value} {format_size(phase.block_size_bytes)} QD{phase.queue_depth}"
