"""A worker and its queue: trouble with notes ends no run, and a cancel is never missed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from labctl.config.rig import parse_rig
from labctl.service.daemon import worker as workers
from labctl.service.daemon.run_process import RunProcess, RunResult
from labctl.service.daemon.worker import Worker, WorkerContext
from labctl.service.data_dir import Home
from labctl.service.locks.processes import ProcessIdentity
from labctl.service.locks.rig_lock import RigLock
from labctl.service.queue.job import AttemptOutcome, Job, JobState
from labctl.service.queue.store import Queue, QueueError
from tests.unit.config.test_rig import RIG
from tests.unit.service.queue.test_store import attempt, job

WHO = ProcessIdentity(4711, 99, "this boot")


@dataclass
class Child:
    """A run that ends by itself after some ticks, unless it is ended."""

    ticks: int
    on_tick: Callable[[int], None] = lambda _: None
    was_ended: bool = False
    ticked: int = 0
    identity: ProcessIdentity = WHO

    @property
    def running(self) -> bool:
        return self.ticked < self.ticks and not self.was_ended

    async def wait(self, seconds: float) -> bool:
        self.ticked += 1
        self.on_tick(self.ticked)
        await asyncio.sleep(0)
        return not self.running

    async def end(self) -> None:
        self.was_ended = True

    def close(self) -> None:
        """Nothing is open."""

    def result(self) -> RunResult:
        outcome = AttemptOutcome.INTERRUPTED if self.was_ended else AttemptOutcome.COMPLETED
        return RunResult(outcome, "", None)


@dataclass
class Bench:
    """A worker whose queue fails as often as told, by the name of its method."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    messages: list[str] = field(default_factory=list)
    fails: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        home = Home(self.folder / "home")
        self.queue = Queue(home)
        self.queue.add(lambda number: job(number, drive_target=self.rig.targets,
                                          drive_serial=self.rig.serials))  # fmt: skip
        context = WorkerContext(home, home.runs, self.messages.append, cast(Any, Silent()), bool)
        self.worker = Worker(self.rig, cast(RigLock, None), context)
        for name in ("note", "job"):
            self.worker._queue.__dict__[name] = self.failing(name)

    @property
    def rig(self) -> Any:
        return parse_rig(RIG, "bench.toml")

    def failing(self, name: str) -> Callable[..., Job]:
        def call(*words: Any, **values: Any) -> Job:
            if self.fails.get(name, 0):
                self.fails[name] -= 1
                raise QueueError(f"{name}: no room")
            return cast(Job, getattr(self.queue, name)(*words, **values))

        return call

    def run(self, child: Child) -> Job:
        async def start(*_: object) -> RunProcess:
            return cast(RunProcess, child)

        self.monkeypatch.setattr(workers.RunProcess, "start", start)
        self.monkeypatch.setattr(workers, "TRY_AGAIN_S", 0.01)
        claimed = self.queue.claim("bench", attempt())
        assert claimed is not None
        asyncio.run(self.worker._run_job(claimed))
        return self.queue.job(1)


class Silent:
    def add(self, *_: object) -> None:
        """Notices are of no interest here."""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_a_note_that_cannot_be_kept_ends_no_run_and_is_kept_later(bench: Bench) -> None:
    bench.fails["note"] = 3
    done = bench.run(Child(8))
    assert done.state is JobState.DONE and bench.fails["note"] == 0
    last = done.last
    assert last is not None and (last.pid, last.pid_ticks, last.boot_id) == (4711, 99, "this boot")
    assert [line.partition(": ")[2] for line in bench.messages][1:3] == [
        "note: no room",
        "all is well again",
    ]


def test_a_job_that_somebody_took_out_of_the_queue_keeps_no_worker(bench: Bench) -> None:
    def remove(tick: int) -> None:
        if tick == 1:
            with bench.queue._changing() as database:
                database.execute("DELETE FROM jobs")

    child = Child(4, remove)
    with pytest.raises(Exception, match="no job 1"):
        bench.run(child)
    assert any("no job 1" in line for line in bench.messages) and not child.running


@pytest.mark.parametrize("fails", [0, 1, 5])
def test_a_cancel_is_not_missed_when_the_queue_could_not_be_read(bench: Bench, fails: int) -> None:
    """And no other change of the queue comes after it."""

    def cancel(tick: int) -> None:
        if tick == 2:
            bench.queue.cancel(1)
            bench.fails["job"] = fails

    child = Child(50, cancel)
    assert bench.run(child).state is JobState.CANCELLED
    assert child.was_ended and child.ticked <= 3 + fails


def test_a_rig_whose_meters_another_one_uses_begins_no_job(bench: Bench) -> None:
    async def wait_for_its_turn() -> list[JobState]:
        turn = asyncio.Lock()
        waiting = Worker(bench.rig, cast(RigLock, None), bench.worker._context, turn)
        seen = []
        async with turn:
            assert not await waiting._do_next()
            seen.append(bench.queue.job(1).state)
        child = Child(2)

        async def start(*_: object) -> RunProcess:
            return cast(RunProcess, child)

        async def next_job() -> Job | None:
            assert turn.locked()
            return bench.queue.claim("bench", attempt())

        bench.monkeypatch.setattr(workers.RunProcess, "start", start)
        bench.monkeypatch.setattr(waiting, "_next", next_job)
        assert await waiting._do_next() and not turn.locked()
        return [*seen, bench.queue.job(1).state]

    assert asyncio.run(wait_for_its_turn()) == [JobState.QUEUED, JobState.DONE]
