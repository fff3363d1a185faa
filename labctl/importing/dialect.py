"""How a table of readings is written: encoding, delimiter, decimal sign, headings, first row."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labctl.importing.headings import headings_of, is_unit, kind_of
from labctl.importing.mapping import not_there
from labctl.importing.opening import UNREADABLE, opened, why
from labctl.importing.table import NO_READING
from labctl.printable import printable

SAMPLE_BYTES = 1 << 17
DELIMITERS = (",", ";", "\t", "|", " ")
SAMPLE_ROWS = 60
"""Rows of readings that a guess is made from."""

LEAST_NUMBERS = 0.5
"""Share of the fields of a row of readings that are numbers or times."""

FEW_LINES = 5
"""A file of fewer lines with a heading is one that was begun."""

MOST_LINES = 0.8
"""Share of the lines that must have as many fields, where these end at blanks."""

_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"),
         (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
_MOSTLY = 0.4
"""Share of NUL bytes at every other place by which a text without a mark is UTF-16."""

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*([munµk]?[VAW])?")
CLOCKLIKE = re.compile(r"\d{1,4}[-./:]\d{1,2}[-./:]\d{1,4}([ T].*)?|\d{8}T\d{6}(\.\d+)?Z?")


@dataclass(frozen=True, slots=True)
class Sniffed:
    """A file's dialect and its first rows."""

    delimiter: str
    decimal: str
    encoding: str
    heading_line: int
    first_line: int
    headings: tuple[str, ...]
    width: int
    rows: tuple[tuple[str, ...], ...]
    opening: tuple[str, ...] = ()
    """The lines before the first reading."""

    def heading(self, place: int) -> str:
        """The heading of a column; empty where it has none."""
        return self.headings[place] if place < len(self.headings) else ""


def sniff(file: Path) -> Sniffed:
    """The dialect of a file. Raises ConfigurationError where there is no table in it."""
    try:
        with opened(file) as stream:
            data = stream.read(SAMPLE_BYTES)
    except UNREADABLE as error:
        raise not_there(file, "file", None, why(error)) from error
    if not data.strip():
        raise not_there(file, "line 1", None, "the file is empty")
    if b"\r" in data and b"\n" not in data:
        allowed = "its lines end at carriage returns alone: write them again with newlines"
        raise not_there(file, "line 1", None, allowed)
    encoding = _dialect_encoding(file, data)
    lines = codecs.getincrementaldecoder(encoding)("replace").decode(data).splitlines()
    if len(data) == SAMPLE_BYTES:
        lines = lines[:-1]  # it may be cut
    best: tuple[float, float, int, str, str] | None = None
    for delimiter in DELIMITERS:
        if delimiter == " " and best is not None and best[0] >= LEAST_NUMBERS / 2:
            break  # words of a text, and parts of a time, have blanks between them, too
        rows = [fields(line, delimiter) for line in lines]
        width = _usual_width(rows)
        if width < 2:
            continue
        alike = [row for row in rows if len(row) == width]
        if delimiter == " " and len(alike) < MOST_LINES * len(lines):
            continue
        tail = alike[-SAMPLE_ROWS:]
        for decimal in (".", ","):
            if decimal == delimiter:
                continue
            score = sum(_dialect_number_share(row, decimal) for row in tail) / len(tail)
            of_lines = round(len(alike) / len(lines), 3)  # a line of headings agrees with one alone
            found = (round(score, 3), of_lines, width if score else 0, delimiter, decimal)
            if best is None or found[:3] > best[:3]:
                best = found
    if best is None or best[0] < LEAST_NUMBERS / 2:
        start = printable(lines[0][:60]) if lines else None
        raise not_there(file, "line 1", start, _no_table(lines))
    *_, width, delimiter, decimal = best
    return _table_of(file, lines, delimiter, decimal, encoding, width)


def _no_table(lines: Sequence[str]) -> str:
    """Why lines are no table of readings."""
    named = [one for text in lines for cell in re.split(r"[,;\t|]", text) if (one := kind_of(cell))]
    if len(lines) < FEW_LINES and named:
        return "there are headings and no reading"
    if lines and sum(1 for one in lines if NUMBER.fullmatch(one.strip())) > len(lines) / 2:
        return "has one number a line: readings need their times beside them"
    return "there is no table of readings in it: is it a CSV? (fio's output goes with --fio)"


def _dialect_encoding(file: Path, data: bytes) -> str:
    """Raises ConfigurationError where it is no text."""
    marked = next((name for mark, name in _BOMS if data.startswith(mark)), "")
    if marked:
        return marked
    if b"\0" in data:
        for name, places in (("utf-16-le", data[1::2]), ("utf-16-be", data[::2])):
            if places.count(0) > _MOSTLY * len(places):
                return name
        line = data[: data.index(b"\0")].count(b"\n") + 1
        allowed = "has NUL bytes, which no text has: was it written whole? Cut them out"
        raise not_there(file, f"line {line}", None, allowed)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _table_of(
    file: Path, lines: Sequence[str], delimiter: str, decimal: str, encoding: str, width: int
) -> Sniffed:
    rows = [_without_end(fields(line, delimiter), width) for line in lines]
    first = next(
        (
            number
            for number, row in enumerate(rows)
            if len(row) == width and _dialect_number_share(row, decimal) >= LEAST_NUMBERS
        ),
        None,
    )
    if first is None:
        raise not_there(file, f"line {len(lines)}", None, "there are headings and no reading")

    def named(row: Sequence[str]) -> bool:
        written = len(row) == width and any(one.strip() for one in row)
        return written and row[0].lstrip()[:1] not in ("#", ";") and not _all_units(row)

    heading = -1
    units: list[str] = []
    for number in range(first - 1, -1, -1):
        row = rows[number]
        if len(row) != width or not any(field.strip() for field in row):
            continue
        if not units and _all_units(row) and any(map(named, rows[:number])):
            units = row
            continue
        heading = number
        break
    names: tuple[str, ...] = ()
    if heading >= 0:
        names = headings_of(rows[heading])
        if units:
            names = tuple(
                f"{name} ({unit.strip('[]() ')})" if unit.strip("[]() ") else name
                for name, unit in zip(names, units, strict=True)
            )
    readings = [tuple(row) for row in rows[first:] if len(row) == width][:SAMPLE_ROWS]
    return Sniffed(
        delimiter, decimal, encoding, heading + 1, first + 1, names, width, tuple(readings),
        tuple(lines[:first]),
    )  # fmt: skip


def _without_end(row: list[str], width: int) -> list[str]:
    """A line without the delimiter that ends it where the readings have none."""
    return row[:-1] if len(row) == width + 1 and not row[-1].strip() else row


def _all_units(row: Sequence[str]) -> bool:
    return all(is_unit(one) for one in row if one.strip())


def fields(line: str, delimiter: str) -> list[str]:
    """The fields of a line."""
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:  # a field of more than 128 KiB
        return []


def _usual_width(rows: Sequence[Sequence[str]]) -> int:
    widths = Counter(len(row) for row in rows if len(row) > 1)
    return max(widths, key=lambda width: (widths[width], width)) if widths else 0


def _dialect_number_share(row: Sequence[str], decimal: str) -> float:
    """Which share of a row's fields are numbers, times, or the words for no reading."""
    texts = [field.strip() for field in row]
    other = "," if decimal == "." else "."
    good = 0.0
    for text in texts:
        if decimal == "," and other in text and "," not in text and not CLOCKLIKE.fullmatch(text):
            good += 0.5  # 1.5 where numbers are written 1,5
        elif NUMBER.fullmatch(text.replace(",", ".") if decimal == "," else text) or (
            CLOCKLIKE.fullmatch(text)
        ):
            good += 1.0
        elif text.casefold() in NO_READING:
            good += 0.3
    return good / len(texts)
