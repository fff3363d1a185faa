"""Detects readings that repeat to the last digit more often than the meter's noise allows.

The detector learns from the readings how often one repeats by chance, so it works for a meter
with noise of many digits and for one that shows the same digits for seconds. Without a single
change it can learn nothing: a meter that is stuck from the start looks like a quiet one.
"""

from __future__ import annotations

import math
from typing import Final

from instruments.driver_kit.batches import blocks_and_statuses
from instruments.reading import Block, Status, StatusReading

CHANCE: Final = 1e-9
"""Of a false alarm at one reading: once in three years at ten readings a second."""
_LEARN_FROM: Final = 30
"""Pairs of readings before the first alarm."""
_REMEMBER: Final = 1000
"""Pairs that count: the drive's power changes, and with it how often digits repeat."""


class StuckReadingDetector:
    """Checks one reading after another of one channel.

    Fewer than ``at_least`` repeats in a row are never an alarm.
    """

    def __init__(self, at_least: int = 1) -> None:
        self._at_least = at_least
        self._previous: float | None = None
        self._run = 0
        self._pairs = 0.0
        self._equal = 0.0
        self._doubles = 0

    def restart(self) -> None:
        """The meter was set up again; what was learnt about its noise is kept."""
        self._previous = None
        self._run = 0
        self._doubles = 0

    def check(self, value: float) -> Status | None:
        """STUCK while it repeats, DUPLICATE while each reading comes twice, None when it is fine.

        The value itself may well be right: both are warnings.
        """
        if value == self._previous:
            self._run += 1
        else:
            if self._previous is not None:
                self._end_run()
            self._previous = value
            self._run = 0
        if not (self._run or self._doubles):
            return None
        if self._pairs < _LEARN_FROM or self._equal >= self._pairs:
            return None
        needed = self._needed()
        if self._doubles >= needed:
            return Status.DUPLICATE
        return Status.STUCK if self._run >= needed else None

    def sort(
        self, channel: str, t_ns: int, reading: float | Status, detail: str = ""
    ) -> tuple[tuple[Block, ...], tuple[StatusReading, ...]]:
        """As :func:`blocks_and_statuses` for one reading, with the warning beside it."""
        blocks, statuses = blocks_and_statuses(channel, [t_ns], [reading], detail)
        if not isinstance(reading, Status) and (repeated := self.check(reading)):
            detail = f"{reading:g} again and again, to the last digit"
            statuses = (StatusReading(channel, t_ns, repeated, detail),)
        return blocks, statuses

    def _end_run(self) -> None:
        """Learn from a run of equal readings that ended; one that was an alarm is no noise."""
        self._doubles = self._doubles + 1 if self._run == 1 else 0
        alarming = self._run and self._pairs >= _LEARN_FROM and self._run >= self._needed()
        if not alarming:
            forget = 1 - (self._run + 1) / _REMEMBER if self._run + 1 < _REMEMBER else 0.0
            self._pairs = self._pairs * forget + self._run + 1
            self._equal = self._equal * forget + self._run

    def _needed(self) -> float:
        """The number of repeats in a row that is no longer chance."""
        share = (self._equal + 1) / (self._pairs + 2)
        return max(math.log(CHANCE) / math.log(share), self._at_least)
