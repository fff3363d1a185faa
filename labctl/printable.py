"""Which characters a text may hold: one rule for what people type and for what is read back.

Not allowed are the control characters (C0, DEL, C1), the separators of lines and paragraphs, the
marks that turn the writing direction (Unicode Standard Annex 9: what stands behind them is shown
in another order), halves of surrogate pairs, which no UTF-8 can hold, and U+FFFE and U+FFFF, which
no XML 1.0 can hold, and so no chart. Whatever else Unicode has may stand in a name.

What a person types is refused (:func:`labctl.toml_reading.parse_toml`). What was recorded, or comes
from a server, a meter or a program, is made printable: U+FFFD stands for what is not allowed.
"""

from __future__ import annotations

import re

ALLOWED = "must not hold control characters, line breaks or marks that turn the writing direction"
"""What is told to whoever typed such a text."""

_NOT_ALLOWED = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    r"\ud800-\udfff\ufffe\uffff]"
)
_LINE_BREAK = re.compile(r"\r\n?")
_TO_ONE_LINE = str.maketrans("\t\n", "  ")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """It on one line: a line break or a tab becomes a space."""
    return text if text.isprintable() else printable_lines(text).translate(_TO_ONE_LINE)


def printable_lines(text: str) -> str:
    """All its lines, each with a line feed at its end; tabs stay as they are."""
    if text.isprintable():  # the usual case; nothing that is not allowed counts as printable
        return text
    return _NOT_ALLOWED.sub(_REPLACEMENT, _LINE_BREAK.sub("\n", text))
