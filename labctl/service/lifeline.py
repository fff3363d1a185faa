"""The pipe between the daemon and a run that it started: when it breaks, the daemon is gone.

The run holds the reading end, the daemon alone the writing end, into which nothing is ever
written. However the daemon ends, the kernel closes its end, and the run ends itself as after
SIGTERM. Unlike a signal on the parent's death it cannot come too early to be noticed.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable

LIFELINE_VARIABLE = "LABCTL_LIFELINE"


def watch_lifeline(loop: asyncio.AbstractEventLoop, gone: Callable[[], None]) -> None:
    """Call ``gone`` once when the daemon that started this process is no more; nothing to do for
    a process that no daemon started."""
    number = os.environ.get(LIFELINE_VARIABLE, "")
    if not number.isdigit() or not _is_pipe(int(number)):
        return

    def broken() -> None:
        loop.remove_reader(int(number))
        gone()

    loop.add_reader(int(number), broken)


def _is_pipe(descriptor: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except (OSError, OverflowError):
        return False
