"""Holds a rig while a command uses its meters, so that no run is disturbed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from labctl.config.rig import Rig
from labctl.service.data_dir import HomeUnusable, find_home
from labctl.service.locks.rig_lock import RigLock


@contextlib.contextmanager
def held(rig: Rig, what: str) -> Iterator[RigLock | None]:
    """Hold the rig for ``what``; None, after a message, where no lock can be kept.

    Raises RigBusy.
    """
    try:
        lock = RigLock.take(find_home(), rig, what)
    except HomeUnusable as error:
        print(f"labctl: the rig is not locked: {error}", file=sys.stderr)
        yield None
        return
    try:
        yield lock
    finally:
        lock.release()
