"""What stands at a path on a machine: a device, a file, a directory, a link, or nothing."""

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
        """Of what ``stat -c '%f %t %T %d %s %i'`` prints; None of anything else."""
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
        """What it is, whatever it is called: the number of a device, the place of a file."""
        if self.is_device:
            return f"block device {self.number}"
        return f"file {self.inode} of filesystem {self.filesystem}"


@dataclass(frozen=True, slots=True)
class DrivePlace:
    """A target as it is on its machine: its path without links and ``..``, and what stands there.

    ``node`` is None where nothing does: a file may be made in ``folder``, which is None where there
    is no such directory either.
    """

    path: str
    node: Node | None
    folder: Node | None

    @property
    def is_device(self) -> bool:
        """Whether it is a block device."""
        return self.node is not None and self.node.is_device


def look_at(path: str, machine: Machine) -> Node | None:
    """What stands at ``path``, symbolic links followed; None when nothing does."""
    return _look_at([path], machine, ["-L"]).get(path)


def find_place(target: str, machine: Machine) -> DrivePlace:
    """Resolve ``target`` once: links and ``..`` are gone, what stands there is seen."""
    path = machine.resolve(target)
    if path is None:
        wanted = PurePosixPath(posixpath.normpath(target))
        parent = machine.resolve(str(PurePosixPath(target).parent))
        path = str(wanted if parent is None else PurePosixPath(parent, wanted.name))
    folder = str(PurePosixPath(path).parent)
    there = _look_at([path, folder], machine, ())
    found = there.get(folder)
    is_folder = found is not None and stat.S_ISDIR(found.mode)
    return DrivePlace(path, there.get(path), found if is_folder else None)


def _look_at(paths: Sequence[str], machine: Machine, how: Sequence[str]) -> dict[str, Node]:
    """What stands at each of ``paths``, where something does; asked all at once."""
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
    """Whether it means a device that is not there: in the folder of devices nothing stands at its
    name, or a plain file, as dd leaves one there when the drive is away.

    The folder is known by its filesystem, whatever way led to it; a container may have /dev on its
    root's, and files have one of their own there (/dev/shm).
    """
    if place.node is not None and not place.node.is_file:
        return False
    below = PurePosixPath(place.path).is_relative_to("/dev")
    devices, root = look_at("/dev", machine), look_at("/", machine)
    if place.folder is None or devices is None:
        return below
    if place.folder.filesystem != devices.filesystem:
        return False
    return below or (root is not None and root.filesystem != devices.filesystem)
