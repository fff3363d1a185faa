"""How even a long phase was: IOPS and watts of each second, whole and zoomed to the last part."""

from __future__ import annotations

from dataclasses import dataclass

import altair as alt
import numpy as np

from labctl.analysis.methods.consistency import Consistency, Floats, per_second
from labctl.analysis.numbers import duration, prefixed, significant
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run.timeline import timeline
from labctl.record.reader import RunRecord
from labctl.record.timebase import NS_PER_S
from labctl.report.charts.small_multiples import charts_in_rows
from labctl.report.charts.theme import (
    RED,
    Datasets,
    Row,
    Spec,
    finished,
    linear_y,
    log_y,
    plain,
)
from labctl.report.review_charts.review_chart import AMBER, BLUE, HALF_WIDTH, Figure

THIRD_WIDTH = 320
"""Pixels of one of three charts in a row."""


@dataclass(frozen=True, slots=True)
class WattsPerSecond:
    """Mean total watts of each whole second of a phase; ``t_s`` are the middles of the seconds."""

    t_s: Floats
    watts: Floats


def watts_per_second(record: RunRecord, result: PhaseResult) -> WattsPerSecond | None:
    """Of a phase of at least two seconds; None where a rail was not measured."""
    seconds = int(result.duration_s)
    if seconds < 2:
        return None
    end_ns = result.begin_ns + seconds * NS_PER_S
    trace = timeline(record, result.begin_ns, end_ns, bins=seconds).total_watts
    if trace is None:
        return None
    good = np.isfinite(trace.mean)
    t_s = (trace.t_ns[good] - result.begin_ns) / NS_PER_S
    return WattsPerSecond(t_s, trace.mean[good]) if good.any() else None


def consistency_figure(
    result: PhaseResult,
    t_s: Floats,
    iops: Floats,
    found: Consistency,
    name: str = "consistency",
    power: WattsPerSecond | None = None,
) -> Figure:
    """IOPS of each second, linear and logarithmic, and the watts: the whole phase, and its last
    part where that is not all of it."""
    seconds, values = per_second(t_s, iops)
    late = seconds > found.begin_s
    watts: dict[int, float] = {}
    if power is not None:
        watts = {int(t): float(w) for t, w in zip(power.t_s, power.watts, strict=True)}
    numbers = tuple(
        {
            "second": float(t),
            "iops": float(v),
            **({"watts": watts.get(int(t))} if watts else {}),
            "in_tail": bool(inside),
        }
        for t, v, inside in zip(seconds, values, late, strict=True)
    )
    datasets = Datasets()
    mean = datasets.chart([{"y": found.mean}])
    width = THIRD_WIDTH if watts else HALF_WIDTH
    shown = [("whole phase", seconds, values)]
    if not late.all():
        last = f"last {found.end_s - found.begin_s:.0f} s"
        shown.append((last, seconds[late], values[late]))
    parts: list[Spec] = []
    for title, at, of in shown:
        rows: list[Row] = [{"t": float(t), "y": float(v)} for t, v in zip(at, of, strict=True)]
        data = datasets.chart(rows)
        for log in (False, True):
            if not log or (of > 0).all():
                words = f"{title}, {'log' if log else 'linear'}"
                parts.append(_consistency_scatter(data, of, words, mean, width, log=log))
        known = [{"t": float(t), "y": watts[int(t)]} for t in at if int(t) in watts]
        if known:
            parts.append(_consistency_power_chart(datasets, known, f"{title}, power", width))
    caption = _consistency_caption(
        result, found, [watts[int(t)] for t in seconds[late] if int(t) in watts]
    )
    body = charts_in_rows(parts, len(parts) // len(shown))
    title = f"Consistency, {result.phase.label}"
    return Figure(finished(name, title, caption, body, datasets), numbers)


def _consistency_caption(result: PhaseResult, found: Consistency, watts: list[float]) -> str:
    length = found.end_s - found.begin_s
    spread = "" if found.spread is None else f", (max − min)/min {found.spread:.1%}"
    caption = (
        f"{result.phase.label}: IOPS of each second. Over the last {length:.0f} s (red line: their "
        f"mean): {prefixed(found.mean)} ± σ {prefixed(found.std)}, σ/mean "
        f"{found.relative_std:.1%}{spread}."
    )
    if len(watts) > 1:
        caption += (
            f" The means of the power of those seconds: {significant(float(np.mean(watts)), 3)} W "
            f"± σ {significant(float(np.std(watts, ddof=1)), 2)} W."
        )
    if result.throttled:
        caption += f" The drive throttled for {duration(result.throttled_s)} of the phase."
    return caption


def _consistency_x_axis() -> alt.X:
    scale = alt.Scale(zero=False, nice=False)
    return alt.X("t:Q", title="seconds since the phase began", scale=scale)


def _consistency_scatter(
    data: alt.Chart, values: Floats, title: str, mean: alt.Chart, width: int, *, log: bool
) -> Spec:
    low, high = float(values.min()), float(values.max())
    scale, axis = log_y(low, high) if log else linear_y(0.0, high * 1.1 or 1.0)
    y = alt.Y("y:Q", title="IOPS", scale=scale, axis=axis)
    points = data.mark_point(filled=True, size=10, opacity=0.65, color=BLUE).encode(
        x=_consistency_x_axis(), y=y
    )
    line = mean.mark_rule(color=RED, strokeWidth=1.2).encode(y=alt.Y("y:Q", scale=scale))
    return plain(alt.layer(points, line).properties(title=title, width=width, height=200))


def _consistency_power_chart(datasets: Datasets, rows: list[Row], title: str, width: int) -> Spec:
    scale, axis = linear_y(0.0, max(float(row["y"]) for row in rows) * 1.1 or 1.0)
    y = alt.Y("y:Q", title="power (W)", scale=scale, axis=axis)
    points = datasets.chart(rows).mark_point(filled=True, size=10, opacity=0.65, color=AMBER)
    drawn = points.encode(x=_consistency_x_axis(), y=y)
    return plain(drawn.properties(title=title, width=width, height=200))
