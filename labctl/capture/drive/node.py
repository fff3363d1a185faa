"""What stands at a path on a machine: a device, a file, a directory, or nothing."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import PurePosixPath

from labctl.capture.host.machine import Machine

_FIELDS = "%f %t %T %d %s"  # mode, major and minor in hexadecimal; the rest decimal


@dataclass(frozen=True, slots=True)
class Node:
    """Mode as in stat(2), a device's own number ("259:0"), its filesystem's number, and bytes."""

    mode: int
    number: str
    filesystem: int
    size_bytes: int


def look_at(path: str, machine: Machine) -> Node | None:
    """What stands at ``path``, symbolic links followed; None when nothing does."""
    done = machine.run(["stat", "-L", "-c", _FIELDS, "--", path])
    fields = done.stdout.split()
    if done.exit_code or len(fields) != 5:
        return None
    return Node(int(fields[0], 16), number_of(*fields[1:3]), int(fields[3]), int(fields[4]))


def number_of(major: str, minor: str) -> str:
    """A device's number as sysfs has it ("259:0"), of what stat(1) prints in hexadecimal."""
    return f"{int(major, 16)}:{int(minor, 16)}"


def is_missing_device(path: str, node: Node | None, machine: Machine) -> bool:
    """Whether ``path`` means a device that is not there: nothing stands there (``node``), or a
    plain file, as dd leaves one in /dev when the drive is away."""
    if not PurePosixPath(path).is_relative_to("/dev"):
        return False
    return (node is None or stat.S_ISREG(node.mode)) and not _in_memory(path, machine)


def _in_memory(path: str, machine: Machine) -> bool:
    """Whether a path below /dev is on a filesystem for files (/dev/shm), not for devices."""
    parent = look_at(str(PurePosixPath(path).parent), machine)
    devices = look_at("/dev", machine)
    return parent is not None and devices is not None and parent.filesystem != devices.filesystem
