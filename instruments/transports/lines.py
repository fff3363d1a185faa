"""Lines to instruments: a VISA session or a serial port, each owned by one thread.

A driver is given a line, so a test can hand it one that plays an expected exchange. Lines turn
every way a connection can fail into :class:`~instruments.errors.ConnectionLost` (gone) or
:class:`~instruments.errors.NoAnswer` (nothing came in time).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

OPEN_TIMEOUT_S = 1.5
DISCARD_AT_MOST_S = 1.0
NOT_OPEN = "is not open"


class Line(Protocol):
    """What every line can do. All methods are called by one thread."""

    def open(self) -> None:
        """Connect. Raises ConnectionLost."""
        ...

    def close(self) -> None:
        """Let go. Never raises."""
        ...

    def write(self, data: bytes) -> None:
        """Send all of ``data``. Raises ConnectionLost."""
        ...

    def discard(self, quiet_s: float = 0.0) -> None:
        """Throw away what was not read, until nothing has come for ``quiet_s``.

        Raises ConnectionLost.
        """
        ...


class MessageLine(Line, Protocol):
    """A line whose answers end with a line feed: SCPI."""

    def read_line(self, timeout_s: float) -> bytes:
        """One answer, with its line feed. Raises NoAnswer, ConnectionLost."""
        ...


class ByteLine(Line, Protocol):
    """A line that brings bytes whenever it likes: serial meters."""

    def read_some(self, timeout_s: float) -> bytes:
        """What has come in; waits for the first byte, empty after ``timeout_s``.

        Raises ConnectionLost.
        """
        ...


@dataclass(frozen=True, slots=True)
class SerialFormat:
    """How bytes travel on a serial line; ``rts`` and ``dtr`` power many optical adapters."""

    baud: int
    data_bits: int = 8
    parity: str = "N"
    stop_bits: int = 1
    rts: bool = True
    dtr: bool = True

    @property
    def byte_s(self) -> float:
        """Seconds one byte takes, with start, parity and stop bits."""
        bits = 1 + self.data_bits + (self.parity != "N") + self.stop_bits
        return bits / self.baud
