"""One user a drive: who comes second is told who is first, and a dead holder holds nothing."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labctl.config.find_rig import EXAMPLES
from labctl.config.rig import Rig, load_rig
from labctl.record import file_lock
from labctl.record.timebase import boot_id
from labctl.service.data_dir import Home, HomeUnusable
from labctl.service.locks import machine_lock, netlink
from labctl.service.locks.lock_keys import sharing_meters
from labctl.service.locks.processes import ProcessIdentity, identity_of
from labctl.service.locks.rig_lock import (
    HANDED_DOWN_VARIABLE,
    RigBusy,
    RigLock,
    rigs_in_use,
    use_of,
)
from tests.loop_device import loop_device

RIGS = EXAMPLES
HOLDER = """
import sys, time
from pathlib import Path
from labctl.config.rig import load_rig
from labctl.service.data_dir import Home
from labctl.service.locks.rig_lock import RigLock
lock = RigLock.take(Home(Path(sys.argv[1])), load_rig(sys.argv[2]), "labctl run")
lock.note_run(Path("/tmp/runs/x"), "demo")
print("held", flush=True)
time.sleep(60)
"""


def bench(folder: Path, meters: str = "bench", drive: str = "/dev/nvme1n1") -> str:
    """A rig whose drive and meters no other test of this machine has."""
    text = (RIGS / "nvme-adapter.toml").read_text()
    text = text.replace("/dev/nvme1n1", f"{folder}{drive}").replace("S0000000000001", str(folder))
    text = text.replace("TCPIP0::192.0.2.", f"TCPIP0::{meters}.{folder.name}.")
    return text.replace("/dev/serial/by-id/", f"{folder}/{meters}/")


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return made(tmp_path, bench(tmp_path))


def made(folder: Path, text: str, name: str = "nvme-adapter") -> Rig:
    file = folder / f"{name}.toml"
    file.write_text(text)
    return load_rig(file)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def held_by_another(home: Home, rig: Rig) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home.path), rig.path], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_the_second_is_refused_by_name_and_a_killed_holder_frees_it(home: Home, rig: Rig) -> None:
    with held_by_another(home, rig) as process:
        with pytest.raises(RigBusy, match=rf"nvme-adapter .*labctl run \(pid {process.pid}\)"):
            RigLock.take(home, rig, "labctl run")
        assert [use.rig for use in rigs_in_use(home)] == ["nvme-adapter"]
        process.send_signal(signal.SIGKILL)
        process.wait()
    RigLock.take(home, rig, "labctl run").release()
    assert rigs_in_use(home) == [] and use_of(home, rig) is not None


def test_a_rig_that_a_child_still_has_for_a_moment_is_taken_again(
    home: Home, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that another thread starts has the open locks until its exec."""
    monkeypatch.setattr(file_lock, "LOCK_WITHIN_S", 60.0)
    monkeypatch.setattr(machine_lock, "LOCK_WITHIN_S", 60.0)
    lock = RigLock.take(home, rig, "labctl run")
    child = subprocess.Popen(["sleep", "0.3"], pass_fds=lock.descriptors)
    lock.release()
    RigLock.take(home, rig, "labctl run").release()
    child.wait()


def test_another_rig_file_for_the_same_drive_is_the_same_rig(
    home: Home, rig: Rig, tmp_path: Path
) -> None:
    other = tmp_path / "other.toml"
    other.write_text(rig.text.replace('name = "nvme-adapter"', 'name = "other"'))
    lock = RigLock.take(home, rig, "labctl run")
    with pytest.raises(RigBusy):
        RigLock.take(home, load_rig(other), "labctl run")
    lock.release()


def test_two_benches_of_the_same_name_are_two(home: Home, rig: Rig, tmp_path: Path) -> None:
    other = made(tmp_path, bench(tmp_path, "other", "/dev/nvme2n1"), "other")
    first = RigLock.take(home, rig, "labctl run")
    RigLock.take(home, other, "labctl run").release()
    first.release()


def test_a_lock_that_was_handed_down_counts_only_for_its_own_rig(
    home: Home, rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = RigLock.take(home, rig, "labctl daemon")
    monkeypatch.setenv(HANDED_DOWN_VARIABLE, ",".join(map(str, lock.descriptors)))
    assert RigLock.take(home, rig, "labctl run").descriptors == lock.descriptors
    for wrong in ("", "0", "99999", "-1", "x", "9" * 40):
        monkeypatch.setenv(HANDED_DOWN_VARIABLE, wrong)
        with pytest.raises(RigBusy):
            RigLock.take(home, rig, "labctl run")
    lock.release()


def in_a_file(rig: Rig, folder: Path) -> Rig:
    (folder / "scratch").write_bytes(b"x")
    return made(folder, bench(folder, drive="/scratch"), "rig")


def test_another_data_directory_does_not_free_a_drive(home: Home, rig: Rig, tmp_path: Path) -> None:
    """As a person has it, and the service."""
    drive, other = in_a_file(rig, tmp_path), Home(tmp_path / "of the service")
    with held_by_another(other, drive) as process:
        with pytest.raises(RigBusy, match="in use by a labctl of another user, or with another"):
            RigLock.take(home, drive, "labctl run")
        process.send_signal(signal.SIGKILL)
        process.wait()
    RigLock.take(home, drive, "labctl run").release()
    RigLock.take(other, drive, "labctl daemon").release()


def test_a_child_keeps_a_drive_on_the_machine_when_its_daemon_is_killed(
    home: Home, rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive, other = in_a_file(rig, tmp_path), Home(tmp_path / "other")
    lock = RigLock.take(home, drive, "labctl daemon")
    child = subprocess.Popen(["sleep", "60"], pass_fds=lock.descriptors)
    monkeypatch.setenv(HANDED_DOWN_VARIABLE, ",".join(map(str, lock.descriptors)))
    assert RigLock.take(home, drive, "labctl run").descriptors == lock.descriptors
    monkeypatch.delenv(HANDED_DOWN_VARIABLE)
    lock.release()
    for place in (home, other):
        with pytest.raises(RigBusy):
            RigLock.take(place, drive, "labctl run")
    child.kill()
    child.wait()
    RigLock.take(other, drive, "labctl run").release()


def test_damaged_files_beside_the_lock_are_nobody(home: Home, rig: Rig) -> None:
    lock = RigLock.take(home, rig, "labctl run")
    lock.note_run(Path("/tmp/runs/x"), "demo")
    for file in home.rigs.iterdir():
        for text in ("", "[", "{}", '{"pid": -1}', '{"pid": "x"}', "null", "[" * 10_000):
            file.write_text(text)
            assert rigs_in_use(home) == [] or file.suffix == ".lock"
            with pytest.raises(RigBusy, match="in use"):
                RigLock.take(home, rig, "labctl run")
    lock.release()


def test_where_there_can_be_no_lock_that_is_reported(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HomeUnusable, match="LABCTL_HOME"):
        RigLock.take(Home(tmp_path / "file" / "home"), rig, "labctl run")


def test_a_process_is_not_mistaken_for_another_of_its_number() -> None:
    me = identity_of(os.getpid())
    assert me.alive
    assert not ProcessIdentity(me.pid, me.ticks + 1, me.boot_id).alive
    assert not ProcessIdentity(me.pid, me.ticks, "another boot").alive
    assert not ProcessIdentity(0, 0, boot_id()).alive
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not identity_of(process.pid).alive  # a zombie


def without_serial(text: str) -> str:
    return re.sub("serial = .*", "", text, count=1)


def test_drives_of_the_same_name_in_two_hosts_are_two(home: Home, tmp_path: Path) -> None:
    hosts = [
        replace(each, file=each.file.model_copy(update={"host": host}))
        for host in ("local", "box-1", "box-2")
        for each in (made(tmp_path, without_serial(bench(tmp_path, host))),)
    ]
    locks = [RigLock.take(home, each, "labctl run") for each in hosts]
    with pytest.raises(RigBusy):
        RigLock.take(home, hosts[1], "labctl run")
    for lock in locks:
        lock.release()


def test_two_rigs_with_one_meter_cannot_both_open_it(home: Home, rig: Rig, tmp_path: Path) -> None:
    """To open it is to reset it; under whatever name."""
    text = bench(tmp_path, drive="/dev/nvme2n1")
    names = [text, text.replace("TCPIP0::", "tcpip::").replace("::SOCKET", "::socket")]
    lock = RigLock.take(home, rig, "labctl run")
    for number, other in enumerate(names):
        with pytest.raises(RigBusy, match=r"meter .* is in use by labctl run \(pid"):
            RigLock.take(home, made(tmp_path, other, f"other{number}"), "labctl read")
    # a daemon may have both rigs: it is one user
    both = made(tmp_path, text, "both")
    beside = RigLock.take(home, both, "labctl daemon", [lock])
    beside.release()
    with pytest.raises(RigBusy):
        RigLock.take(home, rig, "labctl run")
    lock.release()
    RigLock.take(home, both, "labctl run").release()


def test_rigs_that_share_a_meter_also_through_another_are_one_group(tmp_path: Path) -> None:
    def rig_with(name: str, *meters: str) -> Rig:
        text = bench(tmp_path, name, f"/{name}")
        for number, meter in enumerate(meters, 11):
            text = text.replace(f"{name}.{tmp_path.name}.{number}", meter)
        return made(tmp_path, text, name)

    rigs = [
        rig_with("a", "x"),
        rig_with("b"),
        rig_with("c", "y"),
        rig_with("d", "z"),
        rig_with("e", "y", "x"),
        rig_with("f", "z"),
    ]
    assert sorted(sharing_meters(rigs)) == [(0, 2, 4), (3, 5)]


def conflict(home: Home, first: Rig, second: Rig) -> bool:
    lock = RigLock.take(home, first, "labctl run")
    try:
        RigLock.take(home, second, "labctl run").release()
    except RigBusy:
        return True
    finally:
        lock.release()
    return False


def on(folder: Path, target: str, name: str, **file: Any) -> Rig:
    """A rig with meters of its own, and this target."""
    text = without_serial(bench(folder, name)).replace(f"{folder}/dev/nvme1n1", target)
    if "serial" in file:
        text = text.replace("[drive]", f'[drive]\nserial = "{file.pop("serial")}"')
    if target.startswith("nbd"):
        text = text.replace('engine = "io_uring"', 'engine = "nbd"')
    return replace(rig := made(folder, text, name), file=rig.file.model_copy(update=file))


def test_two_names_of_one_file_or_address_are_one(home: Home, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "hard").hardlink_to(tmp_path / "file")
    (tmp_path / "soft").symlink_to("file")
    (tmp_path / "fresh").symlink_to("not there yet")
    for first, second in (
        (f"{tmp_path}/file", f"{tmp_path}/hard"),
        (f"{tmp_path}/file", f"{tmp_path}/soft"),
        (f"{tmp_path}/file", f"{tmp_path}/../{tmp_path.name}/file"),
        ("nbd://localhost", "nbd://127.0.0.1:10809"),
        (f"nbd+unix:///?socket={tmp_path}/file", f"nbd+unix:///?socket={tmp_path}/soft"),
    ):
        assert conflict(home, on(tmp_path, first, "one"), on(tmp_path, second, "two")), second
    other = on(tmp_path, "nbd://localhost:10810", "two")
    assert not conflict(home, on(tmp_path, "nbd://localhost", "one"), other)


def test_behind_ssh_one_drive_is_known_by_its_serial_number(home: Home, tmp_path: Path) -> None:
    one = on(tmp_path, "/dev/nvme0n1", "one", host="root@Box", serial=f"S{tmp_path}")
    for host, target, serial, same in (
        ("box", "/dev/nvme0n1", "", True),
        ("box.lab", "/dev/disk/by-id/x", f"s{tmp_path}", True),
        ("box.lab", "/dev/disk/by-id/x", f"T{tmp_path}", False),
    ):
        other = on(tmp_path, target, "two", host=host, serial=serial)
        assert conflict(home, one, other) is same, (host, target, serial)


def test_every_node_and_layer_of_a_device_is_one_drive(home: Home, tmp_path: Path) -> None:
    with loop_device(tmp_path) as (device, image):
        node = tmp_path / "node"
        os.mknod(node, 0o600 | stat.S_IFBLK, Path(device).stat().st_rdev)
        one = on(tmp_path, device, "one")
        for number, target in enumerate((str(node), str(image))):
            assert conflict(home, one, on(tmp_path, target, f"other{number}")), target


def test_where_nothing_can_be_written_nobody_goes_on_unlocked(rig: Rig, tmp_path: Path) -> None:
    """As root too: a file stands where the folder should be."""
    home = Home(tmp_path / "home")
    home.path.mkdir()
    home.rigs.write_text("")
    with pytest.raises(HomeUnusable, match="LABCTL_HOME"):
        RigLock.take(home, rig, "labctl read")


@contextlib.contextmanager
def bound_by_nobody(names: Iterable[bytes]) -> Iterator[None]:
    """Somebody without rights has bound abstract names."""
    if os.getuid() != 0:
        pytest.skip("to be somebody else, one must be root")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            for name in names:
                one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                one.bind(b"\0" + name)
                one.detach()
            os.write(writing, b"bound")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    try:
        assert os.read(reading, 5) == b"bound"
        yield
    finally:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def names_of(lock: RigLock) -> list[bytes]:
    found = []
    for descriptor in lock.descriptors:
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            with socket.socket(fileno=os.dup(descriptor)) as one:
                found.append(bytes(one.getsockname())[1:])
    return found


def test_a_user_without_rights_on_the_drive_keeps_nobody_from_it(
    home: Home, rig: Rig, tmp_path: Path
) -> None:
    drive = in_a_file(rig, tmp_path)
    lock = RigLock.take(home, drive, "labctl run")
    names = names_of(lock)
    lock.release()
    begins = [name.rpartition(b" ")[0] + b" " for name in names]
    with bound_by_nobody([*names, *begins]):
        RigLock.take(home, drive, "labctl run").release()
        assert not machine_lock._may_hold(65534, str(tmp_path / "scratch"))
        # one who may write to it is a user like others
        for folder in (tmp_path, *tmp_path.parents[:3]):
            folder.chmod(folder.stat().st_mode | 0o001)
        (tmp_path / "scratch").chmod(0o602)
        with pytest.raises(RigBusy, match=r"another user.*of nobody"):
            RigLock.take(home, drive, "labctl run")


def test_without_the_kernels_word_whose_a_socket_is_each_one_counts(
    home: Home, rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(begin: bytes) -> list[tuple[int, int | None]]:
        raise OSError("no unix_diag")

    lock = RigLock.take(home, rig, "labctl run")
    monkeypatch.setattr(netlink, "_bound_by_diag", refuse)
    with pytest.raises(RigBusy, match="another user"):
        RigLock.take(Home(tmp_path / "other"), rig, "labctl run")
    lock.release()
    RigLock.take(Home(tmp_path / "other"), rig, "labctl run").release()
