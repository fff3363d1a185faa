"""Reading files whole that may be anybody's: what is read has a bound, and nothing blocks."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO

MOST_LINE_BYTES = 1 << 20
"""No event that labctl writes has a longer line."""


def read_small(path: Path, most_bytes: int) -> str:
    """The text of a regular file. Raises OSError, or ValueError when it is larger, no UTF-8, or no
    regular file (opening a pipe would block)."""
    with open(path, "rb", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("no file that can be read")
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"larger than {most_bytes} bytes")
    return data.decode("utf-8")


def next_line(stream: IO[bytes]) -> bytes:
    """The next line with its line feed; without one where the file ends in it, empty at the end.

    Of a line longer than ``MOST_LINE_BYTES`` nothing but its line feed is given.
    """
    line = stream.readline(MOST_LINE_BYTES)
    if len(line) < MOST_LINE_BYTES or line.endswith(b"\n"):
        return line
    while piece := stream.readline(MOST_LINE_BYTES):
        if piece.endswith(b"\n"):
            return b"\n"
    return line[:1]


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
