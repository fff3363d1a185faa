"""The second around a window that a limit of power is about."""

from __future__ import annotations

import math

import altair as alt

from labctl.analysis.methods.power_verdicts import PowerCheck
from labctl.analysis.run.timeline import Curve, Timeline
from labctl.record.power_limits import PHASE
from labctl.report.charts.theme import (
    BANDS,
    HUES,
    INK,
    RED,
    Chart,
    Datasets,
    finished,
    linear_y,
    plain,
)
from labctl.rounded import rounded

BESIDE_NS = 500_000_000
BINS = 400
_WIDTH, _HEIGHT = 760, 200


def drawn_verdict_window(check: PowerCheck) -> tuple[int, int] | None:
    """What is drawn: the window and half a second on both sides; None without a window."""
    if check.begin_ns is None or check.end_ns is None:
        return None
    beside_ns = max(BESIDE_NS, (check.end_ns - check.begin_ns) // 20)
    return check.begin_ns - beside_ns, check.end_ns + beside_ns


def verdict_chart(check: PowerCheck, line: Timeline, number: int) -> Chart | None:
    """Watts around the window, with the limit; None without readings there."""
    curve = _power_verdict_curve(check, line)
    if curve is None or check.begin_ns is None or check.end_ns is None:
        return None
    begin_ns, end_ns = check.begin_ns, check.end_ns
    rows = [
        {"t": (t - begin_ns) / 1e9, "mean": mean, "low": low, "high": high}
        for t, mean, low, high in zip(
            curve.t_ns.tolist(), curve.mean.tolist(), curve.low.tolist(), curve.high.tolist(),
            strict=True,
        )
        if math.isfinite(mean)
    ]  # fmt: skip
    if not rows:
        return None
    limit, top = check.limit_watts, max(row["high"] for row in rows)
    scale, axis = linear_y(0.0, 1.08 * max(top, limit or 0.0))
    datasets = Datasets()
    x = alt.X("t:Q", title="seconds since the window began", axis=alt.Axis(grid=False))
    y = alt.Y("mean:Q", title="power (W)", scale=scale, axis=axis)
    window = datasets.chart([{"t": 0.0, "end": (end_ns - begin_ns) / 1e9}])
    lines = datasets.chart(rows)
    layers = [
        window.mark_rect(color=BANDS[0], opacity=0.7).encode(x=x, x2="end:Q"),
        lines.mark_area(color=HUES[0], opacity=0.25).encode(
            x=x, y=alt.Y("low:Q", scale=scale, title="power (W)", axis=axis), y2="high:Q"
        ),
        lines.mark_line(color=HUES[0], strokeWidth=1.2).encode(x=x, y=y),
    ]
    if check.watts is not None:
        mean = datasets.chart([{"t": 0.0, "end": (end_ns - begin_ns) / 1e9,
                                "mean": check.watts.value}])  # fmt: skip
        layers.append(mean.mark_rule(color=INK, strokeWidth=2).encode(x=x, x2="end:Q", y=y))
    if limit is not None:
        rule = datasets.chart([{"mean": limit, "text": f"limit {rounded(limit, 4)} W"}])
        layers.append(rule.mark_rule(color=RED, strokeDash=[6, 3]).encode(y=y))
        layers.append(
            rule.mark_text(color=RED, align="right", dx=-4, dy=-6, fontSize=11).encode(
                x=alt.value("width"), y=y, text="text:N"
            )
        )
    spec = plain(alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT))
    title = f"{check.limit}: {check.verdict}"
    length = "the phase" if check.over == PHASE else check.over
    caption = (
        f"{check.where}: {check.measured} over {length}. Shaded: the window; the "
        "thick line is its mean, the band goes from the smallest to the largest reading."
    )
    return finished(f"verdict-{number}", title, caption, spec, datasets)


def _power_verdict_curve(check: PowerCheck, line: Timeline) -> Curve | None:
    if check.rail:
        return line.watts.get(check.rail)
    if line.total_watts is not None:
        return line.total_watts
    return next(iter(line.watts.values())) if len(line.watts) == 1 else None
