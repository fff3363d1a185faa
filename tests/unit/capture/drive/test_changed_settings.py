"""What a run set and did not put back: found in its record, named, put back by who comes next."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labctl.capture.drive.changed_settings import Changed, left_changed
from labctl.capture.drive.control import DriveControl
from labctl.capture.host.machine import Completed
from labctl.config.rig import parse_rig
from labctl.config.rig_file import Drive
from labctl.errors import RunFailed
from labctl.record.events import Event
from labctl.record.journal import Journal
from labctl.record.reader import RunRecord
from labctl.service.data_dir import find_home
from labctl.service.doctor.drive import check_leftovers
from labctl.service.locks.rig_lock import RigLock
from labctl.service.runs import killed_runs
from labctl.service.runs.killed_runs import end_leftovers
from tests.unit.capture.run.test_resumption import RIG, made, resumption
from tests.unit.machine_of_files import MachineOfFiles

CORES = [f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor" for core in (0, 1)]
BENCH = parse_rig(RIG, "rig.toml")
DRIVE = BENCH.drive


class Host(MachineOfFiles):
    """A host of two cores, with an NVMe drive that has power states 0 to 4."""

    def __init__(self, root: Path, state: int = 0) -> None:
        super().__init__(root)
        self.state = state
        self.limit = 0
        """As the drive has it; 0: none."""
        self.sets: list[str] = []
        self.nodes[DRIVE.target] = (0o060660, "259:0")
        self.links[DRIVE.target] = "/dev/nvme1n1"
        self.write("/sys/class/nvme/nvme1/nvme1n1/size", "1")
        self.write("/sys/class/nvme/nvme1/serial", "S1\n")
        self.set_governors("ondemand")

    def set_governors(self, name: str) -> None:
        for path in CORES:
            self.write(path, f"{name}\n")

    @property
    def governors(self) -> set[str]:
        return {text.strip() for text in self.read_texts(CORES).values()}

    def run(self, argv: Sequence[str], timeout_s: float = 15.0) -> Completed:
        if list(argv[:2]) == ["nvme", "get-feature"]:
            value = self.limit if argv[-1] == "--feature-id=0x23" else self.state
            return Completed(0, f"get-feature:0x02 (Feature), Current value:{value:#010x}\n", "")
        if list(argv[:2]) == ["nvme", "admin-passthru"]:
            self.sets.append(" ".join(argv))
            self.limit = int(argv[-1].removeprefix("--cdw13="))
            return Completed(0, "Admin Command 9 is Success and result: 0x00000000\n", "")
        if list(argv[:2]) == ["nvme", "set-feature"]:
            self.sets.append(" ".join(argv))
            self.state = int(argv[-1].removeprefix("--value="))
            return Completed(0, "", "")
        if argv[:2] == ["sh", "-c"] and "echo" in argv[2]:
            for path, governor in zip(argv[4::2], argv[5::2], strict=True):
                self.write(path, f"{governor}\n")
            return Completed(0, "", "")
        return super().run(argv, timeout_s)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "host")


def killed(path: Path, host: Host) -> None:
    """What a run in ``path`` does that sets both and is killed then: its control tells, no more."""
    journal = Journal(path, lambda: RunRecord(path).header.anchor.wall_ns + 1)

    def tell(kind: str, **data: Any) -> None:
        journal.event(kind, **data)
        journal.flush()

    control = DriveControl(host, DRIVE, None, tell)
    control.set_governor("performance")
    control.set_power_state(3)
    control.set_power_state(4)
    journal.close()
    assert (host.state, host.governors) == (4, {"performance"})


@pytest.fixture
def run(tmp_path: Path, host: Host) -> Path:
    path = made(tmp_path / "runs")
    killed(path, host)
    return path


@pytest.fixture
def before(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``run``, as the last one on its rig, by a process that is gone."""
    monkeypatch.setenv("LABCTL_HOME", str(tmp_path / "home"))
    lock = RigLock.take(find_home(), BENCH, "labctl run")
    lock.note_run(run, "plan")
    lock.release()
    (file,) = (tmp_path / "home" / "rigs").glob("*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "boot_id": "another"}))
    return run


def test_each_change_is_recorded_before_it_is_made(host: Host) -> None:
    seen: list[tuple[str, int]] = []
    control = DriveControl(host, DRIVE, None, lambda kind, **data: seen.append((kind, host.state)))
    control.set_power_state(2)
    assert control.restore() == []
    assert seen == [("setting_changed", 0), ("settings_restored", 0)]


def test_a_power_limit_that_the_drive_answers_in_another_unit_is_the_same(host: Host) -> None:
    """5 W: told as 500 hundredths, answered as 50,000 times 0.1 mW."""

    class OtherUnit:
        read_texts, resolve = host.read_texts, host.resolve

        def run(self, argv: Sequence[str], timeout_s: float = 15.0) -> Completed:
            done = host.run(argv, timeout_s)
            if host.limit == 2 << 16 | 500:
                host.limit = 1 << 16 | 50_000
            return done

    events: list[Event] = []
    machine = OtherUnit()
    told = DriveControl(
        machine, DRIVE, None, lambda kind, **data: events.append(Event(0, kind, data))
    )
    told.set_power_limit(5.0)
    assert host.limit == 1 << 16 | 50_000
    assert str(DriveControl(machine, DRIVE, left_changed(events)).left_over())
    assert told.restore() == []
    assert host.limit == 0


def test_a_power_limit_of_a_killed_run_is_named_and_put_back(host: Host) -> None:
    events: list[Event] = []

    def tell(kind: str, **data: Any) -> None:
        events.append(Event(0, kind, data))

    DriveControl(host, DRIVE, None, tell).set_power_limit(12.0)
    assert host.limit == 2 << 16 | 1200
    left = left_changed(events)
    assert str(left) == "power limit 12 W (before: none)"
    after = DriveControl(host, DRIVE, left)
    assert str(after.left_over()) == "power limit 12 W (before: none)"
    assert after.restore() == []
    assert host.limit == 0
    odd = {"before": {"power_limit": "0; reboot"}, "now": {"power_limit": "131072"}}
    assert not left_changed([Event(0, "setting_changed", odd)])


def test_a_run_that_is_resumed_puts_back_what_was_before_the_first_process(
    run: Path, host: Host
) -> None:
    """Not what the one before had set, though it finds the drive in that."""
    control = DriveControl(host, DRIVE, resumption(run).left[""])
    control.set_governor("performance")
    control.set_power_state(2)
    assert control.restore() == []
    assert (host.state, host.governors) == (0, {"ondemand"})


def test_what_was_put_back_is_no_left_over(run: Path, host: Host) -> None:
    events = [*RunRecord(run).events, Event(0, "settings_restored", {"settings": ["power_state"]})]
    left = left_changed(events)
    assert str(left) == "CPU governor performance (before: ondemand)"
    control = DriveControl(host, DRIVE, left)
    assert control.restore() == []
    assert (host.state, host.governors) == (4, {"ondemand"})


def test_what_somebody_has_set_otherwise_since_is_his_own(run: Path, host: Host) -> None:
    host.set_governors("powersave")
    left = DriveControl(host, DRIVE, left_changed(RunRecord(run).events)).left_over()
    assert str(left) == "power state 4 (before: 0)"


def test_the_daemon_and_the_next_run_put_back_what_is_left(
    run: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(killed_runs, "machine_at", lambda *_: host)
    assert end_leftovers(run, BENCH) == [
        f"{run.name} had left CPU governor performance (before: ondemand), power state 4 "
        "(before: 0): put back"
    ]
    assert (host.state, host.governors) == (0, {"ondemand"})
    assert end_leftovers(run, BENCH) == []


def test_the_doctor_names_what_is_left(before: Path, host: Host) -> None:
    (check,) = check_leftovers(BENCH, host)
    assert str(before) in check.text and "power state 4 (before: 0)" in check.text
    host.state = 0
    host.set_governors("ondemand")
    assert list(check_leftovers(BENCH, host)) == []


def test_another_drive_in_its_place_is_left_alone(
    tmp_path: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    from labctl.record.drive_state import DriveState

    path = made(tmp_path / "runs")
    file = path / "run.json"
    header = replace(RunRecord(path).header, drive_state=DriveState(DRIVE.target, serial="S2"))
    file.write_text(json.dumps(header.to_json()))
    killed(path, host)
    monkeypatch.setattr(killed_runs, "machine_at", lambda *_: host)
    asked = len(host.sets)
    (line,) = end_leftovers(path, BENCH)
    assert "another drive now (S1)" in line and len(host.sets) == asked


def test_settings_of_a_rig_that_is_not_this_machines_are_left_alone(
    run: Path, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record says which drive and host: of another rig nothing is asked or set."""

    def connected(*_: object) -> Host:
        raise AssertionError("connected")

    monkeypatch.setattr(killed_runs, "machine_at", connected)
    for there, here in (('"/dev/nvme1n1"', '"/dev/nvme2n1"'), ('"local"', '"root@bench"')):
        (line,) = end_leftovers(run, parse_rig(RIG.replace(there, here), "other.toml"))
        assert "not put back" in line and here.strip('"') in line and there.strip('"') in line
    assert host.state == 4


def test_a_host_that_was_started_anew_is_set_again(host: Host) -> None:
    control = DriveControl(host, DRIVE)
    control.set_again_after("first")
    control.set_governor("performance")
    control.set_power_state(2)
    host.state = 0
    host.set_governors("ondemand")
    control.set_again_after("first")
    assert host.state == 0
    control.set_again_after("second")
    assert (host.state, host.governors) == (2, {"performance"})
    assert control.restore() == []
    assert (host.state, host.governors) == (0, {"ondemand"})


@pytest.mark.parametrize(
    "data",
    [
        {"before": {"/etc/passwd": "x"}, "now": {"/etc/passwd": "y"}},
        {"before": {CORES[0] + "/../x": "a"}, "now": {CORES[0] + "/../x": "b"}},
        {"before": {"power_state": "32"}, "now": {"power_state": "0"}},
        {"before": {CORES[0]: "a; reboot"}, "now": {CORES[0]: "performance"}},
        {"before": {"power_state": 1}, "now": ["power_state"]},
        {"before": None},
        {},
    ],
)
def test_a_record_that_names_something_else_has_nothing_put_back(data: dict[str, Any]) -> None:
    assert left_changed([Event(0, "setting_changed", data)]) == Changed()


def test_a_drive_without_the_tools_says_so(tmp_path: Path) -> None:
    bare = MachineOfFiles(tmp_path)
    with pytest.raises(RunFailed, match=re.escape("install nvme-cli")):
        DriveControl(bare, Drive(target="/dev/nvme0n1")).set_power_state(1)
