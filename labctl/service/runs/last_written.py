"""When a run's record was last written to."""

from __future__ import annotations

import contextlib
from pathlib import Path

from labctl.record.layout import CHANNELS_DIR, EVENTS_FILE


def last_written_ns(run: Path) -> int:
    """The newest modification time of a run's record, ns since the epoch; 0 where there is none."""
    newest_ns = 0
    with contextlib.suppress(OSError):
        for file in (run / EVENTS_FILE, *(run / CHANNELS_DIR).iterdir()):
            with contextlib.suppress(OSError):
                newest_ns = max(newest_ns, file.stat().st_mtime_ns)
    return newest_ns
