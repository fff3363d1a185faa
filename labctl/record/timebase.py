"""The one clock of a run: a monotonic clock, anchored once to the wall clock.

A stepping wall clock (NTP, a person, daylight saving) never moves a reading. CLOCK_MONOTONIC
is what fio and the kernel's block layer use too, so phases and readings share it.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from pathlib import Path

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
DAY_S = 86_400.0

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Anchor:
    """A reading of the wall clock and of the monotonic clock at the same moment.

    ``boot_id`` shows whether ``monotonic_ns`` still means anything: it restarts with the machine.
    """

    wall_ns: int
    monotonic_ns: int
    boot_id: str

    @classmethod
    def take(cls) -> Anchor:
        """Read both clocks as close together as the machine allows."""
        wall_ns, monotonic_ns = _both_clocks()
        return cls(wall_ns=wall_ns, monotonic_ns=monotonic_ns, boot_id=boot_id())

    def from_monotonic_ns(self, monotonic_ns: int) -> int:
        """A CLOCK_MONOTONIC time on the run's timebase, ns since the Unix epoch."""
        return self.wall_ns + (monotonic_ns - self.monotonic_ns)

    def to_monotonic_ns(self, t_ns: int) -> int:
        """A time of the run's timebase as CLOCK_MONOTONIC ns of the same boot."""
        return self.monotonic_ns + (t_ns - self.wall_ns)


def boot_id() -> str:
    """This boot's identity (random(4)); empty where the kernel has none."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return ""


def _both_clocks() -> tuple[int, int]:
    """The wall clock and CLOCK_MONOTONIC at one moment, in ns: the closest pair of eight."""
    samples = ((time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(8))
    before_ns, wall_ns, after_ns = min(samples, key=lambda sample: sample[2] - sample[0])
    return wall_ns, (before_ns + after_ns) // 2


class Timebase:
    """Nanoseconds since the Unix epoch that never step."""

    def __init__(self, anchor: Anchor | None = None) -> None:
        self.anchor = anchor or Anchor.take()
        self._shift_ns = self.anchor.wall_ns - self.anchor.monotonic_ns

    def now_ns(self) -> int:
        """Now, on the run's timebase."""
        return time.monotonic_ns() + self._shift_ns

    @classmethod
    def going_on(cls, anchor: Anchor, last_ns: int) -> Timebase:
        """The timebase of a recording that goes on, whose last time is ``last_ns``.

        In the same boot it is that of ``anchor``, and nothing shifts. After another start of the
        machine it is anchored anew to the wall clock; where that is behind what is recorded, times
        go on right after it, for they must never go backwards.
        """
        now = Anchor.take()
        same_boot = now.boot_id == anchor.boot_id and now.boot_id != ""
        if same_boot and anchor.from_monotonic_ns(now.monotonic_ns) > last_ns:
            return cls(anchor)
        return cls(replace(now, wall_ns=max(now.wall_ns, last_ns + NS_PER_MS)))

    def wall_offset_ns(self) -> int:
        """How far the wall clock is ahead of the timebase now (0 until somebody steps it)."""
        wall_ns, monotonic_ns = _both_clocks()
        return wall_ns - self.anchor.from_monotonic_ns(monotonic_ns)

    def from_wall_ns(self, wall_ns: int) -> int:
        """A wall-clock time of this moment (as fio prints it) on the timebase."""
        return wall_ns - self.wall_offset_ns()
