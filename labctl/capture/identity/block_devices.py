"""The block devices of a machine: disks, partitions, and how they are layered (LVM, md, dm, …).

All from sysfs, read in one go (kernel: Documentation/ABI/testing/sysfs-block).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from labctl.capture.host.machine import Machine

_CLASS = "/sys/class/block"
_SECTOR_BYTES = 512
"""The unit of sysfs sizes, independent of the drive's own block size."""
_NVME_NAMESPACE = re.compile(r"nvme(?P<instance>\d+)(?:c\d+)?n(?P<namespace>\d+)")
_KINDS = (
    ("nvme", r"nvme\d"),
    ("virtio", r"vd[a-z]"),
    ("loop", r"loop\d"),
    ("nbd", r"nbd\d"),
    ("md", r"md"),
    ("dm", r"dm-\d"),
    ("scsi", r"(sd[a-z]|sr\d)"),
)
_VPD_HEADER_BYTES = 4

_FILES = (
    "dev",
    "size",
    "partition",
    "hidden",
    "ro",
    "serial",
    "wwid",
    "nsid",
    "dm/name",
    "loop/backing_file",
    "bcache/state",
    "queue/logical_block_size",
    "queue/physical_block_size",
    "queue/rotational",
    "device/model",
    "device/serial",
    "device/firmware_rev",
    "device/rev",
    "device/vendor",
    "device/wwid",
    "device/transport",
    "device/subsysnqn",
    "device/vpd_pg80",
    "device/type",
    "holders/*/dev",
    "slaves/*/dev",
    "*/partition",
)


@dataclass(frozen=True)
class BlockDevices:
    """Every block device of a machine, by name, at the time it was read."""

    files: Mapping[str, Mapping[str, str]]
    """The sysfs files of each device, by their path below its directory."""
    btrfs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Names of the member devices of each mounted btrfs, by its UUID."""

    def file(self, name: str, *paths: str) -> str:
        """The first of the device's files that has text, stripped; else empty."""
        own = self.files.get(name, {})
        return next((text for path in paths if (text := own.get(path, "").strip("\0 \t\r\n"))), "")

    @cached_property
    def numbers(self) -> Mapping[str, str]:
        """Device names by number ("259:0")."""
        return {self.file(name, "dev"): name for name in self.files if self.file(name, "dev")}

    @cached_property
    def _disks(self) -> Mapping[str, str]:
        return {
            path.removesuffix("/partition"): disk
            for disk, files in self.files.items()
            for path in files
            if path.count("/") == 1 and path.endswith("/partition")
        }

    def is_partition(self, name: str) -> bool:
        """Whether the device is a partition."""
        return name in self._disks

    def disk_of(self, name: str) -> str:
        """The whole disk that a device is, or is a partition of."""
        return self._disks.get(name, name)

    def partitions_of(self, disk: str) -> tuple[str, ...]:
        """The partitions of a disk."""
        return tuple(sorted(part for part, whole in self._disks.items() if whole == disk))

    def holders_of(self, name: str) -> tuple[str, ...]:
        """The devices directly above a device: dm (LVM, crypt, multipath), md, bcache, loop."""
        loops = (loop for loop in self.files if self.backing_device_of(loop) == name)
        return tuple(sorted({*self._linked(name, "holders/"), *loops}))

    def _linked(self, name: str, folder: str) -> tuple[str, ...]:
        found = (path for path in self.files.get(name, {}) if path.startswith(folder))
        return tuple(sorted(path.split("/")[1] for path in found))

    def layers_of(self, name: str) -> frozenset[str]:
        """A device, its disk, and every device below it down to the drives."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            device = waiting.pop()
            if device in found:
                continue
            found.add(device)
            backing = self.backing_device_of(device)
            waiting += [self.disk_of(device), *self._linked(device, "slaves/")]
            waiting += [backing] if backing else []
        return frozenset(found)

    def same_drive(self, disk: str) -> frozenset[str]:
        """Every disk that is the same piece of hardware: namespaces, other paths to it."""
        own = self._hardware(disk)
        whole = (name for name in self.files if not self.is_partition(name))
        return frozenset({disk, *(name for name in whole if own & self._hardware(name))})

    def share_drive(self, some: Collection[str], others: Collection[str]) -> bool:
        """Whether devices share a drive: a disk, another partition, another namespace of it."""
        drives = {disk for name in some for disk in self.same_drive(self.disk_of(name))}
        return any(self.disk_of(name) in drives for name in others)

    def same_storage(self, disk: str) -> frozenset[str]:
        """Every disk that is the same blocks: other paths to a namespace or a LUN.

        Each path is a device of its own to the kernel: a claim of one does not show on another.
        """
        wwid, serial = self._wwid(disk), self.serial_of(disk)
        whole = (name for name in self.files if not self.is_partition(name))
        others = (
            name
            for name in whole
            if wwid and self._wwid(name) == wwid and self.serial_of(name) in (serial, "")
        )
        return frozenset({disk, *others})

    def _wwid(self, disk: str) -> str:
        return self.file(disk, "wwid", "device/wwid")

    def _hardware(self, disk: str) -> frozenset[str]:
        """Identifiers that two disks share when they are one drive."""
        marks: set[str] = set()
        match = _NVME_NAMESPACE.fullmatch(disk)
        if match:
            marks.add(f"nvme{match['instance']}")
            serial = self.serial_of(disk)
            names = (self.file(disk, "device/subsysnqn"), self._wwid(disk))
            marks |= {f"{name} {serial}" for name in names if name and serial}
        else:
            wwid = self._wwid(disk)
            if wwid:
                marks.add(wwid)
        return frozenset(marks)

    def serial_of(self, disk: str) -> str:
        """The serial number that sysfs shows (NVMe, virtio, and SCSI page 80h), or empty."""
        found = self.file(disk, "device/serial", "serial")
        if found:
            return found
        page = self.files.get(disk, {}).get("device/vpd_pg80", "")
        return page[_VPD_HEADER_BYTES:].strip("\0 \t\r\n�") if page else ""

    def kernel_serials_of(self, disk: str) -> tuple[str, ...]:
        """The serial number that sysfs shows; of a loop device the path of its file."""
        return tuple(filter(None, (self.serial_of(disk), self.backing_file_of(disk))))

    def size_bytes_of(self, name: str) -> int | None:
        """Capacity of a device."""
        size = self.file(name, "size")
        return int(size) * _SECTOR_BYTES if size.isdecimal() else None

    def backing_file_of(self, name: str) -> str:
        """The file that a loop device shows, or empty."""
        return self.file(self.disk_of(name), "loop/backing_file")

    def backing_device_of(self, name: str) -> str:
        """The block device below a loop device (or below a partition of one), or empty.

        sysfs has no link between the two, and a loop device does not claim the one below it.
        """
        folder, _, device = self.backing_file_of(name).rpartition("/")
        return device if folder == "/dev" and device in self.files else ""

    def kind_of(self, disk: str) -> str:
        """nvme, sata, scsi, virtio, loop, nbd, md, dm or other."""
        kind = next((kind for kind, start in _KINDS if re.match(start, disk)), "other")
        return "sata" if kind == "scsi" and self.file(disk, "device/vendor") == "ATA" else kind

    def describe(self, name: str) -> str:
        """A holder for a message: its name and kind."""
        mapped = self.file(name, "dm/name")
        if mapped:
            return f"{name} ({mapped}: LVM, dm-crypt or multipath)"
        if name.startswith("md"):
            return f"{name} (md RAID)"
        if self.backing_file_of(name):
            return f"{name} (a loop device)"
        return f"{name} (bcache)" if name.startswith("bcache") else name


def read_block_devices(machine: Machine) -> BlockDevices:
    """Read every block device of ``machine`` from sysfs; none of them is opened."""
    patterns = [f"{_CLASS}/*/{file}" for file in _FILES]
    texts = machine.read_texts([*patterns, "/sys/fs/btrfs/*/devices/*/dev"])
    files: dict[str, dict[str, str]] = {}
    btrfs: dict[str, set[str]] = {}
    for path, text in texts.items():
        if path.startswith(f"{_CLASS}/"):
            name, _, below = path.removeprefix(f"{_CLASS}/").partition("/")
            files.setdefault(name, {})[below] = text
        else:
            parts = path.split("/")  # /sys/fs/btrfs/<uuid>/devices/<name>/dev
            btrfs.setdefault(parts[4], set()).add(parts[6])
    return BlockDevices(files, {uuid: frozenset(names) for uuid, names in btrfs.items()})


def nvme_names(disk: str) -> tuple[str, int] | None:
    """The controller's (or subsystem's) name and the namespace's number of an NVMe disk."""
    match = _NVME_NAMESPACE.fullmatch(disk)
    return (f"nvme{match['instance']}", int(match["namespace"])) if match else None
