"""The present moment on the timebase of a run."""

from __future__ import annotations

import time

from labctl.record.timebase import Anchor


class RunClock:
    """The present moment on the timebase of a run, as far as it can be known."""

    def __init__(self, anchor: Anchor) -> None:
        same_boot = Anchor.take().boot_id == anchor.boot_id and anchor.boot_id != ""
        self._anchor = anchor if same_boot else None

    def now_ns(self) -> int:
        """Now; by the wall clock when the run was recorded under another boot."""
        if self._anchor is None:
            return time.time_ns()
        return self._anchor.from_monotonic_ns(time.monotonic_ns())
