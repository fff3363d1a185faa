"""What the charts of sweeps share: the grid of panels, the legend, the marks of throttling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from labctl.analysis.results import PhaseResult
from labctl.report.panels import Panel

_CROWDED = 8
_WIDTHS = {1: 760, 2: 465, 3: 300}
_NARROWEST = 220
_POINT_WIDTH = 110


@dataclass(frozen=True, slots=True)
class PanelGrid:
    """Size and number of small multiples, so that a row fills a page."""

    columns: int
    width: int
    crowded: bool

    @classmethod
    def of(cls, found: Sequence[Panel]) -> PanelGrid:
        """The grid for these panels."""
        most = max(len(panel.points) for panel in found)
        most_columns = 3 if most <= _CROWDED else 2 if most <= 2 * _CROWDED else 1
        columns = min(len(found), most_columns)
        if len(found) == 4 and columns == 3:
            columns = 2
        width = min(_WIDTHS[columns], max(_NARROWEST, _POINT_WIDTH * most))
        return cls(columns, width, most > _CROWDED)

    def x(self, panel: Panel, *, named: bool = True) -> alt.X:
        """The axis of a panel, in order; ``named`` or without any text."""
        axis = alt.Axis(
            labelAngle=-60 if self.crowded else 0,
            labelOverlap="greedy",
            labels=named,
            ticks=named,
            grid=False,
        )
        ticks = [point.tick for point in panel.points]
        title = panel.axis.title if named else None
        return alt.X("x:O", sort=ticks, scale=alt.Scale(domain=ticks), title=title, axis=axis)


def top_legend() -> alt.Legend:
    """The legend of a row of small multiples, above them."""
    return alt.Legend(orient="top", direction="horizontal")


def panel_title(panel: Panel) -> alt.TitleParams:
    """The title of one small multiple, cut where it would touch the next."""
    return alt.TitleParams(panel.title, limit=420)


def throttle_words(results: Sequence[PhaseResult], mark: str = "triangle") -> str:
    """The sentence of a caption on the marks of throttled phases; empty without any."""
    if any(result.throttled for result in results):
        return f" A red {mark} marks a phase in which the drive throttled."
    return ""
