"""Reads the events of a run as they are written, each once."""

from __future__ import annotations

from pathlib import Path

from labctl.record.events import Event
from labctl.record.json_values import UNREADABLE
from labctl.record.layout import EVENTS_FILE

MOST_AT_ONCE = 1 << 20


class EventTail:
    """The events of one run, from the first one on, or from a place in their file on."""

    def __init__(self, run: Path, offset: int = 0) -> None:
        self._file = run / EVENTS_FILE
        self._offset = offset

    def new_events(self) -> list[Event]:
        """What was written since the last call. A line without its end is left for the next."""
        try:
            with self._file.open("rb") as file:
                file.seek(self._offset)
                data = file.read(MOST_AT_ONCE)
        except OSError:
            return []
        whole, newline, _ = data.rpartition(b"\n")
        self._offset += len(whole) + len(newline)
        events = []
        for line in whole.split(b"\n"):
            try:
                events.append(Event.from_line(line.decode("utf-8", "replace")))
            except UNREADABLE:
                continue  # the report names unreadable lines
        return events
