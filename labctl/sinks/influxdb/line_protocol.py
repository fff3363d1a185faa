"""Points as InfluxDB's line protocol, so that every line is accepted by 1.8 to 2.x.

Tag values cannot hold a newline, be empty or end in a backslash: a newline becomes a space, an
empty value is left out, a backslash at the end is dropped. NaN and infinite values are left out.
Types come from the schema: a float is always written as a float.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from labctl.printable import printable, printable_lines
from labctl.sinks.schema import (
    SCHEMA,
    FieldKind,
    Floats,
    Ints,
    Point,
    PointSeries,
    Value,
    shortened,
)

LONGEST_NAME = 256
"""Characters of a tag's value; a series key may not pass 64 KiB."""

_SPECIAL = re.compile(r"([,= ])")
_QUOTED = re.compile(r'(["\\])')
_BACKSLASH = r"\\\1"


def escaped_name(text: str) -> str:
    """A tag's key or value, or a field's key, escaped; empty when nothing of it can be written."""
    plain = printable(text).strip()[:LONGEST_NAME].rstrip("\\ ")
    return _SPECIAL.sub(_BACKSLASH, plain)


def quoted_text(text: str) -> str:
    """A text field with its quotes, cut to ``LONGEST_TEXT_BYTES``; newlines stay."""
    plain = printable_lines(text).replace("\t", " ")
    return f'"{_QUOTED.sub(_BACKSLASH, shortened(plain))}"'


def _line_protocol_head(measurement: str, tags: Mapping[str, str]) -> str:
    parts = [measurement]
    for key in sorted(tags):
        value = escaped_name(tags[key])
        if value:
            parts.append(f"{escaped_name(key)}={value}")
    return ",".join(parts)


def _field(kind: FieldKind, value: Value) -> str | None:
    """The value in line protocol; None when it cannot be written."""
    if kind is FieldKind.TEXT:
        return quoted_text(str(value))
    try:
        number = float(value)
    except (ValueError, TypeError, OverflowError):  # an event's value of another type
        return None
    if not math.isfinite(number):
        return None
    return f"{int(value)}i" if kind is FieldKind.INTEGER else repr(number)


def line(point: Point) -> str | None:
    """The line of one point; None when no field of it can be written. Raises KeyError for a
    measurement or field that the schema does not have."""
    schema = SCHEMA[point.measurement]
    fields = []
    for name, value in point.fields.items():
        text = _field(schema.kind_of(name), value)
        if text is not None:
            fields.append(f"{escaped_name(name)}={text}")
    if not fields:
        return None
    return f"{_line_protocol_head(point.measurement, point.tags)} {','.join(fields)} {point.t_ns}"


def lines(series: PointSeries) -> list[str]:
    """The lines of many points of one series; points without any known field have none."""
    schema = SCHEMA[series.measurement]
    kinds = {name: schema.kind_of(name) for name in series.columns}
    head = f"{_line_protocol_head(series.measurement, series.tags)} "
    for name, value in series.constants.items():
        text = _field(schema.kind_of(name), value)
        head += f"{escaped_name(name)}={text}," if text is not None else ""
    known = np.array([np.isfinite(column) for column in series.columns.values()])
    if known.all():
        return _line_protocol_rows(head, kinds, series.t_ns, series.columns)
    found: list[str] = []
    patterns, which = np.unique(known, axis=1, return_inverse=True)
    for number, pattern in enumerate(patterns.T):
        rows = np.flatnonzero(which.ravel() == number)
        columns = {
            name: column[rows]
            for (name, column), there in zip(series.columns.items(), pattern, strict=True)
            if there
        }
        found += _line_protocol_rows(head, kinds, series.t_ns[rows], columns)
    return found


def _line_protocol_rows(
    head: str,
    kinds: Mapping[str, FieldKind],
    t_ns: Ints,
    columns: Mapping[str, Floats | Ints],
) -> list[str]:
    """All columns known in all rows: one template, filled row by row."""
    if not columns:
        return []
    parts, texts, made = [], [], dict[int, list[str]]()
    for name, column in columns.items():
        integer = kinds[name] is FieldKind.INTEGER
        parts.append(f"{escaped_name(name)}=%s{'i' if integer else ''}".replace("%s", "\0"))
        if id(column) not in made:  # the same array under two names is written out once
            made[id(column)] = list(_line_protocol_texts(column, integer))
        texts.append(made[id(column)])
    plain = f"{head}{','.join(parts)} \0".replace("%", "%%").replace("\0", "%s")
    return [plain % row for row in zip(*texts, t_ns.tolist(), strict=True)]


def _line_protocol_texts(column: Floats | Ints, integer: bool) -> Iterable[str]:
    write: Callable[[object], str] = repr
    if integer:
        return map(write, column.astype(np.int64).tolist())
    return map(write, column.astype(np.float64).tolist())
