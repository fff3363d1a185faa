"""What is printed, without what a terminal would take for an order to it.

This is the door to the terminal: whatever a text is and wherever it comes from, a record, a server
or a file name, only text gets out. What is drawn with rich has a door of its own beside it
(:mod:`labctl.cli.terminal.console`), since rich's own colours are such orders.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TextIO, cast

from labctl.printable import printable_lines


class SafeStream:
    """A text stream that writes all that is printable to the one beneath."""

    def __init__(self, beneath: TextIO) -> None:
        self.beneath = beneath

    def write(self, text: str) -> int:
        """Write it; line feeds and tabs stay."""
        return self.beneath.write(printable_lines(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of them."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


def guard_output() -> None:
    """From now on this process prints nothing but text."""
    sys.stdout = cast(TextIO, SafeStream(sys.stdout))
    sys.stderr = cast(TextIO, SafeStream(sys.stderr))


def beneath(stream: TextIO) -> TextIO:
    """The stream itself, for who makes sure of what he writes."""
    return stream.beneath if isinstance(stream, SafeStream) else stream
