"""Purge, power state and governor: the exact commands, and what is made of their answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from labctl.capture.drive import control as drive_control
from labctl.capture.drive.control import DriveControl
from labctl.capture.host.machine import Completed
from labctl.capture.identity.node import DrivePlace, Node
from labctl.capture.identity.opened_target import OpenedTarget, opening
from labctl.config.rig_file import Drive
from labctl.errors import RunFailed
from labctl.record.phase import Pattern, Phase, Role
from tests.unit.capture.identity.nvme_made import printed

OK = Completed(0, "", "")


@dataclass
class Scripted:
    """A machine that answers what was written down; what it was not asked yet is left over."""

    answers: list[tuple[list[str], Completed]]
    texts: dict[str, str] = field(default_factory=dict)

    def run(self, argv: Sequence[str], timeout_s: float = 15.0) -> Completed:
        expected, answer = self.answers.pop(0)
        assert list(argv) == expected
        return answer

    def read_texts(self, paths_or_globs: Sequence[str]) -> dict[str, str]:
        return dict(self.texts)

    def resolve(self, path: str) -> str | None:
        return {"/dev/disk/by-id/nvme-x": "/dev/nvme1n1"}.get(path, path)


def place_of(drive: Drive) -> DrivePlace:
    """What a check found its target to be."""
    path = Scripted([]).resolve(drive.target) or ""
    is_device = path.startswith("/dev/")
    return DrivePlace(path, Node(0o060660 if is_device else 0o100600, "259:3", 6, 4096, 310), None)


def purge_phase(method: str, within_s: float = 60.0) -> Phase:
    return Phase(0, Role.PREPARE, "purge", Pattern.PURGE, within_s, purge_method=method)


SATA = Drive(target="/dev/sdb")
NVME = Drive(target="/dev/disk/by-id/nvme-x", engine="io_uring", serial="S1", destructive=True)


@pytest.mark.parametrize(
    ("drive", "method", "command", "used"),
    [
        (NVME, "auto", ["nvme", "format", "/dev/nvme1n1", "--ses=1"], "format"),
        (NVME, "discard", ["blkdiscard", "/proc/self/fd/3"], "discard"),
        (Drive(target="/dev/sdb"), "auto", ["blkdiscard", "/proc/self/fd/3"], "discard"),
        (
            Drive(target="/scratch/file", size_bytes=4096), "auto",
            ["fallocate", "--punch-hole", "--length", "4096", "/proc/self/fd/3"], "discard",
        ),
    ],
)  # fmt: skip
def test_each_purge_is_one_command_on_the_device_itself(
    drive: Drive, method: str, command: list[str], used: str
) -> None:
    place = place_of(drive)
    if used == "discard":
        assert place.node is not None
        command = list(opening([OpenedTarget(3, place, place.node)], command))
    machine = Scripted([(command, OK)])
    assert DriveControl(machine, drive).purge(purge_phase(method), place) == used
    assert machine.answers == []


@pytest.mark.parametrize(
    ("target", "smart_device", "asked"),
    [
        ("/dev/disk/by-id/nvme-x", "", "/dev/nvme1"),
        ("/dev/disk/by-id/nvme-x", "/dev/nvme7", "/dev/nvme1"),
        ("/dev/mapper/crypt", "/dev/nvme1n1", "/dev/nvme1"),
        ("/dev/mapper/crypt", "/dev/nvme1", "/dev/nvme1"),
        ("/dev/mapper/crypt", "/srv/bench/nvme0", "/srv/bench/nvme0"),
        ("/dev/sdb", "", "/dev/sdb"),
    ],
)
def test_settings_are_asked_of_the_controller_that_the_rig_leads_to(
    target: str, smart_device: str, asked: str
) -> None:
    """A strict drive refuses them by namespace, whoever names it."""
    answer = Completed(0, "get-feature:0x02 (Power Management), Current value:0x00000003", "")
    machine = Scripted([(["nvme", "get-feature", asked, "--feature-id=2"], answer)])
    drive = Drive(target=target, smart_device=smart_device)
    assert DriveControl(machine, drive).power_state() == 3


def test_a_format_of_what_is_no_nvme_drive_is_refused_with_what_to_do() -> None:
    with pytest.raises(RunFailed, match='method = "discard"'):
        DriveControl(Scripted([]), SATA).purge(purge_phase("format"), place_of(SATA))


def test_a_purge_that_the_drive_refuses_is_reported_in_its_own_words() -> None:
    refusal = Completed(1, "", "NVMe status: Access Denied: (0x4286)\n")
    machine = Scripted([(["nvme", "format", "/dev/nvme1n1", "--ses=1"], refusal)])
    with pytest.raises(RunFailed, match="Access Denied"):
        DriveControl(machine, NVME).purge(purge_phase("auto"), place_of(NVME))


def test_a_sanitize_is_followed_until_the_drive_says_that_it_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drive_control, "POLL_EVERY_S", 0.0)
    ask = ["nvme", "get-log", "--log-id=129", "--log-len=512", "/dev/nvme1", "--raw-binary"]
    machine = Scripted(
        [
            (["nvme", "sanitize", "/dev/nvme1", "--sanact=2"], OK),
            (ask, printed((4000).to_bytes(2, "little") + b"\x02\0" + bytes(508))),
            (ask, Completed(1, "", "a moment of silence")),
            (ask, printed(b"\xff\xff\x01\x01" + bytes(508))),
        ]
    )
    assert DriveControl(machine, NVME).purge(purge_phase("sanitize"), place_of(NVME)) == "sanitize"
    assert machine.answers == []


def test_a_sanitize_whose_state_cannot_be_read_is_not_said_to_go_on() -> None:
    ask = ["nvme", "get-log", "--log-id=129", "--log-len=512", "/dev/nvme1", "--raw-binary"]
    machine = Scripted(
        [
            (["nvme", "sanitize", "/dev/nvme1", "--sanact=2"], OK),
            (ask, printed(b"\xff\xff\x01\x01")),
        ]
    )
    with pytest.raises(RunFailed, match=r"is not known .* 4 bytes came of a page of 512"):
        DriveControl(machine, NVME).purge(purge_phase("sanitize", 0.0), place_of(NVME))


def test_a_power_state_is_read_set_verified_and_put_back() -> None:
    get = ["nvme", "get-feature", "/dev/nvme1", "--feature-id=2"]

    def now(state: int) -> tuple[list[str], Completed]:
        printed = f"get-feature:0x02 (Power Management), Current value:{state:#010x}\n"
        return get, Completed(0, printed, "")

    def put(state: int) -> tuple[list[str], Completed]:
        return ["nvme", "set-feature", "/dev/nvme1", "--feature-id=2", f"--value={state}"], OK

    ways = [now(1), put(3), now(3)], [now(3), put(4), now(4)], [now(4), put(1), now(1)]
    machine = Scripted([answer for way in ways for answer in way])
    control = DriveControl(machine, NVME)
    control.set_power_state(3)
    control.set_power_state(4)
    assert control.restore() == []
    assert control.restore() == []
    assert machine.answers == []


def test_a_drive_that_is_in_the_state_already_is_not_asked_to_change() -> None:
    """Many have one state only, and refuse: "Feature Not Changeable"."""
    get = ["nvme", "get-feature", "/dev/nvme1", "--feature-id=2"]
    printed = (
        '{\n  "Feature":"0x02",\n  "Current value":"0x00000000"\n}\n'  # a host's nvme-cli.conf
    )
    control = DriveControl(Scripted([(get, Completed(0, printed, ""))]), NVME)
    control.set_power_state(0)
    assert control.restore() == []


@pytest.mark.parametrize(
    ("printed", "state"),
    [
        ("get-feature:0x2 (Power Management), Current value:0x000003\n", 3),
        ("get-feature:0x02 (Power Management), Current value:0x00000023\n", 3),  # workload hint 1
        ('{\n  "Feature":"0x02",\n  "Name":"Power Management",\n  "Current":"0x00000004"\n}\n', 4),
    ],
)
def test_what_get_feature_printed_over_the_versions(printed: str, state: int) -> None:
    get = ["nvme", "get-feature", "/dev/nvme1", "--feature-id=2"]
    assert DriveControl(Scripted([(get, Completed(0, printed, ""))]), NVME).power_state() == state


def test_under_multipath_the_controller_is_not_the_one_that_the_name_suggests() -> None:
    """Until Linux 5.4 a namespace could be nvme1n1 on the controller nvme0, and nvme1 another."""
    get = ["nvme", "get-feature", "/dev/nvme0", "--feature-id=2"]
    machine = Scripted(
        [(get, Completed(0, "get-feature:0x2 (Power Management), Current value:0x00000001\n", ""))],
        {"/sys/class/nvme/nvme0/nvme1c0n1/size": "1", "/sys/class/nvme/nvme1/nvme0c1n1/size": "1"},
    )
    assert DriveControl(machine, NVME).power_state() == 1


def test_a_power_state_that_the_drive_does_not_take_is_a_failure() -> None:
    get = ["nvme", "get-feature", "/dev/nvme1", "--feature-id=2"]
    still = Completed(0, "get-feature:0x02 (Power Management), Current value:00000000\n", "")
    machine = Scripted(
        [
            (get, still),
            (["nvme", "set-feature", "/dev/nvme1", "--feature-id=2", "--value=3"], OK),
            (get, still),
        ]
    )
    with pytest.raises(RunFailed, match="stays in power state 0, not 3"):
        DriveControl(machine, NVME).set_power_state(3)


def test_a_host_without_governors_says_to_leave_it_out() -> None:
    with pytest.raises(RunFailed, match="leave governor out"):
        DriveControl(Scripted([]), NVME).set_governor("performance")
