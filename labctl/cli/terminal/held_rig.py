"""Holds a rig while a command uses its meters, so that no run is disturbed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from labctl.config.rig import Rig
from labctl.service.data_dir import find_home
from labctl.service.locks.rig_lock import RigLock


@contextlib.contextmanager
def held(rig: Rig, what: str) -> Iterator[RigLock]:
    """Hold the rig for ``what``. Raises RigBusy, HomeUnusable where no lock can be kept."""
    lock = RigLock.take(find_home(), rig, what)
    try:
        yield lock
    finally:
        lock.release()
