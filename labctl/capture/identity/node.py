"""What a path on a machine is: a device, a file, a directory, a link, or nothing (stat(1))."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from labctl.capture.host.machine import Machine

_FIELDS = "%f %t %T %d %s %i"  # mode, major and minor in hexadecimal; the rest decimal


@dataclass(frozen=True, slots=True)
class Node:
    """Mode as in stat(2), a device's own number ("259:0"), its filesystem's number, bytes, and its
    number in that filesystem."""

    mode: int
    number: str
    filesystem: int
    size_bytes: int
    inode: int

    @classmethod
    def parse(cls, fields: str) -> Node | None:
        """From the output of ``stat -c '%f %t %T %d %s %i'``; None from anything else."""
        words = fields.split()
        if len(words) != 6:
            return None
        return cls(int(words[0], 16), number_of(*words[1:3]), *map(int, words[3:]))

    @property
    def is_device(self) -> bool:
        """Whether it is a block device."""
        return stat.S_ISBLK(self.mode)

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.mode)

    @property
    def identity(self) -> str:
        """Its identity apart from its path: the number of a device, the inode of a file."""
        if self.is_device:
            return f"block device {self.number}"
        return f"file {self.inode} of filesystem {self.filesystem}"


@dataclass(frozen=True, slots=True)
class DrivePlace:
    """A target on its machine: its path without links and ``..``, and the node at that path.

    ``node`` is None where the path does not exist: a file may be made in ``folder``, which is None
    where that directory does not exist either.
    """

    path: str
    node: Node | None
    folder: Node | None

    @property
    def is_device(self) -> bool:
        """Whether it is a block device."""
        return self.node is not None and self.node.is_device


def stat_path(path: str, machine: Machine) -> Node | None:
    """The node at ``path``, symbolic links followed; None when there is none."""
    return _stat_paths([path], machine, ["-L"]).get(path)


def find_place(target: str, machine: Machine) -> DrivePlace:
    """Resolve the links and ``..`` of ``target`` once, and read the node there."""
    path = machine.resolve(target)
    if path is None:
        wanted = PurePosixPath(posixpath.normpath(target))
        parent = machine.resolve(str(PurePosixPath(target).parent))
        path = str(wanted if parent is None else PurePosixPath(parent, wanted.name))
    folder = str(PurePosixPath(path).parent)
    nodes = _stat_paths([path, folder], machine, ())
    found = nodes.get(folder)
    is_folder = found is not None and stat.S_ISDIR(found.mode)
    return DrivePlace(path, nodes.get(path), found if is_folder else None)


def _stat_paths(paths: Sequence[str], machine: Machine, how: Sequence[str]) -> dict[str, Node]:
    """The nodes at those of ``paths`` that exist, with one command."""
    done = machine.run(["stat", *how, "-c", f"{_FIELDS} %n", "--", *paths])
    found = {}
    for line in done.stdout.splitlines():
        *fields, path = line.split(" ", _FIELDS.count("%"))
        node = Node.parse(" ".join(fields))
        if node is not None:
            found[path] = node
    return found


def number_of(major: str, minor: str) -> str:
    """A device's number as sysfs has it ("259:0"), of what stat(1) prints in hexadecimal."""
    return f"{int(major, 16)}:{int(minor, 16)}"


def is_missing_device(place: DrivePlace, machine: Machine) -> bool:
    """Whether ``place`` names a missing device: a path in the folder of devices with no node, or
    with a plain file, which dd leaves there when the drive is absent.

    The folder is recognised by its filesystem; a container may have /dev on the root filesystem,
    and files have a filesystem of their own there (/dev/shm).
    """
    if place.node is not None and not place.node.is_file:
        return False
    below = PurePosixPath(place.path).is_relative_to("/dev")
    devices, root = stat_path("/dev", machine), stat_path("/", machine)
    if place.folder is None or devices is None:
        return below
    if place.folder.filesystem != devices.filesystem:
        return False
    return below or (root is not None and root.filesystem != devices.filesystem)
