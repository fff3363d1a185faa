"""When to poll a device that counts its readings: when a poll says most about its clock."""

from __future__ import annotations

from typing import Final

POLL_S: Final = 0.17
"""At the longest: with the journal's 60 ms, a kill of labctl costs less than 250 ms."""

_DRIFT: Final = 2e-4
"""How fast the bounds of a device clock widen: four times the error of a usual crystal."""

_MIN_SHARE: Final = 0.25
_ELSE_SHARE: Final = 0.6
"""Shares of the period: no poll comes sooner than the first. The second is used where the middle of
the bounds is not within the period; it keeps polls and counts from running in step."""


class CounterPolling:
    """Times the polls of a counter so that each halves the uncertainty of when it counts.

    A device that has counted ``n`` intervals is somewhere in the next one. A poll in the middle of
    the bounds of the next count's time halves them, whatever the answer: ten polls turn 250 ms
    into less than 1 ms.
    """

    def __init__(self, period_s: float) -> None:
        self._period_ns = round(period_s * 1e9)
        self._bounds: tuple[float, float] | None = None
        self._seen_ns = 0
        self._delay_ns = 0.0

    def restart(self) -> None:
        """The counter was restarted: nothing is known about it."""
        self._bounds = None

    def add_poll(self, count: float, interval_ns: float, sent_ns: int, received_ns: int) -> None:
        """Take a poll: between the two host times the counter stood at ``count``.

        A device that stamps its readings counts in fractions: its last stamp over the interval.
        """
        low = sent_ns - (count + 1) * interval_ns
        high = received_ns - count * interval_ns
        if self._bounds is not None:
            stale = _DRIFT * (received_ns - self._seen_ns)
            closer = max(low, self._bounds[0] - stale), min(high, self._bounds[1] + stale)
            low, high = closer if closer[0] <= closer[1] else (low, high)
        self._bounds = low, high
        self._seen_ns = received_ns
        self._delay_ns = (received_ns - sent_ns) / 2

    def next_poll_ns(self, now_ns: int, interval_ns: float) -> int:
        """Time of the next poll: at most one period from now, in the middle of the bounds.

        The counted readings wait in the device, so a poll is never later than one period. A
        middle that comes later than that is met by a later poll, as polls then come sooner.
        """
        latest = now_ns + self._period_ns
        if self._bounds is None:
            return latest
        begin = max(latest - interval_ns, now_ns + _MIN_SHARE * self._period_ns)
        middle = sum(self._bounds) / 2 - self._delay_ns
        poll_ns = begin + (middle - begin) % interval_ns
        return (
            round(poll_ns) if poll_ns <= latest else now_ns + round(_ELSE_SHARE * self._period_ns)
        )
