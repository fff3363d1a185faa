"""How many of many are done, on one line of standard error, on a terminal only."""

from __future__ import annotations

import sys

from labctl.cli.terminal.safe_stream import beneath


class ProgressLine:
    """Called with how many are done, and of how many; the line goes when all are."""

    def __init__(self, what: str) -> None:
        """``what`` follows the numbers."""
        self._what = what

    def __call__(self, done: int, total: int) -> None:
        """Show it."""
        stream = beneath(sys.stderr)
        if not stream.isatty():
            return
        text = f"{done:,} of {total:,} {self._what}" if done < total else ""
        stream.write(f"\r\x1b[K{text}")
        stream.flush()
