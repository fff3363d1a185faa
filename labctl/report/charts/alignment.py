"""Whether the clock of an imported recording is right, for the eye: its watts over the edges of
fio's phases, and how well the other offsets that were searched fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np

from labctl.analysis.readings.imported import ImportedClock
from labctl.analysis.run.timeline import Curve, Timeline
from labctl.analysis.run_summary import RunSummary
from labctl.report.charts.phase_strip import phase_strip
from labctl.report.charts.theme import (
    GROUPED,
    HUES,
    INK,
    LINE,
    SOFT,
    Chart,
    Datasets,
    Row,
    finished,
    plain,
)
from labctl.report.charts.time_axis import WIDTH, TimeAxis

_MOST_PCT = 100.0
"""With as much left the phases say nothing; what contradicts them even more is drawn as this."""

_TAKEN, _SECOND = "taken", "next best"
_EDGES_APART_PX = 3
"""Edges of phases that are nearer to each other than this are drawn as one."""


def alignment_chart(
    summary: RunSummary, line: Timeline, clocks: Sequence[ImportedClock]
) -> Chart | None:
    """Watts over the edges of fio's phases, and of each clock that was searched what of the
    variance each offset leaves; None of a run that labctl measured, or without watts."""
    watts = line.total_watts or next(iter(line.watts.values()), None)
    if not clocks or watts is None:
        return None
    datasets = Datasets()
    axis = TimeAxis.of(line)
    parts: list[Any] = [phase_strip(summary, axis, datasets)]
    parts.append(_alignment_overlay(summary, axis, datasets, watts))
    searched = [clock for clock in clocks if clock.searched]
    parts += [_searched_alignment(clock, datasets, named=len(searched) > 1) for clock in searched]
    caption = (
        "The watts must step where a phase of fio's begins or ends (dashed), as far as the phases "
        "draw different watts."
    )
    if searched:
        caption += (
            " Below: how much of the variance of the watts is left at each offset that was "
            "searched, by the phases and by what fio did in them (no fewer watts for more I/O, "
            "none less than at rest): the less the better, and alone (100: as much or more)."
        )
    body = plain(alt.vconcat(*parts, spacing=14).resolve_scale(color="independent"))
    chart = finished("alignment", "The recording over fio's phases", caption, body, datasets)
    about = {"narrowest_px": WIDTH}  # the phases are named for it
    return replace(chart, spec={**chart.spec, "usermeta": about})


def _alignment_overlay(
    summary: RunSummary, axis: TimeAxis, datasets: Datasets, watts: Curve
) -> Any:
    rows: list[Row] = [
        {"t": axis.at(float(t)), "watts": None if np.isnan(mean) else round(float(mean), 6)}
        for t, mean in zip(watts.t_ns.tolist(), watts.mean.tolist(), strict=True)
    ]
    x = axis.x(named=True)
    y = alt.Y(
        "watts:Q",
        title="power (W)",
        scale=alt.Scale(zero=False, nice=True),
        axis=alt.Axis(labelExpr=GROUPED, minExtent=34, tickCount=5),
    )
    moments = (
        moment
        for result in summary.phases
        if result.phase.pattern.io
        for moment in (result.begin_ns, result.end_ns)
    )
    edges = datasets.chart(
        [{"t": at} for at in _alignment_edges_apart(map(axis.at, moments), axis)]
    )
    rules = edges.mark_rule(strokeDash=[4, 3], color=LINE).encode(x=x)
    shown = datasets.chart(rows).mark_line(strokeWidth=1.2, color=HUES[0], interpolate="step")
    return alt.layer(rules, shown.encode(x=x, y=y)).properties(width=WIDTH, height=190)


def _alignment_edges_apart(moments: Iterable[float], axis: TimeAxis) -> list[float]:
    least = _EDGES_APART_PX * axis.at(axis.end_ns) / WIDTH
    found: list[float] = []
    for one in sorted(moments):
        if not found or one - found[-1] > least:
            found.append(one)
    return found


def _searched_alignment(clock: ImportedClock, datasets: Datasets, *, named: bool) -> Any:
    curve = datasets.chart(
        [{"at": at, "left": min(100 * left, _MOST_PCT)} for at, left in clock.searched]
    )
    x = alt.X(
        "at:Q",
        title="offset added to the recording's times (s)",
        scale=alt.Scale(zero=False, nice=False),
        axis=alt.Axis(labelExpr=GROUPED, grid=False, tickCount=10),
    )
    title = "variance left (%)" + (f", {clock.instrument}" if named else "")
    y = alt.Y("left:Q", title=title, axis=alt.Axis(minExtent=34, tickCount=4))
    rows: list[Row] = [
        {"at": point[0], "left": 100 * point[1], "which": which}
        | {"label": f"{which}: {point[0]:+.6g} s, {point[1]:.1%}"}
        for which, point in ((_TAKEN, clock.best), (_SECOND, clock.second))
        if point is not None
    ]
    marked = datasets.chart(rows)
    colour = alt.Color(
        "which:N",
        legend=None,
        scale=alt.Scale(domain=[_TAKEN, _SECOND], range=[HUES[0], HUES[1]]),
    )
    offsets = [at for at, _ in clock.searched]
    middle = (min(offsets) + max(offsets)) / 2
    align = alt.ExprRef(f"datum.at > {middle!r} ? 'right' : 'left'")
    side = alt.ExprRef(f"datum.at > {middle!r} ? -8 : 8")
    layers = [
        curve.mark_line(strokeWidth=1.2, color=SOFT).encode(x=x, y=y),
        marked.mark_point(filled=True, size=70, opacity=1).encode(x=x, y=y, color=colour),
        marked.mark_text(fontSize=11, color=INK, align=align, dx=side, dy=-5).encode(
            x=x, y=y, text="label:N"
        ),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=110)
