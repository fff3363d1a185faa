"""The same rules on real block devices, real mounts and the real kernel (as root only)."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labctl.capture.drive.check_target import check_target, size_of, what_it_holds
from labctl.capture.host.machine import LocalMachine
from labctl.capture.identity.block_devices import read_block_devices
from labctl.errors import Refused
from labctl.record.phase import Phase
from labctl.service.doctor.drive import check_rights
from tests.unit.capture.drive.test_safety import READ, WRITE, rig

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="loop devices need root")
BYTES = 16 << 20
MACHINE = LocalMachine()


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{' '.join(command)} does not work here: {done.stderr.strip()}")
    return done.stdout.strip()


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder on another filesystem than the tests' own: for the journal."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Path]:
    """A real block device, whose serial number is the path of its image."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(BYTES)
    device = Path(run("losetup", "--partscan", "--show", "-f", str(image)))
    yield device
    subprocess.run(["losetup", "-d", str(device)], check=False)


@pytest.fixture
def write(loop: Path, tmp_path: Path, elsewhere: Path) -> Callable[..., None]:
    """Asks whether a plan that writes may have the loop device (or what is named)."""

    def check(target: str = str(loop)) -> None:
        meant = f"destructive = true\nserial = '{tmp_path}/image'"
        check_target(rig(target, more=meant), [WRITE], elsewhere, MACHINE)

    return check


@pytest.fixture
def mounted(loop: Path, tmp_path: Path) -> Iterator[Path]:
    """Where an ext4 on the loop device is mounted."""
    run("mkfs.ext4", "-q", str(loop))
    point = tmp_path / "mount point"
    point.mkdir()
    run("mount", str(loop), str(point))
    yield point
    subprocess.run(["umount", str(point)], check=False)


def test_a_free_device_may_be_written_and_is_not_changed_by_asking(
    loop: Path, write: Callable[..., None], tmp_path: Path
) -> None:
    run("mkfs.ext4", "-q", str(loop))
    before = (tmp_path / "image").read_bytes()
    write()
    assert (tmp_path / "image").read_bytes() == before
    assert size_of(loop, MACHINE) == BYTES


def test_what_nobody_has_open_is_named_before_it_is_lost(
    loop: Path, tmp_path: Path, elsewhere: Path
) -> None:
    """As a pool that is exported: it may be written, and the doctor says what would be lost."""
    meant = rig(str(loop), more=f"destructive = true\nserial = '{tmp_path}/image'")
    assert what_it_holds(meant) == ()
    run("mkfs.ext4", "-q", str(loop))
    assert what_it_holds(meant) == ("ext4",)
    messages = [check.text for check in check_rights(meant, [WRITE], elsewhere, MACHINE)]
    assert any("it holds ext4" in text for text in messages), messages
    messages = [check.text for check in check_rights(meant, [READ], elsewhere, MACHINE)]
    assert not any("it holds" in text for text in messages)


def test_a_link_to_it_is_the_same_device(
    loop: Path, write: Callable[..., None], tmp_path: Path
) -> None:
    link = tmp_path / "by-id"
    link.symlink_to(loop)
    write(str(link))


def test_mounted_is_refused_until_it_is_unmounted(
    mounted: Path, write: Callable[..., None]
) -> None:
    with pytest.raises(Refused, match=f"umount {mounted}"):
        write()
    run("umount", str(mounted))
    write()


def test_mounted_only_in_another_mount_namespace_is_refused(
    loop: Path, write: Callable[..., None], tmp_path: Path
) -> None:
    run("mkfs.ext4", "-q", str(loop))
    point = tmp_path / "hidden"
    point.mkdir()
    script = 'mount "$1" "$2" && echo ready && read _'
    other = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script, "sh", str(loop), str(point)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdin is not None and other.stdout is not None
    try:
        if other.stdout.readline() != "ready\n":
            pytest.skip("mount namespaces do not work here")
        assert str(point) not in Path("/proc/self/mountinfo").read_text()
        with pytest.raises(Refused, match=f"mounted on {point}"):
            write()
    finally:
        other.communicate("\n", timeout=20)
    write()


def test_swap_is_refused(loop: Path, write: Callable[..., None]) -> None:
    run("mkswap", str(loop))
    run("swapon", str(loop))
    try:
        with pytest.raises(Refused, match=f"swapoff {loop}"):
            write()
    finally:
        run("swapoff", str(loop))
    write()


def test_what_only_the_kernel_knows_is_refused_too(loop: Path, write: Callable[..., None]) -> None:
    claim = os.open(loop, os.O_RDONLY | os.O_EXCL)
    try:
        with pytest.raises(Refused, match="lsof or fuser"):
            write()
    finally:
        os.close(claim)
    write()


def test_a_mounted_partition_is_the_disk_in_use(
    loop: Path, write: Callable[..., None], tmp_path: Path
) -> None:
    run("addpart", str(loop), "1", "2048", "8192")
    run("addpart", str(loop), "2", "10240", "8192")
    parts = [Path(f"{loop}p{number}") for number in (1, 2)]
    write()
    with pytest.raises(Refused, match=f"name the whole drive \\({loop}\\)"):
        write(str(parts[0]))
    run("mkfs.ext4", "-q", str(parts[1]))
    point = tmp_path / "part"
    point.mkdir()
    run("mount", str(parts[1]), str(point))
    try:
        with pytest.raises(Refused, match=f"umount {point}"):
            write()
        with pytest.raises(Refused, match=f"umount {point}"):
            write(str(parts[0]))
    finally:
        run("umount", str(point))
    write()
    run("delpart", str(loop), "2")
    write(str(parts[0]))


def test_the_journal_on_the_device_or_beside_its_image_is_refused(
    loop: Path, mounted: Path, tmp_path: Path, elsewhere: Path
) -> None:
    with pytest.raises(Refused, match="drive under test"):
        check_target(rig(str(loop)), [READ], mounted / "runs", MACHINE)
    if any(disk for disk in read_block_devices(MACHINE).numbers.values() if "loop" not in disk):
        with pytest.raises(Refused, match="drive under test"):
            check_target(rig(str(loop)), [READ], tmp_path / "runs", MACHINE)
    check_target(rig(str(loop)), [READ], elsewhere, MACHINE)


def test_device_mapper_holds_what_is_below_it(loop: Path, write: Callable[..., None]) -> None:
    if shutil.which("dmsetup") is None:
        pytest.skip("dmsetup is not installed")
    name = f"labctl-test-{os.getpid()}"
    run("dmsetup", "create", name, "--table", f"0 {BYTES // 512} linear {loop} 0")
    try:
        with pytest.raises(Refused, match=name):
            write()
    finally:
        run("dmsetup", "remove", name)
    write()


def test_every_member_of_a_real_btrfs_is_in_use(
    loop: Path, write: Callable[..., None], tmp_path: Path
) -> None:
    if shutil.which("mkfs.btrfs") is None:
        pytest.skip("mkfs.btrfs is not installed")
    with (tmp_path / "image").open("ab") as file:
        file.truncate(256 << 20)
    run("losetup", "-c", str(loop))
    other_image = tmp_path / "other"
    with other_image.open("wb") as file:
        file.truncate(256 << 20)
    other = run("losetup", "--show", "-f", str(other_image))
    point = tmp_path / "pool"
    point.mkdir()
    try:
        run("mkfs.btrfs", "-q", other, str(loop))
        run("mount", other, str(point))
        try:
            with pytest.raises(Refused, match=f"mounted on {point}"):
                write()
        finally:
            run("umount", str(point))
    finally:
        subprocess.run(["losetup", "-d", other], check=False)


def test_a_process_that_writes_without_a_claim_is_named(
    loop: Path, write: Callable[..., None], tmp_path: Path
) -> None:
    """As a virtual machine does, under whatever name its container knows the drive."""
    alias = tmp_path / "xvdb"
    os.mknod(alias, 0o60600, loop.stat().st_rdev)
    reads = os.open(alias, os.O_RDONLY)
    try:
        write()
        writes = os.open(alias, os.O_RDWR)
        try:
            with pytest.raises(Refused, match=rf"open for writing in .* \(pid {os.getpid()}\)"):
                write()
        finally:
            os.close(writes)
    finally:
        os.close(reads)
    write()


CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE = 2, 19
PR_SET_KEEPCAPS = 8


def as_nobody(work: Callable[[], None], *capabilities: int) -> str:
    """What ``work`` raises in a process of an ordinary user, who has these capabilities."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        messages = ""
        try:
            libc = ctypes.CDLL(None)
            libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            wanted = sum(1 << number for number in capabilities)
            header = struct.pack("=Ii", 0x20080522, 0)  # capget(2), version 3
            sets = struct.pack("=6I", wanted, wanted, wanted, 0, 0, 0)
            assert libc.capset(header, sets) == 0
            for number in capabilities:
                libc.prctl(47, 2, number, 0, 0)  # PR_CAP_AMBIENT_RAISE: what it starts has it too
            work()
        except BaseException as error:
            messages = f"{type(error).__name__}: {error}"
        finally:
            os.write(writing, messages.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        messages = file.read()
    os.waitpid(pid, 0)
    return messages


def test_an_ordinary_user_overwrites_nothing_that_others_may_have_open(
    loop: Path, write: Callable[..., None], tmp_path: Path
) -> None:
    """His group may write to the drive; but he does not see who else does."""
    loop.chmod(0o666)
    meant = f"destructive = true\nserial = '{tmp_path}/image'"

    def check(phase: Phase = WRITE) -> None:
        check_target(rig(str(loop), more=meant), [phase], Path("/dev/shm"), MACHINE)

    try:
        messages = as_nobody(check)
        assert messages.startswith("Refused") and "other users' processes" in messages, messages
        assert "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH" in messages
        assert as_nobody(lambda: check(READ)) == ""
        assert "Refused" in as_nobody(check, CAP_SYS_PTRACE)
        assert as_nobody(check, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH) == ""
        with loop.open("r+b"):
            messages = as_nobody(check, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH)
            assert (
                f"is open for writing in {Path('/proc/self/comm').read_text().strip()}" in messages
            )
    finally:
        loop.chmod(0o660)
