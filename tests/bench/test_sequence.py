"""Phase after phase with the real fio: what happens when one of them cannot begin."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from instruments.simulated.drive.process import DriveProcess, start_drive
from labctl.capture.identity.node import DrivePlace
from labctl.capture.phases import sequence as phase_sequence
from labctl.capture.phases.fio_process import FioProcess
from labctl.capture.phases.sequence import Pause, PhaseSequence
from labctl.capture.phases.stopping import StopRequest
from labctl.config.plan import load_plan, parse_plan
from labctl.config.rig_file import Drive
from labctl.errors import GuardTripped, Refused, RunFailed
from labctl.fio.results import last_document
from labctl.fio.status import status_of, unfinished
from labctl.record.phase import Pattern, Phase, Role, Until
from labctl.record.point_end import PointState
from labctl.record.timebase import Timebase
from tests.bench.test_fio_phases import fios_below
from tests.fio_result import final_result
from tests.loop_device import DEVICE_BYTES, loop_device

pytestmark = pytest.mark.bench


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[DriveProcess]:
    with start_drive(tmp_path / "drive") as process:
        yield process


@dataclass
class RecordingListener:
    began: list[int] = field(default_factory=list)
    ended: list[dict[str, Any]] = field(default_factory=list)
    others: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def phase_began(self, phase: Phase, t_ns: int) -> None:
        self.began.append(phase.index)

    def event(self, kind: str, t_ns: int | None = None, **data: Any) -> None:
        if kind == "phase_ended":
            self.ended.append(data)
        else:
            self.others.append((kind, data))

    @property
    def outcomes(self) -> dict[int, str]:
        return {item["index"]: item["outcome"] for item in self.ended}


@dataclass
class Starter:
    """Starts the real fio; phases in ``broken`` get a target that is not there. The drive's
    temperatures are a list, and its power states only noted."""

    drive: Drive
    folder: Path
    timebase: Timebase
    broken: tuple[int, ...] = ()
    refused: tuple[int, ...] = ()
    temperatures: Iterator[float] = field(default_factory=lambda: iter(()))
    states: list[int | None] = field(default_factory=list)
    on_purge: Callable[[], None] | None = None
    checked: list[int] = field(default_factory=list)
    mounted_meanwhile: bool = False
    good_after_s: float = 1.0
    point_ns: int = 0

    async def check_again(self, phase: Phase) -> dict[str, DrivePlace]:
        self.checked.append(phase.index)
        if self.mounted_meanwhile:
            raise Refused("the drive is mounted now")
        return {}

    async def purge(self, phase: Phase) -> None:
        if self.on_purge is None:
            raise RunFailed("the drive cannot be purged")
        self.on_purge()

    async def set_power(self, state: int | None, limit_watts: float | None) -> None:
        self.states.append(state)

    async def settings_found(self) -> list[dict[str, Any]]:
        return []

    def celsius(self) -> float | None:
        return next(self.temperatures, None)

    def watts(self) -> float | None:
        return None

    def point_began(self, phase: Phase, t_ns: int) -> None:
        self.point_ns = t_ns

    def point_state(self) -> PointState | None:
        good = self.timebase.now_ns() - self.point_ns > self.good_after_s * 1e9
        return PointState(keeps=() if good else ("rises or falls",))

    async def start_fio(self, phase: Phase) -> FioProcess:
        if phase.index in self.refused:
            raise Refused("the drive is mounted now")
        drive = self.drive
        if phase.index in self.broken:
            drive = drive.model_copy(update={"target": "nbd+unix:///?socket=/nowhere"})
        folder = self.folder / phase.slug
        return await FioProcess.start(phase, {"": drive}, folder, self.timebase, lambda *_: None)


def phases(count: int, duration_s: float = 4.0) -> list[Phase]:
    return [
        Phase(index, Role.MEASURE, "s", Pattern.RANDREAD, duration_s, 4096, 4, 1)
        for index in range(count)
    ]


def sequence(
    simulated: DriveProcess, tmp_path: Path, of: int | Sequence[Phase], **more: Any
) -> tuple[PhaseSequence, RecordingListener]:
    listener, timebase = RecordingListener(), Timebase()
    drive = Drive(target=simulated.uri, engine="nbd", size_bytes=1 << 30)
    starter = Starter(drive, tmp_path / "fio", timebase, **more)
    planned = phases(of) if isinstance(of, int) else of
    return PhaseSequence(planned, starter, listener, timebase.now_ns), listener


async def test_a_phase_whose_fio_cannot_start_fails_alone(
    simulated: DriveProcess, tmp_path: Path
) -> None:
    """The one before it is on when that is found out, and the one after it follows."""
    one, listener = sequence(simulated, tmp_path, 3, broken=(1,))
    await one.carry_out(StopRequest())
    assert listener.outcomes == {0: "completed", 1: "failed", 2: "completed"}
    assert listener.began == [0, 2]
    assert len(one.failed) == 1 and "randread 4k QD4" in one.failed[0]
    first = next(item for item in listener.ended if item["index"] == 0)
    assert first["end_ns"] - first["begin_ns"] >= 3.9e9, "nothing cut it short"


async def test_what_is_forbidden_ends_the_run_after_the_phase_that_is_on(
    simulated: DriveProcess, tmp_path: Path
) -> None:
    one, listener = sequence(simulated, tmp_path, 3, refused=(1,))
    with pytest.raises(Refused, match="mounted now"):
        await one.carry_out(StopRequest())
    assert listener.outcomes == {0: "completed"}
    assert fios_below(tmp_path) == []


async def test_a_stop_while_the_next_fio_gets_ready_leaves_none(
    simulated: DriveProcess, tmp_path: Path
) -> None:
    one, listener = sequence(simulated, tmp_path, 3)
    stop = StopRequest()
    running = asyncio.create_task(one.carry_out(stop))
    while not (tmp_path / "fio" / phases(2)[1].slug).exists():
        await asyncio.sleep(0.002)
    stop.ask("aborted", "enough", 130)
    await asyncio.wait_for(running, 20)
    assert listener.outcomes == {0: "interrupted"}
    assert fios_below(tmp_path) == []


ROUNDS = """
name = "rounds"
idle_before_s = 0
idle_after_s = 0
[[sweeps]]
pattern = "randread"
queue_depth = [1, 2]
duration_s = 1.1
rounds = 8
{more}
"""


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[DriveProcess]:
    """So slow that its IOPS hardly depend on how busy this machine is."""
    with start_drive(tmp_path / "drive", overrides={"speed_divisor": 400.0}) as process:
        yield process


@pytest.mark.long
async def test_rounds_end_when_every_point_is_steady_over_five(
    slow: DriveProcess, tmp_path: Path
) -> None:
    """The last rounds are left out, with the fio that was held for the next of them. (On a machine
    that is busy by fits it takes more than five until five are even.)"""
    text = ROUNDS.format(more="").replace("rounds = 8", "rounds = 40")
    planned = parse_plan(text, "rounds.toml").expand()
    assert len(planned) == 80
    one, listener = sequence(slow, tmp_path, planned)
    await one.carry_out(StopRequest())
    ((kind, data),) = listener.others
    assert kind == "steady_state" and data["reached"] and data["sweep_number"] == 1
    assert 5 <= data["round"] < 40
    assert listener.began == list(range(2 * data["round"]))
    assert set(listener.outcomes.values()) == {"completed"}
    assert fios_below(tmp_path) == []


async def test_only_tracked_points_decide_and_a_run_that_never_settles_says_so(
    simulated: DriveProcess, tmp_path: Path
) -> None:
    text = ROUNDS.format(more="track = [{ queue_depth = 64 }]").replace("rounds = 8", "rounds = 2")
    one, listener = sequence(simulated, tmp_path, parse_plan(text, "rounds.toml").expand())
    await one.carry_out(StopRequest())
    ((kind, data),) = listener.others
    assert (kind, data["reached"], data["round"]) == ("steady_state", False, 2)
    assert listener.began == [0, 1, 2, 3]


async def test_each_phase_waits_until_the_drive_is_cool_and_no_longer_than_its_limit(
    simulated: DriveProcess, tmp_path: Path
) -> None:
    text = ROUNDS.format(more="start_celsius = 40\nstart_within_s = 2.0").replace("rounds = 8", "")
    planned = parse_plan(text, "rounds.toml").expand()
    warm = iter([45.0, 41.0, 39.0, *[50.0] * 20])
    one, listener = sequence(simulated, tmp_path, planned, temperatures=warm)
    await one.carry_out(StopRequest())
    assert [data["reached"] for _, data in listener.others] == [True, False]
    ended = {item["index"]: item for item in listener.ended}
    assert ended[0]["end_ns"] - ended[0]["begin_ns"] > 0.9e9, "a look a second, until 39 °C"
    assert "not cool after 2 s" in ended[2]["reason"]
    assert {item["outcome"] for item in listener.ended} == {"completed"}


@pytest.mark.parametrize("mounted", [False, True])
async def test_what_was_held_for_long_is_checked_again_before_it_begins(
    mounted: bool, simulated: DriveProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fio opens its target only then, so that nothing kept others from mounting it."""
    monkeypatch.setattr(phase_sequence, "CHECK_AGAIN_AFTER_S", 1.0)
    cool = Phase(0, Role.PREPARE, "s", Pattern.COOL, 60.0, until_celsius=39.0)
    works = [replace(phase, index=1 + phase.index) for phase in phases(2, 3.0)]
    checked: list[int] = []
    one, listener = sequence(
        simulated,
        tmp_path,
        [cool, *works],
        temperatures=iter([45.0] * 3 + [38.0] * 9),
        checked=checked,
        mounted_meanwhile=mounted,
    )
    if mounted:
        with pytest.raises(Refused):
            await one.carry_out(StopRequest())
        assert listener.began == [0], "nothing was written"
    else:
        await one.carry_out(StopRequest())
        assert set(listener.outcomes.values()) == {"completed"}
    assert checked[0] == 1


async def test_a_power_state_is_set_once_where_it_changes(
    simulated: DriveProcess, tmp_path: Path
) -> None:
    text = ROUNDS.format(more="power_state = [0, 2]").replace("rounds = 8", "")
    text += '[[sweeps]]\npattern = "randread"\nduration_s = 1.1\n'
    states: list[int | None] = []
    planned = parse_plan(text, "rounds.toml").expand()
    one, listener = sequence(simulated, tmp_path, planned, states=states)
    await one.carry_out(StopRequest())
    assert states == [0, 2, None], "a sweep that names none has the drive's own"
    assert [phase.label for phase in planned][:2] == ["randread 4k QD1 PS0", "randread 4k QD2 PS0"]
    assert listener.began == [0, 1, 2, 3, 4]


async def test_a_purge_that_fails_is_a_failed_phase(
    simulated: DriveProcess, tmp_path: Path
) -> None:
    text = ROUNDS.format(more='prepare = [{ step = "purge" }]').replace("rounds = 8", "")
    one, listener = sequence(simulated, tmp_path, parse_plan(text, "rounds.toml").expand())
    await one.carry_out(StopRequest())
    assert listener.outcomes == {0: "failed", 1: "completed", 2: "completed"}
    assert one.failed == ["the drive cannot be purged"]


async def test_a_purge_begins_when_no_fio_has_the_drive_open_any_more(
    simulated: DriveProcess, tmp_path: Path
) -> None:
    """Else nobody could tell whether somebody else has."""
    rested: list[bool] = []
    purge = Phase(1, Role.PREPARE, "p", Pattern.PURGE, 5.0, purge_method="format")
    planned = [*phases(1, 1.0), purge]
    one, listener = sequence(
        simulated, tmp_path, planned, on_purge=lambda: rested.append(one.at_rest)
    )
    await one.carry_out(StopRequest())
    assert listener.outcomes == {0: "completed", 1: "completed"}
    assert rested == [True]


async def test_a_trace_is_replayed_as_recorded_and_flat_out(
    simulated: DriveProcess, tmp_path: Path
) -> None:
    """4000 I/Os with two seconds in their middle: as recorded they take as long, and each is done
    once. (Small pauses fio shortens when it is late; not one that is longer than it was late.)"""
    lines = [
        f"{50 * n + (2_000_000 if n >= 2000 else 0)} d {'write' if n % 4 == 0 else 'read'} "
        f"{4096 * (n * 7919 % 65536)} 4096"
        for n in range(4000)
    ]
    text = "\n".join(["fio version 3 iolog", "0 d add", "0 d open", *lines])
    (tmp_path / "trace.log").write_text(text + "\n")
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'name = "p"\nidle_before_s = 0\nidle_after_s = 0\n'
        '[[sweeps]]\nreplay = "trace.log"\nqueue_depth = 32\n'
        '[[sweeps]]\nreplay = "trace.log"\nqueue_depth = 32\nreplay_stalls = false\n'
    )
    planned = load_plan(str(plan))[0].expand(1 << 30)
    one, listener = sequence(simulated, tmp_path, planned)
    await one.carry_out(StopRequest())
    assert listener.outcomes == {0: "completed", 1: "completed"}, one.failed
    took = [item["end_ns"] - item["begin_ns"] for item in listener.ended]
    assert took[0] >= 1.99e9, "as recorded"
    for phase, flat_out in zip(planned, (False, True), strict=True):
        output = (tmp_path / "fio" / phase.slug / "stdout").read_text()
        assert ('"replay_no_stall"' in output) is flat_out
        found = final_result(output)
        assert found is not None and found.read is not None and found.write is not None
        assert (found.read.total_ios, found.write.total_ios) == (3000, 1000)


async def test_the_kernel_counts_how_long_a_device_was_busy_in_a_replay(tmp_path: Path) -> None:
    """Two seconds with an I/O each 20 ms: some of the time, and not all of it.

    The I/Os are long: the kernel counts in ticks (Linux 6.10 and newer count an I/O that ends in
    the tick it began in as nothing), and a machine that answers 4 KiB in 20 us may meet no tick.
    """
    lines = [f"{20000 * n} d read {(n % 4) << 22} {4 << 20}" for n in range(100)]
    text = "\n".join(["fio version 3 iolog", "0 d add", "0 d open", *lines])
    (tmp_path / "trace.log").write_text(text + "\n")
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'name = "p"\nidle_before_s = 0\nidle_after_s = 0\n[[sweeps]]\nreplay = "trace.log"\n'
    )
    listener, timebase = RecordingListener(), Timebase()
    with loop_device(tmp_path) as (device, _):
        drive = Drive(target=device, engine="libaio", size_bytes=DEVICE_BYTES)
        planned = load_plan(str(plan))[0].expand(DEVICE_BYTES)
        starter = Starter(drive, tmp_path / "fio", timebase)
        before_ms = kernel_busy_ms(device)
        await PhaseSequence(planned, starter, listener, timebase.now_ns).carry_out(StopRequest())
        busy_ms = kernel_busy_ms(device) - before_ms
    (ended,) = listener.ended
    assert ended["outcome"] == "completed"
    assert 0 < ended["disk_busy_s"] < (ended["end_ns"] - ended["begin_ns"]) * 1e-9
    assert round(ended["disk_busy_s"] * 1000) <= busy_ms, "all that it counted"


def kernel_busy_ms(device: str) -> int:
    """``io_ticks`` of a block device (Linux, Documentation/block/stat.rst: the tenth number)."""
    return int(Path("/sys/block", Path(device).name, "stat").read_text().split()[9])


async def test_a_phase_ends_when_the_temperature_is_steady(
    simulated: DriveProcess, tmp_path: Path
) -> None:
    text = """
        name = "soak"
        idle_before_s = 0
        idle_after_s = 0
        [[sweeps]]
        pattern = "randread"
        duration_s = 60
        steady_temperature_s = 5
    """
    planned = parse_plan(text, "soak.toml").expand()
    heating = iter([*(40.0 + 2 * n for n in range(6)), *[52.0] * 200])
    one, listener = sequence(simulated, tmp_path, planned, temperatures=heating)
    await one.carry_out(StopRequest())
    ((kind, data),) = listener.others
    assert (kind, data["reached"], data["celsius"]) == ("temperature_steady", True, 52.0)
    (ended,) = listener.ended
    assert ended["outcome"] == "completed", ended["reason"]
    assert ended["end_ns"] - ended["begin_ns"] < 60e9
    result = final_result((tmp_path / "fio" / planned[0].slug / "stdout").read_text())
    assert result is not None and result.read is not None and result.error == ""


async def test_points_end_when_they_are_good_enough_and_lose_nothing(
    simulated: DriveProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fio's last document comes, with its bins, whole I/Os and the runtime of the phase; the fio of
    the next phase is held ready by then. A fill is not cut."""
    planned = [
        Phase(0, Role.PREPARE, "fill", Pattern.WRITE, 0.0, 1 << 20, 8, 1, 0, 1 << 28),
        *(replace(one, index=one.index + 1, until=Until()) for one in phases(3, 60.0)),
    ]
    planned[2] = replace(planned[2], jobs=3, pattern=Pattern.RANDRW, read_pct=70)
    planned[3] = replace(planned[3], until=Until(iops_pct=1.0))
    one, listener = sequence(simulated, tmp_path, planned)
    end_early, held = FioProcess.end_early, []

    async def noted(self: FioProcess) -> None:
        waiting = [fio for fio in one._pool if fio.release_ns is None and fio.output.held.is_set()]
        held.append((self.phase.index, [fio.phase.index for fio in waiting]))
        await end_early(self)

    monkeypatch.setattr(FioProcess, "end_early", noted)
    await one.carry_out(StopRequest())
    assert set(listener.outcomes.values()) == {"completed"}, listener.ended
    assert held == [(1, [2]), (2, [3]), (3, [])]
    ends = {item["index"]: item for item in listener.ended}
    assert "point" not in ends[0]
    assert [ends[n]["point"]["ended"] for n in (1, 2, 3)] == ["settled", "settled", "target"]
    for phase in planned[1:]:
        end = ends[phase.index]
        span_ns = end["end_ns"] - end["begin_ns"]
        assert 0.5e9 < span_ns < 50e9  # of 60 s; it ends by its samples, not by this clock
        text = (tmp_path / "fio" / phase.slug / "stdout").read_text()
        status = status_of(last_document(text) or {})
        assert (status.runtime_ms, status.total_ios) == (end["runtime_ms"], end["total_ios"])
        assert not unfinished(status, phase.block_size_bytes)
        assert abs(status.runtime_ms * 1e6 - span_ns) <= 2 * end["boundary_u_ns"] + 2e6
        assert '"bins"' in text[text.rindex('"jobs"') :]
        result = final_result(text)
        assert result is not None and result.error == ""
    assert fios_below(tmp_path) == []


@pytest.mark.parametrize("kind", ["stop", "pause", "kill"])
async def test_an_end_at_the_very_moment_when_a_point_is_good_enough(
    simulated: DriveProcess, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever ends the phase while its fio is asked to do its last I/Os: none is left, and the
    phase is told by one of the outcomes that a run goes on from."""
    planned = [replace(one, until=Until()) for one in phases(2, 60.0)]
    one, listener = sequence(simulated, tmp_path, planned)
    stop = StopRequest()
    end_early = FioProcess.end_early

    async def meanwhile(self: FioProcess) -> None:
        if self.phase.index == 0 and not listener.ended:
            match kind:
                case "stop":
                    stop.ask("aborted", "enough", 130)
                case "pause":
                    one.pause(Pause("hot", 100.0, 1.0))
                case "kill":
                    self.kill()
        await end_early(self)

    monkeypatch.setattr(FioProcess, "end_early", meanwhile)
    with contextlib.suppress(GuardTripped):  # nothing tells the temperature of this drive
        await asyncio.wait_for(one.carry_out(stop), 60)
    wanted = {"stop": "interrupted", "pause": "interrupted", "kill": "failed"}[kind]
    assert listener.ended[0]["index"] == 0
    assert listener.ended[0]["outcome"] in (wanted, "completed")
    if kind == "kill":
        assert listener.outcomes == {0: "failed", 1: "completed"}
    assert fios_below(tmp_path) == []
