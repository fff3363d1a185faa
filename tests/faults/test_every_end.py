"""Whatever raises in a run, and wherever, it ends in one way: no fio and no program is left, what
was set is put back, the meters are local, and the record says how it ended and why.

The runs are real (fio, a simulated drive and meters); one function of each is made to raise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instruments.simulated.bench import Bench
from labctl.capture.drive.control import DriveControl
from labctl.capture.host import cpu, load
from labctl.capture.host.drive_host import LocalHost
from labctl.capture.meters.acquisition import Acquisition
from labctl.capture.meters.live_values import Monitor
from labctl.capture.phases.fio_output import FioOutput
from labctl.capture.phases.fio_pool import FioPool
from labctl.capture.phases.fio_process import FioProcess
from labctl.capture.phases.sampling import DriveSamples
from labctl.capture.phases.sequence import PhaseSequence
from labctl.capture.phases.stopping import StopRequest
from labctl.capture.run import clock_watch
from labctl.capture.run.drive_actions import RigActions
from labctl.capture.run.expand import planned_work
from labctl.capture.run.guard import Guard
from labctl.capture.run.run import Run
from labctl.capture.run.run_end import StoppedBeforehand
from labctl.config.plan import parse_plan
from labctl.config.rig import load_rig
from labctl.errors import JournalError, RunFailed
from labctl.record import journal as journals
from labctl.record.events import Event
from labctl.record.journal import Journal
from labctl.record.marks import ask_for_mark
from labctl.record.reader import RunRecord, find_runs
from labctl.service.daemon import idle
from tests.bench.test_fio_phases import fios_below

pytestmark = [pytest.mark.bench, pytest.mark.fault]

PLAN = """
name = "two"
idle_before_s = 0
idle_after_s = 0
[[sweeps]]
pattern = "randread"
queue_depth = [1, 8]
duration_s = {seconds}
"""


@dataclass
class Begun:
    """A run in this process."""

    run: Run
    stop: StopRequest
    runs: Path
    restored: list[str]

    def assert_nothing_left(self) -> None:
        assert fios_below(self.runs) == []
        acquisition = self.run._acquisition
        assert acquisition is None or not any(
            owner.is_alive() for owner in acquisition.owners.values()
        )
        assert self.restored == ["restored"]

    def end(self) -> dict[str, Any]:
        """The data of the only ``run_ended`` event."""
        (path,) = find_runs(self.runs)
        ends = [event for event in RunRecord(path).events if event.kind == "run_ended"]
        assert len(ends) == 1
        journals.reopen(path)  # nobody holds it
        return ends[0].data


@pytest.fixture
def begun(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begun:
    restored: list[str] = []
    restore = DriveControl.restore

    def noted(self: DriveControl) -> list[str]:
        restored.append("restored")
        return restore(self)

    monkeypatch.setattr(DriveControl, "restore", noted)
    rig, plan = load_rig(bench.rig), parse_plan(PLAN.format(seconds=2), "two.toml")
    runs = tmp_path / "runs"
    run = Run(rig, plan, PLAN.format(seconds=2), planned_work(rig, plan), runs, lambda event: None)
    return Begun(run, StopRequest(), runs, restored)


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


def raising_later(error: BaseException) -> Callable[..., Any]:
    async def fail(*_: object, **__: object) -> Any:
        await asyncio.sleep(0.3)
        raise error

    return fail


GROUP = ExceptionGroup("several", [ValueError("unforeseen"), RunFailed("a reason")])
PLACES = [
    pytest.param(PhaseSequence, "_next_io", raising(GROUP), id="group"),
    pytest.param(Monitor, "phase", raising(MemoryError("unforeseen")), id="begin of a phase"),
    pytest.param(RigActions, "start_fio", raising(OSError(24, "unforeseen")), id="start of fio"),
    pytest.param(FioProcess, "release", raising(ValueError("unforeseen")), id="release"),
    pytest.param(FioProcess, "wait_done", raising_later(KeyError("unforeseen")), id="wait"),
    pytest.param(FioProcess, "finish", raising_later(KeyError("unforeseen")), id="finish"),
    pytest.param(FioOutput, "_take", raising(ValueError("unforeseen")), id="output of fio"),
    pytest.param(FioPool, "drop_held", raising(ValueError("unforeseen")), id="held fio"),
    pytest.param(DriveSamples, "keep", raising_later(ValueError("unforeseen")), id="samples"),
    pytest.param(Guard, "changes", raising(ZeroDivisionError("unforeseen")), id="limits"),
    pytest.param(load, "_watch", raising_later(ValueError("unforeseen")), id="load of the host"),
    pytest.param(cpu, "parse_cpu_times", raising(ValueError("unforeseen")), id="cpu"),
    pytest.param(DriveControl, "restore", raising(KeyError("unforeseen")), id="settings"),
    pytest.param(Acquisition, "stop", raising(RuntimeError("unforeseen")), id="meters"),
    pytest.param(LocalHost, "kill", raising(PermissionError(1, "unforeseen")), id="kill"),
    pytest.param(LocalHost, "close", raising_later(ValueError("unforeseen")), id="host"),
    pytest.param(np, "empty", raising(OverflowError("unforeseen")), id="journal's writer"),
    pytest.param(Journal, "flush", raising(ValueError("unforeseen")), id="last of the journal"),
]


@pytest.mark.parametrize(("place", "name", "fail"), PLACES)
async def test_whatever_raises_it_ends_as_failed(
    begun: Begun,
    monkeypatch: pytest.MonkeyPatch,
    place: object,
    name: str,
    fail: Callable[..., Any],
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(place, name, fail)
        outcome = await begun.run.execute(begun.stop)
    if place is Acquisition:
        begun.run._acquisition.stop()  # type: ignore[union-attr]
    if place is DriveControl:
        begun.restored.append("restored")
    begun.assert_nothing_left()
    assert (outcome.outcome, outcome.exit_code) == ("failed", 1)
    assert "unforeseen" in outcome.reason, outcome.reason
    end = begun.end()
    assert end["outcome"] == "failed" or (place, name) == (Journal, "flush")
    assert "unforeseen" in end["reason"]


async def test_what_shows_a_run_may_fail(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(event: Event) -> None:
        raise ValueError("unforeseen")

    rig, plan = load_rig(bench.rig), parse_plan(PLAN.format(seconds=2), "two.toml")
    work = planned_work(rig, plan)
    run = Run(rig, plan, PLAN.format(seconds=2), work, tmp_path / "runs", shown)
    outcome = await run.execute(StopRequest())
    assert (outcome.outcome, outcome.reason, outcome.exit_code) == ("completed", "", 0)


async def test_a_driver_that_raises_in_close_is_reported(
    begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = type(begun.run.rig).create_instruments

    def with_one(self: Any, clock: Any) -> Any:
        made = create(self, clock)
        first = next(iter(made.values()))
        close = first.close

        def closing() -> None:
            close()
            raise SystemExit("unforeseen")

        first.close = closing
        return made

    monkeypatch.setattr(type(begun.run.rig), "create_instruments", with_one)
    outcome = await begun.run.execute(begun.stop)
    begun.assert_nothing_left()
    assert outcome.outcome == "completed", outcome
    events = RunRecord(outcome.path).events
    assert [event.kind for event in events].count("instrument_stuck") == 1


@pytest.mark.parametrize("times", [1, 3])
async def test_a_cancelled_run_is_ended_first(begun: Begun, times: int) -> None:
    task = asyncio.create_task(begun.run.execute(begun.stop))
    while not fios_below(begun.runs):
        await asyncio.sleep(0.02)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0.05)
    with pytest.raises(asyncio.CancelledError):
        await task
    begun.assert_nothing_left()
    assert begun.end()["outcome"] == "aborted"


@pytest.mark.parametrize("name", ["stop", "window"])
async def test_a_stop_of_fio_that_fails_leaves_none(
    begun: Begun, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    task = asyncio.create_task(begun.run.execute(begun.stop))
    while not (found := find_runs(begun.runs)) or not [
        event for event in RunRecord(found[0]).events if event.kind == "phase_started"
    ]:
        await asyncio.sleep(0.02)
    monkeypatch.setattr(FioProcess, name, raising(ValueError("unforeseen")))
    begun.stop.ask("aborted", "Ctrl-C", 130)
    outcome = await task
    begun.assert_nothing_left()
    assert (outcome.outcome, outcome.reason, outcome.exit_code) == ("aborted", "Ctrl-C", 130)
    assert begun.end()["outcome"] == "aborted"


async def test_a_stop_while_the_meters_connect_leaves_no_run(
    begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one whose program would take long: identify, an ssh that connects."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def never(self: Acquisition, timeout_s: float) -> dict[str, str]:
        loop.call_soon_threadsafe(asked.set)
        for owner in self.owners.values():
            owner.settled.wait()
            owner.join()
        return {}

    monkeypatch.setattr(Acquisition, "wait_settled", never)
    task = asyncio.create_task(begun.run.execute(begun.stop))
    await asked.wait()
    begun.stop.ask("aborted", "Ctrl-C", 130)
    with pytest.raises(StoppedBeforehand, match="Ctrl-C") as stopped:
        await task
    assert stopped.value.exit_code == 130
    assert find_runs(begun.runs) == []
    begun.restored.append("restored")
    begun.assert_nothing_left()


async def test_what_is_unforeseen_before_it_began_is_one_message(
    begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Acquisition, "identities", raising(ValueError("unforeseen")))
    with pytest.raises(RunFailed, match="unexpected ValueError: unforeseen"):
        await begun.run.execute(begun.stop)
    assert find_runs(begun.runs) == []
    begun.restored.append("restored")
    begun.assert_nothing_left()


@pytest.mark.parametrize("error", [ValueError("unforeseen"), MemoryError("unforeseen")])
async def test_an_idle_record_ends_the_same_way(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(idle, "_watch_while_idle", raising_later(error))
    with pytest.raises(type(error)):
        await idle.record_idle(load_rig(bench.rig), tmp_path, [], print, asyncio.Event())
    (path,) = find_runs(tmp_path)
    end = RunRecord(path).end
    assert end is not None and end.data["outcome"] == "failed"
    assert "unforeseen" in end.data["reason"]
    assert not journals.is_held(path)


async def test_an_idle_record_whose_journal_fails_is_not_completed(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(np, "empty", raising(OverflowError("unforeseen")))
    with pytest.raises(JournalError, match="unforeseen"):
        await idle.record_idle(load_rig(bench.rig), tmp_path, [], print, asyncio.Event())
    (path,) = find_runs(tmp_path)
    end = RunRecord(path).end
    assert end is not None and end.data["outcome"] == "failed"


async def test_marks_of_the_last_second_of_an_idle_record_are_in_it(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_watch, "CHECK_EVERY_S", 3600.0)
    stop = asyncio.Event()
    recording = asyncio.create_task(
        idle.record_idle(load_rig(bench.rig), tmp_path, [], print, stop)
    )
    while not (found := find_runs(tmp_path)) or not len(
        RunRecord(found[0]).readings("v12.voltage")
    ):
        assert not recording.done()
        await asyncio.sleep(0.1)
    ask_for_mark(found[0], "the last")
    stop.set()
    await recording
    assert [one.data["text"] for one in RunRecord(found[0]).events if one.kind == "mark"] == [
        "the last"
    ]
