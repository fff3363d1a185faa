"""Stretches in which channels gave a status in place of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from instruments.reading import BESIDE_VALUES, Status
from labctl.record.events import EventKind
from labctl.record.reader import RunRecord

WARNINGS = tuple(sorted(status.value for status in BESIDE_VALUES - {Status.LOST}))
"""Statuses beside which readings go on."""
OF_READINGS: Mapping[str, str] = {
    Status.DUPLICATE: "readings came twice",
    Status.STUCK: "readings stayed the same",
}
"""What those say whose name alone does not tell a reader what happened."""
UNCOUNTED = Status.MEMORY_OVERFLOW
"""The status that loses an unknown number of readings."""


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """A stretch in which a channel gave a status in place of numbers, on the host's clock."""

    channel: str
    status: str
    begin_ns: int
    end_ns: int | None
    """None: it had not ended when the data ended."""
    count: int

    def words(self) -> str:
        """What it means for the readings."""
        status = self.status.replace("_", " ")
        if self.status in OF_READINGS:
            return f"{self.channel}: {OF_READINGS[self.status]} ({status})"
        if self.status in WARNINGS:
            return f"{self.channel}: {status}"
        if self.status == UNCOUNTED:
            return f"{self.channel}: {status}: readings were lost (their number is not known)"
        if self.end_ns is None:
            return f"{self.channel}: {status}, readings lost"
        if not self.count:
            return f"{self.channel}: {status}"
        readings = "1 reading" if self.count == 1 else f"{self.count} readings"
        if self.status == Status.LOST:
            return f"{self.channel}: {readings} lost"
        return f"{self.channel}: {readings} lost to {status}"


def channel_statuses(record: RunRecord) -> tuple[list[ChannelStatus], list[str]]:
    """Every stretch of a status, in order of time; and a line for each event that is no such."""
    found: list[ChannelStatus] = []
    problems: list[str] = []
    begun: dict[tuple[str, str], int] = {}
    for event in record.events:
        if event.kind == EventKind.RUN_RESUMED:  # the new process reports again what still lasts
            found += [
                ChannelStatus(channel, status, began_ns, event.t_ns, 0)
                for (channel, status), began_ns in begun.items()
            ]
            begun.clear()
        if event.kind not in (EventKind.STATUS, EventKind.STATUS_BEGAN):
            continue
        channel, status = event.data.get("channel"), event.data.get("status")
        if not isinstance(channel, str) or not isinstance(status, str):
            problems.append(f"{event.kind} skipped: it does not say which channel and what")
            continue
        if event.kind == EventKind.STATUS_BEGAN:
            begun[channel, status] = event.t_ns
            continue
        began_ns = begun.pop((channel, status), event.t_ns)
        begin_ns = _integer_or(event.data.get("begin_ns"), began_ns)
        end_ns = max(_integer_or(event.data.get("end_ns"), event.t_ns), begin_ns)
        count = _integer_or(event.data.get("count"), 1)
        found.append(ChannelStatus(channel, status, begin_ns, end_ns, count))
    found += [
        ChannelStatus(channel, status, began_ns, None, 0)
        for (channel, status), began_ns in begun.items()
    ]
    return sorted(found, key=lambda item: item.begin_ns), problems


def _integer_or(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
