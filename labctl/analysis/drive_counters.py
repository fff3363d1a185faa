"""What the drive itself counted and measured while the run was on, from the journal's events."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from labctl.record.drive_state import THERMAL_COUNTERS
from labctl.record.reader import READING, Event


def counters_moved(events: Iterable[Event]) -> dict[str, tuple[int, int]]:
    """Thermal counters that differ between the first and the last look: (before, after).

    A counter that moved and moved back (a critical warning) is there with its highest value as
    "after". Empty when none moved, and also when the drive was never asked.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for event in events:
        if event.kind == "drive_state":
            found = event.data.get("smart")
        elif event.kind == "drive_counters":
            found = event.data.get("counters")
        else:
            continue
        for name in THERMAL_COUNTERS:
            value = found.get(name) if isinstance(found, dict) else None
            if isinstance(value, int):
                first.setdefault(name, value)
                last[name] = max(value, last.get(name, value))
    return {name: (first[name], last[name]) for name in first if last[name] != first[name]}


def own_power_watts(events: Iterable[Event]) -> NDArray[np.void]:
    """The drive's own power readings, dtype READING (ns on the run's timebase, watts)."""
    told = [
        (event.t_ns, float(event.data["watts"]))
        for event in events
        if event.kind == "drive_power" and isinstance(event.data.get("watts"), int | float)
    ]
    return np.array(told, READING)
