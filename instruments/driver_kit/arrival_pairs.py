"""Clock pairs of a device that only sends: its data came no earlier than its clock stood there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from instruments.reading import Channel, ClockPair

_EVERY_NS: Final = 500_000_000


class ArrivalPairs:
    """A clock pair of each channel each half second: the one with the least delay in that time."""

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._channels = channels
        self._best: tuple[int, int] | None = None
        self._next_ns = 0

    def restart(self) -> None:
        """A new epoch of the device's clock: the next arrival is a pair at once."""
        self._best, self._next_ns = None, 0

    def add(self, device_ns: int, arrived_ns: int) -> tuple[ClockPair, ...]:
        """Take an arrival at ``arrived_ns`` of the host's clock of what ends at ``device_ns``."""
        best = self._best
        if best is None or arrived_ns - device_ns < best[1] - best[0]:
            self._best = best = device_ns, arrived_ns
        if arrived_ns < self._next_ns:
            return ()
        self._next_ns = arrived_ns + _EVERY_NS
        self._best = None
        return tuple(ClockPair(channel.name, *best, 0) for channel in self._channels)
