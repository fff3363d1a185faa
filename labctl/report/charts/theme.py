"""What every chart of a report has in common: colours, theme, and its data inside.

A chart is a Vega-Lite specification: the page draws it, and ``static_svg.py`` turns the same
specification into a picture, both without a network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import altair as alt

Row = dict[str, Any]
Spec = dict[str, Any]

INK = "#333333"
CELL_INK, CELL_RED = "#222222", "#b0001e"
"""Text in a coloured cell, which a dark screen leaves as it is."""
LINE, GRID = "#888888", "#e4e4e4"
SOFT = "#59636e"
RED = "#c8102e"
HUES = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#a05a2c"),
    *("#6a3d9a", "#8f8f00", "#444444", "#00b3a6"),
)
"""The first six can be distinguished with any colour vision (after Okabe and Ito, 2008); the others
are for eight block sizes in one chart. Red is for what throttled."""

DARK_HUES = (
    *("#4da3dc", "#f0b43c", "#2fbf8f", "#dd93bb", "#7cc6ee", "#cf8a5a"),
    *("#a98bd6", "#c4c44a", "#b4bcc4", "#3fd0c0"),
)
"""The same ten on a dark ground."""

BANDS, IDLE_BAND, PREPARE_BAND = ("#c9dbe8", "#dfeaf2"), "#f0f0f0", "#e3d9c6"
"""Behind the names of phases in turn, of idling, and of what prepares the drive."""

PREFIXED = "abs(datum.value) < 1 ? format(datum.value, '.6~r') : format(datum.value, '~s')"
"""Labels of an axis of large numbers: 0, 50k, 100k. Small ones stay as they are: 0.8, not 800m."""
GROUPED = "format(datum.value, ',.6~r')"
"""Labels of an axis of plain numbers: 0, 500, 1,500."""
LATENCY = (
    "datum.value >= 1e6 ? format(datum.value / 1e6, '.6~r') + ' s'"
    " : datum.value >= 1e3 ? format(datum.value / 1e3, '.6~r') + ' ms'"
    " : format(datum.value, '.6~r') + ' µs'"
)
"""Labels of an axis of microseconds: 500 µs, 20 ms, 1.5 s."""

DARK_BANDS = ("#2c3f4e", "#22303b", "#262b31", "#3d3628")
_DARK = {
    INK: "#e4e8ec",
    SOFT: "#9aa5b1",
    RED: "#ff5c72",
    "white": "#16191d",
    GRID: "#343b43",
    LINE: "#6b7681",
    "#888": "#9aa5b1",  # as Vega-Lite has it: a legend of dashes
    "#333": "#e4e8ec",  # and what is selected
    **dict(zip((*BANDS, IDLE_BAND, PREPARE_BAND), DARK_BANDS, strict=True)),
    **dict(zip(HUES, DARK_HUES, strict=True)),
}
"""What each colour of a chart becomes on a dark screen; text in coloured cells keeps its own."""

_FONT = "Arial, Liberation Sans, Helvetica, sans-serif"
_SMALL = {"labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal"}
_THEME: Spec = {
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {
        **_SMALL,
        "labelColor": INK,
        "titleColor": INK,
        "gridColor": GRID,
        "domainColor": LINE,
        "tickColor": LINE,
    },
    "title": {
        "fontSize": 12,
        "anchor": "start",
        "color": INK,
        "offset": 8,
        "subtitleFontSize": 11,
        "subtitleColor": SOFT,
        "subtitlePadding": 4,
    },
    "legend": {**_SMALL, "labelLimit": 420, "labelColor": INK, "titleColor": INK},
}


THROTTLED = "throttled"
"""What the legend calls a red triangle."""


def dark_css() -> str:
    """Rules for the SVG of any chart on a dark screen."""
    rules = (
        f'[fill="{light}"]{{fill:{dark}}}[stroke="{light}"]{{stroke:{dark}}}'
        for light, dark in _DARK.items()
    )
    return f"@media screen and (prefers-color-scheme:dark){{{''.join(rules)}}}"


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: the name of its file, a title, what it shows in words, and its specification."""

    name: str
    title: str
    caption: str
    spec: Spec


class Datasets:
    """The rows of a chart's parts. Altair checks what it is given row by row; not these."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {}

    def chart(self, rows: list[Row]) -> alt.Chart:
        """A chart without a mark yet, of these rows."""
        name = f"data{len(self.rows)}"
        self.rows[name] = rows
        return alt.Chart(alt.NamedData(name))


def triangles(
    datasets: Datasets,
    rows: list[Row],
    x: Any,
    y: Any,
    tooltip: alt.Tooltip,
    *,
    up_px: int,
    **channels: Any,
) -> Any:
    """A red triangle ``up_px`` above each row: the drive throttled there, says the legend."""
    legend = alt.Legend(
        orient="top", title=None, symbolFillColor=RED, symbolStrokeColor=RED, symbolOpacity=1
    )
    scale = alt.Scale(domain=[THROTTLED], range=["triangle-down"])
    chart = datasets.chart([{**row, "mark": THROTTLED} for row in rows])
    mark = chart.mark_point(filled=True, size=60, color=RED, opacity=1, yOffset=-up_px)
    shape = alt.Shape("mark:N", scale=scale, legend=legend)
    return mark.encode(x=x, y=y, shape=shape, tooltip=tooltip, **channels)


def plain(chart: Any) -> Spec:
    """A chart without a theme as a specification, to be joined with others.

    Unchecked: checking takes as long as all the rest, and the tests check every kind of chart.
    """
    spec: Spec = chart.to_dict(validate=False)
    return {key: value for key, value in spec.items() if key not in ("$schema", "config")}


def finished(name: str, title: str, caption: str, body: Spec, datasets: Datasets) -> Chart:
    """The chart in the theme of all charts, with its title above it and its data inside."""
    if "title" in body or "concat" not in body:
        body = {"concat": [body], "columns": 1}
    spec = {
        "$schema": alt.SCHEMA_URL,
        "background": "white",
        "padding": 8,
        "config": _THEME,
        "title": {"text": title, "fontSize": 14},
        **body,
        "datasets": datasets.rows,
    }
    return Chart(name, title, caption, spec)


def signed(chart: Chart, source: str) -> Chart:
    """The chart with what it is of under its title: it may be cut out and pasted anywhere."""
    title = {**chart.spec["title"], "subtitle": source}
    return replace(chart, spec={**chart.spec, "title": title})


def linear_y(low: float, high: float, labels: str = PREFIXED) -> tuple[alt.Scale, alt.Axis]:
    """Scale and axis of values, linear, from ``low`` to ``high`` and no further."""
    axis = alt.Axis(labelExpr=labels, tickCount=5, minExtent=40)
    return alt.Scale(domain=[low, high], nice=False, zero=False), axis


def log_y(low: float, high: float) -> tuple[alt.Scale, alt.Axis]:
    """Scale and axis of values from ``low`` to ``high``, both above 0, logarithmic: at least a
    decade, as on less a steady drive seems to be noisy."""
    middle = math.sqrt(low * high)
    low, high = min(low * 0.8, middle / 10**0.5), max(high * 1.25, middle * 10**0.5)
    axis = alt.Axis(labelExpr=PREFIXED, values=log_ticks(low, high), minExtent=40)
    return alt.Scale(type="log", domain=[low, high], nice=False), axis


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10 … of each decade; over many decades only its first."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1.0, 2.0, 5.0) if last - first <= 4 else (1.0,)
    ticks = (step * 10.0**decade for decade in range(first, last + 1) for step in steps)
    return [tick for tick in ticks if low <= tick <= high]


def hues(names: tuple[str, ...]) -> list[str]:
    """A colour for each name, the same for the same names."""
    return [HUES[number % len(HUES)] for number in range(len(names))]
