"""Which phase was when: a strip over the charts of a run over time, with names where they fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run_summary import RunSummary
from labctl.record.phase import Pattern, Phase, Role, format_size
from labctl.report.charts.theme import (
    BANDS,
    IDLE_BAND,
    INK,
    PREPARE_BAND,
    Datasets,
    Row,
)
from labctl.report.charts.time_axis import WIDTH, TimeAxis
from labctl.report.panels import axis_of

_CHARACTER_PX = 6.2
_ROLE_COLOURS = {
    Role.IDLE_BEFORE: IDLE_BAND,
    Role.IDLE_AFTER: IDLE_BAND,
    Role.PREPARE: PREPARE_BAND,
}
_STEPS = {Pattern.IDLE: "idle", Pattern.PURGE: "purge", Pattern.COOL: "cool"}


def phase_strip(summary: RunSummary, axis: TimeAxis, datasets: Datasets) -> Any:
    """Which phase was when, named as far as there is room."""
    rows: list[Row] = []
    names = _band_names(summary.phases, axis)
    for number, result in enumerate(summary.phases):
        begin_ns, end_ns = max(result.begin_ns, axis.begin_ns), min(result.end_ns, axis.end_ns)
        rows.append(
            {
                "t": axis.at(begin_ns),
                "t2": axis.at(end_ns),
                "middle": axis.at((begin_ns + end_ns) / 2),
                "colour": _ROLE_COLOURS.get(result.phase.role, BANDS[number % 2]),
                "label": names[number],
                "phase": result.phase.label,
                "outcome": result.outcome,
            }
        )
    chart = datasets.chart(rows)
    tooltip = [alt.Tooltip("phase:N"), alt.Tooltip("outcome:N")]
    bands = chart.mark_rect(stroke="white", strokeWidth=0.5).encode(
        x=axis.bare_x("t:Q"), x2="t2:Q", color=alt.Color("colour:N", scale=None), tooltip=tooltip
    )
    names = chart.mark_text(fontSize=10, color=INK, baseline="middle").encode(
        x=axis.bare_x("middle:Q"), text="label:N"
    )
    sweeps = datasets.chart(_sweep_rows(summary.phases, axis))
    titles = sweeps.mark_text(fontSize=10, color=INK, baseline="middle", fontWeight="bold").encode(
        x=axis.bare_x("middle:Q"), text="label:N"
    )
    strip = alt.layer(bands, names).properties(width=WIDTH, height=18)
    return alt.vconcat(titles.properties(width=WIDTH, height=14), strip, spacing=0)


def _sweep_rows(phases: Iterable[PhaseResult], axis: TimeAxis) -> list[Row]:
    """The name of each sweep over its phases; where there is no room for it, its work."""
    sweeps: dict[tuple[str, Role], list[PhaseResult]] = {}
    for result in phases:
        sweeps.setdefault((result.phase.sweep, result.phase.role), []).append(result)
    return [
        {
            "middle": axis.at((found[0].begin_ns + found[-1].end_ns) / 2),
            "label": _sweep_label(found, axis.pixels(found[0].begin_ns, found[-1].end_ns)),
        }
        for found in sweeps.values()
    ]


def _sweep_label(phases: Sequence[PhaseResult], pixels: float) -> str:
    """A name that fits: that of the sweep, else what its phases have in common, which begins with
    whether it reads or writes."""
    first = phases[0].phase
    names = [first.sweep]
    if first.pattern.io:
        sizes = {item.phase.block_size_bytes for item in phases}
        names += [f"{first.pattern} {format_size(size)}" for size in sizes if len(sizes) == 1]
        names.append(first.pattern.value)
    fitting = [name for name in names if len(name) <= pixels / _CHARACTER_PX]
    return fitting[0] if fitting else _cut_strip_name(names[-1], pixels)


def _cut_strip_name(text: str, pixels: float) -> str:
    room = int(pixels / _CHARACTER_PX)
    if len(text) <= room:
        return text
    return f"{text[: room - 1]}…" if room > 4 else ""


def _band_names(phases: Sequence[PhaseResult], axis: TimeAxis) -> list[str]:
    """The text in the band of each phase: the longest kind of name that fits every phase of
    its sweep that has room for one at all, so that a sweep is named in one way."""
    found = [""] * len(phases)
    sweeps: dict[tuple[str, Role], list[int]] = {}
    for place, result in enumerate(phases):
        sweeps.setdefault((result.phase.sweep, result.phase.role), []).append(place)
    for places in sweeps.values():
        names = _phase_strip_names([phases[place].phase for place in places])
        fits = {}
        for place, kinds in zip(places, names, strict=True):
            room = axis.pixels(phases[place].begin_ns, phases[place].end_ns) / _CHARACTER_PX
            for kind, name in enumerate(kinds):
                if len(name) < room:
                    fits[place] = kind
                    break
        chosen = max(fits.values(), default=0)
        for place, kinds in zip(places, names, strict=True):
            found[place] = kinds[chosen] if place in fits else ""
    return found


def _phase_strip_names(phases: Sequence[Phase]) -> list[tuple[str, ...]]:
    """What each phase of a sweep may be called, from long to short."""
    first = phases[0]
    if first.role is not Role.MEASURE:
        return [(phase.label, _STEPS.get(phase.pattern, "fill")) for phase in phases]
    if first.round and len({phase.point for phase in phases}) == 1:
        return [(phase.label, f"round {phase.round}", str(phase.round)) for phase in phases]
    along = axis_of(phases)
    values = [along.value(phase) for phase in phases]
    return [
        (phase.label, along.point(value), along.tick(value))
        for phase, value in zip(phases, values, strict=True)
    ]
