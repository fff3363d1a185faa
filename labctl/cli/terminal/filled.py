"""A sentence on a terminal of 80 columns."""

from __future__ import annotations

import textwrap

WIDTH = 80


def filled(text: str) -> str:
    """In lines of 80 columns, with the first one's indent and two more; a name, a path or an
    address stays whole."""
    indent = " " * (len(text) - len(text.lstrip()))
    return textwrap.fill(
        text.lstrip(),
        WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,
        break_long_words=False,
    )
