"""Find users of a block device that do not claim it: an exclusive open does not detect them.

Processes with the device open for writing (virtual machines, user-space targets, another fio or
dd), and targets of the kernel that export it. nvmet opens what it exports without a claim
(drivers/nvme/target/io-cmd-bdev.c), and so does the file back-end of LIO.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath

from labctl.capture.host.machine import Machine
from labctl.capture.identity.all_processes import not_answered
from labctl.capture.identity.block_devices import BlockDevices
from labctl.capture.identity.node import number_of

_OPEN = "find -L /proc/1/fd /proc/[0-9]*/fd -maxdepth 1 -type b -exec stat -L -c '%t %T %n' {} +"
"""By device number: a container or a chroot has its own device names."""
_WITHIN_S = 5.0
"""50 000 descriptors take a third of a second. A descriptor on a dead file server never answers."""
A_MOMENT_S = 1.0
"""A tool that reads SMART has the drive open for writing too, but for less time than this."""
_WRITABLE = 0b11
"""O_WRONLY and O_RDWR among the flags of open(2), which fdinfo shows in octal."""
_NOT_TOLD = "flags: 02"
"""Taken for fdinfo that cannot be read; what was closed meanwhile is not there the second time."""
_EXPORTED = {
    "/sys/kernel/config/nvmet/subsystems/*/namespaces/*/device_path": "NVMe over fabrics (nvmet)",
    "/sys/kernel/config/target/core/*/*/udev_path": "a SCSI target (LIO)",
    "/sys/kernel/scst_tgt/devices/*/filename": "a SCSI target (SCST)",
}


def users_of(names: Collection[str], blocks: BlockDevices, machine: Machine) -> Iterator[str]:
    """A line for each user of the devices ``names``, or of a layer above them, with what to do.

    One is that some processes cannot be seen: each may be a user.
    """
    wanted = set(names)
    openers, unseen = _users_with_open_device(wanted, blocks, machine)
    if openers:
        time.sleep(A_MOMENT_S)
        still, unseen = _users_with_open_device(wanted, blocks, machine)
        openers &= still
    if unseen:
        yield f"/dev/{min(wanted)} counts as in use: {unseen}"
    for process, name in sorted(openers):
        yield (
            f"/dev/{name} is open for writing in {process} (a virtual machine, a target, "
            "another test?); end it, or have it let go of the drive"
        )
    for target, path in _kernel_export_users(machine):
        name = PurePosixPath(machine.resolve(path) or path).name
        if wanted & blocks.layers_of(name):
            yield f"{path} is exported to other hosts by {target}; take it out of there"


def _users_with_open_device(
    wanted: Collection[str], blocks: BlockDevices, machine: Machine
) -> tuple[set[tuple[str, str]], str]:
    """Each process (name and pid) that may write to one of ``wanted`` or to a layer above it, and
    the device that it has open; and why there may be more."""
    opened: dict[str, str] = {}
    done = machine.run(["sh", "-c", _OPEN], _WITHIN_S)
    for line in done.stdout.splitlines():
        fields = line.split()
        name = blocks.numbers.get(number_of(*fields[:2])) if len(fields) == 3 else None
        if name is not None and not blocks.layers_of(name).isdisjoint(wanted):
            opened[fields[2]] = name
    infos = {path: path.replace("/fd/", "/fdinfo/") for path in opened}
    comms = {path: f"{path.partition('/fd/')[0]}/comm" for path in opened}
    texts = machine.read_texts([*infos.values(), *comms.values()]) if opened else {}
    found = {
        (f"{texts.get(comms[path], '').strip() or 'process'} (pid {path.split('/')[2]})", name)
        for path, name in opened.items()
        if _may_write(texts.get(infos[path], _NOT_TOLD))
    }
    return found, not_answered(done, machine)


def _may_write(fdinfo: str) -> bool:
    flags = (line.split()[-1] for line in fdinfo.splitlines() if line.startswith("flags:"))
    return any(int(octal, 8) & _WRITABLE for octal in flags)


def _kernel_export_users(machine: Machine) -> Iterator[tuple[str, str]]:
    """The kind of each kernel target, and the path that it exports."""
    for path, text in machine.read_texts(list(_EXPORTED)).items():
        lines = text.splitlines()
        if lines and lines[0].startswith("/"):
            kind = next(
                kind for pattern, kind in _EXPORTED.items() if PurePosixPath(path).match(pattern)
            )
            yield kind, lines[0].strip()
