"""Check the target of a rig: what it is, whether it exists, and which rules apply to it.

``check_target`` is called before a run is begun, before every
destructive step and again before every phase. What a device may be used for is decided in
:mod:`labctl.capture.drive.safety`.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlparse

from labctl.capture.drive import safety
from labctl.capture.host.machine import LocalMachine, Machine, is_this_machine
from labctl.capture.identity.block_devices import read_block_devices
from labctl.capture.identity.mounts import devices_below, read_own_mounts
from labctl.capture.identity.node import DrivePlace, Node, find_place, is_missing_device, stat_path
from labctl.config.drive_text_rules import checked_path
from labctl.config.rig import Rig
from labctl.errors import ConfigurationError, Mistake, Refused
from labctl.record.phase import Pattern, Phase

_LOCAL = LocalMachine()
_NBD_PORT = 10809


def size_of(device: str | Path, machine: Machine = _LOCAL) -> int | None:
    """Bytes of a block device; None for anything else."""
    node = stat_path(str(device), machine)
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
) -> DrivePlace | None:
    """Refuse what must not or cannot be done to the rig's target; return its place otherwise.

    None for an NBD address, which has no place on the drive's host. Permission holds for the place
    that the target leads to now and for no other: users of the result open this place, not the
    target by its name.

    ``runs_root``: where the journal will be; None when nothing is recorded. ``whole_drive``: more
    is meant than writing to the target (format, sanitize), which needs all namespaces and
    partitions of the drive to be free. ``at_rest``: no fio of ours is at work on it, so it may also
    be opened, which costs a few reads. Raises ConfigurationError (there is no such target), Refused
    (a rule forbids it).
    """
    phases = tuple(phases)
    writes = whole_drive or any(phase.writes for phase in phases)
    if rig.drive.engine == "nbd":
        _check_nbd(rig, writes, is_this_machine(machine))
        return None
    place = find_place(rig.drive.target, machine)
    try:
        checked_path(place.path)
    except ValueError as error:
        raise wrong_target(rig, f"leads to {place.path!r}, which {error}") from error
    node = place.node
    if node is not None and node.is_device:
        blocks = read_block_devices(machine)
        name = blocks.numbers.get(node.number)
        if name is None:
            raise wrong_target(
                rig, f"is device {node.number}, which the kernel does not have (any more)"
            )
        device = safety.Device(rig.drive.target, name, blocks, machine)
        if runs_root is not None and is_this_machine(machine):
            safety.refuse_journal_on(device, runs_root)
        if writes:
            safety.check_destructive(device, rig, whole_drive=whole_drive, at_rest=at_rest)
        elif not any(phase.pattern is Pattern.PROGRAM for phase in phases):
            safety.refuse_unreadable_device(device)
    elif is_missing_device(place, machine):
        raise wrong_target(rig, "there is no such device; is the drive connected?")
    elif node is None or node.is_file:
        _check_file(rig, place, runs_root, machine)
        if node is not None and (writes or _will_grow(rig, node)):
            _refuse_lost_file(rig, place, node, machine)
    elif stat.S_ISCHR(node.mode):
        raise wrong_target(rig, "is a character device; name a namespace, such as /dev/nvme0n1")
    elif stat.S_ISLNK(node.mode):
        raise wrong_target(rig, "is a link that leads to nothing; name the file itself")
    else:
        raise wrong_target(rig, "must be a block device, a regular file or an nbd address")
    return place


def check_targets(
    rig: Rig,
    phases: Iterable[Phase],
    runs_root: Path,
    machine: Machine = _LOCAL,
    *,
    whole_drive: bool = False,
    at_rest: bool = True,
) -> dict[str, DrivePlace]:
    """:func:`check_target` of each drive of the rig, and that each is another one.

    Gives what each is, by its name; NBD addresses are left out. Raises ConfigurationError, Refused.
    """
    phases = tuple(phases)
    places = {
        name: check_target(
            one, phases, runs_root, machine, whole_drive=whole_drive, at_rest=at_rest
        )
        for name, one in rig.each_drive().items()
    }
    refuse_twice(rig, machine)
    return {name: place for name, place in places.items() if place is not None}


def what_it_holds(rig: Rig, machine: Machine = _LOCAL) -> tuple[str, ...]:
    """Filesystems, volumes and partition tables of a target that is a block device, by type."""
    node = stat_path(rig.drive.target, machine)
    if rig.drive.engine == "nbd" or node is None or not stat.S_ISBLK(node.mode):
        return ()
    blocks = read_block_devices(machine)
    name = blocks.numbers.get(node.number)
    if name is None:
        return ()
    return safety.signatures_on(safety.Device(rig.drive.target, name, blocks, machine))


def refuse_twice(rig: Rig, machine: Machine) -> None:
    """Refuse two names of one drive. Two files on one drive are allowed, for trials.

    Raises Refused.
    """
    if len(rig.drives) < 2:
        return
    blocks = read_block_devices(machine)
    seen: dict[str, Rig] = {}
    for one in rig.each_drive().values():
        parts = {one.drive.target}
        name = None
        if one.drive.engine != "nbd":
            place = find_place(one.drive.target, machine)
            name = blocks.numbers.get(place.node.number) if place.node else None
            parts = {place.path if place.node is None else place.node.identity}
        if name is not None:
            parts = {f"/dev/{disk}" for disk in blocks.same_drive(blocks.disk_of(name))}
        for part in parts:
            if other := seen.get(part):
                raise Refused(
                    f"{rig.path}: {other.drive_key} ({other.drive.target}) and {one.drive_key} "
                    f"({one.drive.target}) are the same drive; name each drive once"
                )
        seen |= dict.fromkeys(parts, one)


def wrong_target(rig: Rig, allowed: str) -> ConfigurationError:
    """The error of a drive's target that cannot be used."""
    return ConfigurationError(
        [Mistake(rig.path, f"{rig.drive_key}.target", rig.drive.target, allowed)]
    )


def _check_nbd(rig: Rig, writes: bool, from_here: bool) -> None:
    address = urlparse(rig.drive.target)
    try:
        if not from_here:
            pass  # only the drive's host can reach it: fio reports when nothing answers
        elif address.scheme == "nbd+unix":
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(5)
                probe.connect(address.query.removeprefix("socket="))
        else:
            socket.create_connection((address.hostname, address.port or _NBD_PORT), 5).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise wrong_target(rig, f"nothing answers there ({reason}); is the drive on?") from error
    if writes and not rig.drive.destructive:
        raise Refused(safety.why_not_destructive(rig))


def _will_grow(rig: Rig, node: Node) -> bool:
    """Whether a file is smaller than its size in the rig: it is extended before the first I/O."""
    return node.size_bytes < (rig.drive.size_bytes or 0)


def _refuse_lost_file(rig: Rig, place: DrivePlace, node: Node, machine: Machine) -> None:
    """Refuse to write over a file that somebody else made. Raises Refused.

    A scratch file is made with the full size in the rig: a file of that size is taken for labctl's
    own.
    """
    path, meant, blocks = rig.drive.target, rig.drive.size_bytes, read_block_devices(machine)
    loops = [name for name in blocks.files if blocks.backing_file_of(name) == place.path]
    if loops:
        raise Refused(
            f"{path} is the image of /dev/{loops[0]}: what is on that would be lost; name another "
            f"file, or detach it (losetup -d /dev/{loops[0]})"
        )
    if node.size_bytes and node.size_bytes != meant and not rig.drive.destructive:
        raise Refused(
            f"{path} is there already, with {node.size_bytes} bytes, and would be written to; "
            f"name a file that is not there yet; where it is labctl's own, remove it or set "
            f"{rig.drive_key}.size_bytes = {node.size_bytes}; where what is in it may be lost, set "
            f"{rig.drive_key}.destructive = true"
        )


def _check_file(rig: Rig, place: DrivePlace, runs_root: Path | None, machine: Machine) -> None:
    path = Path(place.path)
    if place.node is None and rig.drive.size_bytes is None:
        raise wrong_target(
            rig, f"does not exist; for a scratch file to be made, give {rig.drive_key}.size_bytes"
        )
    if place.folder is None:
        raise wrong_target(rig, f"there is no directory {path.parent}")
    if runs_root is None or not is_this_machine(machine):
        return
    beside = "the journal ({}) would lie {} as the target {}, and its writes would be measured"
    choose = "; choose another disk with --runs"
    folder = safety.existing(runs_root)
    # the number of the folder, not of the file: the file need not be there yet
    if place.folder.filesystem == os.stat(folder).st_dev:  # noqa: PTH116 beside one from stat(1)
        raise Refused(beside.format(runs_root, "on the same filesystem", path) + choose)
    blocks, mounts = read_block_devices(machine), read_own_mounts(machine)
    file_on = devices_below(str(path.parent), mounts, blocks, machine)
    journal_on = devices_below(str(folder), mounts, blocks, machine)
    if blocks.share_drive(file_on, journal_on):
        raise Refused(beside.format(runs_root, "on the same drive", path) + choose)
