"""What can go wrong with a simulated meter."""

from __future__ import annotations

import time
from enum import StrEnum


class Fault(StrEnum):
    """What can go wrong with a simulated meter.

    ``MEMORY_OVERFLOW`` and ``MOVED`` (its range is changed at the front panel) happen at once.
    """

    SILENT = "silent"
    DISCONNECT = "disconnect"
    NONSENSE = "nonsense"
    OVERLOAD = "overload"
    NAN = "nan"
    HOLD = "hold"
    WRONG_FUNCTION = "wrong_function"
    LOW_BATTERY = "low_battery"
    OPEN_SENSOR = "open_sensor"
    IDENTITY = "identity"
    MEMORY_OVERFLOW = "memory_overflow"
    LOST_BYTES = "lost_bytes"
    TWICE = "twice"
    OTHER_RANGE = "other_range"
    STUCK = "stuck"
    LATE = "late"
    MOVED = "moved"
    UNPLUGGED = "unplugged"


class Faults:
    """The faults that a meter has at present."""

    def __init__(self) -> None:
        self._until: dict[Fault, float] = {}

    def begin(self, fault: Fault, seconds: float) -> None:
        """Begin ``fault`` for ``seconds`` from now (0 ends it)."""
        self._until[fault] = time.monotonic() + seconds

    def has(self, fault: Fault) -> bool:
        """Whether it has the fault now."""
        return time.monotonic() < self._until.get(fault, 0.0)
