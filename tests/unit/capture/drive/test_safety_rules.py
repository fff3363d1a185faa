"""Which drives may be overwritten, on recorded machines of every kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from labctl.capture.drive import users
from labctl.capture.drive.check_target import check_target
from labctl.capture.host.machine import Completed
from labctl.errors import ConfigurationError, Refused
from tests.unit.capture.drive.test_safety import READ, WRITE, rig
from tests.unit.machine_of_files import (
    CHARACTER_DEVICE,
    DIRECTORY,
    REGULAR,
    MachineOfFiles,
)

MEANT = "destructive = true\nserial = 'S123'"
FREE = Completed(0, "", "")
GONE = "find: '/proc/99/fd': No such file or directory\n"
Check = Callable[..., None]


@pytest.fixture
def machine(tmp_path: Path) -> MachineOfFiles:
    """Another machine, with a system disk (sda) and two NVMe drives that nothing uses."""
    made = MachineOfFiles(tmp_path / "machine")
    made.write("/proc/sys/kernel/random/boot_id", "another machine\n")
    made.write("/proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n")
    made.add_disk("sda", "8:0", device__serial="SYS")
    made.add_partition("sda", "sda1", "8:1")
    made.add_partition("sda", "sda2", "8:2")
    made.mount("/", "8:1", "/dev/sda1")
    for instance, number in ((0, "259:0"), (1, "259:5")):
        made.add_disk(
            f"nvme{instance}n1",
            number,
            device__serial=f"S12{3 + instance}   ",
            device__subsysnqn=f"nqn.{instance}",
        )
    made.programs["wipefs --all --no-act"] = FREE
    return made


@pytest.fixture
def write(machine: MachineOfFiles, tmp_path: Path) -> Check:
    """Asks whether a plan that writes may have a target."""

    def check(target: str = "/dev/nvme0n1", more: str = MEANT, **how: bool) -> None:
        check_target(rig(target, more=more), [WRITE], tmp_path, machine, **how)

    return check


def test_a_free_drive_with_flag_and_serial_may_be_written(write: Check) -> None:
    write()


def test_reading_needs_no_permission_even_where_the_system_lives(
    machine: MachineOfFiles, tmp_path: Path
) -> None:
    check_target(rig("/dev/sda"), [READ], tmp_path, machine)


def test_a_device_that_the_user_may_not_read_is_refused_before_anything_begins(
    machine: MachineOfFiles, tmp_path: Path
) -> None:
    machine.programs["test -r /dev/sda"] = Completed(1, "", "")
    with pytest.raises(Refused, match=r"may not be read by this user.*\(disk\)"):
        check_target(rig("/dev/sda"), [READ], tmp_path, machine)


def test_the_flag_the_serial_and_the_right_serial_are_needed(write: Check) -> None:
    with pytest.raises(Refused, match="destructive = true"):
        write(more="serial = 'S123'")
    with pytest.raises(Refused, match=r"needs drive\.serial; the device says S123"):
        write(more="destructive = true")
    with pytest.raises(Refused, match="has serial S123, the rig names S124: this is another drive"):
        write(more="destructive = true\nserial = 'S124'")


def test_a_drive_without_any_serial_is_never_written(machine: MachineOfFiles, write: Check) -> None:
    machine.add_disk("sdq", "65:0")
    with pytest.raises(Refused, match=r"\(none\)"):
        write("/dev/sdq")


@pytest.mark.parametrize("source", ["page 80h", "udev", "smartctl", "virtio"])
def test_the_serial_of_sata_and_virtio_is_found_wherever_it_is(
    machine: MachineOfFiles, write: Check, source: str
) -> None:
    machine.add_disk("sdb", "8:16")
    if source == "page 80h":
        machine.write("/sys/class/block/sdb/device/vpd_pg80", b"\0\x80\0\x14      SD99          ")
    elif source == "udev":
        asked = "udevadm info --query=property --name=/dev/sdb"
        machine.programs[asked] = Completed(0, "ID_MODEL=x\nID_SERIAL_SHORT=SD99\n", "")
    elif source == "smartctl":
        message = '{"smartctl": {"exit_status": 0}, "serial_number": "SD99"}'
        machine.programs["smartctl -j"] = Completed(0, message, "")
    else:
        machine.write("/sys/class/block/sdb/serial", "SD99\n")
    write("/dev/sdb", more="destructive = true\nserial = 'SD99'")
    with pytest.raises(Refused, match="another drive"):
        write("/dev/sdb", more="destructive = true\nserial = 'S124'")


def test_a_link_by_id_means_the_device_behind_it(machine: MachineOfFiles, write: Check) -> None:
    machine.links["/dev/disk/by-id/wrong"] = "/dev/sda"
    machine.links["/dev/disk/by-id/right"] = "/dev/nvme0n1"
    write("/dev/disk/by-id/right")
    with pytest.raises(Refused, match="system's disk"):
        write("/dev/disk/by-id/wrong", more="destructive = true\nserial = 'SYS'")


def test_mounted_whole_or_in_part_is_refused_with_what_to_unmount(
    machine: MachineOfFiles, write: Check
) -> None:
    machine.add_partition("nvme0n1", "nvme0n1p1", "259:1")
    write()
    machine.mount("/mnt/some\\040data", "259:1", "/dev/nvme0n1p1")
    with pytest.raises(Refused, match="umount /mnt/some data"):
        write()


def test_a_mount_in_another_mount_namespace_counts(machine: MachineOfFiles, write: Check) -> None:
    machine.mount("/in/a/container", "259:0", "/dev/nvme0n1", process=77)
    with pytest.raises(Refused, match="mounted on /in/a/container"):
        write()


def test_a_member_of_a_btrfs_that_shows_another_device_is_in_use(
    machine: MachineOfFiles, write: Check
) -> None:
    for name in ("nvme0n1", "nvme1n1"):
        number = machine.nodes[f"/dev/{name}"][1]
        machine.write(f"/sys/fs/btrfs/5e2a/devices/{name}/dev", number)
    machine.mount("/pool", "0:44", "/dev/nvme1n1", kind="btrfs")
    with pytest.raises(Refused, match="mounted on /pool"):
        write()


def test_swap_is_refused(machine: MachineOfFiles, write: Check) -> None:
    machine.add_partition("nvme0n1", "nvme0n1p1", "259:1")
    machine.write("/proc/swaps", "Filename Type\n/dev/nvme0n1p1   partition\t9\t0\t-2\n")
    with pytest.raises(Refused, match="swapoff /dev/nvme0n1p1"):
        write()


@pytest.mark.parametrize(
    ("upper", "files", "says"),
    [
        ("dm-0", {"dm__name": "vg-data"}, "vg-data: LVM"),
        ("md127", {}, "md RAID"),
        ("bcache0", {}, "bcache"),
    ],
)
def test_what_is_held_is_refused(
    machine: MachineOfFiles, write: Check, upper: str, files: dict[str, str], says: str
) -> None:
    machine.add_partition("nvme0n1", "nvme0n1p1", "259:1")
    machine.add_disk(upper, "253:0", **files)
    machine.stack(upper, "nvme0n1p1")
    with pytest.raises(Refused, match=says):
        write()


def test_a_loop_device_on_the_drive_is_a_holder_though_the_kernel_has_no_link(
    machine: MachineOfFiles, write: Check
) -> None:
    machine.add_partition("nvme0n1", "nvme0n1p1", "259:1")
    machine.add_disk("loop0", "7:0", loop__backing_file="/dev/nvme0n1p1")
    with pytest.raises(Refused, match=r"held by loop0 \(a loop device\).*losetup -d"):
        write()
    machine.mount("/mnt", "7:0", "/dev/loop0")
    with pytest.raises(Refused, match="mounted on /mnt"):
        write()
    machine.mount("/usr", "7:0", "/dev/loop0")
    with pytest.raises(Refused, match=r"system's disk \(/usr lives on it\)"):
        write()


def test_a_loop_device_on_a_drive_is_no_way_round_the_drives_serial(
    machine: MachineOfFiles, write: Check
) -> None:
    machine.add_disk("loop0", "7:0", loop__backing_file="/dev/nvme0n1")
    with pytest.raises(Refused, match="loop device on /dev/nvme0n1"):
        write("/dev/loop0", more="destructive = true\nserial = '/dev/nvme0n1'")


def test_a_file_left_where_the_device_should_be_is_no_target(
    machine: MachineOfFiles, write: Check
) -> None:
    machine.nodes["/dev"] = (DIRECTORY, "0:0")
    machine.nodes["/dev/nvme9n1"] = (REGULAR, "0:0")
    with pytest.raises(ConfigurationError, match="is the drive connected"):
        write("/dev/nvme9n1")


def test_the_systems_disk_is_found_through_lvm_crypt_and_raid(
    machine: MachineOfFiles, write: Check
) -> None:
    machine.add_partition("nvme0n1", "nvme0n1p3", "259:3")
    for upper, lower, number in (("md0", "nvme0n1p3", "9:0"), ("dm-0", "md0", "253:0")):
        machine.add_disk(upper, number)
        machine.stack(upper, lower)
    machine.mount("/usr", "253:0", "/dev/mapper/system-usr")
    with pytest.raises(Refused, match=r"system's disk \(/usr lives on it\)"):
        write()


def test_another_namespace_of_the_systems_drive_is_the_systems_drive(
    machine: MachineOfFiles, write: Check
) -> None:
    machine.add_disk("nvme0n2", "259:9", device__serial="S123", device__subsysnqn="nqn.0")
    machine.mount("/boot", "259:9", "/dev/nvme0n2")
    with pytest.raises(Refused, match="system's disk"):
        write()


def test_a_path_of_a_multipath_namespace_is_not_another_drive(
    machine: MachineOfFiles, write: Check
) -> None:
    machine.add_disk("nvme0c0n1", "259:10", hidden="1", device__serial="S123")
    write()
    machine.mount("/boot", "259:0", "/dev/nvme0n1")
    with pytest.raises(Refused, match="system's disk"):
        write("/dev/nvme0c0n1")


def test_formatting_needs_every_namespace_free_and_no_partition_as_target(
    machine: MachineOfFiles, write: Check
) -> None:
    write(whole_drive=True)
    machine.add_disk("nvme0n2", "259:9", device__serial="S123", device__subsysnqn="nqn.0")
    machine.mount("/data", "259:9", "/dev/nvme0n2")
    write()
    with pytest.raises(Refused, match="mounted on /data"):
        write(whole_drive=True)
    machine.add_partition("nvme1n1", "nvme1n1p1", "259:6")
    more = "destructive = true\nserial = 'S124'"
    write("/dev/nvme1n1p1", more)
    with pytest.raises(Refused, match="acts on the whole drive"):
        write("/dev/nvme1n1p1", more, whole_drive=True)


def test_a_partition_beside_others_is_refused_and_the_whole_drive_named(
    machine: MachineOfFiles, write: Check
) -> None:
    machine.add_partition("nvme0n1", "nvme0n1p1", "259:1")
    write("/dev/nvme0n1p1")
    machine.add_partition("nvme0n1", "nvme0n1p2", "259:2")
    with pytest.raises(Refused, match=r"also has nvme0n1p2; name the whole drive \(/dev/nvme0n1\)"):
        write("/dev/nvme0n1p1")


@pytest.mark.parametrize(
    ("done", "says"),
    [
        (
            Completed(1, "", "wipefs: error: probing failed: Device or resource busy"),
            "lsof or fuser",
        ),
        (Completed(1, "", "wipefs: error: /dev/nvme0n1: Permission denied"), "as root"),
        (Completed(1, "", "wipefs: error: Read-only file system"), "Read-only file system"),
        (Completed(127, "", ""), "install util-linux"),
    ],
)
def test_the_kernel_has_the_last_word(
    machine: MachineOfFiles, write: Check, done: Completed, says: str
) -> None:
    machine.programs["wipefs --all --no-act"] = done
    with pytest.raises(Refused, match=says):
        write()


def test_a_drive_at_work_is_not_opened(machine: MachineOfFiles, write: Check) -> None:
    machine.programs["wipefs --all --no-act"] = Completed(1, "", "busy")
    write(at_rest=False)
    assert not any(command.startswith("wipefs") for command in machine.asked)


def test_nothing_is_opened_before_every_other_rule_is_kept(
    machine: MachineOfFiles, write: Check
) -> None:
    machine.mount("/data", "259:0", "/dev/nvme0n1")
    with pytest.raises(Refused):
        write()
    assert not any(command.startswith("wipefs") for command in machine.asked)


def test_all_reasons_are_reported_at_once(machine: MachineOfFiles, write: Check) -> None:
    machine.add_disk("dm-0", "253:0")
    machine.stack("dm-0", "nvme0n1")
    machine.mount("/data", "253:0", "/dev/mapper/x")
    machine.write("/sys/class/block/nvme0n1/ro", "1\n")
    with pytest.raises(Refused) as refusal:
        write(more="destructive = true\nserial = 'X'")
    message = str(refusal.value)
    assert len(message.splitlines()) == 4
    for words in ("another drive", "umount /data", "held by dm-0", "write-protected"):
        assert words in message


def test_a_controller_is_no_target_and_its_namespace_is_named(
    machine: MachineOfFiles, write: Check
) -> None:
    machine.nodes["/dev/nvme0"] = (CHARACTER_DEVICE, "240:0")
    with pytest.raises(ConfigurationError, match="name a namespace, such as /dev/nvme0n1"):
        write("/dev/nvme0")


def test_a_node_left_behind_by_a_pulled_drive_is_reported(
    machine: MachineOfFiles, write: Check
) -> None:
    machine.nodes["/dev/nvme7n1"] = (0o060660, "259:70")
    with pytest.raises(ConfigurationError, match="the kernel does not have"):
        write("/dev/nvme7n1")


def test_another_path_to_the_same_lun_is_the_same_data(
    machine: MachineOfFiles, write: Check
) -> None:
    """Without multipathd each path is a disk of its own, and a claim of one does not show."""
    for name, number in (("sdb", "8:16"), ("sdc", "8:32")):
        page = b"\0\x80\0\x04SD99"
        machine.add_disk(name, number, device__wwid="naa.5000c500a1b2c3d4")
        machine.write(f"/sys/class/block/{name}/device/vpd_pg80", page)
    meant = "destructive = true\nserial = 'SD99'"
    write("/dev/sdb", meant)
    assert "wipefs --all --no-act /dev/sdc" in machine.asked
    machine.mount("/data", "8:32", "/dev/sdc")
    with pytest.raises(Refused, match="mounted on /data"):
        write("/dev/sdb", meant)


def add_two_paths(machine: MachineOfFiles, **marks: str) -> None:
    """A namespace that the kernel shows as two drives: nvme4n1 and nvme5n1."""
    for name, number in (("nvme4n1", "259:40"), ("nvme5n1", "259:50")):
        machine.add_disk(name, number, device__serial="S9", wwid="eui.0025385b", **marks)


def test_another_path_to_the_same_namespace_is_the_same_data(
    machine: MachineOfFiles, write: Check
) -> None:
    add_two_paths(machine, device__subsysnqn="nqn.4")
    meant = "destructive = true\nserial = 'S9'"
    write("/dev/nvme4n1", meant)
    machine.add_partition("nvme5n1", "nvme5n1p1", "259:51")
    machine.mount("/data", "259:51", "/dev/nvme5n1p1")
    with pytest.raises(Refused, match="mounted on /data"):
        write("/dev/nvme4n1", meant)


def test_two_paths_are_one_drive_also_where_the_subsystem_has_no_name(
    machine: MachineOfFiles, write: Check
) -> None:
    add_two_paths(machine)
    meant = "destructive = true\nserial = 'S9'"
    write("/dev/nvme4n1", meant, whole_drive=True)
    machine.mount("/data", "259:50", "/dev/nvme5n1")
    with pytest.raises(Refused, match="mounted on /data"):
        write("/dev/nvme4n1", meant, whole_drive=True)


def test_the_kernel_is_asked_about_every_namespace_that_a_format_may_erase(
    machine: MachineOfFiles, write: Check
) -> None:
    """A ZFS member has neither mount nor holder: only an exclusive open tells."""
    machine.add_disk("nvme0n2", "259:9", device__serial="S123", device__subsysnqn="nqn.0")
    machine.add_disk("nvme0c0n1", "259:10", hidden="1", device__serial="S123")
    busy = Completed(1, "", "wipefs: error: /dev/nvme0n2: Device or resource busy")
    machine.programs["wipefs --all --no-act /dev/nvme0n2"] = busy
    write()
    with pytest.raises(Refused, match=r"/dev/nvme0n2, of one drive with /dev/nvme0n1, is in use"):
        write(whole_drive=True)
    assert not any(command.endswith("nvme0c0n1") for command in machine.asked)


def test_a_serial_that_two_drives_have_names_neither(machine: MachineOfFiles, write: Check) -> None:
    machine.add_disk("nvme7n1", "259:70", device__serial="S123", device__subsysnqn="nqn.7")
    with pytest.raises(Refused, match="and so has /dev/nvme7n1: it does not tell which"):
        write()


def test_both_drives_of_a_dock_have_its_serial(machine: MachineOfFiles, write: Check) -> None:
    for name, number in (("sdb", "8:16"), ("sdc", "8:32")):
        machine.add_disk(name, number)
    of_dock = Completed(0, "ID_SERIAL_SHORT=DOCK1\n", "")
    machine.programs["udevadm info"] = of_dock
    machine.programs["smartctl -j -i /dev/sdb"] = Completed(
        0, '{"smartctl": {"exit_status": 0}, "serial_number": "SD99"}', ""
    )
    with pytest.raises(Refused, match="and so has /dev/sda, /dev/sdc: it does not tell"):
        write("/dev/sdb", "destructive = true\nserial = 'DOCK1'")
    write("/dev/sdb", "destructive = true\nserial = 'SD99'")
    machine.programs["udevadm info --query=property --name=/dev/sdc"] = Completed(124, "", "")
    with pytest.raises(Refused, match="not say in time whether /dev/sdc has serial DOCK1, too"):
        write("/dev/sdb", "destructive = true\nserial = 'DOCK1'")


def test_a_process_that_may_write_to_the_drive_is_named(
    machine: MachineOfFiles, write: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual machine does not claim its disk: an exclusive open succeeds beside it."""
    monkeypatch.setattr(users, "A_MOMENT_S", 0.0)
    machine.add_partition("nvme0n1", "nvme0n1p1", "259:1")
    found = "103 1 /proc/77/fd/11\n103 0 /proc/78/fd/3\n103 5 /proc/79/fd/4\n"  # 259 is 103h
    machine.programs["sh -c find -L /proc"] = Completed(1, found, GONE)
    for process, name, flags in ((77, "11", "02100002"), (78, "3", "02100000"), (79, "4", "02")):
        machine.write(f"/proc/{process}/fdinfo/{name}", f"pos:\t0\nflags:\t{flags}\nmnt_id:\t9\n")
    machine.write("/proc/77/comm", "qemu-system-x86\n")
    with pytest.raises(Refused) as refusal:
        write()
    assert "/dev/nvme0n1p1 is open for writing in qemu-system-x86 (pid 77)" in str(refusal.value)
    assert "pid 78" not in str(refusal.value)  # reads only
    assert "pid 79" not in str(refusal.value)  # another drive
    write(at_rest=False)


DENIED = "find: '/proc/1/fd': Permission denied\nfind: '/proc/812/fd': Permission denied\n"
SANDBOX = "find: '/proc/1/fd/3': Permission denied\n"


@pytest.mark.parametrize("question", ["sh -c find -L /proc/1/", "sh -c stat -L"])
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Completed(124, "", "sh: no answer within 5 s"), "not be found out in time"),
        (Completed(127, "", "sh: not found"), "install coreutils"),
        (Completed(1, "", DENIED), r"other users' processes \(2\).*CAP_SYS_PTRACE"),
        (Completed(1, "", "find: '/proc/1/fd': No such file or directory\n"), "CAP_SYS_PTRACE"),
        (Completed(1, "", "find: unknown predicate\n"), "unknown predicate"),
        (Completed(255, "", ""), "exit code 255"),
    ],
)
def test_what_could_not_be_asked_counts_as_a_use(
    machine: MachineOfFiles, write: Check, question: str, answer: Completed, says: str
) -> None:
    """Also where processes are hidden altogether (hidepid): the first one is always there."""
    machine.programs[question] = answer
    with pytest.raises(Refused, match=f"nvme0n1 counts as in use: .*{says}"):
        write()
    machine.programs[question] = Completed(1, "", GONE)
    write()


@pytest.mark.parametrize(
    ("question", "denied"),
    [
        ("sh -c find -L /proc/1/", "find: '/proc/812/fd': Permission denied\n"),
        ("sh -c stat -L", "stat: cannot statx '/proc/812/ns/mnt': Permission denied\n"),
    ],
)
def test_a_process_that_ended_while_it_was_asked_is_no_use(
    machine: MachineOfFiles, write: Check, question: str, denied: str
) -> None:
    """The kernel denies permission to look at one that is just ending."""
    machine.programs[question] = Completed(1, "", denied)
    there = "sh -c stat -c %n"
    gone = "stat: cannot statx '/proc/812': No such file or directory\n"
    machine.programs[there] = Completed(1, "", gone)
    write()
    machine.programs[there] = Completed(0, "/proc/812\n", "")
    with pytest.raises(Refused, match="CAP_SYS_PTRACE"):
        write()
    machine.programs[there] = Completed(124, "", "")
    with pytest.raises(Refused, match="CAP_SYS_PTRACE"):
        write()


@pytest.mark.parametrize(
    ("capabilities", "user", "free"),
    [
        ("000001fffeffffff", 0, True),
        ("0000000000080004", 0, True),
        ("0000000000080000", 0, False),
        ("0000000000000000", 0, False),
        ("000001fffeffffff", 1000, False),
    ],
)
def test_a_process_of_root_that_no_right_would_show_is_no_use(
    machine: MachineOfFiles, write: Check, capabilities: str, user: int, free: bool
) -> None:
    machine.programs["sh -c find -L /proc"] = Completed(1, "", SANDBOX)
    machine.write("/proc/self/status", f"Uid:\t0\t0\t0\t0\nCapEff:\t{capabilities}\n")
    machine.write("/proc/1/status", "\t".join(["Uid:", *[str(user)] * 4]) + "\n")
    if free:
        write()
    else:
        with pytest.raises(Refused, match="CAP_DAC_READ_SEARCH"):
            write()


@pytest.mark.parametrize(
    ("links", "free"),
    [
        (Completed(0, "'/proc/812/fd/7' -> '/run/user/1000/doc/by-app'\n", ""), True),
        (
            Completed(1, "", "stat: '/proc/812/fd/7': No such file or directory\n"),
            True,
        ),
        (Completed(1, "'/proc/812/fd/7'\n", "stat: '/proc/812/fd/7': Permission denied\n"), False),
        (Completed(124, "", ""), False),
    ],
)
@pytest.mark.parametrize("why", ["Permission denied", "Stale file handle"])
def test_a_file_that_its_filesystem_shows_to_nobody_else_is_no_device(
    machine: MachineOfFiles, write: Check, links: Completed, free: bool, why: str
) -> None:
    """As those of FUSE, which not even root may look at; the link still tells its name."""
    message = f"find: '/proc/812/fd/7': {why}\nfind: '/proc/1/fd/9': No such file or directory\n"
    machine.programs["sh -c find -L /proc"] = Completed(1, "", message)
    machine.programs["sh -c stat -c %N"] = links
    if free:
        write()
    else:
        with pytest.raises(Refused, match="CAP_SYS_PTRACE"):
            write()


def test_a_host_whose_mounts_cannot_be_read_has_its_drive_in_use(
    machine: MachineOfFiles, write: Check
) -> None:
    (machine.root / "proc/self/mountinfo").unlink()
    with pytest.raises(Refused, match="what is mounted is not known"):
        write()


def test_who_has_the_drive_open_for_a_moment_is_no_user(
    machine: MachineOfFiles, write: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As smartd does, which asks SCSI drives through a descriptor that could write."""
    found = Completed(0, "103 0 /proc/77/fd/3\n", "")
    machine.programs["sh -c find -L /proc"] = found
    machine.write("/proc/77/fdinfo/3", "flags:\t02\n")

    def it_closes(_: float) -> None:
        machine.programs["sh -c find -L /proc"] = FREE

    monkeypatch.setattr(users.time, "sleep", it_closes)
    write()
    assert machine.programs["sh -c find -L /proc"] is FREE


@pytest.mark.parametrize(
    ("path", "reported"),
    [
        ("/sys/kernel/config/nvmet/subsystems/nqn.x/namespaces/1/device_path", "nvmet"),
        ("/sys/kernel/config/target/core/fileio_0/disk/udev_path", "LIO"),
        ("/sys/kernel/scst_tgt/devices/disk0/filename", "SCST"),
    ],
)
def test_a_drive_that_is_exported_is_refused(
    machine: MachineOfFiles, write: Check, path: str, reported: str
) -> None:
    machine.links["/dev/disk/by-id/nvme-x"] = "/dev/nvme0n1"
    machine.write(path, "/dev/disk/by-id/nvme-x\n[key]\n")
    with pytest.raises(Refused, match=rf"is exported to other hosts by .*{reported}"):
        write()
    machine.links["/dev/disk/by-id/nvme-x"] = "/dev/nvme1n1"
    write()
