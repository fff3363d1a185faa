"""A chart that is a table: a number in each field, darker the more it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from labctl.analysis.numbers import latency_text, prefixed, significant
from labctl.report.charts.theme import (
    CELL_INK,
    CELL_RED,
    Datasets,
    Row,
    Spec,
    plain,
)


@dataclass(frozen=True, slots=True)
class Field:
    """A number at its column ``x`` and row ``y``, red where the drive ``throttled``."""

    x: str
    y: str
    value: float
    throttled: bool


@dataclass(frozen=True, slots=True)
class TableAxes:
    """The columns and rows of a table, in order, each with what they are."""

    columns: Sequence[str]
    columns_title: str
    rows: Sequence[str]
    rows_title: str
    width: int

    @property
    def height(self) -> int:
        """Pixels."""
        return max(60, 30 * len(self.rows))


def number_table(
    datasets: Datasets, axes: TableAxes, fields: Sequence[Field], title: str, unit: str = ""
) -> Spec:
    """The table, under its ``title``; numbers of the ``unit`` µs are told in what suits them."""
    shade = _number_table_shades([field.value for field in fields])
    rows: list[Row] = [
        {
            "x": field.x,
            "y": field.y,
            "shade": shade(field.value),
            "text": latency_text(field.value) if unit == "µs" else _number_table_text(field.value),
            "colour": CELL_RED if field.throttled else CELL_INK,
        }
        for field in fields
    ]
    data = datasets.chart(rows)
    x = alt.X(
        "x:O", scale=alt.Scale(domain=list(axes.columns)), title=axes.columns_title,
        axis=alt.Axis(labelAngle=0, orient="top", domain=False, ticks=False),
    )  # fmt: skip
    y = alt.Y(
        "y:O", scale=alt.Scale(domain=list(axes.rows)), title=axes.rows_title,
        axis=alt.Axis(domain=False, ticks=False, minExtent=40),
    )  # fmt: skip
    layers: list[Any] = [
        data.mark_rect(stroke="white").encode(x=x, y=y, color=alt.Color("shade:N", scale=None)),
        data.mark_text(fontSize=11).encode(
            x=x, y=y, text="text:N", color=alt.Color("colour:N", scale=None)
        ),
    ]
    size = {"width": axes.width, "height": axes.height}
    return plain(alt.layer(*layers).properties(title=title, **size))


def _number_table_shades(values: Sequence[float]) -> Callable[[float], str]:
    """A colour a number, from pale to blue; over more than a decade by its logarithm."""
    low, high = min(values), max(values)
    pale, deep = (0xF4, 0xF8, 0xFB), (0x9E, 0xC6, 0xE0)

    def shade(value: float) -> str:
        if high <= low:
            part = 0.0
        elif low > 0 and high / low > 10:
            part = math.log(value / low) / math.log(high / low)
        else:
            part = (value - low) / (high - low)
        mixed = (round(a + (b - a) * part) for a, b in zip(pale, deep, strict=True))
        return "#" + "".join(f"{one:02x}" for one in mixed)

    return shade


def _number_table_text(value: float) -> str:
    return prefixed(value) if abs(value) >= 1000 else significant(value, 4)
