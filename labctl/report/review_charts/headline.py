"""The bars at the top of the review: work and watts of the headline phases."""

from __future__ import annotations

from collections.abc import Sequence

from labctl.analysis.methods.headline_averages import HeadlineAverage
from labctl.analysis.numbers import estimate_columns
from labctl.report.charts.theme import Datasets, finished
from labctl.report.review_charts.review_chart import Figure, work_and_watts


def headline_figure(averages: Sequence[HeadlineAverage]) -> Figure | None:
    """A bar for each headline average: IOPS, and beside it the watts they took."""
    if not averages:
        return None
    datasets = Datasets()
    numbers = tuple(
        {
            "figure": one.name,
            "iops": one.iops,
            "mb_per_s": one.bytes_per_s / 1e6,
            **estimate_columns("watts", one.watts),
            **estimate_columns("iops_per_watt", one.iops_per_watt),
            "throttled": ", ".join(one.throttled),
        }
        for one in averages
    )
    body = work_and_watts(datasets, numbers)
    caption = (
        "Headline averages of the reviews, from 64 KiB blocks on in MB/s, and the power they took "
        "with its U (about 95 %)."
    )
    throttled = list(dict.fromkeys(label for one in averages for label in one.throttled))
    if throttled:
        caption += (
            f" A red triangle marks those in which the drive throttled: {', '.join(throttled)}."
        )
    return Figure(finished("headline", "Headline averages", caption, body, datasets), numbers)
