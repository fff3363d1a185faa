"""A rich console (tables, colours, live screens) that prints no foreign control characters."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from labctl.cli.terminal.safe_stream import beneath
from labctl.printable import printable_lines


class Terminal(Console):
    """A console that takes texts literally: none is markup, none moves the cursor.

    rich's own colours and cursor movements go out as they are; see
    :mod:`labctl.cli.terminal.safe_stream`.
    """

    def __init__(self, *, stderr: bool = False, **more: Any) -> None:
        more.setdefault("file", beneath(sys.stderr if stderr else sys.stdout))
        super().__init__(markup=False, emoji=False, highlight=False, **more)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of it, their texts printable."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)
