"""A drive measures itself from one phase boundary to the next, and what it was before is left."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from instruments.simulated.drive.drive_host_files import DriveHostFiles
from instruments.simulated.drive.model import DriveModel
from instruments.simulated.drive.own_power_meter import OwnPowerMeter
from instruments.simulated.drive.parameters import load
from labctl.capture.drive.changed_settings import POWER_MEASUREMENT, Changed, left_changed
from labctl.capture.drive.control import DriveControl
from labctl.capture.drive.own_measurement import SOMEBODY_ELSES, OwnMeasurement
from labctl.capture.drive.smart_watch import DriveWatch
from labctl.capture.host.machine import TIMED_OUT, Completed, LocalMachine, no_answer
from labctl.capture.identity.nvme_pages import parse_power_measurement
from labctl.capture.identity.smart import SmartReader
from labctl.config.rig_file import Drive as RigDrive
from labctl.record.drive_state import DriveState
from labctl.record.events import Event, EventKind
from tests.unit.capture.identity.nvme_made import power_page, printed

STATE = DriveState("/dev/nvme0n1", smart_device="/dev/nvme0n1", has_power_measurement=True)
WATTS = 2 << 16


def test_the_log_is_read_with_the_histogram_as_far_as_it_came() -> None:
    page = power_page(
        (0.0, 0), (5.0, 3), (5.25, 7), average_power=WATTS | 521, maximum_power=WATTS | 555,
        generation=9, beyond_last_bin=2, attributes=0b111,
    )  # fmt: skip
    found = parse_power_measurement(page)
    assert found is not None
    assert (found.is_on, found.has_gaps, found.is_estimated) == (True, True, True)
    assert (found.generation, found.intervals, found.beyond_last_bin) == (9, 10, 2)
    assert (found.average_watts, found.maximum_watts) == (
        pytest.approx(5.21), pytest.approx(5.55),
    )  # fmt: skip
    assert found.percent_error == 5
    assert found.bins == ((5.0, 3), (5.25, 7))
    cut = parse_power_measurement(page[:-5])
    assert cut is not None and cut.bins == ((5.0, 3),)
    silent = parse_power_measurement(power_page(percent_error=255))
    assert silent is not None
    assert (silent.percent_error, silent.average_watts, silent.intervals) == (None, None, 0)
    assert parse_power_measurement(page[:63]) is None


class Drive:
    """nvme-cli of a drive that measures itself, second by second of what it is asked."""

    def __init__(
        self, *, is_on: bool = False, refuses: bool = False, page_bytes: int = 4096, step: int = 1
    ) -> None:
        self._step = step
        self.is_on, self.refuses, self.page_bytes = is_on, refuses, page_bytes
        self.generation = 0
        self.values: list[int] = []
        self.begun = self.asked = 0
        self.unanswered: set[int] = set()
        self._commands = 0

    def run(self, argv: Sequence[str], timeout_s: float = 15.0) -> Completed:
        self._commands += 1
        done = self._answer(argv)
        late = self._commands in self.unanswered
        return Completed(TIMED_OUT, "", no_answer(argv[0], timeout_s)) if late else done

    def _answer(self, argv: Sequence[str]) -> Completed:
        if argv[1] == "set-feature":
            if self.refuses:
                return Completed(1, "", "NVMe status: Invalid Field in Command(0x2002)")
            value = int(argv[-1].removeprefix("--value="))
            self.values.append(value)
            self.is_on = bool(value & 1)
            self.generation += self._step * self.is_on
            self.asked = 0
            return Completed(0, "", "")
        if "--log-id=37" not in argv:
            return Completed(1, "", "NVMe status: Invalid Log Page(0x109)")
        self.asked += 1
        counts = [(5.0, self.asked - 1)]
        page = power_page(
            *counts, attributes=int(self.is_on), generation=self.generation,
            average_power=WATTS | 510, maximum_power=WATTS | 520,
        )  # fmt: skip
        return printed(page[: self.page_bytes])

    def read_texts(self, paths_or_globs: Sequence[str]) -> dict[str, str]:
        return {}

    def resolve(self, path: str) -> str | None:
        return None


def test_it_is_begun_for_as_long_as_a_phase_takes_and_stopped() -> None:
    drive = Drive()
    own = OwnMeasurement(drive, STATE, 600.0)
    assert own.begin()
    assert drive.values == [1 | 15 << 16]
    found = own.read()
    assert found is not None and found.intervals == 1
    own.end()
    assert drive.values[-1] & 0xF == 0
    assert own.read() is None


@pytest.mark.parametrize(
    ("longest_s", "most", "minutes"), [(1e9, None, 0xFFFF), (1e9, 90, 90), (10.0, 90, 6)]
)
def test_it_ends_by_itself_some_minutes_after_the_longest_phase(
    longest_s: float, most: int | None, minutes: int
) -> None:
    drive = Drive()
    OwnMeasurement(drive, replace(STATE, longest_measurement_minutes=most), longest_s).begin()
    assert drive.values == [1 | minutes << 16]


def test_a_measurement_of_somebody_else_is_left_alone() -> None:
    drive = Drive(is_on=True)
    own = OwnMeasurement(drive, STATE, 60.0)
    assert not own.begin()
    assert own.problem == SOMEBODY_ELSES
    own.end()
    assert drive.values == []
    drive.is_on = False
    assert own.begin() and not own.problem
    drive.generation += 1  # somebody has it begin anew
    assert own.read() is None
    assert own.problem == SOMEBODY_ELSES


def test_a_measurement_that_somebody_begins_during_the_run_is_left_alone() -> None:
    drive = Drive()
    own = OwnMeasurement(drive, STATE, 60.0)
    assert own.begin() and own.begin()
    ours = list(drive.values)
    drive.generation += 1
    assert own.read() is None
    assert not own.begin()
    own.end()
    assert drive.is_on and drive.values == ours
    drive.is_on = False  # it has ended
    assert own.begin()
    drive.generation += 1
    own.end()
    assert drive.is_on


class Killed:
    """A run that is killed while the drive measures, and what its record has of it."""

    def __init__(self, drive: Drive) -> None:
        self.drive = drive
        self.events: list[Event] = []
        self.own = OwnMeasurement(drive, STATE, 60.0, self._note)
        self.marked: list[tuple[bool, int]] = []

    def _note(self, kind: EventKind, **data: object) -> None:
        self.marked.append((self.drive.is_on, self.drive.generation))
        self.events.append(Event.from_line(Event(0, kind, data).to_line()))

    @property
    def left(self) -> Changed:
        return left_changed(self.events)

    def control(self) -> DriveControl:
        target = RigDrive(target="/dev/nvme0n1", engine="libaio")
        return DriveControl(self.drive, target, self.left)


def test_what_a_killed_run_has_begun_is_known_and_ended() -> None:
    run = Killed(Drive())
    assert run.own.begin() and run.own.begin()
    assert str(run.left) == "power measurement 2 (before: off)"
    assert run.marked == [(False, 0), (False, 1)], "before it is begun, and nothing is on then"
    control = run.control()
    assert control.left_over()
    assert control.restore() == []
    assert not run.drive.is_on
    assert not run.control().left_over()


def test_what_somebody_else_has_begun_after_the_kill_is_left_alone() -> None:
    run = Killed(Drive())
    assert run.own.begin()
    run.drive.generation += 1
    ours = list(run.drive.values)
    control = run.control()
    assert not control.left_over()
    assert control.restore() == []
    assert run.drive.is_on and run.drive.values == ours


def test_a_run_that_goes_on_takes_up_its_own_measurement() -> None:
    run = Killed(Drive())
    assert run.own.begin()
    left = run.left.now[POWER_MEASUREMENT]
    assert OwnMeasurement(run.drive, STATE, 60.0, left=left).begin()
    assert not OwnMeasurement(run.drive, STATE, 60.0, left="77").begin()


@pytest.mark.parametrize("unanswered", range(1, 9))
def test_an_answer_that_came_too_late_loses_no_measurement_of_ours(unanswered: int) -> None:
    """A busy host may let one command time out, whether or not the drive has done it."""
    run = Killed(Drive())
    run.drive.unanswered = {unanswered}
    run.own.begin()
    run.own.read()
    run.own.begin()
    assert run.own.begin(), run.own.problem
    assert run.own.read() is not None
    assert run.left.now == {POWER_MEASUREMENT: str(run.drive.generation)}
    run.own.end()
    assert not run.drive.is_on
    assert not run.left


def test_a_measurement_that_is_not_begun_anew_is_not_taken_for_a_new_one() -> None:
    run = Killed(Drive())
    assert run.own.begin()
    run.drive.refuses = True
    assert not run.own.begin()
    assert "Invalid Field in Command" in run.own.problem
    run.drive.refuses = False
    run.own.end()
    assert not run.drive.is_on and not run.left


@pytest.mark.parametrize("refuses", [False, True])
def test_a_measurement_that_has_ended_or_was_refused_leaves_nothing(refuses: bool) -> None:
    run = Killed(Drive(refuses=refuses))
    assert run.own.begin() is not refuses
    run.own.end()
    assert not run.left


def test_a_drive_that_counts_its_measurements_otherwise_is_marked_as_it_counts() -> None:
    run = Killed(Drive(step=3))
    assert run.own.begin()
    assert run.left.now == {POWER_MEASUREMENT: "3"}


def test_a_drive_that_refuses_is_not_asked_for_its_log() -> None:
    own = OwnMeasurement(Drive(refuses=True), STATE, 60.0)
    assert not own.begin()
    assert "Invalid Field in Command" in own.problem
    assert own.read() is None


async def test_each_phase_boundary_reports_what_was_measured_since_the_one_before() -> None:
    reported: list[tuple[EventKind, int, dict[str, object]]] = []
    clock = iter(range(0, 10**12, 10**9))
    drive = Drive()
    watch = DriveWatch(
        SmartReader(drive, "/dev/nvme0n1", "nvme"),
        lambda: next(clock),
        lambda *event: reported.append(event),
        own=OwnMeasurement(drive, STATE, 60.0),
    )
    for go_on in (True, True, False):
        await watch.measure_anew(go_on=go_on)
    measured = [event for event in reported if event[0] == EventKind.DRIVE_MEASUREMENT]
    assert [data["since_ns"] for _, _, data in measured] == [500_000_000, 4_500_000_000]
    assert [t_ns for _, t_ns, _ in measured] == [2_500_000_000, 6_500_000_000]
    assert measured[0][2]["average_watts"] == pytest.approx(5.1)
    assert measured[0][2]["u_ns"] == 1_000_000_000
    assert not drive.is_on


@pytest.mark.parametrize("whole_at_first", [True, False])
@pytest.mark.parametrize(
    ("came", "why"),
    [
        (63, "no power measurement of the drive: 63 bytes came of a page of 64"),
        (
            71, "the histogram of the drive's power measurement is cut off: "
            "71 bytes came of a page of 72",
        ),
    ],
)  # fmt: skip
async def test_a_log_that_is_too_short_is_reported_once_with_both_lengths(
    came: int, why: str, whole_at_first: bool
) -> None:
    reported: list[dict[str, object]] = []
    drive = Drive(page_bytes=4096 if whole_at_first else came)
    watch = DriveWatch(
        SmartReader(drive, "/dev/nvme0n1", "nvme"),
        lambda: 0,
        lambda kind, t_ns, data: reported.append(data),
        own=OwnMeasurement(drive, STATE, 60.0),
    )
    await watch.measure_anew()
    drive.page_bytes = came
    for go_on in (True, True, False):
        await watch.measure_anew(go_on=go_on)
    assert [data["reason"] for data in reported if "reason" in data] == [why]
    assert any("average_watts" in data for data in reported) is (came > 64)


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[tuple[DriveModel, DriveHostFiles, Path]]:
    ssd = DriveModel(load(), 1, 0)
    yield ssd, DriveHostFiles(tmp_path, ssd), tmp_path


async def test_the_simulated_drive_measures_what_it_draws(
    simulated: tuple[DriveModel, DriveHostFiles, Path],
) -> None:
    ssd, files, folder = simulated
    machine = LocalMachine(tools=str(folder))
    own = OwnMeasurement(machine, STATE, 60.0)

    def pass_seconds(seconds: float) -> None:
        for _ in range(round(seconds * 50)):
            for _ in range(20):
                ssd.tick()
            files.read_features()

    begun = asyncio.create_task(asyncio.to_thread(own.begin))
    while not begun.done():
        pass_seconds(0.02)
        await asyncio.sleep(0.01)
    assert begun.result()
    before = ssd.joules
    pass_seconds(10)
    found = own.read()
    assert found is not None and 9 <= found.intervals <= 11
    assert found.average_watts == pytest.approx(1.02 * (ssd.joules - before) / 10, rel=0.01)
    assert sum(count for _, count in found.bins) == found.intervals
    assert own.problem == ""
    limit = [str(folder / "nvme"), "admin-passthru", "/dev/x", "--opcode=0x09", "--cdw10=0x23"]
    subprocess.run([*limit, f"--cdw13={WATTS | 600}"], check=True)
    pass_seconds(0.1)
    assert ssd.power_limit_watts == pytest.approx(6.0)


def test_a_command_that_comes_while_the_page_is_written_is_taken_up(
    simulated: tuple[DriveModel, DriveHostFiles, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    ssd, files, folder = simulated
    command = folder / "nvme-state" / "command-37"
    for _ in range(1000):
        ssd.tick()
    command.write_text("1\n")
    files.read_features()
    assert not command.exists()
    page = OwnPowerMeter.page

    def while_it_is_written(meter: OwnPowerMeter) -> bytes:
        command.write_text("0\n")
        return page(meter)

    monkeypatch.setattr(OwnPowerMeter, "page", while_it_is_written)
    for _ in range(2000):  # an interval of its measurement ends each second
        ssd.tick()
        files.read_features()
        if command.exists():
            break
    monkeypatch.undo()
    files.read_features()
    assert (folder / "nvme-state" / "feature-37").read_text() == "0\n"
