"""When to ask a meter: on ticks that do not drift, or at the moment that tells most."""

from __future__ import annotations

import time
from typing import Final


class Ticks:
    """Ticks of ``period_s``; those that were missed are left out."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._next = time.monotonic()

    def restart(self) -> None:
        """The first tick is now."""
        self._next = time.monotonic()

    def wait(self, at_most_s: float) -> bool:
        """Sleep until the next tick, or ``at_most_s``; whether the tick has come."""
        wait_s = self._next - time.monotonic()
        if wait_s > at_most_s:
            time.sleep(at_most_s)
            return False
        if wait_s > 0:
            time.sleep(wait_s)
        missed = max(int((time.monotonic() - self._next) / self._period_s), 0)
        self._next += (missed + 1) * self._period_s
        return True


_WANDER: Final = 2e-4
"""Rate by which what is known of a device clock goes stale: four times a usual crystal's error."""

_SOONEST: Final = 0.25
_OTHERWISE: Final = 0.6
"""Parts of the period: no look comes sooner than the one, and the other is taken where the middle
of the unknown lies outside; it keeps looks and counts from going in step."""


class CounterPolling:
    """Times looks at a counter so that each halves what is unknown of when it counts.

    A device that has counted ``n`` intervals tells only that its clock stands somewhere in the
    next one. A look at the middle of what is still unknown of the next count's moment cuts that
    in two, whichever way the answer falls: ten looks turn 250 ms into less than 1 ms.
    """

    def __init__(self, period_s: float) -> None:
        self._period_ns = round(period_s * 1e9)
        self._bounds: tuple[float, float] | None = None
        self._seen_ns = 0
        self._delay_ns = 0.0

    def restart(self) -> None:
        """The counter began anew: nothing is known."""
        self._bounds = None

    def add_poll(self, count: float, interval_ns: float, sent_ns: int, received_ns: int) -> None:
        """A look: at some moment between the two host times, ``count`` was the number.

        A device that stamps its readings counts in fractions: its last stamp over the interval.
        """
        low = sent_ns - (count + 1) * interval_ns
        high = received_ns - count * interval_ns
        if self._bounds is not None:
            stale = _WANDER * (received_ns - self._seen_ns)
            closer = max(low, self._bounds[0] - stale), min(high, self._bounds[1] + stale)
            low, high = closer if closer[0] <= closer[1] else (low, high)
        self._bounds = low, high
        self._seen_ns = received_ns
        self._delay_ns = (received_ns - sent_ns) / 2

    def next_poll_ns(self, now_ns: int, interval_ns: float) -> int:
        """When to look next: a period from now at the latest, at the middle of the unknown.

        What is counted waits in the device until it is looked at, so a look is never put off. A
        middle that does not come in time is met later, for then the looks come sooner.
        """
        latest = now_ns + self._period_ns
        if self._bounds is None:
            return latest
        begin = max(latest - interval_ns, now_ns + _SOONEST * self._period_ns)
        middle = sum(self._bounds) / 2 - self._delay_ns
        look = begin + (middle - begin) % interval_ns
        return round(look) if look <= latest else now_ns + round(_OTHERWISE * self._period_ns)
