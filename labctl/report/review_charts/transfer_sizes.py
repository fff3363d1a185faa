"""The chart of transfer sizes: data rate and watts against the block size."""

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
            **review_throttling_columns(item),
        }
        for item in shown
    )
    order = list(dict.fromkeys(row["size"] for row in numbers))
    body, datasets = quantity_charts(
        numbers, "workload", "size", order, "transfer size",
        (("mb_per_s", "MB/s"), ("watts", "mean power (W)")),
    )  # fmt: skip
    caption = "Data rate against the size of a transfer, and mean power with its U (about 95 %)."
    caption += throttle_words(shown)
    return Figure(finished("transfer", "Transfer sizes", caption, body, datasets), numbers)


def _size_name(item: PhaseResult) -> str:
    return f"{item.phase.pattern.value} QD{item.phase.queue_depth}"
