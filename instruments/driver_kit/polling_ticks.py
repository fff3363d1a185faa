"""When to poll a meter that gives one reading at a time: once in each interval, dithered or not."""

from __future__ import annotations

import random
import time
from typing import Final

LONGER: Final = 1.05
"""Times the time a meter takes from reading to reading: asked after less, it would give one reading
twice now and then."""


class Ticks:
    """Ticks, one in each period of ``period_s`` seconds; those that were missed are skipped.

    Regular ticks see a load that repeats in step with them at the same place each time: the mean
    is wrong, and no scatter shows it. With ``dither`` each tick is at a moment drawn at random
    from its whole period. Then the mean of what is read has no error that stays the same, whatever
    the load's period: its variance is 1 − sinc²(fT) times that of independent readings for a part
    of the load with the frequency f, and the differences of neighbours give at least that,
    1 − cos(2πfT)·sinc²(fT) times (I. Bilinskis, A. Mikelsons, *Randomized Signal Processing*,
    1992: sampling with jitter over the whole interval). The number of ticks in a time stays that
    of regular ones. Two ticks are between ``least_s`` and two periods apart.
    """

    def __init__(
        self,
        period_s: float,
        *,
        dither: bool = False,
        least_s: float = 0.0,
        draws: random.Random | None = None,
    ) -> None:
        """``draws`` gives the random numbers; one with a seed repeats them."""
        self._period_s = period_s
        self._least_s = min(least_s, period_s)
        self._draws = (draws or random.Random()) if dither else None
        self.restart()

    def restart(self) -> None:
        """The first tick is now."""
        self._next = self._period_begin = time.monotonic()

    def wait(self, at_most_s: float) -> bool:
        """Sleep until the next tick, at most ``at_most_s`` seconds; whether the tick has come."""
        now = time.monotonic()
        overdue = now >= max(self._next, self._period_begin + self._period_s)
        if self._draws is not None and overdue:
            # A tick that was missed is not made up for at once: that would be in step again.
            self._period_begin += int((now - self._period_begin) / self._period_s) * self._period_s
            self._next = self._draws.uniform(now, self._period_begin + self._period_s)
        wait_s = self._next - now
        if wait_s > at_most_s:
            time.sleep(at_most_s)
            return False
        if wait_s > 0:
            time.sleep(wait_s)
        self._plan_next(time.monotonic())
        return True

    def _plan_next(self, now: float) -> None:
        missed = max(int((now - self._period_begin) / self._period_s), 0)
        if self._draws is None:
            self._next = self._period_begin = self._period_begin + (missed + 1) * self._period_s
            return
        # ``least_s`` may have put this tick off into the period behind its own.
        self._period_begin += max(missed, 1) * self._period_s
        drawn = self._period_begin + self._draws.random() * self._period_s
        self._next = max(drawn, now + self._least_s)


def dither_share(dither: bool, interval_s: float, least_s: float) -> float:
    """How much of its interval the moments of a dithered meter are drawn from: 0 to 1.

    ``least_s`` is how long a reading takes at least. Up to half the interval it hardly restricts
    the moment; a meter that is busy nearly all the time is asked at nearly regular times.
    """
    return min(max(2.0 * (1.0 - least_s / interval_s), 0.0), 1.0) if dither else 0.0
