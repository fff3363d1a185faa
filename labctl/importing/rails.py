"""Which columns of a meter's table are the volts, amps or watts of which rail."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from labctl.importing.dialect import NUMBER, Sniffed
from labctl.importing.headings import is_total, kind_of, known_unit, rail_of, unit_of
from labctl.importing.mapping import UNITS, Column, RailColumns, StatedVolts, not_there
from labctl.importing.ready import Recognised
from labctl.importing.table import OVERLOADS
from labctl.record.layout import NAME_PATTERN
from labctl.toml_reading import pattern_in_words

_SAYS_VOLTS = re.compile(r"\d+V")
"""Of a rail's name, such as 12V or 3V3."""

_CHANNEL = re.compile(r"^(channel|chan|ch|kanal|name|probe|input)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Given:
    """What a person says of a file on the command line, before anything is guessed."""

    time: tuple[str, ...] = ()
    time_format: str = ""
    zone: str = ""
    volts: tuple[str, ...] = ()
    amps: tuple[str, ...] = ()
    watts: tuple[str, ...] = ()
    """Columns by heading or number, of several rails each behind its name (``12V=3``)."""
    rail: str = ""
    stated: tuple[float, float] | None = None
    """Volts and their tolerance in %, where nobody measured them."""
    accuracy_pct: float | None = None
    aperture_s: float | None = None


def rail_column_name(found: Sniffed, place: int) -> str | int:
    """How a column is named: by its heading, if no other has the same."""
    if place < len(found.headings) and found.headings.count(found.headings[place]) == 1:
        return found.headings[place] or place + 1
    return place + 1


def place_of(found: Sniffed, column: str | int) -> int | None:
    """Where a column stands, from 0; None where no heading is called so."""
    if isinstance(column, int):
        return column - 1
    names = [one.casefold() for one in found.headings]
    return names.index(column.casefold()) if column.casefold() in names else None


def as_column(text: str) -> str | int:
    """A column as a person says it: a number from 1 on, or its heading."""
    return int(text) if text.isdecimal() and int(text) else text


def rails_in(
    file: Path,
    found: Sniffed,
    given: Given,
    time: Sequence[str | int],
    known: Recognised | None,
) -> dict[str, object]:
    """What of a mapping says its rails. Raises ConfigurationError where no heading does."""
    said = _said(file, found, given)
    if said:
        return {"rails": {name: with_stated(columns, given) for name, columns in said.items()}}
    ignored = None if known is None else known.ready.ignore
    times = {place_of(found, one) for one in time}
    rails: dict[str, dict[str, Column]] = {}
    for place, heading in enumerate(found.headings[: found.width]):
        kind = kind_of(heading)
        if not kind or place in times:
            continue
        if ignored is not None and ignored.fullmatch(heading):
            continue
        cells = [_plain_rail_cell(row[place], found) for row in found.rows]
        if not any(NUMBER.fullmatch(one) or one.casefold() in OVERLOADS for one in cells):
            continue
        name = rail = rail_of(heading) if known is None else known.ready.rail_of(heading)
        number = 1
        while kind in rails.get(name, {}):  # several columns of one heading are several rails
            number += 1
            name = f"{rail or 'drive'}-{number}"
        rails.setdefault(name, {})[kind] = Column(column=rail_column_name(found, place))
    rails = _sorted_out(rails)
    if not rails:
        long = _reading_a_row(found, times)
        if long is not None:
            return long
        single = _value_and_unit(found, times)
        if single is not None:
            return {"rails": {given.rail or "drive": with_stated(single, given)}}
        where = f"line {found.heading_line or found.first_line}"
        shown = ", ".join(map(repr, found.headings)) or f"{found.width} fields, no headings"
        raise not_there(
            file, where, None, f"no heading says volts, amps or watts ({shown}): say --volts, "
            "--amps or --watts COLUMN"
        )  # fmt: skip
    if given.rail and len(rails) > 1:
        raise not_there(file, "--rail", given.rail, f"the file has several: {', '.join(rails)}")
    named = {}
    for name, columns in rails.items():
        named[given.rail or name or "drive"] = with_stated(used_rail_columns(columns), given)
    return {"rails": named}


def _said(file: Path, found: Sniffed, given: Given) -> dict[str, dict[str, Column]]:
    """The rails whose columns a person named. Raises ConfigurationError."""
    rails: dict[str, dict[str, Column]] = {}
    asked = {"volts": given.volts, "amps": given.amps, "watts": given.watts}
    for kind, texts in asked.items():
        for text in texts:
            name, column = _of_rail(file, found, kind, text)
            own = rails.setdefault(name or given.rail or "drive", {})
            if kind in own:
                has = f"{name or 'the rail'} has {own[kind].column!r} already"
                allowed = f"{has}: of several rails say whose each is, NAME=COLUMN"
                raise not_there(file, f"--{kind}", text, allowed)
            own[kind] = _with_unit_column(as_column(column), found, kind)
    if given.rail and len(rails) > 1:
        allowed = f"names one rail, and the options name several: {', '.join(rails)}"
        raise not_there(file, "--rail", given.rail, allowed)
    return rails


def _of_rail(file: Path, found: Sniffed, kind: str, text: str) -> tuple[str, str]:
    """Name of the rail and column that a person said; no name where the text is a column alone."""
    name, sign, column = text.partition("=")
    if not sign or place_of(found, text) is not None:
        name, column = "", text
    elif not re.fullmatch(NAME_PATTERN, name):
        words = f"{text!r} is no heading, and a rail's name {pattern_in_words(NAME_PATTERN)}"
        raise not_there(file, f"--{kind}", name, words)
    if not column:
        raise not_there(file, f"--{kind}", text, "names no column")
    return name, column


def _with_unit_column(column: str | int, found: Sniffed, kind: str) -> Column:
    """A column, with the next one behind it that has units, some of its kind, if its heading says
    none."""
    place = place_of(found, column)
    if place is None or unit_of(found.heading(place)):
        return Column(column=column)
    behind = (i for i in range(place + 1, found.width) if kind in _kinds_of_cells(found, i))
    at = next(behind, None)
    return Column(column=column, unit_column=None if at is None else rail_column_name(found, at))


def _kinds_of_cells(found: Sniffed, place: int) -> list[str]:
    """Of what the cells of a column are units, the most frequent first, if all of them are
    units; else empty."""
    units = [known_unit(row[place]) for row in found.rows]
    if not all(units):
        return []
    kinds = [UNITS[one][0] for one in units]
    return sorted(dict.fromkeys(kinds), key=kinds.count, reverse=True)


def _value_and_unit(found: Sniffed, times: Collection[int | None]) -> dict[str, Column] | None:
    """Of a file that has units in one column: the number that stands before it. ``times``: places
    of columns of the time."""
    units = {i: kinds for i in range(found.width) if (kinds := _kinds_of_cells(found, i))}
    if len(units) != 1:
        return None
    ((at, (kind, *_)),) = units.items()
    for place in range(at - 1, -1, -1):
        cells = [_plain_rail_cell(row[place], found) for row in found.rows]
        if place in times or not any(map(NUMBER.fullmatch, cells)):
            continue
        return {
            kind: Column(
                column=rail_column_name(found, place), unit_column=rail_column_name(found, at)
            )
        }
    return None


def used_rail_columns(columns: dict[str, Column]) -> dict[str, Column]:
    """Of a rail's columns those that are used: volts and amps say more than watts, and both at the
    same moment."""
    if "volts" in columns and "amps" in columns:
        return {kind: columns[kind] for kind in ("volts", "amps")}
    return {"watts": columns["watts"]} if "watts" in columns else columns


def _sorted_out(rails: dict[str, dict[str, Column]]) -> dict[str, dict[str, Column]]:
    """Without the sum of the others; of one column of volts and one of amps a single rail, if no
    name says that they are of two."""
    if len(rails) > 1:
        rails = {name: one for name, one in rails.items() if not is_total(name)}
    kinds = [kind for one in rails.values() for kind in one]
    named = [name for name in rails if _SAYS_VOLTS.search(name)]
    if len(rails) == 2 and sorted(kinds) == ["amps", "volts"] and not named:
        return {"": {kind: column for one in rails.values() for kind, column in one.items()}}
    return rails


def with_stated(columns: dict[str, Column], given: Given) -> RailColumns:
    """A rail, with the volts that a person stated where its amps alone are there."""
    stated = None
    if given.stated is not None and set(columns) == {"amps"}:
        stated = StatedVolts(volts=given.stated[0], tolerance_pct=given.stated[1])
    return RailColumns.model_validate({**columns, "stated": stated})


def _plain_rail_cell(text: str, found: Sniffed) -> str:
    return text.strip().replace(",", ".") if found.decimal == "," else text.strip()


def _reading_a_row(found: Sniffed, times: Collection[int | None]) -> dict[str, object] | None:
    """A file with a column of channel names and one of values. ``times``: places of columns of the
    time."""
    label = next((i for i, one in enumerate(found.headings) if _CHANNEL.match(one)), None)
    values = [
        i
        for i, one in enumerate(found.headings)
        if i != label
        and i not in times
        and all(NUMBER.fullmatch(_plain_rail_cell(row[i], found)) for row in found.rows)
    ]
    if label is None or len(values) != 1:
        return None
    rails: dict[str, dict[str, Column]] = {}
    for name in dict.fromkeys(row[label].strip() for row in found.rows):
        kind = kind_of(name)
        if kind:
            column = Column(
                column=rail_column_name(found, values[0]), channel=name, unit=unit_of(name)
            )
            rails.setdefault(rail_of(name) or "drive", {})[kind] = column
    if not rails:
        return None
    return {
        "channel_column": rail_column_name(found, label),
        "rails": {name: RailColumns.model_validate(columns) for name, columns in rails.items()},
    }
