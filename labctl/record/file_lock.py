"""Locks of open files, which the kernel frees when their holder ends, however it ends.

A lock (flock(2)) belongs to the open file, and not to a process: a child that another thread
starts has that file, and its lock, from its fork to its exec. So whoever lets go says so, and
whoever takes a lock asks again for a moment.
"""

from __future__ import annotations

import fcntl
import time
from typing import Final

LOCK_WITHIN_S: Final = 0.5
_ASK_AGAIN_S: Final = 0.02


def lock_file(descriptor: int) -> bool:
    """Lock an open file for this holder alone, until it is unlocked or closed; False: another has
    it (who only asks, by :func:`is_locked`, has it for a moment)."""
    deadline = time.monotonic() + LOCK_WITHIN_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(_ASK_AGAIN_S)
        else:
            return True


def is_locked(descriptor: int) -> bool:
    """Whether somebody has locked the file that is open as ``descriptor``."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    unlock_file(descriptor)
    return False


def unlock_file(descriptor: int) -> None:
    """Let go at once, also where a child has the open file."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
