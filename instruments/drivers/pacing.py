"""Ticks that do not drift: the n-th is n periods after the first, however long work takes."""

from __future__ import annotations

import time


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
