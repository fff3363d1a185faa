"""The protocol of every sink, with its cursor and slices."""

from __future__ import annotations

import json
from collections.abc import Callable
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
        """The cursor from which the journal is to be sent (fixed once it is entered)."""

    async def __aenter__(self) -> Sink:
        """Open it. Raises LabctlError."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop at once; the next sink sends what was not stored, from the cursor."""

    async def put(self, part: Slice) -> None:
        """Take a slice; waits while too much is being sent."""

    async def flush(self) -> None:
        """Send what was taken without waiting for more."""

    async def drain(self) -> None:
        """Wait until everything taken is stored, however long that takes."""

    async def heartbeat(self, point: Point) -> None:
        """Take a heartbeat; it may be dropped."""

    def report(self) -> SinkReport:
        """What has been sent so far."""


FORMAT = 1


@dataclass(frozen=True, slots=True)
class Cursor:
    """Everything before it has been stored by the sink.

    It is valid for this ``destination`` and width of bins (``bin_ns`` 0: every reading) only.
    """

    destination: str = ""
    bin_ns: int = 1_000_000_000
    events: int = 0
    """Bytes of the journal's events."""
    bins: dict[str, int] = field(default_factory=dict)
    """By stream: the moment (ns) up to which every bin was complete."""
    records: dict[str, int] = field(default_factory=dict)
    """By channel that is sent without bins: number of readings."""
    throttling: tuple[tuple[int, str], ...] = ()
    """Begin (ns) and severity of the throttle intervals that were sent while the run was on."""
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
            raise ValueError("an offset out of range")
        return cursor


@dataclass(frozen=True, slots=True)
class Slice:
    """Points, and the cursor that is valid once they are stored."""

    points: tuple[Point, ...]
    series: tuple[PointSeries, ...]
    cursor: Cursor


ReportLine = Callable[[str], None]
"""Takes one line for a person: a warning, or what was done."""
