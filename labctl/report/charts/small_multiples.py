"""What the charts of sweeps share: the grid of panels, their axes, the legends of their marks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import altair as alt

from labctl.analysis.phase_result import PhaseResult
from labctl.report.charts.theme import Row, Spec
from labctl.report.panels import Panel

_CROWDED = 8
WIDTHS = {1: 760, 2: 465, 3: 300}
"""Pixels of a small multiple, by how many are beside each other."""
_NARROWEST = 220
_POINT_WIDTH = 110
_BAR_SHARE = 0.36
"""Half the width of a bar, of the distance of the two closest points."""
_WIDEST_BAR = 60
"""Pixels: few bars are no wider than many."""
_MARGIN = 0.6
"""Room beside the outermost points, of one step of the axis."""


@dataclass(frozen=True, slots=True)
class PanelGrid:
    """Size and number of small multiples, so that a row fills a page, and their common axis."""

    columns: int
    width: int
    crowded: bool
    half_bar: float
    """Half the width of every bar, in steps of the axis."""
    half_cell: float
    """The same of cells that touch each other."""
    _spans: dict[str, tuple[float, float]]

    @classmethod
    def of(cls, found: Sequence[Panel]) -> PanelGrid:
        """The grid for these panels. All along one axis have one scale, so that a queue depth is
        at the same place in each."""
        most = max(len(panel.points) for panel in found)
        most_columns = 3 if most <= _CROWDED else 2 if most <= 2 * _CROWDED else 1
        columns = columns_of(len(found), most_columns)
        spans: dict[str, tuple[float, float]] = {}
        closest = 1.0
        for panel in found:
            places = [point.place for point in panel.points]
            low, high = spans.get(panel.axis.name, (places[0], places[0]))
            spans[panel.axis.name] = min(low, *places), max(high, *places)
            closest = min([closest, *(after - before for before, after in pairwise(places))])
        widest = max(high - low for low, high in spans.values()) + 2 * _MARGIN
        width = round(min(WIDTHS[columns], max(_NARROWEST, _POINT_WIDTH * widest)))
        half_bar = min(_BAR_SHARE * closest, _WIDEST_BAR / 2 * widest / width)
        return cls(columns, width, most > _CROWDED, half_bar, closest / 2, spans)

    def x(self, panel: Panel, field: str = "x:Q", *, named: bool = True) -> alt.X:
        """The axis of a panel, a tick a point; ``named`` or without any text."""
        places = [point.place for point in panel.points]
        ticks = [point.tick for point in panel.points]
        label = f"{json.dumps(ticks)}[indexof({json.dumps(places)}, datum.value)]"
        axis = alt.Axis(
            values=places,
            labelExpr=label,
            labelAngle=-60 if self.crowded else 0,
            labelOverlap="greedy",
            labels=named,
            ticks=named,
            grid=False,
        )
        low, high = self._spans[panel.axis.name]
        scale = alt.Scale(domain=[low - _MARGIN, high + _MARGIN], nice=False, zero=False)
        return alt.X(field, scale=scale, title=panel.axis.title if named else None, axis=axis)

    def sides(self, place: float, number: int = 0, of: int = 1) -> Row:
        """Where a bar at ``place`` begins, ends and has its middle ``x``: the ``number``-th of
        several beside each other."""
        width = 2 * self.half_bar / of
        left = place - self.half_bar + number * width
        ends = {"left": round(left, 4), "right": round(left + width, 4)}
        return {"x": round(left + width / 2, 4), **ends}

    def cell(self, place: float) -> Row:
        """The same of a cell of a map, which touches the next one."""
        return {"x": place, "left": place - self.half_cell, "right": place + self.half_cell}


def columns_of(count: int, most: int = 3) -> int:
    """How many of ``count`` small multiples are beside each other, at most ``most``: of four, two
    by two."""
    return 2 if count == 4 and most == 3 else min(count, most)


def top_legend() -> alt.Legend:
    """The legend of a row of small multiples, above them."""
    return alt.Legend(orient="top", direction="horizontal", title=None)


def small_multiple_title(panel: Panel) -> alt.TitleParams:
    """The title of one small multiple, cut where it would touch the next."""
    return alt.TitleParams(panel.title, limit=420)


def throttle_words(results: Sequence[PhaseResult], mark: str = "triangle") -> str:
    """The sentence of a caption on the marks of throttled phases; empty without any."""
    if any(result.throttled for result in results):
        return f" A red {mark} marks a phase in which the drive throttled."
    return ""


def charts_in_rows(parts: list[Spec], columns: int) -> Spec:
    """Charts in rows of ``columns``; a single one is not joined.

    Altair would copy every part again and again: a run of 200 phases took 20 s.
    """
    return parts[0] if len(parts) == 1 else {"concat": parts, "columns": columns, "spacing": 20}
