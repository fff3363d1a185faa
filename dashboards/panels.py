"""The kinds of panels, with what they share: style, unit, legend, text where there is no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from grafana_foundation_sdk.builders import barchart, common, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import statetimeline as state_timeline
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as model

from dashboards.influx import DATASOURCE
from dashboards.mappings import NO_COLOR, coloured
from dashboards.palette import BAD_COLOR, HUES, RAIL_COLORS, WARNING_COLOR, by_threshold, in_grey

GAP_MS = 15_000
"""Readings further apart than this are not joined by a line."""

LEAST_COLUMN_PX = 106
"""The least width of a table's column. Grafana's own 150 cut off the right half of a wide one."""


IN_WATTS = "suffix: W"
"""Never mW beside W on one axis, as Grafana's own unit would have it."""


@dataclass(frozen=True)
class PanelText:
    """The texts of a panel: its title, what it shows, and what it shows without data."""

    title: str
    description: str
    no_data: str


class _Described(Protocol):
    def title(self, title: str) -> Self: ...
    def description(self, description: str) -> Self: ...
    def no_value(self, no_value: str) -> Self: ...
    def datasource(self, datasource: model.DataSourceRef) -> Self: ...
    def unit(self, unit: str) -> Self: ...
    def height(self, h: int) -> Self: ...
    def span(self, w: int) -> Self: ...
    def targets(self, targets: list[Builder[Dataquery]]) -> Self: ...


P = TypeVar("P", bound=_Described)


@dataclass(frozen=True)
class Size:
    """Width in 24ths of the page; height in grid rows of about 38 pixels."""

    width: int
    height: int


def _with_text(
    panel: P, text: PanelText, size: Size, unit: str, queries: Sequence[Builder[Dataquery]]
) -> P:
    return (
        panel.title(text.title)
        .description(text.description)
        .no_value(text.no_data)
        .datasource(DATASOURCE)
        .unit(unit)
        .height(size.height)
        .span(size.width)
        .targets(list(queries))
    )


def row(title: str, *panels: Builder[model.Panel]) -> build.Row:
    """A row with its panels, from left to right."""
    made = build.Row(title)
    for panel in panels:
        made.with_panel(panel)
    return made


def prop(key: str, value: object) -> model.DynamicConfigValue:
    """One property of a field override."""
    return model.DynamicConfigValue(id_val=key, value=value)


MISSING = ("/.*/", [prop("noValue", "–")])
"""An override of every field: a value that is missing among others. Grafana shows the panel's
"no value" text for it too, in each empty cell and tooltip, where that text would be wrong."""


def in_color(color: str) -> model.DynamicConfigValue:
    """An override of a series' colour."""
    return prop("color", {"mode": "fixed", "fixedColor": color})


RAILS_IN_COLOUR = [(f"/^(.*_)?{rail}$/i", [in_color(color)]) for rail, color in RAIL_COLORS.items()]
"""Overrides of the series of rails."""


_LAST_CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
BY_NAME = [
    (f"/[{_LAST_CHARACTERS[place :: len(HUES)]}]$/i", [in_color(color)])
    for place, color in enumerate(HUES)
]
"""Overrides of every series: a colour by the last character of its name, so that it is the same
whatever other series there are. Grafana's colours by place have red among them."""


def limit_line(color: str) -> list[model.DynamicConfigValue]:
    """Overrides that make a series a limit: dashed, without fill, out of the stack."""
    return [
        in_color(color),
        prop("custom.lineStyle", {"fill": "dash", "dash": [10, 8]}),
        prop("custom.lineWidth", 1),
        prop("custom.fillOpacity", 0),
    ]


def severity_colors() -> list[model.DynamicConfigValue]:
    """Overrides for the severity of an event."""
    return coloured({"info": NO_COLOR, "warning": WARNING_COLOR, "error": BAD_COLOR})


def steps(*edges: tuple[float | None, str]) -> build.ThresholdsConfig:
    """Thresholds: (from this value on, colour); None means "everything below"."""
    return (
        build.ThresholdsConfig()
        .mode(model.ThresholdsMode.ABSOLUTE)
        .steps([model.Threshold(value=value, color=color) for value, color in edges])
    )


def thresholds(*edges: tuple[float | None, str]) -> model.DynamicConfigValue:
    """:func:`steps` for some fields only."""
    found = [{"value": value, "color": color} for value, color in edges]
    return prop("thresholds", {"mode": "absolute", "steps": found})


def legend(*calcs: str) -> common.VizLegendOptions:
    """One line below the chart, with values of each series."""
    return (
        common.VizLegendOptions()
        .display_mode(common_models.LegendDisplayMode.LIST)
        .placement(common_models.LegendPlacement.BOTTOM)
        .show_legend(True)
        .calcs(list(calcs))
    )


def tooltip_of_all() -> common.VizTooltipOptions:
    """A tooltip with every series at that place."""
    return common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI)


def over_time(
    text: PanelText,
    unit: str,
    *queries: Builder[Dataquery],
    size: Size,
    calcs: tuple[str, ...] = ("lastNotNull",),
) -> timeseries.Panel:
    """Lines over time. A missing reading is a hole in the line, never a straight stroke."""
    panel = _with_text(timeseries.Panel(), text, size, unit, queries)
    for name, color in (MISSING, *BY_NAME):
        panel.override_by_regexp(name, color)
    return (
        panel.interval("1s")
        .color_scheme(in_grey())
        .draw_style(common_models.GraphDrawStyle.LINE)
        .line_width(1)
        .fill_opacity(10)
        .show_points(common_models.VisibilityMode.NEVER)
        .span_nulls(GAP_MS)
        .legend(legend(*calcs))
        .tooltip(tooltip_of_all())
    )


def _big_number_panel(
    text: PanelText, unit: str, queries: Sequence[Builder[Dataquery]], size: Size, fields: str
) -> stat.Panel:
    reduce = common.ReduceDataOptions().calcs(["lastNotNull"]).values(False)
    return (
        _with_text(stat.Panel(), text, size, unit, queries)
        .color_scheme(by_threshold())
        .thresholds(steps((None, "text")))
        .reduce_options(reduce.fields(f"/^({fields})$/" if fields else ""))
        .graph_mode(common_models.BigValueGraphMode.NONE)
        .color_mode(common_models.BigValueColorMode.VALUE)
    )


def letters(name_px: int, value_px: int) -> common.VizTextDisplayOptions:
    """Sizes of a name and a value beside each other: Grafana's own leaves the value 30 % of the
    width, which is too little for words."""
    return common.VizTextDisplayOptions().title_size(name_px).value_size(value_px)


def numbers(
    text: PanelText, unit: str, *queries: Builder[Dataquery], size: Size, fields: str = ""
) -> stat.Panel:
    """Values with their names: of the columns that ``fields`` matches, or of numbers."""
    named = common_models.BigValueTextMode.VALUE_AND_NAME
    return (
        _big_number_panel(text, unit, queries, size, fields).text_mode(named).text(letters(13, 22))
    )


def number(
    text: PanelText, unit: str, query: Builder[Dataquery], size: Size, field: str = ""
) -> stat.Panel:
    """One value, as big as the panel: the last one, or the last one of the column ``field``."""
    alone = common_models.BigValueTextMode.VALUE
    return _big_number_panel(text, unit, [query], size, field).text_mode(alone)


def texts_of(
    query: Builder[Dataquery], no_data: str, *shown: tuple[str, str, str, int]
) -> list[stat.Panel]:
    """A panel for each text of the row that the query brings: (title, what it shows, the column,
    the panel's width)."""
    return [
        number(PanelText(title, description, no_data), "string", query, Size(width, 3), field)
        for title, description, field, width in shown
    ]


MOST_TILES = 100


def tiles(text: PanelText, query: Builder[Dataquery], size: Size, field: str) -> stat.Panel:
    """One tile a row, side by side, with the text of the column ``field``, filled with the colour
    of its mapping."""
    every_row = common.ReduceDataOptions().values(True).calcs([]).limit(MOST_TILES)
    return (
        number(text, "string", query, size)
        .reduce_options(every_row.fields(f"/^{field}$/"))
        .orientation(common_models.VizOrientation.VERTICAL)
        .color_mode(common_models.BigValueColorMode.BACKGROUND)
    )


def bars(
    text: PanelText, unit: str, *queries: Builder[Dataquery], size: Size, stacked: bool = False
) -> barchart.Panel:
    """Bars over the first text column, in the order of the rows."""
    panel = _with_text(barchart.Panel(), text, size, unit, queries)
    for name, color in (MISSING, *BY_NAME):
        panel.override_by_regexp(name, color)
    return (
        panel.color_scheme(in_grey())
        .orientation(common_models.VizOrientation.VERTICAL)
        .stacking(common_models.StackingMode.NORMAL if stacked else common_models.StackingMode.NONE)
        .show_value(common_models.VisibilityMode.AUTO)
        .group_width(0.75)
        .bar_width(0.95)
        .fill_opacity(80)
        .line_width(0)
        .axis_soft_min(0)
        .x_tick_label_max_length(28)
        .legend(legend())
        .tooltip(tooltip_of_all())
    )


def states(text: PanelText, query: Builder[Dataquery], size: Size) -> state_timeline.Panel:
    """Which state held when."""
    return (
        _with_text(state_timeline.Panel(), text, size, "string", [query])
        .color_scheme(in_grey())
        .merge_values(True)
        .show_value(common_models.VisibilityMode.AUTO)
        .row_height(0.8)
        .fill_opacity(70)
        .line_width(1)
        .legend(common.VizLegendOptions().show_legend(False).calcs([]))
        .tooltip(tooltip_of_all())
    )


def listing(text: PanelText, *queries: Builder[Dataquery], size: Size) -> table.Panel:
    """A table of the rows as they come."""
    panel = _with_text(table.Panel(), text, size, "string", queries)
    narrow = ("/.*/", [prop("custom.minWidth", LEAST_COLUMN_PX)])
    return panel.override_by_regexp(*MISSING).override_by_regexp(*narrow).show_header(True)
