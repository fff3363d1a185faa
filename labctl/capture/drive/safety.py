"""Safety rules for a block device: the only place that permits a destructive step.

Writing to a device needs ``destructive = true`` and its serial number in the rig, and a drive that
nothing uses: no mount in any mount namespace, no swap, no holder (LVM, md, dm, bcache, loop), not
the system's disk. Finally the device is opened exclusively. The journal is never on the drive under
test. All reasons are reported at once, each with what to change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from labctl.capture.drive.users import users_of
from labctl.capture.host.machine import NOT_FOUND, TIMED_OUT, Completed, Machine, run_tool
from labctl.capture.identity.block_devices import BlockDevices
from labctl.capture.identity.mounts import (
    Mount,
    devices_below,
    read_all_mounts,
    read_own_mounts,
    read_swaps,
)
from labctl.capture.identity.smartctl import parse_smartctl
from labctl.config.rig import Rig
from labctl.errors import Refused

SYSTEM_FOLDERS = ("/", "/boot", "/boot/efi", "/efi", "/usr", "/var")
"""The disk of any of these is the system's disk."""


@dataclass(frozen=True)
class Device:
    """A block device under test: path in the rig, kernel name, all devices of its machine."""

    path: str
    name: str
    blocks: BlockDevices
    machine: Machine

    @cached_property
    def disk(self) -> str:
        """The whole disk's kernel name."""
        return self.blocks.disk_of(self.name)

    @cached_property
    def drive(self) -> frozenset[str]:
        """Every disk that is this piece of hardware: other namespaces, other paths."""
        return self.blocks.same_drive(self.disk)

    def written(self, whole_drive: bool) -> frozenset[str]:
        """Every disk that loses data: all of the hardware, or what is the same blocks."""
        return self.drive if whole_drive else self.blocks.same_storage(self.disk)

    def __str__(self) -> str:
        return self.path if self.path == f"/dev/{self.name}" else f"{self.path} ({self.name})"


def why_not_destructive(rig: Rig) -> str:
    """Why a plan that writes is refused without the flag."""
    return (
        f"{rig.path}: the plan writes to {rig.drive.target}, which destroys what is on it; "
        f"set {rig.drive_key}.destructive = true if that is meant"
    )


def check_destructive(device: Device, rig: Rig, *, whole_drive: bool, at_rest: bool) -> None:
    """Refuse to let ``device`` be overwritten unless every rule is kept. Raises Refused."""
    if not rig.drive.destructive:
        raise Refused(why_not_destructive(rig))
    reasons = [
        *_wrong_serial(device, rig),
        *_part_of_more(device, whole_drive),
        *_in_use(device, whole_drive),
    ]
    if not reasons and at_rest:
        opened = _safety_opened_devices(device, whole_drive)
        reasons += [line for name in opened for line in held_by_kernel(device, name)]
        reasons += users_of(
            _safety_checked_parts(device, whole_drive), device.blocks, device.machine
        )
    if reasons:
        raise Refused("\n".join(dict.fromkeys(reasons)))


def _wrong_serial(device: Device, rig: Rig) -> Iterator[str]:
    wanted = rig.drive.serial.strip()
    found: list[str] = []
    for serial in serials_of(device):
        if serial == wanted:
            yield from _serial_of_another(device, serial)
            return
        found.append(serial)
    serials = " or ".join(dict.fromkeys(found))
    if not wanted:
        yield (
            f"{rig.path}: writing to {device} needs {rig.drive_key}.serial; the device says "
            f"{serials or 'nothing'}"
        )
    else:
        yield (
            f"{device} has serial {serials or '(none)'}, the rig names {wanted}: this is another "
            f"drive; correct {rig.drive_key}.target or {rig.drive_key}.serial"
        )


def _serial_of_another(device: Device, serial: str) -> Iterator[str]:
    """Why the serial number is ambiguous: two drives have it (in a dock, of a cheap batch)."""
    blocks = device.blocks
    disks = {name for name in blocks.files if not blocks.is_partition(name)} - device.drive
    filled = sorted(name for name in disks if blocks.size_bytes_of(name))
    twins = [name for name in filled if serial in blocks.kernel_serials_of(name)]
    if serial not in blocks.kernel_serials_of(device.disk):  # udev's: both drives of a dock have it
        for name in (name for name in filled if blocks.kind_of(name) in ("sata", "scsi")):
            done = _ask_udev(name, device.machine)
            if done.exit_code == TIMED_OUT:
                yield f"udevadm does not say in time whether /dev/{name} has serial {serial}, too"
            elif serial in _udev_serials(done):
                twins.append(name)
    if twins:
        yield (
            f"{device} has serial {serial}, and so has /dev/{', /dev/'.join(twins)}: it does not "
            "tell which of them is meant; take the other out of the host"
        )


def serials_of(device: Device) -> Iterator[str]:
    """The serial numbers that the device goes by: the kernel's, udev's, and the drive's own.

    They differ behind a USB bridge. For a loop device it is the path of its file. A source is only
    asked when the ones before did not suffice.
    """
    yield from device.blocks.kernel_serials_of(device.disk)
    yield from _udev_serials(_ask_udev(device.disk, device.machine))
    if device.blocks.kind_of(device.disk) in ("sata", "scsi"):
        done = run_tool(device.machine, ["smartctl", "-j", "-i", f"/dev/{device.disk}"])
        report = parse_smartctl(done.stdout)
        if report is not None and report.serial:
            yield report.serial


def _ask_udev(disk: str, machine: Machine) -> Completed:
    return run_tool(machine, ["udevadm", "info", "--query=property", f"--name=/dev/{disk}"])


def _udev_serials(done: Completed) -> list[str]:
    lines = (line.partition("=") for line in done.stdout.splitlines())
    names = ("ID_SERIAL_SHORT", "ID_SCSI_SERIAL")
    return [value.strip() for name, _, value in lines if name in names and value.strip()]


def _part_of_more(device: Device, whole_drive: bool) -> Iterator[str]:
    backing = device.blocks.backing_device_of(device.disk)
    if backing:
        yield (
            f"{device} is a loop device on /dev/{backing}, which it does not protect; name what "
            f"it is on (/dev/{backing}) as drive.target, and detach it (losetup -d)"
        )
    if not device.blocks.is_partition(device.name):
        return
    parts = device.blocks.partitions_of(device.disk)
    if whole_drive:
        yield (
            f"{device} is a partition of {device.disk}, and what is meant acts on the whole drive; "
            f"set drive.target = '/dev/{device.disk}'"
        )
    elif len(parts) > 1:
        others = ", ".join(part for part in parts if part != device.name)
        yield (
            f"{device} is a partition of {device.disk}, which also has {others}; name the whole "
            f"drive (/dev/{device.disk}), or remove the other partitions"
        )


def _in_use(device: Device, whole_drive: bool) -> Iterator[str]:
    """What uses the drive: with ``whole_drive`` any namespace counts, else only its blocks."""
    blocks = device.blocks
    own = _safety_checked_parts(device, whole_drive)
    mounts, unseen = read_all_mounts(device.machine)
    if unseen:
        yield f"{device} counts as in use: {unseen}"
    system = list(_system_disk(device, mounts))
    yield from system
    for mount in () if system else mounts:
        on = mount.devices(blocks, device.machine)
        if any(own & blocks.layers_of(name) for name in on):
            yield f"{device} is in use: mounted on {mount.point}; umount {mount.point}"
    for source in read_swaps(device.machine):
        if own & blocks.layers_of(source):
            yield f"{device} is in use: swap on /dev/{source}; swapoff /dev/{source}"
    for name in sorted(own):
        for holder in blocks.holders_of(name):
            yield (
                f"{device} is held by {blocks.describe(holder)}; release it (vgchange -an, "
                "cryptsetup close, mdadm --stop, dmsetup remove, losetup -d)"
            )
        if blocks.file(name, "bcache/state"):
            yield f"{device} is part of a bcache; stop it (echo 1 > /sys/block/{name}/bcache/stop)"
    if blocks.file(device.name, "ro") == "1":
        yield f"{device} is write-protected; blockdev --setrw {device.path}"


def _safety_checked_parts(device: Device, whole_drive: bool) -> frozenset[str]:
    """Every disk that loses data, and its partitions."""
    disks = device.written(whole_drive)
    return disks | {part for disk in disks for part in device.blocks.partitions_of(disk)}


def _safety_opened_devices(device: Device, whole_drive: bool) -> list[str]:
    """The devices to open exclusively: the target, and each other disk that loses data."""
    others = device.written(whole_drive) - {device.disk}
    hidden = {name for name in others if device.blocks.file(name, "hidden") == "1"}
    return [device.name, *sorted(others - hidden)]


def _system_disk(device: Device, mounts: Collection[Mount]) -> Iterator[str]:
    for folder in SYSTEM_FOLDERS:
        at = (mount for mount in mounts if mount.point == folder)
        on = {name for mount in at for name in mount.devices(device.blocks, device.machine)}
        below = {disk for name in on for disk in device.blocks.layers_of(name)}
        if below & device.drive:
            yield (
                f"{device} is on the system's disk ({folder} lives on it); the drive under test "
                "must be another one: correct drive.target"
            )
            return


def held_by_kernel(device: Device, name: str) -> list[str]:
    """Why the kernel does not let ``name`` be opened exclusively; empty when it does.

    ``name`` is the device, or a disk that loses its data with it.

    A mount or holder claims its device, also where labctl cannot see it (ZFS, containers).
    ``wipefs --all --no-act`` of util-linux opens a device with O_RDWR and O_EXCL and writes
    nothing; no other tool of coreutils or util-linux opens so without changing anything.
    """
    done = _safety_signatures(device, name)
    if done.exit_code == 0:
        return []
    message = " ".join(done.stderr.split()) or f"exit code {done.exit_code}"
    what = str(device) if name == device.name else f"/dev/{name}, of one drive with {device},"
    if done.exit_code == NOT_FOUND:
        return ["wipefs is not installed on the drive's host; install util-linux"]
    if "busy" in message.lower():
        return [
            f"{what} is in use by something that the kernel does not name (ZFS, a container, a "
            "target?); find it with lsof or fuser and release it"
        ]
    if "denied" in message or "not permitted" in message:
        return [f"{what} may not be opened for writing; run labctl there as root"]
    return [f"{what} cannot be opened for writing: {message}"]


def signatures_on(device: Device) -> tuple[str, ...]:
    """Types of the signatures on the target: ext4, LVM2_member, zfs_member, gpt, …

    Also of what is not in use: an exported pool, an inactive volume group.
    """
    printed = _safety_signatures(device, device.name).stdout
    return tuple(dict.fromkeys(re.findall(r"at offset 0x[0-9a-f]+ \((\w+)\):", printed)))


def _safety_signatures(device: Device, name: str) -> Completed:
    """Run wipefs without action: it opens the disk exclusively for writing and writes nothing."""
    return run_tool(device.machine, ["wipefs", "--all", "--no-act", f"/dev/{name}"])


def refuse_unreadable_device(device: Device) -> None:
    """Raise Refused for a device that this user may not read: fio would fail in every phase."""
    if device.machine.run(["test", "-r", device.path]).exit_code == 1:
        raise Refused(
            f"{device} may not be read by this user; run labctl there as root, or have the user "
            "join its group (disk)"
        )


def existing(path: Path) -> Path:
    """The deepest part of ``path`` that is there, without symbolic links."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path.resolve()


def refuse_journal_on(device: Device, runs_root: Path) -> None:
    """Refuse a journal on the drive under test. Raises Refused."""
    mounts = read_own_mounts(device.machine)
    journal_on = devices_below(str(existing(runs_root)), mounts, device.blocks, device.machine)
    target_on = set(device.blocks.layers_of(device.name))
    backing = device.blocks.backing_file_of(device.name)
    if backing:
        target_on |= devices_below(backing, mounts, device.blocks, device.machine)
    if device.blocks.share_drive(target_on, journal_on):
        raise Refused(
            f"the journal ({runs_root}) would lie on the drive under test {device}; "
            "choose another disk with --runs"
        )
