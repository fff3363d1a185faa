"""The journal never lies on the drive under test, however its filesystem is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from labctl.capture.drive.check_target import check_target
from labctl.capture.host.machine import LocalMachine
from labctl.errors import Refused
from tests.unit.capture.drive.test_safety import READ, rig
from tests.unit.machine_of_files import DIRECTORY, MachineOfFiles

BOOT = "/proc/sys/kernel/random/boot_id"


@pytest.fixture
def machine(tmp_path: Path) -> MachineOfFiles:
    """This machine, by its boot, but with the drives and mounts of a recording."""
    made = MachineOfFiles(tmp_path / "machine")
    for path, text in LocalMachine().read_texts([BOOT]).items():
        made.write(path, text)
    made.add_disk("nvme0n1", "259:0", device__serial="S1", device__subsysnqn="nqn.0")
    made.add_disk("nvme1n1", "259:5", device__serial="S2", device__subsysnqn="nqn.1")
    made.add_partition("nvme0n1", "nvme0n1p1", "259:1")
    made.add_partition("nvme0n1", "nvme0n1p2", "259:2")
    return made


def allowed(machine: MachineOfFiles, root: Path, target: str = "/dev/nvme0n1") -> bool:
    """Whether a plan that only reads may have the target with the journal below ``root``."""
    try:
        check_target(rig(target), [READ], root / "runs", machine)
    except Refused as refusal:
        assert "drive under test" in str(refusal)
        assert "--runs" in str(refusal)
        return False
    return True


def test_on_another_drive_it_is_fine(machine: MachineOfFiles, tmp_path: Path) -> None:
    machine.mount("/", "259:5", "/dev/nvme1n1")
    assert allowed(machine, tmp_path)


def test_on_the_drive_or_any_partition_of_it_it_is_not(
    machine: MachineOfFiles, tmp_path: Path
) -> None:
    machine.mount("/", "259:1", "/dev/nvme0n1p1")
    assert not allowed(machine, tmp_path)
    assert not allowed(machine, tmp_path, "/dev/nvme0n1p2")


def test_the_deepest_mount_counts(machine: MachineOfFiles, tmp_path: Path) -> None:
    machine.mount("/", "259:1", "/dev/nvme0n1p1")
    machine.mount(str(tmp_path), "259:5", "/dev/nvme1n1")
    assert allowed(machine, tmp_path)
    assert not allowed(machine, tmp_path, "/dev/nvme1n1")


def test_through_lvm_and_crypt(machine: MachineOfFiles, tmp_path: Path) -> None:
    for upper, lower, number in (("dm-0", "nvme0n1p2", "253:0"), ("dm-1", "dm-0", "253:1")):
        machine.add_disk(upper, number)
        machine.stack(upper, lower)
    machine.mount("/", "253:1", "/dev/mapper/vg-root")
    assert not allowed(machine, tmp_path)


def test_on_another_namespace_of_the_same_controller(
    machine: MachineOfFiles, tmp_path: Path
) -> None:
    machine.add_disk("nvme0n2", "259:9", device__serial="S1", device__subsysnqn="nqn.0")
    machine.mount("/", "259:9", "/dev/nvme0n2")
    assert not allowed(machine, tmp_path)


def test_through_a_second_port_of_the_same_drive(machine: MachineOfFiles, tmp_path: Path) -> None:
    machine.add_disk("nvme4n1", "259:11", device__serial="S1", device__subsysnqn="nqn.0")
    machine.mount("/", "259:11", "/dev/nvme4n1")
    assert not allowed(machine, tmp_path)


def test_btrfs_shows_no_device_but_its_source_and_members_count(
    machine: MachineOfFiles, tmp_path: Path
) -> None:
    machine.mount("/", "0:33", "/dev/nvme1n1", kind="btrfs", options="rw,subvol=/runs")
    assert allowed(machine, tmp_path)
    for name, number in (("nvme1n1", "259:5"), ("nvme0n1p2", "259:2")):
        machine.write(f"/sys/fs/btrfs/5e2a-11/devices/{name}/dev", number)
    assert not allowed(machine, tmp_path)
    assert not allowed(machine, tmp_path, "/dev/nvme1n1")


def test_overlay_is_where_its_upper_layer_is(machine: MachineOfFiles, tmp_path: Path) -> None:
    machine.mount("/layers", "259:1", "/dev/nvme0n1p1")
    options = "rw,lowerdir=/lower,upperdir=/layers/upper,workdir=/layers/work"
    machine.mount("/", "0:50", "overlay", kind="overlay", options=options)
    assert not allowed(machine, tmp_path)
    assert allowed(machine, tmp_path, "/dev/nvme1n1")


def test_in_a_loop_device_it_is_where_the_image_is(machine: MachineOfFiles, tmp_path: Path) -> None:
    machine.mount("/images", "259:1", "/dev/nvme0n1p1")
    machine.add_disk("loop0", "7:0", loop__backing_file="/images/disk")
    machine.mount("/", "7:0", "/dev/loop0")
    assert not allowed(machine, tmp_path)
    assert allowed(machine, tmp_path, "/dev/nvme1n1")


def test_a_scratch_file_on_the_journals_drive_is_refused_across_filesystems(
    machine: MachineOfFiles, tmp_path: Path
) -> None:
    machine.nodes["/scratch"] = (DIRECTORY, "0:0")
    machine.mount("/", "259:1", "/dev/nvme0n1p1")
    machine.mount("/scratch", "259:2", "/dev/nvme0n1p2")
    meant = rig("/scratch/file", more="size_bytes = '1m'")
    with pytest.raises(Refused, match="on the same drive"):
        check_target(meant, [READ], tmp_path / "runs", machine)


def test_behind_ssh_the_journal_is_on_another_machine(
    machine: MachineOfFiles, tmp_path: Path
) -> None:
    machine.write(BOOT, "another machine\n")
    machine.mount("/", "259:1", "/dev/nvme0n1p1")
    assert allowed(machine, tmp_path)
