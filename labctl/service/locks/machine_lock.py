"""One user a drive and a meter on this machine, across users and data directories.

The locks of :mod:`labctl.service.locks.rig_lock` are in a data directory, and a person's is not
that of the service. Abstract names of Unix sockets (unix(7)) are shared by all users of a machine
without a folder that all may write to, and the kernel frees one when the last process that holds
the socket has ended.

Anybody may bind any name. So a holder binds a name of its own, which begins with the key's, and
then checks who else has: a user who may not write to the drive holds nothing. The kernel reports
whose a socket is (sock_diag(7), UNIX_DIAG_UID since Linux 5.3); where it does not, each one counts.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import secrets
import socket
import stat
import time
from collections.abc import Iterable
from pathlib import Path

from labctl.record.file_lock import LOCK_WITHIN_S
from labctl.service.locks.lock_keys import LockKey
from labctl.service.locks.netlink import bound_sockets

_STEP_BACK_S = 0.1
"""Two that begin at once see each other and both step back, for at most so long."""
_ACCESS_LIST = "system.posix_acl_access"


class HeldByUser(Exception):
    """Another process holds it; its user is the message."""


def take_on_machine(key: LockKey, handed_down: Iterable[int]) -> int:
    """The descriptor that holds ``key`` on this machine, for as long as it is open.

    ``handed_down``: descriptors of a parent, which may hold it already. Raises HeldByUser when
    another process does, OSError where nothing can be held.
    """
    digest = hashlib.sha256(key.name.encode("utf-8", "surrogateescape")).hexdigest()
    begin = f"\0labctl lock {digest[:32]} ".encode()
    own = {descriptor: _name_of(descriptor) for descriptor in handed_down}
    for descriptor, name in own.items():
        if name.startswith(begin):
            return descriptor
    deadline = time.monotonic() + LOCK_WITHIN_S
    while True:
        held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            held.bind(begin + secrets.token_hex(8).encode())
            mine = os.fstat(held.fileno()).st_ino
            others = [uid for inode, uid in bound_sockets(begin) if inode != mine]
            holders = [uid for uid in others if _may_hold(uid, key.guard)]
        except BaseException:
            held.close()
            raise
        if not holders:
            return held.detach()
        held.close()
        if time.monotonic() > deadline:
            raise HeldByUser(_user_name(holders[0]))
        time.sleep(secrets.randbelow(1000) / 1000 * _STEP_BACK_S)


def _name_of(descriptor: int) -> bytes:
    """The abstract name of a descriptor that is a bound Unix socket; else empty."""
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return b""
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            name = copy.getsockname() if copy.family == socket.AF_UNIX else b""
            return name if isinstance(name, bytes) else b""
    except (OSError, OverflowError):
        return b""


def _may_hold(uid: int | None, guard: str) -> bool:
    """Whether this user's lock counts: root's, our own, and of those who may write to ``guard``."""
    return uid in (None, 0, os.getuid()) or not guard or _may_write(int(uid or 0), Path(guard))


def _may_write(uid: int, path: Path) -> bool:
    """Whether a user may write to ``path``, by owner, groups and mode; an access list says yes."""
    groups: set[int] = set()
    with contextlib.suppress(KeyError):
        user = pwd.getpwuid(uid)
        groups = set(os.getgrouplist(user.pw_name, user.pw_gid))
    try:
        return _has_machine_lock_right(uid, groups, path, 0o2) and all(
            _has_machine_lock_right(uid, groups, folder, 0o1) for folder in path.parents
        )
    except OSError:
        return True  # what cannot be looked at counts


def _has_machine_lock_right(uid: int, groups: set[int], path: Path, right: int) -> bool:
    with contextlib.suppress(OSError):
        if os.getxattr(path, _ACCESS_LIST):
            return True
    found = path.stat()
    if found.st_uid == uid:
        return bool(found.st_mode >> 6 & right)
    if found.st_gid in groups:
        return bool(found.st_mode >> 3 & right)
    return bool(found.st_mode & right)


def _user_name(uid: int | None) -> str:
    if uid is None:
        return "another user"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
