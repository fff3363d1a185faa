"""Identity and state are gathered from what there is; what is missing costs only what it gives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from labctl.capture.host.machine import Completed, LocalMachine
from labctl.capture.identity.identify import identify
from labctl.record.drive_state import DriveState, LbaFormat, PowerThreshold
from labctl.record.json_values import known
from tests.unit.capture.identity.nvme_made import (
    controller_page,
    namespace_page,
    printed,
    smart_page,
)
from tests.unit.capture.identity.test_nvme_pages import extended_page
from tests.unit.capture.identity.test_smartctl import NVME, SATA
from tests.unit.machine_of_files import DIRECTORY, REGULAR, MachineOfFiles

_BY_COMMAND = {
    "id-ctrl": controller_page(),
    "id-ns": namespace_page(),
    "get-log --log-id=2 --log-len=512": smart_page(),
}
NVME_CLI = {f"nvme {name} /dev/nvme0n1": page for name, page in _BY_COMMAND.items()}


@pytest.fixture
def machine(tmp_path: Path) -> MachineOfFiles:
    made = MachineOfFiles(tmp_path)
    made.add_disk(
        "nvme0n1",
        "259:0",
        size_bytes=1 << 40,
        device__model="Samsung SSD 970 EVO Plus 1TB            ",
        device__serial="S4EWNX0R123456",
        device__firmware_rev="2B2QEXM7",
        queue__logical_block_size="512",
        queue__physical_block_size="512",
        queue__rotational="0",
        nsid="1",
    )
    made.write("/sys/class/nvme/nvme0/nvme0n1/size", "8")
    made.write("/sys/class/nvme/nvme0/transport", "pcie\n")
    for name, text in (
        ("current_link_speed", "8.0 GT/s PCIe"),
        ("current_link_width", "2"),
        ("max_link_speed", "8.0 GT/s PCIe"),
        ("max_link_width", "4"),
    ):
        made.write(f"/sys/class/nvme/nvme0/device/{name}", text)
    made.write("/sys/class/nvme/nvme0/hwmon1/temp1_input", "40850")
    made.write("/sys/class/nvme/nvme0/hwmon1/temp1_label", "Composite")
    made.write("/sys/class/nvme/nvme0/hwmon1/temp1_max", "84850")
    return made


def answers(machine: MachineOfFiles, outputs: Mapping[str, object]) -> None:
    for command, output in outputs.items():
        page = output if isinstance(output, bytes) else json.dumps(output).encode()
        machine.programs[command] = printed(page)


def test_an_nvme_drive_with_everything(machine: MachineOfFiles) -> None:
    answers(machine, NVME_CLI)
    state = identify(machine, "/dev/nvme0n1", "io_uring")
    assert (state.kind, state.device, state.transport) == ("nvme", "/dev/nvme0n1", "pcie")
    assert state.model == "Samsung SSD 970 EVO Plus 1TB"
    assert (state.serial, state.firmware) == ("S4EWNX0R123456", "2B2QEXM7")
    assert (state.size_bytes, state.namespace, state.rotational) == (1 << 40, 1, False)
    assert (state.warning_celsius, state.host_thermal_management) == (85.0, True)
    assert len(state.power_states) == 2
    assert state.lba_formats == (LbaFormat(4096, 0, True),)
    assert state.smart is not None and state.smart.thm_temp1_trans_count == 4
    assert [sensor.name for sensor in state.temperature_sensors] == ["composite"]
    assert "slow slot" in state.findings[0] and "x2" in state.findings[0]
    assert state.problems == ()
    assert known(DriveState, json.loads(json.dumps(state.to_json()))) == state


EXTENDED_SMART = "nvme get-log --log-id=192 --log-len=512 /dev/nvme0n1"


def test_the_extended_smart_log_of_ocp_is_read_where_the_drive_has_it(
    machine: MachineOfFiles,
) -> None:
    answers(machine, NVME_CLI | {EXTENDED_SMART: extended_page()})
    state = identify(machine, "/dev/nvme0n1")
    assert state.smart is not None and state.smart.composite_celsius == 45.0
    assert (state.smart.thermal_throttling_events, state.smart.power_state_changes) == (7, 41)
    assert state.problems == ()
    assert known(DriveState, json.loads(json.dumps(state.to_json()))) == state


def test_an_extended_smart_log_that_is_too_short_is_named_with_both_lengths(
    machine: MachineOfFiles,
) -> None:
    answers(machine, NVME_CLI | {EXTENDED_SMART: extended_page()[:500]})
    state = identify(machine, "/dev/nvme0n1")
    (problem,) = state.problems
    assert problem == "no extended SMART log of OCP (C0h): 500 bytes came of a page of 512"
    assert state.smart is not None and state.smart.thermal_throttling_events is None


def test_a_drive_without_the_extended_smart_log_says_nothing_of_it(machine: MachineOfFiles) -> None:
    answers(machine, NVME_CLI)
    refused = Completed(1, "", "NVMe status: Invalid Log Page(0x4109)")
    machine.programs[EXTENDED_SMART] = refused
    assert identify(machine, "/dev/nvme0n1").problems == ()


THRESHOLD = "nvme get-feature /dev/nvme0 --feature-id=0x24"


def measuring(machine: MachineOfFiles, said: Completed) -> PowerThreshold | None:
    """The power threshold of a drive that measures its own power and says so of feature 24h."""
    page = controller_page(controller_attributes=1 << 21)
    answers(machine, NVME_CLI | {"nvme id-ctrl /dev/nvme0n1": page})
    machine.programs[THRESHOLD] = said
    state = identify(machine, "/dev/nvme0n1")
    assert state.problems == ()
    assert known(DriveState, json.loads(json.dumps(state.to_json()))) == state
    return state.power_threshold


def test_the_power_threshold_of_a_drive_that_measures_itself_is_read(
    machine: MachineOfFiles,
) -> None:
    words = "get-feature:0x24 (Power Threshold), Current value:0x800209c4"
    found = measuring(machine, Completed(0, words, ""))
    assert found == PowerThreshold(25.0, True, 0)


def test_a_drive_that_tells_no_power_threshold_has_none(machine: MachineOfFiles) -> None:
    refused = Completed(1, "", "NVMe status: Invalid Field in Command(0x2002)")
    assert measuring(machine, refused) is None


def test_without_any_tool_the_kernel_still_tells_who_it_is(machine: MachineOfFiles) -> None:
    state = identify(machine, "/dev/nvme0n1")
    assert (state.serial, state.firmware) == ("S4EWNX0R123456", "2B2QEXM7")
    assert state.warning_celsius == 84.85  # hwmon shows WCTEMP
    assert state.smart is None
    message = "\n".join(state.problems)
    assert "install nvme-cli" in message
    assert "install smartmontools" in message


def test_an_nvme_cli_without_its_old_names_is_asked_by_the_new_ones(
    machine: MachineOfFiles,
) -> None:
    """3.0 groups its commands, and a distribution may leave the old names out."""
    answers(machine, NVME_CLI)
    for old, new in (("id-ctrl", "id ctrl"), ("id-ns", "id ns")):
        words = f"ERROR: Invalid sub-command '{old}'\nnvme-3.0\nusage: nvme"
        machine.programs[f"nvme {old} /dev/nvme0n1"] = Completed(1, "", words)
        answers(machine, {f"nvme {new} /dev/nvme0n1 --raw-binary": _BY_COMMAND[old]})
    state = identify(machine, "/dev/nvme0n1")
    assert len(state.power_states) == 2 and state.lba_formats == (LbaFormat(4096, in_use=True),)
    assert state.smart is not None and state.smart.composite_celsius == 45.0
    assert state.problems == ()


def test_smartctl_stands_in_for_nvme_cli_without_a_complaint(machine: MachineOfFiles) -> None:
    answers(machine, {"smartctl -j -x /dev/nvme0n1": NVME})
    state = identify(machine, "/dev/nvme0n1")
    assert state.smart is not None and state.smart.source == "smartctl"
    assert (state.warning_celsius, state.critical_celsius) == (83.0, 85.0)
    assert len(state.power_states) == 2
    assert state.problems == ()


@pytest.mark.parametrize("has_smartctl", [True, False])
@pytest.mark.parametrize(
    ("command", "lost", "of"),
    [
        ("id-ctrl", "power states and limits", 4096),
        ("id-ns", "block formats", 4096),
        ("get-log --log-id=2 --log-len=512", "SMART", 512),
    ],
)
def test_a_page_that_is_too_short_is_a_line_with_both_lengths(
    machine: MachineOfFiles, command: str, lost: str, of: int, has_smartctl: bool
) -> None:
    """Also where smartctl knows as much: it tells of no power limit, and the drive is unusual."""
    short = {f"nvme {command} /dev/nvme0n1": _BY_COMMAND[command][:-1]}
    answers(machine, NVME_CLI | short)
    if has_smartctl:
        answers(machine, {"smartctl -j -x /dev/nvme0n1": NVME})
    problems = identify(machine, "/dev/nvme0n1").problems
    (line,) = (one for one in problems if "bytes came" in one)
    assert line.startswith(f"no {lost}")
    assert line.endswith(f": {of - 1} bytes came of a page of {of}")
    assert problems == (line,) or not has_smartctl


def test_without_the_right_to_ask_it_says_who_may(machine: MachineOfFiles) -> None:
    denied = "/dev/nvme0n1: Permission denied"
    machine.programs["nvme "] = Completed(1, "", denied)
    message = {"exit_status": 2, "messages": [{"string": f"open failed: {denied}"}]}
    machine.programs["smartctl "] = Completed(2, json.dumps({"smartctl": message}), "")
    state = identify(machine, "/dev/nvme0n1")
    assert state.serial == "S4EWNX0R123456"
    assert len(state.problems) == 2
    assert all("run labctl as root there" in line for line in state.problems)


def test_a_drive_that_was_pulled_or_hangs_is_a_line(machine: MachineOfFiles) -> None:
    machine.programs["nvme "] = Completed(1, "", "/dev/nvme0n1: No such device")
    machine.programs["smartctl "] = Completed(124, "", "no answer within 15 s")
    state = identify(machine, "/dev/nvme0n1")
    assert "pulled" in state.problems[0]
    assert "did not answer" in state.problems[1]


def test_a_drive_that_hangs_is_asked_once(machine: MachineOfFiles) -> None:
    machine.programs["nvme "] = machine.programs["smartctl "] = Completed(124, "", "")
    (problem,) = identify(machine, "/dev/nvme0n1").problems
    assert "does the drive still respond" in problem
    assert sum(command.startswith(("nvme", "smartctl")) for command in machine.asked) == 1


def test_tools_outside_the_users_path_are_found(machine: MachineOfFiles) -> None:
    answers(machine, {f"/usr/sbin/{command}": output for command, output in NVME_CLI.items()})
    state = identify(machine, "/dev/nvme0n1")
    assert state.smart is not None and state.problems == ()


def test_a_sata_drive(machine: MachineOfFiles) -> None:
    machine.add_disk("sda", "8:0", device__vendor="ATA", device__model="Samsung SSD 860 ")
    machine.write("/sys/class/block/sda/device/vpd_pg80", b"\0\x80\0\x14      S3YZNB0K      ")
    machine.write("/sys/class/block/sda/device/hwmon/hwmon2/temp1_input", "32000")
    answers(machine, {"smartctl -j -x /dev/sda": SATA})
    state = identify(machine, "/dev/sda")
    assert (state.kind, state.serial) == ("sata", "S3YZNB0K")
    assert state.model == "Samsung SSD 860 EVO 500GB"  # sysfs has only 16 characters of it
    assert state.smart is not None and state.smart.composite_celsius == 32.0
    assert state.temperature_sensors[0].celsius == 32.0
    assert not any(command.startswith("nvme ") for command in machine.asked)


def test_filesystems_and_holders_are_reported(machine: MachineOfFiles) -> None:
    machine.add_partition("nvme0n1", "nvme0n1p1", "259:1")
    machine.add_partition("nvme0n1", "nvme0n1p2", "259:2")
    machine.add_disk("dm-0", "253:0", dm__name="vg-data")
    machine.stack("dm-0", "nvme0n1p2")
    machine.mount("/data", "259:1", "/dev/nvme0n1p1", kind="xfs")
    machine.mount("/more", "253:0", "/dev/mapper/vg-data")
    state = identify(machine, "/dev/nvme0n1")
    assert state.in_use[:2] == ("xfs mounted on /data", "ext4 mounted on /more")
    assert state.in_use[2].startswith("held by dm-0 (vg-data")


def test_of_a_partition_the_drive_is_identified(machine: MachineOfFiles) -> None:
    machine.add_partition("nvme0n1", "nvme0n1p1", "259:1")
    answers(machine, NVME_CLI)
    state = identify(machine, "/dev/nvme0n1p1")
    assert (state.device, state.serial) == ("/dev/nvme0n1", "S4EWNX0R123456")
    assert "a partition of nvme0n1" in state.findings[0]


def test_of_a_scratch_file_the_drive_below_its_filesystem(machine: MachineOfFiles) -> None:
    machine.add_disk("dm-0", "253:0")
    machine.stack("dm-0", "nvme0n1")
    machine.mount("/scratch", "253:0", "/dev/mapper/luks")
    machine.nodes["/scratch"] = (DIRECTORY, "0:0")
    machine.nodes["/scratch/file"] = (REGULAR, "0:0")
    answers(machine, NVME_CLI)
    state = identify(machine, "/scratch/file")
    assert state.smart_device == "/dev/nvme0n1"
    assert (state.kind, state.device, state.serial) == ("file", "/dev/nvme0n1", "S4EWNX0R123456")


@pytest.mark.parametrize("target", ["/nowhere/file", "/dev/none", "relative", ""])
def test_a_target_that_is_not_there_is_no_exception(machine: MachineOfFiles, target: str) -> None:
    state = identify(machine, target)
    assert state.serial == ""
    assert state.problems or state.findings


@pytest.mark.parametrize("target", ["/dev/nvme9n1", "/dev/disk/by-id/nvme-x"])
def test_a_drive_that_is_not_there_is_no_file(machine: MachineOfFiles, target: str) -> None:
    machine.nodes["/dev"] = (DIRECTORY, "0:6")
    state = identify(machine, target)
    assert (state.kind, state.findings) == ("", ())
    (problem,) = state.problems
    assert "is the drive connected" in problem


def test_an_nbd_address_has_only_a_host(machine: MachineOfFiles) -> None:
    state = identify(machine, "nbd+unix:///?socket=/s", "nbd")
    assert (state.kind, state.model, state.problems) == ("nbd", "", ())
    assert state.smart_device == ""


def test_behind_an_nbd_address_another_device_can_be_asked(machine: MachineOfFiles) -> None:
    answers(machine, {f"nvme {name} /dev/nvme9": x for name, x in _BY_COMMAND.items()})
    state = identify(machine, "nbd+unix:///?socket=/s", "nbd", "/dev/nvme9")
    assert (state.kind, state.device, state.smart_device) == ("nbd", "", "/dev/nvme9")
    assert (state.serial, state.warning_celsius) == ("S4EWNX0R123456", 85.0)
    assert state.smart is not None and state.problems == ()


def test_every_real_disk_of_this_machine_is_identified() -> None:
    machine = LocalMachine()
    disks = [path.parent.name for path in Path("/sys/class/block").glob("*/queue")]
    if not disks:
        pytest.skip("there are no disks here")
    for disk in disks:
        state = identify(machine, f"/dev/{disk}")
        if state.device:
            assert state.device == f"/dev/{disk}"
            assert state.size_bytes is not None
            assert state.logical_block_bytes
