"""The kinds of panels, with what they share: style, unit, legend, text where there is no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from grafana_foundation_sdk.builders import barchart, bargauge, common, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import statetimeline as state_timeline
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common as common_models
from grafana_foundation_sdk.models import dashboard as model

from dashboards.influx import DATASOURCE
from dashboards.mappings import colored_text

GAP_MS = 15_000
"""Readings further apart than this are not joined by a line."""

LEAST_COLUMN_PX = 106
"""The least width of a table's column. Grafana's own 150 cut off the right half of a wide one."""

OK_COLOR, WARNING_COLOR, BAD_COLOR = "green", "orange", "red"


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


def limit_line(color: str) -> list[model.DynamicConfigValue]:
    """Overrides that make a series a limit: dashed, without fill, out of the stack."""
    return [
        prop("color", {"mode": "fixed", "fixedColor": color}),
        prop("custom.lineStyle", {"fill": "dash", "dash": [10, 8]}),
        prop("custom.lineWidth", 1),
        prop("custom.fillOpacity", 0),
    ]


def severity_colors() -> list[model.DynamicConfigValue]:
    """Overrides for the severity of an event."""
    return colored_text({"info": "text", "warning": WARNING_COLOR, "error": BAD_COLOR})


def steps(*edges: tuple[float | None, str]) -> build.ThresholdsConfig:
    """Thresholds: (from this value on, colour); None means "everything below"."""
    return (
        build.ThresholdsConfig()
        .mode(model.ThresholdsMode.ABSOLUTE)
        .steps([model.Threshold(value=value, color=color) for value, color in edges])
    )


def by_threshold() -> build.FieldColor:
    """Colour a value by its threshold."""
    return build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS)


def by_series() -> build.FieldColor:
    """A colour for each series. By place: "by name" exists only since Grafana 9.5."""
    return build.FieldColor().mode(model.FieldColorModeId.PALETTE_CLASSIC)


def legend(*calcs: str) -> common.VizLegendOptions:
    """A legend below the chart: a table when there are values to show."""
    mode = common_models.LegendDisplayMode.TABLE if calcs else common_models.LegendDisplayMode.LIST
    return (
        common.VizLegendOptions()
        .display_mode(mode)
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
    calcs: tuple[str, ...] = ("lastNotNull", "max"),
) -> timeseries.Panel:
    """Lines over time. A missing reading is a hole in the line, never a straight stroke."""
    panel = _with_text(timeseries.Panel(), text, size, unit, queries)
    return (
        panel.override_by_regexp(*MISSING)
        .interval("1s")
        .color_scheme(by_series())
        .draw_style(common_models.GraphDrawStyle.LINE)
        .line_width(1)
        .fill_opacity(10)
        .show_points(common_models.VisibilityMode.NEVER)
        .span_nulls(GAP_MS)
        .legend(legend(*calcs))
        .tooltip(tooltip_of_all())
    )


def number(
    text: PanelText, unit: str, query: Builder[Dataquery], size: Size, field: str = ""
) -> stat.Panel:
    """One big value: the last one, or the last one of the column ``field``."""
    reduce = common.ReduceDataOptions().calcs(["lastNotNull"]).values(False)
    return (
        _with_text(stat.Panel(), text, size, unit, [query])
        .color_scheme(by_threshold())
        .thresholds(steps((None, "text")))
        .reduce_options(reduce.fields(f"/^{field}$/" if field else ""))
        .graph_mode(common_models.BigValueGraphMode.NONE)
        .color_mode(common_models.BigValueColorMode.VALUE)
        .text_mode(common_models.BigValueTextMode.AUTO)
    )


def bars(
    text: PanelText, unit: str, query: Builder[Dataquery], size: Size, stacked: bool = False
) -> barchart.Panel:
    """Bars over the first text column, in the order of the rows."""
    return (
        _with_text(barchart.Panel(), text, size, unit, [query])
        .override_by_regexp(*MISSING)
        .color_scheme(by_series())
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


def gauge_bars(text: PanelText, unit: str, query: Builder[Dataquery], size: Size) -> bargauge.Panel:
    """One horizontal bar a series, with its name also where it is the only one, coloured by
    threshold."""
    return (
        _with_text(bargauge.Panel(), text, size, unit, [query])
        .display_name("${__series.name}")
        .color_scheme(by_threshold())
        .orientation(common_models.VizOrientation.HORIZONTAL)
        .display_mode(common_models.BarGaugeDisplayMode.BASIC)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False).fields(""))
        .min(0)
    )


def states(text: PanelText, query: Builder[Dataquery], size: Size) -> state_timeline.Panel:
    """Which state held when."""
    return (
        _with_text(state_timeline.Panel(), text, size, "string", [query])
        .color_scheme(by_series())
        .merge_values(True)
        .show_value(common_models.VisibilityMode.AUTO)
        .row_height(0.8)
        .fill_opacity(70)
        .line_width(1)
        .legend(common.VizLegendOptions().show_legend(False).calcs([]))
        .tooltip(tooltip_of_all())
    )


def listing(text: PanelText, query: Builder[Dataquery], size: Size) -> table.Panel:
    """A table of the rows as they come."""
    panel = _with_text(table.Panel(), text, size, "string", [query])
    narrow = ("/.*/", [prop("custom.minWidth", LEAST_COLUMN_PX)])
    return panel.override_by_regexp(*MISSING).override_by_regexp(*narrow).show_header(True)
