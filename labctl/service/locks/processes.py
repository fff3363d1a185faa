"""Processes identified by number, start time and boot.

A process number alone is reused, and a file that names one outlives the machine's next boot.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from labctl.record.timebase import boot_id

PROC = Path("/proc")
POLL_EVERY_S = 0.02


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process: its number, when it started (clock ticks since boot), and in which boot."""

    pid: int
    ticks: int
    boot_id: str

    @property
    def alive(self) -> bool:
        """Whether this very process still exists (a zombie does not)."""
        return self.boot_id == boot_id() and self.ticks != 0 and start_ticks(self.pid) == self.ticks

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process still exists."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def end(self, politely_s: float, then_s: float = 5.0) -> bool:
        """SIGTERM, SIGKILL after ``politely_s``; whether it has ended ``then_s`` after that."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        if not self._gone_within(politely_s):
            self.signal(signal.SIGKILL)
        return self._gone_within(then_s)

    def _gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_EVERY_S)
        return True


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot (proc(5), stat, field 22); 0: no such."""
    try:
        text = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return 0
    fields = text.rpartition(b")")[2].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return 0
    return int(fields[19])


def identity_of(pid: int) -> ProcessIdentity:
    """The identity of the process that has this number now."""
    return ProcessIdentity(pid, start_ticks(pid), boot_id())
