"""The chart of a thermal soak: temperature, power and work over time, and what happened when."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np

from labctl.analysis.methods.soak import Soak
from labctl.analysis.run.timeline import Curve, Timeline, timeline
from labctl.analysis.run_summary import RunSummary
from labctl.record.phase import Pattern
from labctl.record.reader import RunRecord
from labctl.report.charts.small_multiples import charts_in_rows
from labctl.report.charts.theme import (
    INK,
    RED,
    Datasets,
    Row,
    Spec,
    finished,
    linear_y,
    plain,
)
from labctl.report.review_charts.review_chart import AMBER, BLUE, GREEN, Figure

WIDTH = 1020
BINS = 600
SILENT_S = 5.0


def soak_figure(record: RunRecord, summary: RunSummary, soak: Soak, name: str) -> Figure | None:
    """The soak with the cool-down and the work after it; None where nothing was recorded."""
    places = [item.phase.index for item in summary.phases]
    first = places.index(soak.phase_index)
    begin_ns = summary.phases[first].begin_ns
    last = next(
        (
            number + 1
            for number, item in enumerate(summary.phases[first:-1], start=first)
            if item.phase.pattern is Pattern.COOL
        ),
        first,
    )
    end_ns = max(item.end_ns for item in summary.phases[first : last + 1])
    line = timeline(record, begin_ns, end_ns, BINS)
    celsius = line.celsius.get(soak.sensor)
    if celsius is None:
        return None
    shown = [("celsius", f"{soak.sensor} (°C)", celsius, AMBER)]
    if line.total_watts is not None:
        shown.append(("watts", "power (W)", line.total_watts, BLUE))
    work = _work(line)
    if work is not None:
        shown.append(("mb_per_s", "MB/s", work, GREEN))
    marks = _marks(soak)
    datasets = Datasets()
    parts = [
        _soak_chart_row(
            datasets, trace, begin_ns, title, colour, marks, named=title is shown[-1][1]
        )
        for _, title, trace, colour in shown
    ]
    numbers = tuple(
        {"quantity": quantity, "second": (int(t) - begin_ns) * 1e-9, "mean": float(mean)}
        for quantity, _, trace, _ in shown
        for t, mean in zip(trace.t_ns, trace.mean, strict=True)
        if np.isfinite(mean)
    )
    caption = f"{soak.label}, then cooling down. " + " ".join(
        f"{mark['what'].capitalize()} after {mark['t']:.0f} s." for mark in marks
    )
    title = f"Thermal soak, {soak.label}"
    return Figure(
        finished(name, title, caption.strip(), charts_in_rows(parts, 1), datasets), numbers
    )


def _work(line: Timeline) -> Curve | None:
    """MB/s of the direction that moved most: a soak does one kind of work."""
    moved = line.bytes_per_s.values()
    most = max(moved, key=lambda one: float(np.nansum(one.mean)), default=None)
    if most is None:
        return None
    return Curve(most.t_ns, most.mean * 1e-6, most.low * 1e-6, most.high * 1e-6)


def _marks(soak: Soak) -> list[Row]:
    found: list[Row] = []
    if soak.throttled_after_s is not None:
        found.append({"t": soak.throttled_after_s, "what": "throttle point", "colour": RED})
    if soak.steady_after_s is not None:
        found.append({"t": soak.steady_after_s, "what": "temperature stands", "colour": INK})
    if soak.recovery is not None:
        found.append({"t": soak.duration_s, "what": "load off", "colour": "#888888"})
    return found


def _soak_chart_row(
    datasets: Datasets,
    trace: Curve,
    begin_ns: int,
    title: str,
    colour: str,
    marks: Sequence[Row],
    *,
    named: bool,
) -> Spec:
    rows: list[Row] = []
    for t, y in zip(trace.t_ns, trace.mean, strict=True):
        if not np.isfinite(y):
            continue
        second = (int(t) - begin_ns) * 1e-9
        if rows and second - rows[-1]["t"] > SILENT_S:
            rows.append({"t": second, "y": None})  # the line breaks where nothing was done
        rows.append({"t": second, "y": float(y)})
    values = [row["y"] for row in rows if row["y"] is not None]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    room = (high - low) * 0.1 or 1.0
    low = low - room if title.endswith("(°C)") else 0.0
    scale, axis = linear_y(low, high + room)
    x = alt.X(
        "t:Q", scale=alt.Scale(nice=False, zero=False),
        title="seconds since the soak began" if named else None,
    )  # fmt: skip
    y = alt.Y("y:Q", title=title, scale=scale, axis=axis)
    layers = [datasets.chart(rows).mark_line(strokeWidth=1.4, color=colour).encode(x=x, y=y)]
    for mark in marks:
        data = datasets.chart([mark])
        layers.append(
            data.mark_rule(color=mark["colour"], strokeDash=[4, 3], strokeWidth=1.2).encode(x=x)
        )
        if title.endswith("(°C)"):
            text = data.mark_text(
                align="left", baseline="bottom", dx=4, fontSize=11, color=mark["colour"]
            )
            layers.append(text.encode(x=x, y=alt.value(150), text="what:N"))
    return plain(alt.layer(*layers).properties(width=WIDTH, height=150))
