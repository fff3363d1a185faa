"""What is locked of a rig: each drive and each meter, under names that are the same for every link
to it, every node of it and every rig that means it.
"""

from __future__ import annotations

import os
import posixpath
import socket
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse

from instruments.transports.addresses import ADDRESS_KEYS, canonical_address
from labctl.capture.host.machine import LocalMachine
from labctl.capture.host.ssh import LOCAL
from labctl.capture.identity.block_devices import BlockDevices, read_block_devices
from labctl.config.rig import Rig
from labctl.config.rig_file import Drive
from labctl.toml_reading import is_there

_NBD_PORT = 10809
_HERE = ("localhost", "127.0.0.1", "::1")
_METER = "meter "


@dataclass(frozen=True, slots=True, order=True)
class LockKey:
    """One name of a drive or a meter.

    ``what`` names it in a message; ``guard`` is the path that a user must be able to write to who
    may hold it, empty where there is none on this machine.
    """

    name: str
    what: str
    guard: str = ""

    @property
    def is_meter(self) -> bool:
        """Whether it is a meter's."""
        return self.name.startswith(_METER)


def keys_of_rig(rig: Rig) -> tuple[LockKey, ...]:
    """Every name of the drives and meters of ``rig``, each once, in one order for all processes: of
    two that want some of the same one gets all of its own."""
    found: dict[str, LockKey] = {}
    guard = ""
    for drive in rig.drives.values():
        for key in keys_of_drive(rig.file.host, drive, rig.name):
            found.setdefault(key.name, key)
            guard = guard or key.guard
    for entry in rig.file.instruments.values():
        for setting in ADDRESS_KEYS:
            address = entry.settings.get(setting)
            if isinstance(address, str) and address:
                key = key_of_meter(address, guard)
                found.setdefault(key.name, key)
    return tuple(sorted(found.values()))


def sharing_meters(rigs: Sequence[Rig]) -> tuple[tuple[int, ...], ...]:
    """Groups of rigs, by their places in ``rigs``, that have meters in common, also through another
    rig of the group."""
    groups: list[tuple[set[str], list[int]]] = []
    for place, rig in enumerate(rigs):
        names, members = {key.name for key in keys_of_rig(rig) if key.is_meter}, [place]
        apart = []
        for group in groups:
            if names & group[0]:
                names, members = names | group[0], [*group[1], *members]
            else:
                apart.append(group)
        groups = [*apart, (names, members)]
    return tuple(tuple(sorted(members)) for _, members in groups if len(members) > 1)


def canonical_target(host: str, target: str) -> str:
    """The name of a target: the same for every link to it on this machine."""
    if host != LOCAL:
        return f"{host} {target}"  # every host has a /dev/nvme0n1
    return os.path.realpath(target) if Path(target).exists() else target


def keys_of_drive(host: str, drive: Drive, rig_name: str) -> Iterator[LockKey]:
    """Every name of a drive.

    On this machine that is the number of the device, of all of its hardware and of what is below
    it, or the file. Behind ssh nothing is asked: there it is the path, and the serial number.
    """
    what, target = f"rig {rig_name}", drive.target
    guard = _guard_of(host, target)
    yield LockKey(canonical_target(host, target), what, guard)
    address = urlparse(target)
    if address.scheme == "nbd":
        where = (address.hostname or "", address.port or _NBD_PORT)
        name = "localhost" if where[0] in _HERE else where[0]
        yield LockKey(f"{_host_name(host)} nbd {name}:{where[1]}{address.path}", what, guard)
    elif address.scheme == "nbd+unix":
        path = os.path.realpath(guard) if guard else address.query
        yield LockKey(f"{_host_name(host)} nbd {path} {address.path}", what, guard)
    elif _host_name(host) == LOCAL:
        for name in _lock_key_identities(target):
            yield LockKey(name, what, guard)
    else:
        yield LockKey(f"{_host_name(host)} {posixpath.normpath(target)}", what, guard)
        if drive.serial.strip():
            yield LockKey(f"serial {drive.serial.strip().casefold()}", what, guard)


def key_of_meter(address: str, guard: str = "") -> LockKey:
    """The name of a meter: a VISA resource, or a serial port by its path or its USB device.

    ``guard`` counts where the address leads to no port of this machine now.
    """
    name = canonical_address(address)
    there = name if "::" not in address and is_there(Path(name)) else guard
    return LockKey(f"{_METER}{name}", f"meter {address}", there)


def _host_name(host: str) -> str:
    """A host without its user; this machine is "local" however it is called."""
    name = host.rpartition("@")[2].casefold()
    return LOCAL if name in (*_HERE, socket.gethostname().casefold()) else name


def _guard_of(host: str, target: str) -> str:
    if _host_name(host) != LOCAL:
        return ""
    if target.startswith("nbd+unix:"):
        return urlparse(target).query.removeprefix("socket=")
    if "://" in target:
        return ""
    path = Path(os.path.realpath(target))
    return str(path if path.exists() else path.parent)


def _lock_key_identities(target: str) -> Iterator[str]:
    """What a path of this machine leads to: the numbers of devices, or a file."""
    try:
        found = Path(target).stat()
    except (OSError, ValueError):
        return
    if stat.S_ISREG(found.st_mode):
        yield _file_name(found)
    elif stat.S_ISBLK(found.st_mode):
        number = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
        yield f"device {number}"
        blocks = read_block_devices(LocalMachine())
        if number in blocks.numbers:
            yield from _lock_key_hardware(blocks.numbers[number], blocks)


def _lock_key_hardware(name: str, blocks: BlockDevices) -> Iterator[str]:
    below = {blocks.disk_of(layer) for layer in blocks.layers_of(name)}
    for disk in {same for one in below for same in blocks.same_drive(one)}:
        yield f"device {blocks.file(disk, 'dev')}"
        backing = blocks.backing_file_of(disk)
        try:
            if backing and stat.S_ISREG((found := Path(backing).stat()).st_mode):
                yield _file_name(found)
        except OSError:
            continue  # deleted, or in another mount namespace


def _file_name(found: os.stat_result) -> str:
    return f"file {found.st_dev}:{found.st_ino}"
