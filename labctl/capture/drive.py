"""The drive under test: what may be done to it. The only place that allows a write.

Destructive work on a device needs its serial number in the rig, ``destructive = true``, and a
device that nothing uses. Scratch files and reads need none of it. The journal never lies on the
drive under test.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qs, urlparse

from labctl.capture.machine import LocalMachine, Machine
from labctl.errors import ConfigurationError, Mistake, Refused
from labctl.plan import Phase
from labctl.rig import Rig

_SYS_BLOCK = Path("/sys/class/block")
_LOCAL = LocalMachine()
_BOOT = "/proc/sys/kernel/random/boot_id"


def is_this_machine(machine: Machine) -> bool:
    """Whether ``machine`` has our kernel, under whatever name it was reached."""
    theirs = machine.read_texts([_BOOT]).get(_BOOT, "")
    return theirs == _LOCAL.read_texts([_BOOT]).get(_BOOT, "")


def size_of(device: Path, machine: Machine = _LOCAL) -> int | None:
    """Bytes of a block device, from sysfs; None when it is none or is not there."""
    if not is_this_machine(machine):
        return None
    size = _SYS_BLOCK / device.resolve().name / "size"  # always in units of 512 bytes
    if not device.is_block_device() or not size.exists():
        return None
    return int(size.read_text()) * 512


def check_target(
    rig: Rig, phases: Iterable[Phase], runs_root: Path, machine: Machine = _LOCAL
) -> None:
    """Refuse what must not or cannot be done to the rig's target.

    Raises ConfigurationError (there is no such target), Refused (a rule forbids it).
    """
    writes = any(phase.writes for phase in phases)
    if not is_this_machine(machine):
        if writes:
            raise Refused("the drive is in another machine, where writing cannot be checked yet")
        return
    if rig.drive.engine == "nbd":
        _check_nbd(rig, writes)
        return
    path = Path(rig.drive.target)
    mode = path.stat().st_mode if path.exists() else None
    if mode is not None and stat.S_ISBLK(mode):
        device = path.resolve()
        _refuse_journal_on(device, runs_root)
        if writes:
            _check_destructive(rig, device)
    elif mode is None and path.absolute().is_relative_to("/dev") and not _in_memory(path):
        raise _mistake(rig, "there is no such device; is the drive connected?")
    elif mode is None or stat.S_ISREG(mode):
        _check_file(rig, path, runs_root)
    else:
        raise _mistake(rig, "must be a block device, a regular file or an nbd address")


def _mistake(rig: Rig, allowed: str) -> ConfigurationError:
    return ConfigurationError([Mistake(rig.path, "drive.target", rig.drive.target, allowed)])


def _check_nbd(rig: Rig, writes: bool) -> None:
    address = urlparse(rig.drive.target)
    sockets = parse_qs(address.query).get("socket", [])
    if address.scheme != "nbd+unix" and not address.hostname:
        raise _mistake(rig, "must look like nbd+unix:///?socket=PATH or nbd://HOST:PORT")
    try:
        if address.scheme == "nbd+unix":
            if not sockets:
                raise _mistake(rig, "must name its socket: nbd+unix:///?socket=PATH")
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(5)
                probe.connect(sockets[0])
        else:
            socket.create_connection((address.hostname, address.port or 10809), 5).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise _mistake(rig, f"nothing answers there ({reason}); is the drive on?") from error
    if writes and not rig.drive.destructive:
        raise Refused(_say_destructive(rig))


def _in_memory(path: Path) -> bool:
    """Whether a path below /dev is on a filesystem for files (/dev/shm), not for devices."""
    parent = path.parent
    return parent.is_dir() and parent.stat().st_dev != Path("/dev").stat().st_dev


def _check_file(rig: Rig, path: Path, runs_root: Path) -> None:
    if not path.exists() and rig.drive.size_bytes is None:
        raise _mistake(rig, "does not exist; for a scratch file to be made, give drive.size_bytes")
    if not path.parent.is_dir():
        raise _mistake(rig, f"there is no directory {path.parent}")
    if path.parent.stat().st_dev == _existing(runs_root).stat().st_dev:
        raise Refused(
            f"the journal ({runs_root}) would lie on the same filesystem as the target {path}, "
            "and its writes would be measured; choose another disk with --runs"
        )


def _existing(path: Path) -> Path:
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def _say_destructive(rig: Rig) -> str:
    return (
        f"{rig.path}: the plan writes to {rig.drive.target}, which destroys what is on it; "
        "set drive.destructive = true if that is meant"
    )


def _disk_of(device: Path) -> Path:
    """The sysfs directory of the whole disk that a device (or a partition) belongs to."""
    entry = (_SYS_BLOCK / device.name).resolve()
    return entry.parent if (entry / "partition").exists() else entry


def _devices_of(disk: Path) -> set[str]:
    """Device numbers ("8:0") of a disk and its partitions."""
    numbers = {(disk / "dev").read_text().strip()}
    return numbers | {
        part.parent.joinpath("dev").read_text().strip() for part in disk.glob("*/partition")
    }


def _underlying(number: str) -> set[str]:
    """A device number and, through LVM, md and dm, every one that it stands on."""
    entry = Path("/sys/dev/block") / number
    found = {number}
    if not entry.exists():
        return found
    found.add((_disk_of(entry.resolve()) / "dev").read_text().strip())
    slaves = entry / "slaves"
    for slave in slaves.iterdir() if slaves.is_dir() else ():
        found |= _underlying((slave / "dev").read_text().strip())
    return found


def _refuse_journal_on(device: Path, runs_root: Path) -> None:
    number = _existing(runs_root).stat().st_dev
    journal_disks = _underlying(f"{os.major(number)}:{os.minor(number)}")
    if journal_disks & _devices_of(_disk_of(device)):
        raise Refused(
            f"the journal ({runs_root}) would lie on the drive under test {device}; "
            "choose another disk with --runs"
        )


def _serial_of(disk: Path) -> str:
    for name in ("device/serial", "serial"):
        file = disk / name
        if file.exists():
            return file.read_text().strip()
    return ""


def _check_destructive(rig: Rig, device: Path) -> None:
    if not rig.drive.destructive:
        raise Refused(_say_destructive(rig))
    disk = _disk_of(device)
    serial = _serial_of(disk)
    if not rig.drive.serial:
        raise Refused(
            f"{rig.path}: writing to {device} needs drive.serial; the device says "
            f"{serial or 'nothing'}"
        )
    if serial != rig.drive.serial:
        raise Refused(
            f"{device} has serial {serial or '(none)'}, the rig names {rig.drive.serial}: this is "
            "another drive; correct drive.target or drive.serial"
        )
    numbers = _devices_of(disk)
    for user, number in _users():
        if number in numbers or _underlying(number) & numbers:
            raise Refused(f"{device} is in use ({user}); release it first")
    for part in (disk, *(file.parent for file in disk.glob("*/partition"))):
        holders = part / "holders"
        held = sorted(item.name for item in holders.iterdir()) if holders.is_dir() else []
        if held:
            raise Refused(f"{device} is held by {', '.join(held)} (LVM, md or dm); release it")


def _users() -> Iterable[tuple[str, str]]:
    """Mounts and swaps: what uses it, and the device number."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        yield f"mounted on {fields[4]}", fields[2]
        source = Path(fields[fields.index("-") + 2])  # btrfs and others show no device number
        if source.is_absolute() and source.is_block_device():
            number = source.stat().st_rdev
            yield f"mounted on {fields[4]}", f"{os.major(number)}:{os.minor(number)}"
    for line in Path("/proc/swaps").read_text().splitlines()[1:]:
        swap = Path(line.split()[0])
        if swap.exists() and stat.S_ISBLK(swap.stat().st_mode):
            number = swap.stat().st_rdev
            yield "swap", f"{os.major(number)}:{os.minor(number)}"
