"""Whether time went on as it should while something is recorded, a run or an idle rig: labctl that
was paused, and a wall clock that was stepped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from labctl.record.events import EventKind
from labctl.record.timebase import NS_PER_MS, NS_PER_S, Timebase

CHECK_EVERY_S = 1.0
HELD_UP_S = 2.0
"""Later than this for its next check, labctl was paused: meters without a memory lost readings."""
WALL_STEP_NS = 100 * NS_PER_MS


class ClockWatch:
    """Watches from when it is made."""

    def __init__(self, timebase: Timebase) -> None:
        self._timebase = timebase
        self._wall_offset_ns = timebase.wall_offset_ns()

    async def samples(self, event: Callable[..., object]) -> AsyncIterator[None]:
        """One each second, for ever, after ``event`` took what happened to time since the last."""
        while True:
            checked_s = time.monotonic()
            await asyncio.sleep(CHECK_EVERY_S)
            late_s = time.monotonic() - checked_s - CHECK_EVERY_S
            if late_s > HELD_UP_S:
                event(EventKind.HELD_UP, seconds=round(late_s, 3))
            step_ns = self._wall_step_ns()
            if abs(step_ns) > WALL_STEP_NS:
                event(EventKind.WALL_CLOCK_STEP, seconds=round(step_ns / NS_PER_S, 6))
            yield

    def _wall_step_ns(self) -> int:
        """How far the wall clock was stepped since the last check."""
        before_ns, self._wall_offset_ns = self._wall_offset_ns, self._timebase.wall_offset_ns()
        return self._wall_offset_ns - before_ns
