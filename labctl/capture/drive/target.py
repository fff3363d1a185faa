"""The target of a rig: what it is, whether it is there, and which rules hold for it.

``check_target`` is the one door to the drive: called before a run is begun, before every
destructive step and again before every phase. What a device may be used for is decided in
:mod:`labctl.capture.drive.safety`.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qs, urlparse

from labctl.capture.drive import safety
from labctl.capture.drive.block_devices import read_block_devices
from labctl.capture.drive.mounts import devices_below, read_own_mounts
from labctl.capture.drive.node import Node, is_missing_device, look_at
from labctl.capture.host.machine import LocalMachine, Machine
from labctl.errors import ConfigurationError, Mistake, Refused
from labctl.plan import Phase
from labctl.rig import Rig

_LOCAL = LocalMachine()
_BOOT = "/proc/sys/kernel/random/boot_id"
_NBD_PORT = 10809


def size_of(device: str | Path, machine: Machine = _LOCAL) -> int | None:
    """Bytes of a block device; None when it is none or is not there."""
    node = look_at(str(device), machine)
    if node is None or not stat.S_ISBLK(node.mode):
        return None
    blocks = read_block_devices(machine)
    name = blocks.numbers.get(node.number)
    return None if name is None else blocks.size_bytes_of(name)


def check_target(
    rig: Rig,
    phases: Iterable[Phase],
    runs_root: Path | None,
    machine: Machine = _LOCAL,
    *,
    whole_drive: bool = False,
    at_rest: bool = True,
) -> None:
    """Refuse what must not or cannot be done to the rig's target.

    ``runs_root``: where the journal will be; None when nothing is recorded. ``whole_drive``: more
    is meant than writing to the target (format, sanitize), which needs all namespaces and
    partitions of the drive to be free. ``at_rest``: no fio of ours is at work on it, so it may also
    be opened, which costs a few reads. Raises ConfigurationError (there is no such target), Refused
    (a rule forbids it).
    """
    writes = whole_drive or any(phase.writes for phase in phases)
    if rig.drive.engine == "nbd":
        _check_nbd(rig, writes, is_this_machine(machine))
        return
    target = rig.drive.target
    node = look_at(target, machine)
    if node is not None and stat.S_ISBLK(node.mode):
        blocks = read_block_devices(machine)
        name = blocks.numbers.get(node.number)
        if name is None:
            raise _mistake(
                rig, f"is device {node.number}, which the kernel does not have (any more)"
            )
        device = safety.Device(target, name, blocks, machine)
        if runs_root is not None and is_this_machine(machine):
            safety.refuse_journal_on(device, runs_root)
        if writes:
            safety.check_destructive(device, rig, whole_drive=whole_drive, at_rest=at_rest)
        else:
            safety.refuse_unreadable(device)
    elif is_missing_device(target, node, machine):
        raise _mistake(rig, "there is no such device; is the drive connected?")
    elif node is None or stat.S_ISREG(node.mode):
        _check_file(rig, node, runs_root, machine)
        if node is not None and writes:
            _refuse_lost_file(rig, node, machine)
    elif stat.S_ISCHR(node.mode):
        raise _mistake(rig, "is a character device; name a namespace, such as /dev/nvme0n1")
    else:
        raise _mistake(rig, "must be a block device, a regular file or an nbd address")


def check_targets(
    rig: Rig,
    phases: Iterable[Phase],
    runs_root: Path,
    machine: Machine = _LOCAL,
    *,
    whole_drive: bool = False,
    at_rest: bool = True,
) -> None:
    """:func:`check_target` of each drive of the rig, and that each is another one.

    Raises ConfigurationError, Refused.
    """
    phases = tuple(phases)
    for one in rig.each_drive().values():
        check_target(one, phases, runs_root, machine, whole_drive=whole_drive, at_rest=at_rest)
    refuse_twice(rig, machine)


def what_it_holds(rig: Rig, machine: Machine = _LOCAL) -> tuple[str, ...]:
    """Filesystems, volumes and partition tables of a target that is a block device, by type."""
    node = look_at(rig.drive.target, machine)
    if rig.drive.engine == "nbd" or node is None or not stat.S_ISBLK(node.mode):
        return ()
    blocks = read_block_devices(machine)
    name = blocks.numbers.get(node.number)
    if name is None:
        return ()
    return safety.signatures_on(safety.Device(rig.drive.target, name, blocks, machine))


def refuse_twice(rig: Rig, machine: Machine) -> None:
    """Refuse two names of one drive. Two files may lie on one drive: they are for trying out.

    Raises Refused.
    """
    if len(rig.drives) < 2:
        return
    blocks = read_block_devices(machine)
    seen: dict[str, Rig] = {}
    for one in rig.each_drive().values():
        node = look_at(one.drive.target, machine)
        name = blocks.numbers.get(node.number) if node and stat.S_ISBLK(node.mode) else None
        parts = {machine.resolve(one.drive.target) or one.drive.target}
        if name is not None:
            parts = {f"/dev/{disk}" for disk in blocks.same_drive(blocks.disk_of(name))}
        for part in parts:
            if other := seen.get(part):
                raise Refused(
                    f"{rig.path}: {other.drive_key} ({other.drive.target}) and {one.drive_key} "
                    f"({one.drive.target}) are the same drive; name each drive once"
                )
        seen |= dict.fromkeys(parts, one)


def is_this_machine(machine: Machine) -> bool:
    """Whether ``machine`` has our kernel, under whatever name it was reached."""
    theirs = machine.read_texts([_BOOT]).get(_BOOT, "")
    return theirs == _LOCAL.read_texts([_BOOT]).get(_BOOT, "")


def _mistake(rig: Rig, allowed: str) -> ConfigurationError:
    return ConfigurationError(
        [Mistake(rig.path, f"{rig.drive_key}.target", rig.drive.target, allowed)]
    )


def _check_nbd(rig: Rig, writes: bool, from_here: bool) -> None:
    address = urlparse(rig.drive.target)
    sockets = parse_qs(address.query).get("socket", [])
    if address.scheme != "nbd+unix" and not address.hostname:
        raise _mistake(rig, "must look like nbd+unix:///?socket=PATH or nbd://HOST:PORT")
    if address.scheme == "nbd+unix" and not sockets:
        raise _mistake(rig, "must name its socket: nbd+unix:///?socket=PATH")
    try:
        if not from_here:
            pass  # only the drive's host can reach it: fio says when nothing answers
        elif address.scheme == "nbd+unix":
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(5)
                probe.connect(sockets[0])
        else:
            socket.create_connection((address.hostname, address.port or _NBD_PORT), 5).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise _mistake(rig, f"nothing answers there ({reason}); is the drive on?") from error
    if writes and not rig.drive.destructive:
        raise Refused(safety.say_destructive(rig))


def _refuse_lost_file(rig: Rig, node: Node, machine: Machine) -> None:
    """Refuse to write over a file that somebody else made. Raises Refused.

    fio makes a scratch file as large as the rig says, at once: one of that size is its own.
    """
    path, meant = rig.drive.target, rig.drive.size_bytes
    resolved, blocks = machine.resolve(path), read_block_devices(machine)
    loops = [name for name in blocks.files if blocks.backing_file_of(name) == resolved]
    if loops:
        raise Refused(
            f"{path} is the image of /dev/{loops[0]}: what is on that would be lost; name another "
            f"file, or detach it (losetup -d /dev/{loops[0]})"
        )
    if node.size_bytes and node.size_bytes != meant and not rig.drive.destructive:
        raise Refused(
            f"{path} is there already, with {node.size_bytes} bytes, and the plan writes to it; "
            f"name a file that is not there yet; where it is labctl's own, remove it or set "
            f"{rig.drive_key}.size_bytes = {node.size_bytes}; where what is in it may be lost, set "
            f"{rig.drive_key}.destructive = true"
        )


def _check_file(rig: Rig, node: Node | None, runs_root: Path | None, machine: Machine) -> None:
    path = Path(rig.drive.target)
    if node is None and rig.drive.size_bytes is None:
        raise _mistake(
            rig, f"does not exist; for a scratch file to be made, give {rig.drive_key}.size_bytes"
        )
    parent = look_at(str(path.parent), machine)
    if parent is None or not stat.S_ISDIR(parent.mode):
        raise _mistake(rig, f"there is no directory {path.parent}")
    if runs_root is None or not is_this_machine(machine):
        return
    beside = "the journal ({}) would lie {} as the target {}, and its writes would be measured"
    choose = "; choose another disk with --runs"
    folder = safety.existing(runs_root)
    # the number of the folder, not of the file: the file need not be there yet
    if parent.filesystem == os.stat(folder).st_dev:  # noqa: PTH116 beside a number from stat(1)
        raise Refused(beside.format(runs_root, "on the same filesystem", path) + choose)
    blocks, mounts = read_block_devices(machine), read_own_mounts(machine)
    lives_on = devices_below(machine.resolve(str(path.parent)) or "", mounts, blocks, machine)
    journal_on = devices_below(str(folder), mounts, blocks, machine)
    if safety.same_hardware(lives_on, journal_on, blocks):
        raise Refused(beside.format(runs_root, "on the same drive", path) + choose)
