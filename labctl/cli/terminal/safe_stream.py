"""Standard output without control characters, which a terminal would execute.

Texts may come from a record, a server or a file name: only printable characters, tabs and line
feeds are written. Output drawn with rich is filtered in :mod:`labctl.cli.terminal.console`, since
rich's own colours are control characters.
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
    """Filter standard output and standard error of this process from now on."""
    sys.stdout = cast(TextIO, SafeStream(sys.stdout))
    sys.stderr = cast(TextIO, SafeStream(sys.stderr))


def beneath(stream: TextIO) -> TextIO:
    """The unfiltered stream, for output that is filtered elsewhere."""
    return stream.beneath if isinstance(stream, SafeStream) else stream
