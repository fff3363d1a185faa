"""Check whether TRIM works: write a pattern, discard it, and read the same raw blocks again.

On a filesystem of the drive a file is made, its blocks are located (FIEMAP), it is deleted and the
filesystem trimmed; on a raw device a range is written and discarded. The blocks are read raw
*before* the discard, too: without the pattern there, its later absence proves nothing. Everything
is done on the drive's host, by programs of coreutils, util-linux and e2fsprogs.
"""

from __future__ import annotations

import asyncio
import math
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from labctl.capture.drive.check_target import check_target, wrong_target
from labctl.capture.drive.discard_support import Discard, Promise, read_discard
from labctl.capture.host.machine import NOT_FOUND, Machine, run_tool
from labctl.capture.host.remote_host import host_at
from labctl.capture.identity.block_devices import BlockDevices, read_block_devices
from labctl.capture.identity.mounts import devices_below, mount_of, read_own_mounts
from labctl.capture.identity.node import find_place
from labctl.capture.identity.opened_target import NOT_WHAT_WAS_CHECKED, opening, to_open
from labctl.config.rig import Rig
from labctl.errors import ConfigurationError, Mistake, Refused, RunFailed
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.timebase import Timebase

MIB = 1 << 20
DEFAULT_BYTES = 16 * MIB
_LINE_BYTES = 64
"""The pattern is lines of this length; 512 and 4096 are multiples of it."""
_MOST_AT_ONCE = MIB
_SECTOR_BYTES = 512
_WRITE_WITHIN_S = 300.0
_TRIM_WITHIN_S = 1800.0
"""``fstrim`` goes over all free space: minutes on a large, full filesystem."""
_ATTEMPTS = 3
_PAUSE_S = 2.0
"""A filesystem may free blocks only when its journal is written, and a drive may take its time."""

_WRITE = 'yes "$1" | head -c "$2" | dd of="$3" bs=1M iflag=fullblock "$4" "$5" conv=fsync'
_READ = 'dd if="$1" bs="$2" skip="$3" count="$4" iflag=direct 2>/dev/null'
_COUNT = (
    f"{_READ} | wc -c && {_READ} | tr -d '\\000' | wc -c && {_READ} | tr -d '\\377' | wc -c "
    f"&& {{ {_READ} | tr '\\000' '\\n' | grep -c -F \"$5\"; :; }}"
)


class TrimVerdict(StrEnum):
    """What a check found."""

    WORKS = "works"
    PARTLY = "partly"
    FAILS = "does not work"
    OPEN = "cannot be told"
    UNSUPPORTED = "not supported"


@dataclass(frozen=True, slots=True)
class Extent:
    """Where on the device: bytes."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Contents:
    """What a raw read gave: bytes of zeros, of FFh, of the pattern, and of anything else."""

    zeros: int
    ones: int
    pattern: int
    other: int

    @property
    def total(self) -> int:
        """All bytes that were read."""
        return self.zeros + self.ones + self.pattern + self.other


@dataclass(frozen=True, slots=True)
class TrimCheck:
    """A check. ``folder`` is empty for a raw device; ``before`` and ``after`` are None where there
    was nothing to discard with."""

    device: str
    folder: str
    extents: tuple[Extent, ...]
    discard: Discard
    before: Contents | None
    after: Contents | None
    verdict: TrimVerdict
    why: str

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return asdict(self)


def trim_check(
    rig: Rig, machine: Machine, folder: str | None = None, size_bytes: int = DEFAULT_BYTES
) -> TrimCheck:
    """Check TRIM on the rig's drive.

    With ``folder``, or where the target is a file, on the filesystem there, which keeps all its
    files; else on the raw device, which loses ``size_bytes`` in its middle. Raises
    ConfigurationError (nothing to check with), Refused (a rule forbids it), RunFailed.
    """
    if rig.drive.engine == "nbd":
        raise wrong_target(
            rig, "is an NBD address: its blocks are read only through fio; name a block device"
        )
    place = check_target(rig, (), None, machine)
    if folder is None and place is not None and not place.is_device:
        folder = str(PurePosixPath(place.path).parent)
    size_bytes = max(size_bytes // MIB, 1) * MIB
    if folder is None:
        return _of_device(rig, machine, size_bytes)
    return _of_filesystem(rig, machine, folder, size_bytes)


def _of_device(rig: Rig, machine: Machine, size_bytes: int) -> TrimCheck:
    work = Phase(
        0, Role.PREPARE, "TRIM check", Pattern.WRITE, 0.0, MIB, 1, 1, 0, fill_bytes=size_bytes
    )
    place = check_target(rig, [work], None, machine)
    assert place is not None and place.node is not None
    (opened,) = to_open({"": place}, {}, machine).values()
    blocks = read_block_devices(machine)
    name = blocks.numbers[place.node.number]
    device = f"/dev/{name}"
    discard = read_discard(name, blocks, machine)
    if not discard.max_bytes:
        return _unsupported(device, "", discard)
    drive_bytes = (blocks.size_bytes_of(name) or 0) // MIB * MIB
    length = min(size_bytes, drive_bytes)
    extent = Extent((drive_bytes - length) // 2 // MIB * MIB, length)
    token = _token()
    at = f"seek={extent.offset // MIB}"
    writing = ("sh", "-c", _WRITE, "sh", token, str(length), opened.name, at, "oflag=direct")
    _run(machine, opening([opened], writing), _WRITE_WITHIN_S)
    before = _trim_check_contents(machine, device, [extent], token)
    if before.pattern < length:
        raise RunFailed(
            f"{device} gave back only {before.pattern} of {length} bytes as they had just been "
            "written; the drive, its cable or its slot is at fault"
        )
    where = ["--offset", str(extent.offset), "--length", str(length)]
    discarding = opening([opened], ["blkdiscard", *where, opened.name])
    _run(machine, discarding, _TRIM_WITHIN_S, "blkdiscard: it needs root and util-linux: ")
    after = _trim_check_contents(machine, device, [extent], token)
    return _judged(device, "", [extent], discard, before, after)


def _of_filesystem(rig: Rig, machine: Machine, folder: str, size_bytes: int) -> TrimCheck:
    blocks = read_block_devices(machine)
    name = _device_of(rig, folder, blocks, machine)
    device = f"/dev/{name}"
    discard = read_discard(name, blocks, machine)
    if not discard.max_bytes:
        return _unsupported(device, folder, discard)
    token = _token()
    file = str(PurePosixPath(folder) / f".labctl-trim-check-{token.rsplit('-', 1)[1].rstrip('.')}")
    try:
        writing = ("sh", "-c", _WRITE, "sh", token, str(size_bytes), file, "seek=0", "status=none")
        _run(machine, writing, _WRITE_WITHIN_S)
        listing = _trim_check_tool(
            machine, ["filefrag", "-v", f"-b{_SECTOR_BYTES}", file], "e2fsprogs", 60.0
        )
        extents = extents_of(listing)
        before = _trim_check_contents(machine, device, extents, token)
    finally:
        machine.run(["rm", "-f", file])
    if not extents or before.pattern < size_bytes:
        return _judged(device, folder, extents, discard, before, before)
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE_S)
        _trim_check_tool(machine, ["sync", "-f", folder], "coreutils", _WRITE_WITHIN_S)
        _trim_check_tool(machine, ["fstrim", folder], "util-linux", _TRIM_WITHIN_S)
        after = _trim_check_contents(machine, device, extents, token)
        if not after.pattern:
            break
    return _judged(device, folder, extents, discard, before, after)


def _device_of(rig: Rig, folder: str, blocks: BlockDevices, machine: Machine) -> str:
    """The block device of the folder's filesystem, which must be on the rig's drive."""
    resolved = machine.resolve(folder)
    mounts = read_own_mounts(machine)
    mount = None if resolved is None else mount_of(resolved, mounts)
    if resolved is None or mount is None:
        raise _wrong_folder(folder, "is not there")
    devices = mount.devices(blocks, machine)
    if len(devices) != 1:
        raise _wrong_folder(
            folder,
            f"is on {mount.filesystem} at {mount.point}, which is not on one block device; name a "
            "folder on a filesystem of the drive",
        )
    (name,) = devices
    place = find_place(rig.drive.target, machine)
    if place.node is not None and place.node.is_device:
        own = {blocks.disk_of(blocks.numbers.get(place.node.number, ""))}
    else:  # a file: the drive is that of its filesystem
        own = set(devices_below(str(PurePosixPath(place.path).parent), mounts, blocks, machine))
    if not own & blocks.layers_of(name):
        raise _wrong_folder(folder, f"is on {name}, not on the rig's drive ({rig.drive.target})")
    return name


def extents_of(filefrag: str) -> tuple[Extent, ...]:
    """The extents in ``filefrag -v -b512``, in bytes; those that the device does not have as they
    are (inline, compressed, not allocated yet) are left out."""
    found = []
    for line in filefrag.splitlines():
        match = re.match(
            r"\s*\d+:\s*\d+\.\.\s*\d+:\s*(\d+)\.\.\s*\d+:\s*(\d+):\s*(?:\d+:)?\s*(.*)$", line
        )
        if match and not set(match[3].split(",")) & _NO_PLACE:
            found.append(Extent(int(match[1]) * _SECTOR_BYTES, int(match[2]) * _SECTOR_BYTES))
    return tuple(found)


_NO_PLACE = {"inline", "encoded", "delalloc", "unknown_loc", "unwritten", "not_aligned"}
"""Flags of linux/fiemap.h, as filefrag names them."""


def _token() -> str:
    """A line of the pattern, without its end; no other check has the same."""
    return f"labctl-trim-check-{secrets.token_hex(8)}".ljust(_LINE_BYTES - 1, ".")


def _trim_check_contents(
    machine: Machine, device: str, extents: Sequence[Extent], token: str
) -> Contents:
    """The contents of these extents of the device, read with O_DIRECT past the page cache."""
    zeros = ones = pattern = total = 0
    for extent in extents:
        step = min(math.gcd(extent.offset, extent.length), _MOST_AT_ONCE)
        numbers = (step, extent.offset // step, extent.length // step)
        counting = ("sh", "-c", _COUNT, "sh", device, *map(str, numbers), token.rstrip("."))
        counted = [int(word) for word in _run(machine, counting, _WRITE_WITHIN_S).split()]
        if len(counted) != 4 or counted[0] != extent.length:
            raise RunFailed(
                f"{device} cannot be read ({counted[0] if counted else 0} of {extent.length} bytes "
                f"at {extent.offset}); run labctl as root, with GNU dd on the drive's host"
            )
        read, not_zeros, not_ones, lines = counted
        total += read
        zeros += read - not_zeros
        ones += read - not_ones
        pattern += lines * _LINE_BYTES
    return Contents(zeros, ones, pattern, max(total - zeros - ones - pattern, 0))


def _run(machine: Machine, argv: Sequence[str], within_s: float, needs: str = "") -> str:
    done = machine.run(argv, within_s)
    message = " ".join(done.stderr.split())[:300]
    if done.exit_code == NOT_WHAT_WAS_CHECKED:
        raise Refused(message)
    if done.exit_code:
        raise RunFailed(f"TRIM check: {needs}{message}")
    return done.stdout


def _trim_check_tool(machine: Machine, argv: list[str], package: str, within_s: float) -> str:
    done = run_tool(machine, argv, within_s)
    if done.exit_code == NOT_FOUND:
        raise RunFailed(f"{argv[0]} is not installed on the drive's host; install {package}")
    if done.exit_code:
        raise RunFailed(f"{argv[0]} failed: {done.message}; it needs root on the drive's host")
    return done.stdout


def _unsupported(device: str, folder: str, discard: Discard) -> TrimCheck:
    why = (
        f"the kernel has no way to discard blocks of {device} (queue/discard_max_bytes is 0): "
        "neither the drive nor what it is connected through (USB bridge, RAID, dm-crypt without "
        "allow-discards) passes it on; nothing was written"
    )
    return TrimCheck(device, folder, (), discard, None, None, TrimVerdict.UNSUPPORTED, why)


def _judged(
    device: str,
    folder: str,
    extents: Sequence[Extent],
    discard: Discard,
    before: Contents,
    after: Contents,
) -> TrimCheck:
    verdict, why = trim_verdict(discard, before, after)
    return TrimCheck(device, folder, tuple(extents), discard, before, after, verdict, why)


def trim_verdict(discard: Discard, before: Contents, after: Contents) -> tuple[TrimVerdict, str]:
    """The verdict from the blocks before and after the discard, and the reason."""
    if not before.total or before.pattern < before.total:
        return TrimVerdict.OPEN, (
            f"the pattern was not where it was written ({before.pattern} of {before.total} bytes): "
            "the filesystem keeps data elsewhere than it says (btrfs, compression, encryption); "
            "check the raw device, or another filesystem"
        )
    if not after.pattern:
        if after.zeros == after.total:
            return TrimVerdict.WORKS, "every block reads as zeros"
        if after.ones == after.total:
            return TrimVerdict.WORKS, "every block reads as FFh"
        return TrimVerdict.WORKS, (
            "the pattern is gone, but not all of it reads as zeros: "
            f"{after.other} bytes are something else"
        )
    left = f"{after.pattern} of {after.total} bytes still have the pattern"
    if after.pattern < after.total:
        return TrimVerdict.PARTLY, (
            f"{left}; pieces smaller than the granularity ({discard.granularity_bytes} bytes) may "
            "be left out"
        )
    if discard.promise in (Promise.ZEROS, Promise.ONES):
        return TrimVerdict.FAILS, f"{left}, although the drive promises {discard.promise}"
    return TrimVerdict.OPEN, (
        f"{left}; that is no proof: this drive does not promise what a discarded block reads as, "
        "and may return the old data until its flash is erased"
    )


def _wrong_folder(folder: str, allowed: str) -> ConfigurationError:
    return ConfigurationError([Mistake("command line", "--folder", folder, allowed)])


def check_trim_on_host(rig: Rig, folder: str | None, size_bytes: int) -> TrimCheck:
    """See :func:`labctl.capture.drive.trim_check.trim_check`. Raises HostUnreachable, too."""
    return asyncio.run(_checked(rig, folder, size_bytes))


async def _checked(rig: Rig, folder: str | None, size_bytes: int) -> TrimCheck:
    host = host_at(rig.file.host, Timebase(), rig.tools)
    try:
        await host.connect()
        return await asyncio.to_thread(trim_check, rig, host.machine, folder, size_bytes)
    finally:
        await host.close()
