"""One user a drive on this machine, across users and data directories.

The locks of :mod:`labctl.service.locks.rig_lock` are in a data directory, and a person's is not
that of the service. Abstract names of Unix sockets (unix(7)) are shared by all users of a machine
without a folder that all may write to: a name can be bound once, and the kernel frees it when
the last process that holds the socket has ended.
"""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import stat
from collections.abc import Iterable
from pathlib import Path

from labctl.config.rig import Rig


def take_on_machine(rig: Rig, handed_down: Iterable[int]) -> int | None:
    """The descriptor that holds the only drive of ``rig``; None where there is nothing to hold: no
    such device or file (yet), or a kernel without abstract names.

    ``handed_down``: descriptors of a parent, which may hold it already. Raises BlockingIOError
    when another process does.
    """
    name = _name(rig)
    if name is None:
        return None
    for descriptor in handed_down:
        if _holds(descriptor, name):
            return descriptor
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        held.bind(name)
    except OSError as error:
        held.close()
        if error.errno == errno.EADDRINUSE:
            raise BlockingIOError(errno.EAGAIN, "held by another process") from error
        return None
    return held.detach()


def canonical_target(host: str, target: str) -> str:
    """The canonical name of a target: the same for every link to it on this machine."""
    if host != "local":
        return f"{host} {target}"  # every host has a /dev/nvme0n1
    return os.path.realpath(target) if Path(target).exists() else target


def _name(rig: Rig) -> bytes | None:
    (drive,) = rig.drives.values()
    host, target = rig.file.host, drive.target
    path = Path(target)
    if host == "local" and not ("://" in target or path.is_block_device() or path.is_file()):
        return None
    target = canonical_target(host, target)
    digest = hashlib.sha256(target.encode("utf-8", "surrogateescape")).hexdigest()
    return f"\0labctl drive {digest[:32]}".encode()


def _holds(descriptor: int, name: bytes) -> bool:
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
    except (OSError, OverflowError):
        return False
    with socket.socket(fileno=os.dup(descriptor)) as copy:
        return bool(copy.family == socket.AF_UNIX and copy.getsockname() == name)
