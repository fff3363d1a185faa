"""What a real kernel says of a drive in use, and that labctl refuses to write to it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench
from labctl.capture.drive.check_target import check_target
from labctl.capture.host.ssh import SharedConnection, SshMachine
from labctl.config.rig import parse_rig
from labctl.errors import ConfigurationError, Refused
from labctl.record.phase import Pattern, Phase, Role
from tests.dut_vm.conftest import rig_text
from tests.dut_vm.vm import DRIVE, HOST, SECOND_NAMESPACE, SYSTEM_SERIAL, DutVm

pytestmark = pytest.mark.timeout(1800)

WRITE = Phase(0, Role.MEASURE, "s", Pattern.RANDWRITE, 1.0, 4096, 1, 1, read_pct=0)
BY_ID = "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_DUTVM0001_1"
PARTITIONS = f"printf ',200M\\n,200M\\n' | sfdisk -q {DRIVE} && udevadm settle"
WIPE = f"wipefs -qa {DRIVE}; blockdev --rereadpt {DRIVE}; udevadm settle"


@pytest.fixture(scope="module")
def connection(machine: DutVm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One connection for all questions: making one takes a second on an emulated processor."""
    control = tmp_path_factory.mktemp("ssh") / "control"
    ssh = ["ssh", "-F", str(machine.config), "-o", f"ControlPath={control}"]
    subprocess.run([*ssh, "-o", "ControlMaster=yes", "-fN", HOST], check=True)
    yield control
    subprocess.run([*ssh, "-O", "exit", HOST], check=True, capture_output=True)


class TargetCheck:
    """labctl's question whether the drive may be written to."""

    def __init__(self, bench: Bench, connection: Path, runs: Path) -> None:
        self._bench = bench
        self._runs = runs
        self._machine = SshMachine(HOST, lambda: SharedConnection(connection))

    def refused(self, *, whole_drive: bool = False, **drive: str) -> str:
        """Why not; empty if it may. ``drive`` replaces keys of the rig."""
        rig = parse_rig(rig_text(self._bench, **drive), "rig.toml")
        try:
            check_target(rig, [WRITE], self._runs, self._machine, whole_drive=whole_drive)
        except (Refused, ConfigurationError) as refusal:
            return str(refusal)
        return ""


@pytest.fixture
def check(bench: Bench, vm: DutVm, connection: Path, tmp_path: Path) -> TargetCheck:
    return TargetCheck(bench, connection, tmp_path / "runs")


@pytest.mark.parametrize(
    ("begin", "end", "reason"),
    [
        pytest.param(
            f"mkfs.ext4 -q {DRIVE} && mount {DRIVE} /mnt",
            "umount /mnt",
            "mounted on /mnt",
            id="mounted",
        ),
        pytest.param(
            f"mkfs.ext4 -q {DRIVE} && systemd-run -q --unit=other -p PrivateMounts=yes "
            f"sh -c 'mount {DRIVE} /mnt && exec sleep 600' && sleep 2",
            "systemctl stop other",
            "mounted on /mnt",
            id="mounted in another mount namespace",
        ),
        pytest.param(
            f"{PARTITIONS} && mkfs.ext4 -q {DRIVE}p2 && mount {DRIVE}p2 /mnt",
            "umount /mnt",
            "mounted on /mnt",
            id="a partition mounted",
        ),
        pytest.param(
            f"mkfs.ext4 -q {DRIVE} && losetup /dev/loop0 {DRIVE} && mount /dev/loop0 /mnt",
            "umount /mnt; losetup -d /dev/loop0",
            "mounted on /mnt",
            id="mounted through a loop device",
        ),
        pytest.param(
            f"losetup /dev/loop0 {DRIVE}", "losetup -d /dev/loop0", "loop0", id="a loop device"
        ),
        pytest.param(
            f"mkswap -q {DRIVE} && swapon {DRIVE}", f"swapoff {DRIVE}", "swapoff", id="swap"
        ),
        pytest.param(
            f"pvcreate -qy {DRIVE} && vgcreate -q lab {DRIVE} && lvcreate -qyn data -L 64M lab",
            "vgremove -qy lab; pvremove -qy " + DRIVE,
            "held by dm-0 (lab-data",
            id="LVM",
        ),
        pytest.param(
            f"dmsetup create crypt --table '0 2048 linear {DRIVE} 0'",
            "dmsetup remove crypt",
            "held by dm-0 (crypt",
            id="device mapper",
        ),
        pytest.param(
            "systemd-run -q --unit=other "
            f"sh -c 'mknod /root/xvdb b $(stat -c \"0x%t 0x%T\" {DRIVE}) && exec 9<>/root/xvdb "
            "&& exec sleep 600' && sleep 2",
            "systemctl stop other; rm -f /root/xvdb",
            "open for writing in sleep (pid ",
            id="open without a claim, by another name",
        ),
        pytest.param(
            f"blockdev --setro {DRIVE}", f"blockdev --setrw {DRIVE}", "blockdev --setrw",
            id="write-protected",
        ),
    ],
)  # fmt: skip
def test_a_drive_in_use_is_refused_and_allowed_again_after_it(
    vm: DutVm, check: TargetCheck, begin: str, end: str, reason: str
) -> None:
    try:
        vm.run(begin)
        refusal = check.refused(target=f'"{BY_ID}"')
        assert reason in refusal, refusal
    finally:
        vm.run(f"{end}; {WIPE}")
    assert check.refused() == ""


def test_a_drive_that_nothing_uses_may_be_written_by_either_name(
    vm: DutVm, check: TargetCheck
) -> None:
    for target in (DRIVE, BY_ID):
        assert check.refused(target=f'"{target}"') == ""
        assert check.refused(target=f'"{target}"', whole_drive=True) == ""


def test_another_serial_and_the_systems_disk_are_refused(vm: DutVm, check: TargetCheck) -> None:
    refusal = check.refused(serial='"DUTVM0002"')
    assert "has serial DUTVM0001, the rig names DUTVM0002" in refusal
    assert "needs drive.serial" in check.refused(serial='""')
    assert "drive.destructive" in check.refused(destructive="false")
    system = {"target": '"/dev/vda"', "serial": f'"{SYSTEM_SERIAL}"'}
    assert "on the system's disk (/ lives on it)" in check.refused(**system)


def test_a_partition_stands_for_its_drive_only_where_it_is_alone(
    vm: DutVm, check: TargetCheck
) -> None:
    first = {"target": f'"{DRIVE}p1"'}
    try:
        vm.run(PARTITIONS)
        assert "which also has nvme0n1p2" in check.refused(**first)
        vm.run(f"sfdisk -q --delete {DRIVE} 2 && udevadm settle")
        assert check.refused(**first) == ""
        assert "acts on the whole drive" in check.refused(whole_drive=True, **first)
    finally:
        vm.run(WIPE)


def test_another_namespace_in_use_forbids_what_acts_on_the_whole_drive(
    vm: DutVm, check: TargetCheck
) -> None:
    try:
        vm.run(f"mkfs.ext4 -q {SECOND_NAMESPACE} && mount {SECOND_NAMESPACE} /mnt")
        assert "mounted on /mnt" in check.refused(whole_drive=True)
        assert check.refused() == ""
    finally:
        vm.run(f"umount /mnt; wipefs -qa {SECOND_NAMESPACE}")


def test_a_claim_of_another_namespace_forbids_what_acts_on_the_whole_drive(
    vm: DutVm, check: TargetCheck
) -> None:
    """As ZFS claims its members: no mount, no holder."""
    claim = f"perl -e 'sysopen F, \"{SECOND_NAMESPACE}\", 0202 or die; sleep 600'"
    try:
        vm.run(f"systemd-run -q --unit=other {claim} && sleep 2")
        refusal = check.refused(whole_drive=True)
        assert f"{SECOND_NAMESPACE}, of one drive with {DRIVE}, is in use" in refusal
        assert check.refused() == ""
    finally:
        vm.run("systemctl stop other")


def test_what_is_no_drive_is_named_as_such(vm: DutVm, check: TargetCheck) -> None:
    scratch = {"target": '"/root/scratch"', "size_bytes": '"64M"'}
    assert check.refused(**scratch) == ""
    assert "character device" in check.refused(target='"/dev/nvme0"')
    assert "is the drive connected?" in check.refused(target='"/dev/nvme7n1"')
    assert "block device" in check.refused(target='"/root"')
    try:
        # what dd leaves when the drive is not there: a file in the machine's memory
        vm.run("dd if=/dev/zero of=/dev/nvme9n1 bs=1M count=1 2>&1")
        assert "is the drive connected?" in check.refused(target='"/dev/nvme9n1"')
    finally:
        vm.run("rm -f /dev/nvme9n1")
