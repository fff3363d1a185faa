"""Frames that a meter sends again before it has measured again."""

from __future__ import annotations

from typing import Final

from instruments.reading import Status, StatusReading

_REPORT_EVERY_NS: Final = 60_000_000_000
_MIN_SPACING: Final = 0.55
"""Least share of the interval between two readings: adapters and pauses shift their arrival."""


class RepeatedFrames:
    """Takes each frame of a channel once. ``delay_ns``: from a reading's time to its arrival.

    A frame equal to the one before is the same reading if the meter has had no time for another.
    After a pause of this program several come at once, and it has had it.
    """

    def __init__(self, channel: str, interval_s: float, delay_ns: int) -> None:
        self._channel = channel
        self._interval_ns = round(interval_s * 1e9)
        self._delay_ns = delay_ns
        self._previous = b""
        self._accounted_ns: int | None = None
        self._count = 0
        self._report_ns = 0

    def restart(self) -> None:
        """Forget the frame before: the meter is connected anew."""
        self._previous = b""
        self._accounted_ns = None

    def taken_once(
        self, frames: list[bytes], arrived_ns: int
    ) -> tuple[list[bytes], tuple[StatusReading, ...]]:
        """The frames without repeated ones, and once a minute a status with the number of those."""
        accounted_ns = self._accounted_ns
        if accounted_ns is None:
            accounted_ns = arrived_ns - len(frames) * self._interval_ns
        once: list[bytes] = []
        for frame in frames:
            free_ns = arrived_ns - accounted_ns
            if frame != self._previous or free_ns >= _MIN_SPACING * self._interval_ns:
                once.append(frame)
                accounted_ns = min(accounted_ns + self._interval_ns, arrived_ns)
            self._previous = frame
        self._accounted_ns = arrived_ns if once else accounted_ns
        self._count += len(frames) - len(once)
        if not self._count or arrived_ns < self._report_ns:
            return once, ()
        self._report_ns = arrived_ns + _REPORT_EVERY_NS
        count, self._count = self._count, 0
        detail = "frames sent again are not taken"
        t_ns = arrived_ns - self._delay_ns
        return once, (StatusReading(self._channel, t_ns, Status.DUPLICATE, detail, count),)
