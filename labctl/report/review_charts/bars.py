"""The bars of an energy-efficiency test: work per watt of each workload, and the watts of idling.

The metrics are those of SNIA Emerald: IOPS/W and MB/s/W active, capacity/W in ready idle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from labctl.analysis.methods.conditioned import Conditioned
from labctl.analysis.methods.idle import IdleResult
from labctl.analysis.methods.replays import BOUND, ReplayResult
from labctl.analysis.results import Estimate, PhaseResult
from labctl.report.charts.small_multiples import throttle_words
from labctl.report.charts.theme import Datasets, Row, finished, hues, joined
from labctl.report.numbers import with_uncertainty
from labctl.report.panels import LARGE_BLOCK_BYTES
from labctl.report.review_charts.review_chart import (
    AMBER,
    BLUE,
    GREEN,
    Figure,
    bars,
    estimate_columns,
    work_and_watts,
)

MOST_POINTS = 16
"""More are told by the charts along the sweeps, not by a bar each."""

LEAST_WORKLOADS = 3
"""Fewer are the curves of a sweep, which have charts of their own."""


def efficiency_figure(points: Sequence[PhaseResult], idle: Sequence[IdleResult]) -> Figure | None:
    """Bars of each point and of each idle phase; None where there is no idling or too little, or
    too much, to set side by side."""
    shown = [item for item in points if item.iops_per_watt is not None and not item.phase.round]
    workloads = {(item.phase.pattern, item.phase.block_size_bytes) for item in shown}
    rested = [one for one in idle if one.watts is not None]
    if not rested or len(workloads) < LEAST_WORKLOADS or len(shown) > MOST_POINTS:
        return None
    datasets = Datasets()
    small = [item for item in shown if item.phase.block_size_bytes < LARGE_BLOCK_BYTES]
    large = [item for item in shown if item.phase.block_size_bytes >= LARGE_BLOCK_BYTES]
    active = [_efficiency_row(item) for item in small], [_efficiency_row(item) for item in large]
    idling = [
        {"figure": one.label, "throttled": "", **estimate_columns("watts", one.watts)}
        for one in rested
    ]
    parts = []
    for rows, name, title, colour in (
        (active[0], "iops_per_watt", "IOPS/W", BLUE),
        (active[1], "mb_per_s_per_watt", "MB/s/W", GREEN),
    ):
        if rows:
            parts.append(bars(datasets, rows, name, title, colour, named=True))
            parts.append(bars(datasets, rows, "watts", "mean power (W)", AMBER, named=False))
    parts.append(bars(datasets, idling, "watts", "mean power idling (W)", AMBER, named=True))
    caption = (
        "Work per watt of each workload, from 64 KiB blocks on in MB/s/W, with the power that it "
        f"took; below, the power of idling. U with k = 2.{throttle_words(shown)}"
    )
    last = rested[-1]
    if last.gb_per_watt is not None:
        caption += f" Ready idle ({last.label}): {with_uncertainty(last.gb_per_watt)} GB/W."
    numbers = (*active[0], *active[1], *idling)
    return Figure(
        finished("efficiency", "Efficiency", caption, joined(parts, 2), datasets), tuple(numbers)
    )


def _efficiency_row(item: PhaseResult) -> Row:
    per_watt = item.bytes_per_joule
    mb_per_joule = None if per_watt is None else Estimate(per_watt.value / 1e6, per_watt.u / 1e6)
    return {
        "figure": item.phase.label,
        **estimate_columns("iops_per_watt", item.iops_per_watt),
        **estimate_columns("mb_per_s_per_watt", mb_per_joule),
        **estimate_columns("watts", item.watts),
        "throttled": item.phase.label if item.throttled else "",
    }


def conditioned_figure(
    found: Sequence[Conditioned], phases: Sequence[PhaseResult]
) -> Figure | None:
    """Two bars for each work that was done before the drive was filled and after it: its IOPS (from
    64 KiB blocks on MB/s), and the watts. ``phases``: those of the run."""
    if not found:
        return None
    by_index = {item.phase.index: item for item in phases}
    shown = [
        (f"{one.workload}, {state}", by_index[index])
        for one in found
        for state, index in (("fresh", one.fresh_index), ("conditioned", one.conditioned_index))
    ]
    numbers = tuple(_conditioned_row(name, item) for name, item in shown)
    datasets = Datasets()
    body = work_and_watts(datasets, numbers)
    changes = "; ".join(f"{one.workload} {one.iops_change:+.1%}" for one in found)
    caption = (
        "The same work before the drive was filled and after it, and the power it took with its U "
        f"(k = 2). Work conditioned against fresh: {changes}."
        f"{throttle_words([item for _, item in shown])}"
    )
    chart = finished("conditioned", "Conditioned against fresh", caption, body, datasets)
    return Figure(chart, numbers)


def _conditioned_row(name: str, item: PhaseResult) -> Row:
    return {
        "figure": name,
        "iops": item.iops or 0.0,
        "mb_per_s": (item.bytes_per_s or 0.0) / 1e6,
        **estimate_columns("watts", item.watts),
        **estimate_columns("iops_per_watt", item.iops_per_watt),
        "throttled": item.phase.label if item.throttled else "",
    }


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
        ("service_mean_us", "mean service time (µs)"),
        ("busy_pct", "disk busy, at most (%)" if bound else "disk busy (%)"),
        ("watts", "mean power (W)"),
    )
    datasets = Datasets()
    known = [
        (name, title, colour)
        for (name, title), colour in zip(shown, REPLAY_COLOURS, strict=True)
        if any(row[name] is not None for row in numbers)
    ]
    parts = [
        bars(datasets, numbers, name, title, colour, named=place % 2 == 0)
        for place, (name, title, colour) in enumerate(known)
    ]
    caption = (
        "Replays of traces: data rate, service time from submission to completion, share of the "
        "time with I/O in flight, and mean power with its U (k = 2)."
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
    body = joined(parts, 2)
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
