"""What the record of an imported run says of its files and their clocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from labctl.record.events import EventKind
from labctl.record.json_values import MOST
from labctl.record.reader import RunRecord

UNCONFIRMED = (
    "nothing confirms the clock here: the watts have no clear step where this phase begins or ends"
)


@dataclass(frozen=True, slots=True)
class ImportedClock:
    """How the clock of a meter's file was put on fio's, in words for a person."""

    instrument: str
    words: str
    from_data: bool
    """Whether the steps of the watts gave it, so that they are no check of it."""
    best: tuple[float, float] | None = None
    second: tuple[float, float] | None = None
    """The offset that was taken (s) and the share of the variance that it leaves, and the next best
    one's; None: it was not searched, or there is no other."""
    searched: tuple[tuple[float, float], ...] = ()
    """Other offsets, and what each leaves."""


def is_imported(record: RunRecord) -> bool:
    """Whether the run was made of files that labctl did not write."""
    return any(event.kind == EventKind.IMPORTED for event in record.events)


def imported_clocks(record: RunRecord) -> list[ImportedClock]:
    """The clock of each meter's file; none of a run that labctl measured."""
    return [
        ImportedClock(
            str(clock["instrument"]),
            str(clock["words"]),
            clock.get("how") == "data",
            _imported_clock_point(clock.get("offset_s"), clock.get("left")),
            _imported_clock_point(clock.get("second_offset_s"), clock.get("second_left")),
            _imported_clock_points(clock.get("searched")),
        )
        for clock in _listed(record, "clocks")
        if isinstance(clock, dict) and {"instrument", "words"} <= clock.keys()
    ]


def _imported_clock_point(offset_s: Any, left: Any) -> tuple[float, float] | None:
    """Two numbers of a record, which may be damaged."""
    numbers = [
        float(one)
        for one in (offset_s, left)
        if isinstance(one, int | float) and math.isfinite(one) and abs(one) < MOST
    ]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else None


def _imported_clock_points(listed: Any) -> tuple[tuple[float, float], ...]:
    pairs = listed if isinstance(listed, list) else []
    found = (
        _imported_clock_point(*one) for one in pairs if isinstance(one, list) and len(one) == 2
    )
    return tuple(one for one in found if one is not None)


def import_problems(record: RunRecord) -> list[str]:
    """A line for each thing that was odd in the files."""
    return [note for note in _listed(record, "notes") if isinstance(note, str)]


def imported_unconfirmed_note(record: RunRecord, index: int) -> list[str]:
    """The note of a phase whose edges show nothing in the watts; empty for any other."""
    return [UNCONFIRMED] if index in _listed(record, "unconfirmed") else []


def _listed(record: RunRecord, key: str) -> Iterator[Any]:
    """What the record of the import lists under a key."""
    for event in record.events:
        if event.kind == EventKind.IMPORTED and isinstance(listed := event.data.get(key), list):
            yield from listed
