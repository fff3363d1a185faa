"""A run: one plan on one rig, from the checks to the end of the journal.

The order of things: everything that can be refused is refused before anything is touched; then
the meters connect; then the journal is opened; then phase follows phase, the fio of the next held
ready behind the present one. Whatever ends it, and wherever, ends it through :meth:`Run._end`: fio
and every other program are dead, what was set is put back, the meters are local, and the record
says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from instruments.reading import Batch
from labctl.capture.drive import check_target
from labctl.capture.drive.changed_settings import POWER_MEASUREMENT
from labctl.capture.drive.control import DriveControl
from labctl.capture.drive.smart_watch import DriveWatch, watching_drive
from labctl.capture.host import software
from labctl.capture.host.cpu import CpuWatch, watching_cpu
from labctl.capture.host.drive_host import DriveHost
from labctl.capture.host.load import watching_load
from labctl.capture.host.machine import Machine
from labctl.capture.host.memory_room import mistakes_with_host
from labctl.capture.host.remote_host import RemoteHost, host_at
from labctl.capture.host.ssh import LOCAL
from labctl.capture.identity.identify import identify
from labctl.capture.meters.acquisition import ATTEMPTS, Acquisition, State
from labctl.capture.meters.live_values import Monitor
from labctl.capture.meters.live_watts import LiveWatts
from labctl.capture.phases.program import Program
from labctl.capture.phases.sequence import PhaseSequence
from labctl.capture.phases.stopping import StopRequest
from labctl.capture.run.clock_watch import ClockWatch
from labctl.capture.run.drive_actions import RigActions, event_data_of_drive
from labctl.capture.run.expand import PlannedWork
from labctl.capture.run.header import make_header
from labctl.capture.run.live_points import LivePoints
from labctl.capture.run.resumption import Resumption
from labctl.capture.run.run_end import RunEnd, RunOutcome, StoppedBeforehand
from labctl.capture.run.run_rules import RunRules
from labctl.capture.run.supervision import Supervisor
from labctl.config.calibration_file import calibration_in_force
from labctl.config.rig import Rig
from labctl.errors import ConfigurationError, JournalError, LabctlError, RunFailed, error_line
from labctl.record import journal as journals
from labctl.record.drive_state import DriveState
from labctl.record.events import Event, EventKind, OnEvent, Outcome
from labctl.record.journal import Journal
from labctl.record.phase import Phase, planned_s
from labctl.record.timebase import NS_PER_S, Timebase

CONNECT_WITHIN_S = 12.0
T = TypeVar("T")
ATTEMPTS_OF_RESUMED = 8
"""A run that was cut off had its meters: they are waited for as long as that takes."""
ABANDON_WITHIN_S = 1.0
_log = logging.getLogger(__name__)


class Run:
    """Runs ``plan`` on ``rig`` once, or goes on with such a run: see ``resumption``."""

    def __init__(
        self,
        rig: Rig,
        plan: RunRules,
        plan_text: str,
        work: PlannedWork,
        runs_root: Path,
        on_event: Callable[[Event], None],
        resumption: Resumption | None = None,
        program: Program | None = None,
        job: str = "",
    ) -> None:
        """``program``: what the phase of a program measures. ``job``: the scheduler's, that it is
        of. ``on_event`` takes each event after it was recorded; its failure costs what it shows."""
        self.rig = rig
        self.plan = plan
        self.phases = work.phases
        self.drives = {
            name: drive.model_copy(update={"size_bytes": work.size_bytes})
            for name, drive in rig.drives.items()
        }
        self.timebase = Timebase() if resumption is None else resumption.timebase
        self.monitor = Monitor(self.timebase.now_ns)
        watched = rig.rail_infos() if any(phase.until for phase in self.phases) else ()
        self._live_watts = LiveWatts(watched, rig.channel_infos, self.timebase.now_ns)
        self.path: Path | None = None
        self._resumption = resumption
        self._program = program
        self._job = job
        self._plan_text = plan_text
        self._runs_root = runs_root
        self._on_event = on_event
        self._journal: Journal | None = None
        self._acquisition: Acquisition | None = None
        self._host: DriveHost | None = None
        self._actions: RigActions | None = None
        self._sequence: PhaseSequence | None = None
        self._drive_watches: list[DriveWatch | None] = []
        self._cpu_watch: CpuWatch | None = None
        self._clocks = ClockWatch(self.timebase)
        self._began_ns = self.timebase.now_ns()

    def abandon(self) -> None:
        """The second Ctrl-C: every fio is killed at once, meters and journal get a second.

        Raises nothing. The drive's settings are put back by the next run on the rig.
        """
        with contextlib.suppress(Exception):
            if self._host is not None:
                self._host.kill()
        with contextlib.suppress(Exception):
            if self._journal is not None:
                reason = "killed by a second Ctrl-C"
                self.event(EventKind.RUN_ENDED, outcome=Outcome.ABORTED, reason=reason)
        with contextlib.suppress(Exception):
            if self._acquisition is not None:
                self._acquisition.stop(ABANDON_WITHIN_S)
        with contextlib.suppress(Exception):
            if self._journal is not None:
                self._journal.close(ABANDON_WITHIN_S)

    async def execute(self, stop: StopRequest) -> RunOutcome:
        """Do it all. Raises LabctlError only for what was refused before the journal existed, and
        what cancels it, when all is ended."""
        error: BaseException | None = None
        try:
            actions, missing = await self._unless_stopped(self._prepare(stop), stop)
            await self._work(actions, missing, stop)
        except BaseException as caught:
            error = caught
        ending = asyncio.create_task(self._end(error, stop), name="end")
        while not ending.done():
            try:
                await asyncio.wait([ending])
            except BaseException as again:  # cancelled meanwhile: the end goes on
                error = error or again
        outcome = ending.result()
        if error is not None and not isinstance(error, Exception | BaseExceptionGroup):
            raise error  # a cancellation is passed on
        if outcome is None:
            if isinstance(error, LabctlError):
                raise error
            raise RunFailed("" if error is None else error_line(error)) from error
        return outcome

    async def _unless_stopped(self, preparing: Coroutine[Any, Any, T], stop: StopRequest) -> T:
        """What ``preparing`` gives. Raises StoppedBeforehand when a stop is asked for first."""
        task = asyncio.create_task(preparing, name="prepare")
        try:
            if not await stop.or_done(task):
                raise StoppedBeforehand(f"stopped before it began: {stop.reason}")
            return task.result()
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _prepare(self, stop: StopRequest) -> tuple[RigActions, dict[str, str]]:
        """Connect, refuse what must not be done, open the journal. Gives what acts on the drives,
        and why which meters are missing."""
        rig, where = self.rig, self.rig.file.host
        kept = self._resumption
        before = None if kept is None else kept.host_session
        host = self._host = host_at(where, self.timebase, rig.tools, before)
        await host.connect()
        machine = host.machine
        fio = "" if self._program is not None else await self._check_fio(machine)
        versions = software.versions(fio)
        if where != LOCAL:
            versions |= await asyncio.to_thread(software.versions_of_host, machine, where)
        await asyncio.to_thread(
            check_target.check_targets, rig, self.phases, self._runs_root, machine
        )
        states = {
            name: await asyncio.to_thread(
                identify, machine, drive.target, drive.engine, drive.smart_device
            )
            for name, drive in rig.drives.items()
        }
        acquisition = self._acquisition = Acquisition(
            rig.create_instruments(self.timebase.now_ns),
            self.timebase.now_ns,
            self,
            ATTEMPTS if kept is None else ATTEMPTS_OF_RESUMED,
        )
        acquisition.start()
        missing = await asyncio.to_thread(acquisition.wait_settled, CONNECT_WITHIN_S)
        self._refuse_missing(missing)
        self._describe()
        self._open_journal(versions, acquisition.identities(), states, stop)
        await self._begin(versions)
        self._actions = self._rig_actions(host, states, stop)
        return self._actions, missing

    async def _check_fio(self, machine: Machine) -> str:
        """The version of fio, which can do what the plan asks for. Raises ConfigurationError."""
        for one in self.rig.each_drive().values():
            fio = await asyncio.to_thread(software.check_tools, one, machine)
        mistakes = await asyncio.to_thread(
            mistakes_with_host, self.rig, self.phases, self.plan.name, machine
        )
        if mistakes:
            raise ConfigurationError(mistakes)
        return fio

    def _open_journal(
        self,
        versions: dict[str, str],
        identities: dict[str, str],
        states: Mapping[str, DriveState],
        stop: StopRequest,
    ) -> None:
        """Make the run's directory, or go on in it. Raises JournalError, Refused."""
        loop = asyncio.get_running_loop()

        def journal_failed(message: str) -> None:
            loop.call_soon_threadsafe(stop.ask, Outcome.FAILED, message, JournalError.exit_code)

        resumption = self._resumption
        if resumption is None:
            header = make_header(
                *(self.rig, self.plan, self._plan_text, self.phases, self.timebase),
                *(versions, identities, states),
                calibration_in_force(self.rig, identities, datetime.now(UTC)),
                self._job,
            )
            self.path = journals.create(self._runs_root, header)
        else:
            resumption.refuse_others(states, identities)
            self.path = resumption.path
        begin_ns = None if resumption is None else resumption.device_begin_ns
        self._journal = Journal(self.path, self.timebase.now_ns, journal_failed, begin_ns)

    async def _begin(self, versions: dict[str, str]) -> None:
        """The first event of this process."""
        assert self._journal is not None
        if self._resumption is None:
            scaled: dict[str, Any] = {"scale": self.plan.scale} if self.plan.scale != 1 else {}
            self.event(EventKind.RUN_STARTED, **scaled)
            return
        event = self._journal.event(
            EventKind.RUN_RESUMED, **self._resumption.event_data(), versions=versions
        )
        await asyncio.to_thread(self._journal.flush)  # who follows the run reads it there
        self._show(event)

    def _rig_actions(
        self, drive_host: DriveHost, states: Mapping[str, DriveState], stop: StopRequest
    ) -> RigActions:
        assert self._journal is not None
        return RigActions(
            rig=self.rig,
            drives=self.drives,
            host=drive_host,
            drive_states=states,
            journal=self._journal,
            monitor=self.monitor,
            timebase=self.timebase,
            runs_root=self._runs_root,
            listener=self,
            at_rest=lambda: self._sequence is None or self._sequence.at_rest,
            stop=stop,
            points=LivePoints(self.rig, states, self._live_watts),
            program=self._program,
            controls={
                name: DriveControl(
                    drive_host.machine,
                    drive,
                    None if self._resumption is None else self._resumption.left[name],
                    partial(self._note_setting, **event_data_of_drive(name)),
                )
                for name, drive in self.drives.items()
            },
        )

    def _describe(self) -> None:
        self.monitor.describe(
            self.rig.rail_infos(),
            self.rig.temperatures,
            self.rig.channel_infos,
            len(self.phases),
            self.rig.host_power_infos(),
        )

    def batch(self, instrument: str, batch: Batch) -> None:
        """Readings came in (from an owner thread)."""
        self.monitor.batch(instrument, batch)
        self._live_watts.batch(instrument, batch)

    def state(self, instrument: str, state: State, reason: str) -> None:
        """An instrument came or went (from an owner thread)."""
        self.monitor.state(instrument, state, reason)
        if state is not State.READING:
            self._live_watts.away(instrument)
        if self._journal is not None:
            kind = (
                EventKind.INSTRUMENT_BACK if state is State.READING else EventKind.INSTRUMENT_LOST
            )
            self._show(
                Event(self.timebase.now_ns(), kind, {"instrument": instrument, "reason": reason})
            )

    def _refuse_missing(self, failed: dict[str, str]) -> None:
        needed = {
            name: reason
            for name, reason in failed.items()
            if self.rig.file.instruments[name].required != "never"
        }
        if needed:
            raise RunFailed("\n".join(f"{name}: {reason}" for name, reason in needed.items()))

    def event(self, kind: EventKind, t_ns: int | None = None, **data: Any) -> None:
        """Put it into the journal and pass it to the listeners."""
        assert self._journal is not None
        with contextlib.suppress(JournalError):  # reported once, through on_failure
            self._show(self._journal.event(kind, t_ns, **data))
        if kind == EventKind.PHASE_ENDED and self._cpu_watch is not None:
            self._cpu_watch.phase_boundary()
        if kind == EventKind.DRIVE_COUNTERS and self._actions is not None:
            self._actions.points.throttles(data.get("drive", ""))

    def _show(self, event: Event) -> None:
        """Pass an event to the listener. What fails there costs no reading and no run."""
        try:
            self._on_event(event)
        except Exception:
            _log.exception("an event is not shown: %s", event.kind)

    async def _work(self, actions: RigActions, missing: dict[str, str], stop: StopRequest) -> None:
        """All phases, supervised and recorded."""
        assert self._journal is not None and self._acquisition is not None
        kept = self._resumption
        done, values = (kept.done, kept.values) if kept is not None else ((), None)
        sequence = self._sequence = PhaseSequence(
            self.phases, actions, self, self.timebase.now_ns, done, values, self.plan.resume,
            len(self.drives), self.plan.when_phase_fails,
        )  # fmt: skip
        if isinstance(actions.host, RemoteHost):
            actions.host.record_to(self._journal, self.event)
        self._acquisition.record_to(self._journal)
        for name, reason in missing.items():
            self.event(EventKind.INSTRUMENT_LOST, instrument=name, reason=reason)
        owners = self._acquisition.owners
        watch = Supervisor(actions, sequence, owners, self._clocks, self._began_ns)
        async with watch.watching(), self._watching_drive(actions):
            if self.plan.governor:
                await asyncio.to_thread(actions.set_governor, self.plan.governor)
            await sequence.carry_out(stop)

    async def _end(self, error: BaseException | None, stop: StopRequest) -> RunOutcome | None:
        """The one way out of a run: see :class:`RunEnd`. None before the journal."""
        end = RunEnd(self.event, stop, self._sequence)
        if error is not None:
            end.because_of(error)
        await end.programs(self._host)
        if self._actions is not None and self._host is not None:
            await end.settings(self._actions.controls, self._host)
        await end.meters(self._acquisition, recorded=self._journal is not None)
        await end.host(self._host)
        return None if self._journal is None else await end.record(self._journal)

    def _note_setting(self, kind: EventKind, **data: Any) -> None:
        """Record what is about to be set, before it is: also a killed run then has it."""
        assert self._journal is not None
        self.event(kind, **data)
        with contextlib.suppress(JournalError):
            self._journal.flush()

    def phase_began(self, phase: Phase, t_ns: int) -> None:
        """A phase does its first I/O (called by the sequence)."""
        left_s = planned_s(self.phases[phase.index :])
        ends_ns = None if left_s is None else t_ns + round(left_s * NS_PER_S)
        self.monitor.phase(phase, t_ns, ends_ns)
        if self._actions is not None:
            self._actions.points.over()
        self.event(EventKind.PHASE_STARTED, t_ns, index=phase.index)
        for watch in (self._cpu_watch, *self._drive_watches):
            if watch is not None:
                watch.phase_boundary()

    @contextlib.asynccontextmanager
    async def _watching_drive(self, actions: RigActions) -> AsyncIterator[None]:
        """Record the counters of the drives and of their host."""

        def events_of(drive: str) -> OnEvent:
            return lambda kind, t_ns, data: self.event(
                kind, t_ns, **data, **event_data_of_drive(drive)
            )

        def left_on(drive: str) -> str | None:
            left = self._resumption.left.get(drive) if self._resumption is not None else None
            return None if left is None else left.now.get(POWER_MEASUREMENT)

        machine, now_ns = actions.host.machine, self.timebase.now_ns
        longest_s = max(phase.duration_s for phase in self.phases)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(
                watching_load(actions.host.sample_load, actions.journal)
            )
            self._cpu_watch = await stack.enter_async_context(
                watching_cpu(machine, now_ns, events_of(""))
            )
            self._drive_watches = [
                await stack.enter_async_context(
                    watching_drive(
                        machine,
                        state,
                        now_ns,
                        events_of(name),
                        longest_s=longest_s,
                        on_setting=partial(self._note_setting, **event_data_of_drive(name)),
                        left=left_on(name),
                    )
                )
                for name, state in actions.drive_states.items()
            ]
            yield
