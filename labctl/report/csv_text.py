"""CSV that a spreadsheet opens without calculating: the only writer of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from labctl.printable import printable

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""With what a spreadsheet takes a cell for a formula (OWASP, CSV Injection)."""


def csv_text(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows below their heading, each line ended by a line feed; None is an empty cell.

    Every text is printable, and one that would begin a formula is put behind an apostrophe.
    Numbers stay as they are.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_csv_text_cell, heading))
    writer.writerows(map(_csv_text_cell, row) for row in rows)
    return text.getvalue()


def _csv_text_cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    return printable(f"'{value}" if value.startswith(_FORMULA) else value)
