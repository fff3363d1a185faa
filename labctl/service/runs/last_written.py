"""When a run's record was last written to, and whether a process still writes it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from labctl.record.layout import CHANNELS_DIR, EVENTS_FILE
from labctl.record.reader import RunRecord
from labctl.record.timebase import NS_PER_S

WRITTEN_WITHIN_S = 5.0
"""A run without an end whose files changed this recently is still being recorded."""


def last_written_ns(run: Path) -> int:
    """The newest modification time of a run's record, ns since the epoch; 0 where there is none."""
    newest_ns = 0
    with contextlib.suppress(OSError):
        for file in (run / EVENTS_FILE, *(run / CHANNELS_DIR).iterdir()):
            with contextlib.suppress(OSError):
                newest_ns = max(newest_ns, file.stat().st_mtime_ns)
    return newest_ns


def is_being_recorded(record: RunRecord) -> bool:
    """Whether a process still writes this run."""
    if record.end is not None:
        return False
    age_s = time.time() - last_written_ns(record.path) / NS_PER_S
    return abs(age_s) < WRITTEN_WITHIN_S  # negative where the wall clock was set back
