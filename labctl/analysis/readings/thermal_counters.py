"""Thermal counters of the drive that moved while a run was on."""

from __future__ import annotations

from collections.abc import Iterable

from labctl.record.drive_state import THERMAL_COUNTERS
from labctl.record.events import Event, EventKind


def counters_moved(events: Iterable[Event]) -> dict[str, tuple[int, int]]:
    """Thermal counters that differ between the first and the last sample: (before, after).

    A counter that moved and moved back (a critical warning) is listed with its highest value as
    "after". Empty when none moved, and also when the drive was never asked.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for event in events:
        if event.kind == EventKind.DRIVE_STATE:
            found = event.data.get("smart")
        elif event.kind == EventKind.DRIVE_COUNTERS:
            found = event.data.get("counters")
        else:
            continue
        for name in THERMAL_COUNTERS:
            value = found.get(name) if isinstance(found, dict) else None
            if isinstance(value, int):
                first.setdefault(name, value)
                last[name] = max(value, last.get(name, value))
    return {name: (first[name], last[name]) for name in first if last[name] != first[name]}
