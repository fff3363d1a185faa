"""Works off the queue of one rig, one job at a time, independent of the other rigs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from labctl.config.rig import Rig, load_rig
from labctl.errors import LabctlError
from labctl.record.events import Event, EventKind
from labctl.record.layout import EVENTS_FILE
from labctl.record.timebase import boot_id
from labctl.service.daemon.notices import NoticeKind, Notices
from labctl.service.daemon.recovery import outcome_of, phases_done, recover, run_of, run_to_resume
from labctl.service.daemon.run_process import RunProcess, RunResult
from labctl.service.data_dir import Home, make_folder, write_private
from labctl.service.locks.rig_lock import RigLock
from labctl.service.queue.job import (
    Attempt,
    AttemptOutcome,
    Job,
    JobState,
    WrongState,
    noted,
)
from labctl.service.queue.store import NoSuchJob, Queue, QueueError
from labctl.service.runs.event_tail import EventTail
from labctl.service.runs.killed_runs import end_leftovers, finish_report
from labctl.service.runs.last_written import last_written_ns
from labctl.sinks.sink import ReportLine

TICK_S = 1.0
CHECK_AT_LEAST_EVERY_S = 30.0
OTHERS_TURN_S = 2 * TICK_S
"""Pause after a job where another rig has one of its meters, and may begin a job meanwhile."""
TRY_AGAIN_S = 5.0
"""Pause after an error of the queue or the rig file."""
HUNG_AFTER_TICKS = 300
"""A run that has written nothing for so many ticks hangs: it writes four times a second."""
BEGINS_WITHIN_TICKS = 180
REPORT_WITHIN_TICKS = 1_800
METER_NOTICE_EVERY_S = 1_800.0
IDLE_AGAIN_S = 30.0
"""An idle record that ended by itself is begun again no sooner."""


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What the workers share: the data directory, the runs' folder, log lines and notices."""

    home: Home
    runs: Path
    report_line: ReportLine
    notices: Notices
    idle: Callable[[], bool]
    """Whether the meters are to be recorded while no job runs."""


class Worker:
    """The worker of one rig, whose lock it holds."""

    def __init__(
        self,
        rig: Rig,
        lock: RigLock,
        context: WorkerContext,
        turn: asyncio.Lock | None = None,
    ) -> None:
        """``turn`` is held while a job runs, and is one for all rigs that have a meter in common;
        None: no other rig has one of this rig's."""
        self.rig = rig
        self.last_active_s = time.monotonic()
        """When it last made progress, time.monotonic()."""
        self.stopping = asyncio.Event()
        self._lock = lock
        self._shares = turn is not None
        self._turn = turn or asyncio.Lock()
        self._context = context
        self._queue = Queue(context.home)
        self._stamp: int | None = None
        self._to_note: dict[str, object] = {}
        self._check_at = 0.0
        self._reported = ""
        self._meter_noticed_s: dict[str, float] = {}
        self._idle: RunProcess | None = None
        self._idle_at = 0.0

    async def work(self) -> None:
        """Settle jobs of a killed daemon, then run job after job until asked to stop."""
        recovered = False
        while not self.stopping.is_set():
            self.last_active_s = time.monotonic()
            try:
                if not recovered:
                    await self._recover()
                    recovered = True
                if await self._do_next():
                    self._stamp = None  # check for the next job at once
                    if self._shares:
                        await self._pause(OTHERS_TURN_S)
                else:
                    await self._ensure_idle_record()
                    await self._pause(TICK_S)
            except (LabctlError, OSError) as error:
                self._report_trouble(str(error))
                await self._pause(TRY_AGAIN_S)
        await self._end_idle_record()

    def reload(self) -> None:
        """Read the rig's file again; with mistakes in it, the rig stays as it was read before."""
        try:
            self.rig = load_rig(self.rig.path)
        except LabctlError as error:
            self._context.report_line(f"{self.rig.name}: not read again: {error}")

    async def _recover(self) -> None:
        for job in await asyncio.to_thread(
            recover, self._queue, self._context.home, self.rig, self._context.runs
        ):
            self._context.report_line(
                f"{self.rig.name}: job {job.id} was left behind ({job.reason or 'it had ended'}): "
                f"{job.state}"
            )
            if job.state.over:
                self._notify_end(job)

    async def _do_next(self) -> bool:
        """Run the next job; whether there was one, and no other rig has a meter of this one's."""
        if self._turn.locked():
            return False
        async with self._turn:
            job = await self._next()
            self._report_trouble("")
            if job is not None:
                await self._end_idle_record()
                await self._run_job(job)
            return job is not None

    async def _next(self) -> Job | None:
        """The next job, marked as running; None while there is none."""
        stamp = await asyncio.to_thread(self._queue.stamp)
        now = time.monotonic()
        if stamp == self._stamp and now < self._check_at:
            return None
        rig = await asyncio.to_thread(load_rig, self.rig.path)
        self.rig = rig
        attempt = Attempt(begun_s=time.time(), boot_id=boot_id())
        job = await asyncio.to_thread(self._queue.claim, rig.name, attempt)
        if job is None:
            jobs = await asyncio.to_thread(self._queue.jobs)
            waits_s = [
                job.after_s - time.time()
                for job in jobs
                if job.rig == rig.name and job.state is JobState.QUEUED and job.after_s
            ]
            self._check_at = now + max(min([CHECK_AT_LEAST_EVERY_S, *waits_s]), TICK_S)
            self._stamp = stamp
        return job

    async def _ensure_idle_record(self) -> None:
        """Record the meters, in a process of their own, while no job runs."""
        if self._idle is not None and not self._idle.running:
            self._idle.close()
            self._idle = None
        if self._shares or not self._context.idle():  # who takes turns keeps no meter meanwhile
            await self._end_idle_record()
            return
        now = time.monotonic()
        if self._idle is None and now >= self._idle_at:
            self._idle_at = now + IDLE_AGAIN_S
            arguments = ["idle", str(Path(self.rig.path).absolute())]
            arguments += ["--runs", str(self._context.home.idle)]
            folder = self._context.home.path / "work" / "idle"
            self._idle = await RunProcess.start(arguments, folder, self.rig.name, self._lock, 0)

    async def _end_idle_record(self) -> None:
        """End the idle record: a job needs the meters, or the daemon stops."""
        if self._idle is not None:
            await self._idle.end()
            self._idle.close()
            self._idle = None
            self._idle_at = 0.0

    async def _run_job(self, job: Job) -> None:
        """Run a job to its end, and store the result."""
        self._context.report_line(f"{self.rig.name}: job {job.id} begins: {job.plan}")
        result = RunResult(AttemptOutcome.INTERRUPTED, "the daemon could not start it", None)
        try:
            targets, serials = self.rig.targets, self.rig.serials
            if (targets, serials) != (job.drive_target, job.drive_serial):
                result = RunResult(
                    AttemptOutcome.REFUSED,
                    f"the rig has another drive now ({targets} {serials}) than when it "
                    f"was queued ({job.drive_target} {job.drive_serial}): queue it again",
                    None,
                )
            else:
                result = await self._run(job)
        except (LabctlError, OSError) as error:
            result = RunResult(AttemptOutcome.FAILED, f"could not be started: {error}", None)
        finally:
            await asyncio.shield(self._store_result(job, result))

    async def _run(self, job: Job) -> RunResult:
        folder = self._context.home.work(job.id)
        resumed = await asyncio.to_thread(
            run_to_resume, job, self.rig, self._context.runs, self._context.report_line
        )
        events_offset = await asyncio.to_thread(_size_of_events, resumed)
        child = await RunProcess.start(
            await asyncio.to_thread(self._arguments, job, folder, resumed),
            folder,
            f"{int(time.time())}",
            self._lock,
            job.id,
        )
        try:
            who = child.identity
            self._to_note = {}
            job = await self._note(job, pid=who.pid, pid_ticks=who.ticks, boot_id=who.boot_id)
            stopped = await self._supervise(job, child, events_offset)
        finally:
            if child.running:
                await child.end()
            child.close()
        result = await asyncio.to_thread(child.result)
        if stopped:
            return RunResult(*stopped, result.run)
        return result

    def _arguments(self, job: Job, folder: Path, resumed: Path | None) -> list[str]:
        make_folder(folder)
        plan = folder / "plan.toml"
        write_private(plan, job.plan_text)
        arguments = ["run", str(Path(self.rig.path).absolute()), str(plan), "--json"]
        if resumed is not None:
            return [*arguments, "--resume", str(resumed)]
        return [*arguments, "--runs", str(self._context.runs), "--yes"]

    async def _supervise(
        self, job: Job, child: RunProcess, events_offset: int
    ) -> tuple[AttemptOutcome, str] | None:
        """Supervise a run until it has ended; outcome and reason where this worker stopped it.

        ``events_offset``: where the events of this attempt begin in the events file, bytes; more
        than 0 for a resumed run.
        """
        run: Path | None = None
        tail: EventTail | None = None
        silent, written, ended = 0, 0, False
        while not await child.wait(TICK_S):
            self.last_active_s = time.monotonic()
            if self.stopping.is_set():
                await child.end()
                return AttemptOutcome.INTERRUPTED, "the daemon was stopped"
            if await self._cancel_asked(job):
                await child.end()
                return AttemptOutcome.CANCELLED, "cancelled while it ran"
            if self._to_note:
                job = await self._note(job)
            if run is None:
                run = await asyncio.to_thread(
                    run_of, job, self._context.home, self.rig, self._context.runs
                )
                if run is not None:
                    tail = EventTail(run, events_offset)
                    job = await self._note(job, run=run.name)
            if tail is not None:
                for event in await asyncio.to_thread(tail.new_events):
                    ended = ended or event.kind == EventKind.RUN_ENDED
                    self._notify_event(job, event)
            newest = 0 if run is None else await asyncio.to_thread(last_written_ns, run)
            silent = silent + 1 if newest == written else 0
            written = newest
            limit = HUNG_AFTER_TICKS if run is not None else BEGINS_WITHIN_TICKS
            if silent > (REPORT_WITHIN_TICKS if ended else limit):
                await child.end()
                return AttemptOutcome.FAILED, f"it hung: nothing was written for {silent} s"
        return None

    async def _note(self, job: Job, **values: object) -> Job:
        """The job with more known about its attempt, which is kept in the queue as well.

        A queue that cannot be written now ends no run: what is left is written with the next note.
        """
        self._to_note |= values
        try:
            await asyncio.to_thread(self._queue.note, job.id, **self._to_note)
            self._to_note = {}
            self._report_trouble("")
        except LabctlError as error:
            self._report_trouble(str(error))
        return noted(job, **values)

    async def _cancel_asked(self, job: Job) -> bool:
        try:
            return (await asyncio.to_thread(self._queue.job, job.id)).cancel_asked
        except LabctlError as error:
            self._report_trouble(str(error))
            return False

    async def _store_result(self, job: Job, result: RunResult) -> None:
        """Store how a job ended; while nothing can be written (a full disk), try again."""
        with contextlib.suppress(LabctlError):  # read again: process and run were stored meanwhile
            job = await asyncio.to_thread(self._queue.job, job.id)
        run = result.run or await asyncio.to_thread(
            run_of, job, self._context.home, self.rig, self._context.runs
        )
        done = 0
        if run is not None:
            left = await asyncio.to_thread(end_leftovers, run, self.rig)
            # a run may fail after its end, when its report cannot be written: it is not run again
            if result.outcome in (AttemptOutcome.INTERRUPTED, AttemptOutcome.FAILED):
                outcome, reason = await asyncio.to_thread(outcome_of, run)
                if outcome is AttemptOutcome.COMPLETED:
                    left += await asyncio.to_thread(finish_report, run)
                    result = RunResult(outcome, reason, run)
            for line in left:
                self._context.report_line(f"{self.rig.name}: {line}")
            done = await asyncio.to_thread(phases_done, run)
        while True:
            self.last_active_s = time.monotonic()
            try:
                if run is not None and run.parent in (self._context.runs, self._context.home.runs):
                    await asyncio.to_thread(self._queue.note, job.id, run=run.name)
                blameless = self.stopping.is_set()
                job = await asyncio.to_thread(
                    self._queue.end, job.id, result.outcome, result.reason, done, blameless
                )
                break
            except (NoSuchJob, WrongState) as error:
                self._report_trouble(str(error))  # somebody has changed the queue by other means
                return
            except QueueError as error:
                self._report_trouble(str(error))
                if self.stopping.is_set():
                    return  # the next daemon reads the outcome from the record
                await self._pause(TRY_AGAIN_S)
        self._context.report_line(
            f"{self.rig.name}: job {job.id} {result.outcome}"
            + (f": {result.reason}" if result.reason else "")
            + ("" if job.state.over else "; it waits for its next attempt")
        )
        if job.state.over:
            self._notify_end(job)

    def _notify_end(self, job: Job) -> None:
        last = job.last
        if job.state is JobState.CANCELLED:
            return  # the person who cancelled it knows
        guarded = last is not None and last.outcome is AttemptOutcome.ABORTED
        kind = NoticeKind.GUARD_TRIPPED if guarded else NoticeKind(job.state.value)
        run = f"\nrun: {last.run}" if last is not None and last.run else ""
        endings = {
            NoticeKind.DONE: "done",
            NoticeKind.FAILED: "failed",
            NoticeKind.GUARD_TRIPPED: "stopped by a limit",
        }
        self._context.notices.add(
            kind,
            f"{self.rig.name}: {job.plan} {endings[kind]}",
            f"job {job.id}: {job.reason or 'completed'}{run}",
        )

    def _notify_event(self, job: Job, event: Event) -> None:
        if event.kind != EventKind.INSTRUMENT_LOST:
            return
        name, now = str(event.data.get("instrument", "?")), time.monotonic()
        if now - self._meter_noticed_s.get(name, -METER_NOTICE_EVERY_S) < METER_NOTICE_EVERY_S:
            return
        self._meter_noticed_s[name] = now
        self._context.notices.add(
            NoticeKind.METER_LOST,
            f"{self.rig.name}: meter {name} lost",
            f"job {job.id} ({job.plan}) goes on; {name}: {event.data.get('reason', '')}",
        )

    def _report_trouble(self, what: str) -> None:
        """Report trouble once when it begins, and once when it is over (empty)."""
        if what != self._reported:
            self._context.report_line(f"{self.rig.name}: {what or 'all is well again'}")
            self._reported = what

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        except TimeoutError:
            return


def _size_of_events(run: Path | None) -> int:
    return 0 if run is None else (run / EVENTS_FILE).stat().st_size
