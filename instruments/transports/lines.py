"""What a line to an instrument can do (protocols), and the format of serial lines.

A driver takes its line as an argument, so a test can give it one that plays an expected exchange.
One thread owns a line. Lines turn every failure of a connection into ``ConnectionLost`` (gone) or
``NoAnswer`` (nothing came in time).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

NOT_OPEN = "is not open"


class Line(Protocol):
    """What every line can do. All methods are called by one thread."""

    def open(self) -> None:
        """Connect. Raises ConnectionLost."""
        ...

    def close(self) -> None:
        """Close the connection. Never raises."""
        ...

    def write(self, data: bytes) -> None:
        """Send all of ``data``. Raises ConnectionLost."""
        ...

    def discard(self, quiet_s: float = 0.0) -> None:
        """Discard unread bytes, until none has come for ``quiet_s``.

        Raises ConnectionLost.
        """
        ...


class MessageLine(Line, Protocol):
    """A line whose answers end with a line feed: SCPI."""

    def read_line(self, timeout_s: float) -> bytes:
        """One answer, with its line feed. Raises NoAnswer, ConnectionLost."""
        ...


class ByteLine(Line, Protocol):
    """A line on which bytes come at any time: serial meters."""

    def read_some(self, timeout_s: float) -> bytes:
        """The bytes that have come in; waits for the first one, empty after ``timeout_s``.

        Raises ConnectionLost.
        """
        ...


@dataclass(frozen=True, slots=True)
class SerialFormat:
    """Format of the bytes on a serial line; ``rts`` and ``dtr`` power many optical adapters."""

    baud: int
    data_bits: int = 8
    parity: str = "N"
    stop_bits: int = 1
    rts: bool = True
    dtr: bool = True

    @property
    def byte_s(self) -> float:
        """Duration of one byte in seconds, with start, parity and stop bits."""
        bits = 1 + self.data_bits + (self.parity != "N") + self.stop_bits
        return bits / self.baud
