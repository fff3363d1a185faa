"""What every sink is, so that one loop can feed them all."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from labctl.record.json_values import known
from labctl.record.layout import LAST_NS
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

    async def heartbeat(self, point: Point) -> None:
        """Take a sign of life; it may be dropped."""

    def report(self) -> SinkReport:
        """What was done so far."""


FORMAT = 1


@dataclass(frozen=True, slots=True)
class Cursor:
    """Everything before it has been stored by the sink.

    ``destination`` and ``bin_ns`` say for whom and in what grain it counts (``bin_ns`` 0: every
    reading); for another one it means nothing.
    """

    destination: str = ""
    bin_ns: int = 1_000_000_000
    events: int = 0
    """Bytes of the journal's events."""
    bins: dict[str, int] = field(default_factory=dict)
    """By stream: the moment (ns) up to which every bin was complete."""
    records: dict[str, int] = field(default_factory=dict)
    """By channel that is sent as it is: readings."""
    throttling: tuple[tuple[int, str], ...] = ()
    """Begin (ns) and severity of the throttle intervals that were told while the run was on."""
    summarised: int = 0
    """Size of the events' file when the summary was sent; 0: not yet."""

    @classmethod
    def from_json(cls, text: str) -> Cursor:
        """What :func:`save` wrote. Raises ValueError when it is something else."""
        try:
            data = json.loads(text)
        except RecursionError as error:
            raise ValueError(str(error)) from error
        if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
            raise ValueError(f"not a cursor of format {FORMAT}")
        try:
            cursor = known(cls, data)
        except (TypeError, KeyError) as error:
            raise ValueError(str(error)) from error
        places = (cursor.events, cursor.bin_ns, *cursor.bins.values(), *cursor.records.values())
        if not all(0 <= place < LAST_NS for place in places):
            raise ValueError("a place that is none")
        return cursor


@dataclass(frozen=True, slots=True)
class Slice:
    """Points, and the cursor that holds once they are stored."""

    points: tuple[Point, ...]
    series: tuple[PointSeries, ...]
    cursor: Cursor
