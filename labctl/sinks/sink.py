"""The protocol of every sink, with its cursor and slices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from labctl.sinks.cursor import Cursor
from labctl.sinks.schema import Point, PointSeries


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
        """The cursor from which the journal is to be sent (fixed once it is entered)."""

    async def __aenter__(self) -> Sink:
        """Open it. Raises LabctlError."""

    async def __aexit__(self, *exc: object) -> None:
        """Stop at once; the next sink sends what was not stored, from the cursor."""

    async def put(self, part: Slice) -> None:
        """Take a slice; waits while too much is being sent."""

    async def flush(self) -> None:
        """Send what was taken without waiting for more."""

    async def drain(self) -> None:
        """Wait until everything taken is stored, however long that takes."""

    async def heartbeat(self, point: Point) -> None:
        """Take a heartbeat; it may be dropped, but not the last one (``alive`` is 0)."""

    def report(self) -> SinkReport:
        """What has been sent so far."""


@dataclass(frozen=True, slots=True)
class StoredPoints:
    """Points that a database may have, from ``first_ns`` to ``last_ns``: of one measurement and
    run; None: of each."""

    measurement: str | None
    run: str | None
    first_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Points, and the cursor that is valid once they are stored."""

    points: tuple[Point, ...]
    series: tuple[PointSeries, ...]
    cursor: Cursor
    live: bool = False
    """Made while the run is on: a bin in it may come again with more readings, and replaces this
    one then. So it has to be stored before what comes after it."""
    replaces: tuple[StoredPoints, ...] = ()
    """What is to be removed before: a field of a stored point can be replaced, not withdrawn."""


ReportLine = Callable[[str], None]
"""Takes one line for a person: a warning, or what was done."""
