"""What is mounted on a machine or swapped to, in every mount namespace, on which block devices.

``/proc/<pid>/mountinfo``: proc_pid_mountinfo(5). btrfs and overlay show a device number that no
block device has: their members and layers are found by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from labctl.capture.host.machine import Machine
from labctl.capture.identity.all_processes import not_answered
from labctl.capture.identity.block_devices import BlockDevices

_NAMESPACES = "stat -L -c '%i %n' /proc/1/ns/mnt /proc/[0-9]*/ns/mnt"
"""One program for all processes: the number of the mount namespace, and the process."""
_OWN = "/proc/self/mountinfo"
_ASKED_PER_NAMESPACE = 3
"""Of several processes in a namespace, at least one still runs when it is read."""
_NO_DEVICE = ("none", "overlay", "tmpfs", "proc", "sysfs", "devtmpfs")
_MOST_LAYERS = 8
_SWAPS = "/proc/swaps"


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted filesystem: where, the device number it shows, its type, source and options."""

    point: str
    number: str
    filesystem: str
    source: str
    options: str

    def devices(self, blocks: BlockDevices, machine: Machine) -> frozenset[str]:
        """Names of the block devices that the filesystem is on; empty when it is on none."""
        named = blocks.numbers.get(self.number)
        if named:
            return frozenset({named})
        if self.source in _NO_DEVICE or not self.source.startswith("/dev/"):
            return frozenset()
        name = PurePosixPath(machine.resolve(self.source) or self.source).name
        members = (found for found in blocks.btrfs.values() if name in found)
        return next(members, frozenset({name}) & blocks.files.keys())


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """The mounts that a ``mountinfo`` lists; lines of another form are skipped."""
    found: list[Mount] = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, tail = before.split(" "), after.split(" ")
        if separator and len(fields) >= 5 and len(tail) >= 2:
            options = _unescape_mount_field(tail[2]) if len(tail) > 2 else ""
            found.append(
                Mount(
                    _unescape_mount_field(fields[4]),
                    fields[2],
                    tail[0],
                    _unescape_mount_field(tail[1]),
                    options,
                )
            )
    return tuple(found)


def _unescape_mount_field(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def read_own_mounts(machine: Machine) -> tuple[Mount, ...]:
    """The mounts of labctl's own mount namespace on ``machine``."""
    return parse_mountinfo(machine.read_texts([_OWN]).get(_OWN, ""))


def read_mounts(machine: Machine) -> tuple[Mount, ...]:
    """The mounts of every mount namespace that this user may read, without repetition."""
    return read_all_mounts(machine)[0]


def read_all_mounts(machine: Machine) -> tuple[tuple[Mount, ...], str]:
    """The mounts of every mount namespace, and why some of them may be missing; empty: none is."""
    by_namespace: dict[str, list[str]] = {}
    done = machine.run(["sh", "-c", _NAMESPACES])
    for line in done.stdout.splitlines():
        namespace, _, path = line.partition(" ")
        process = path.removesuffix("/ns/mnt")
        asked = by_namespace.setdefault(namespace, [])
        if len(asked) < _ASKED_PER_NAMESPACE and process:
            asked.append(f"{process}/mountinfo")
    paths = [path for asked in by_namespace.values() for path in asked]
    texts = machine.read_texts([_OWN, "/proc/1/mountinfo", *paths])
    found = dict.fromkeys(mount for text in texts.values() for mount in parse_mountinfo(text))
    missing = "" if texts.get(_OWN) else f"{_OWN} cannot be read: what is mounted is not known"
    return tuple(found), missing or not_answered(done, machine)


def read_swaps(machine: Machine) -> tuple[str, ...]:
    """Kernel names of the devices that are swapped to."""
    found = []
    for line in machine.read_texts([_SWAPS]).get(_SWAPS, "").splitlines()[1:]:
        path, _, rest = line.partition(" ")
        if rest.split()[:1] == ["partition"] or path.startswith("/dev/"):
            plain = path.split("\\040")[0]
            found.append(PurePosixPath(machine.resolve(plain) or plain).name)
    return tuple(found)


def devices_below(
    path: str, mounts: Iterable[Mount], blocks: BlockDevices, machine: Machine
) -> frozenset[str]:
    """The devices that store a file at ``path``, with every layer below them; may be empty."""
    listed = tuple(mounts)
    waiting, found = [path], set[str]()
    for _ in range(_MOST_LAYERS):
        if not waiting:
            break
        mount = mount_of(waiting.pop(), listed)
        if mount is None:
            continue
        if mount.filesystem == "overlay":
            waiting += re.findall(r"(?:^|,)upperdir=([^,]+)", mount.options)
        for device in mount.devices(blocks, machine):
            found |= blocks.layers_of(device)
            backing = blocks.backing_file_of(device)
            if backing:
                waiting.append(backing)
    return frozenset(found)


def mount_of(path: str, mounts: Iterable[Mount]) -> Mount | None:
    """The mount that ``path`` is in: the deepest, and of several at one point the last."""
    wanted = PurePosixPath(path)
    best: Mount | None = None
    for mount in mounts:
        if wanted.is_relative_to(mount.point) and (
            best is None or len(mount.point) >= len(best.point)
        ):
            best = mount
    return best
