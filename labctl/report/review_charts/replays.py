"""The chart of trace replays side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from labctl.analysis.methods.replays import BOUND, ReplayResult
from labctl.report.charts.small_multiples import charts_in_rows
from labctl.report.charts.theme import (
    Datasets,
    Row,
    finished,
    hues,
)
from labctl.report.review_charts.review_chart import Figure, bars

REPLAY_COLOURS = hues(("a", "b", "c", "d"))


def replay_figure(replays: Sequence[ReplayResult]) -> Figure | None:
    """Every replay of a run side by side."""
    if not replays:
        return None
    repeated = Counter(one.sweep for one in replays)
    numbers = tuple(_replay_numbers(one, repeated[one.sweep] > 1) for one in replays)
    bound = any(one.busy is not None and one.busy.source == BOUND for one in replays)
    shown = (
        ("mb_per_s", "MB/s"),
        ("service_mean_us", "mean service time"),
        ("busy_pct", "disk busy, at most (%)" if bound else "disk busy (%)"),
        ("watts", "mean power (W)"),
    )
    datasets = Datasets()
    known = [
        (name, title, colour)
        for (name, title), colour in zip(shown, REPLAY_COLOURS, strict=True)
        if any(row[name] is not None for row in numbers)
    ]
    parts = [bars(datasets, numbers, name, title, colour) for name, title, colour in known]
    caption = (
        "Replays of traces: data rate, service time from submission to completion, share of the "
        "time with I/O in flight, and mean power with its U (about 95 %)."
    )
    unknown = [row["figure"] for row in numbers if row["service_mean_us"] is None]
    if unknown:
        caption += (
            f" Of {', '.join(unknown)} service times are not known: this fio sees completions of a "
            "paced replay only when its queue is full."
        )
    off_pace = [
        f"{row['figure']} took {one.duration_s:.1f} s, its trace {one.trace_s:.1f} s"
        for one, row in zip(replays, numbers, strict=True)
        if one.is_off_pace
    ]
    if off_pace:
        caption += f" {'; '.join(off_pace)}."
    body = charts_in_rows(parts, 2)
    return Figure(finished("replay", "Trace replay", caption, body, datasets), numbers)


def _replay_numbers(one: ReplayResult, repeated: bool) -> Row:
    return {
        "figure": f"{one.sweep}, {one.label}" if repeated else one.sweep,
        "trace": one.trace,
        "gb": one.total_bytes * 1e-9,
        "seconds": one.duration_s,
        "trace_seconds": one.trace_s,
        "mb_per_s": one.mb_per_s,
        "iops": one.iops,
        "service_mean_us": one.service_mean_us,
        "service_p999_us": one.service_p999_us,
        "service_max_us": one.service_max_us,
        **{f"over_{slow.over_ms}_ms_pct": slow.most_pct for slow in one.slow},
        "busy_pct": None if one.busy is None else one.busy.part * 100,
        "busy_from": None if one.busy is None else one.busy.source,
        "throttled": f"{one.throttled_s:.1f} s" if one.throttled_s else "",
        "watts": None if one.watts is None else one.watts.value,
        "watts_u": None if one.watts is None else one.watts.u,
        "joules_per_gb": None if one.joules_per_gb is None else one.joules_per_gb.value,
        "joules_per_gb_u": None if one.joules_per_gb is None else one.joules_per_gb.u,
    }
