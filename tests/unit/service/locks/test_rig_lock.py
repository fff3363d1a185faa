"""One user a drive: who comes second is told who is first, and a dead holder holds nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from labctl.config.rig import Rig, load_rig
from labctl.service.data_dir import Home, HomeUnusable
from labctl.service.locks.processes import ProcessIdentity, boot_id, identity_of
from labctl.service.locks.rig_lock import (
    HANDED_DOWN_VARIABLE,
    RigBusy,
    RigLock,
    rigs_in_use,
    use_of,
)

RIGS = Path(__file__).parents[4] / "rigs"
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


@pytest.fixture
def rig() -> Rig:
    return load_rig(RIGS / "nvme-adapter.toml")


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
    other = tmp_path / "rig.toml"
    other.write_text(rig.text.replace("/dev/nvme1n1", "/dev/nvme2n1"))
    first = RigLock.take(home, rig, "labctl run")
    RigLock.take(home, load_rig(other), "labctl run").release()
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
    (folder / "rig.toml").write_text(rig.text.replace("/dev/nvme1n1", f"{folder}/scratch"))
    return load_rig(folder / "rig.toml")


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


def test_where_there_can_be_no_lock_that_is_said(rig: Rig, tmp_path: Path) -> None:
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


def test_drives_of_the_same_name_in_two_hosts_are_two(home: Home, rig: Rig) -> None:
    hosts = [
        replace(rig, file=rig.file.model_copy(update={"host": host}))
        for host in ("local", "box-1", "box-2")
    ]
    locks = [RigLock.take(home, each, "labctl run") for each in hosts]
    with pytest.raises(RigBusy):
        RigLock.take(home, hosts[1], "labctl run")
    for lock in locks:
        lock.release()
