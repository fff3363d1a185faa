"""What every sink is, so that one loop can feed them all."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from labctl.sinks.follow.cursor import Cursor
from labctl.sinks.follow.follower import Slice
from labctl.sinks.schema import Point


@dataclass(frozen=True, slots=True)
class SinkReport:
    """What a sink has done so far. ``trouble`` is what is wrong now, in words, or empty."""

    name: str
    destination: str
    sent: int
    rejected: int
    trouble: str


class Sink(Protocol):
    """Takes slices in order. Entered and used in one event loop."""

    name: str

    @property
    def cursor(self) -> Cursor:
        """From where on it wants the journal (fixed once it is entered)."""

    async def __aenter__(self) -> Sink:
        """Open it. Raises LabctlError."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go, at once; what was not stored is sent by the next one from the cursor."""

    async def put(self, part: Slice) -> None:
        """Take a slice; waits while there is too much under way."""

    async def flush(self) -> None:
        """Send what was taken without waiting for more."""

    async def drain(self) -> None:
        """Wait until everything taken is stored, however long that takes."""

    async def beat(self, point: Point) -> None:
        """Take a sign of life; it may be dropped."""

    def report(self) -> SinkReport:
        """What was done so far."""
