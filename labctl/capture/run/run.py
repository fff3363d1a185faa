"""A run: one plan on one rig, from the checks to the end of the journal.

The order of things: everything that can be refused is refused before anything is touched; then
the meters connect; then the journal is opened; then phase follows phase, the fio of the next held
ready behind the present one. However it ends, fio is dead and the meters are local.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from instruments.reading import Batch
from labctl.capture.drive import target
from labctl.capture.drive.control import DriveControl
from labctl.capture.drive.smart_watch import DriveWatch, watching_drive
from labctl.capture.host import software
from labctl.capture.host.cpu import CpuWatch, watching_cpu
from labctl.capture.host.drive_host import DriveHost, LocalHost
from labctl.capture.host.load import watching_load
from labctl.capture.host.memory_room import mistakes_with_host
from labctl.capture.host.remote_host import RemoteHost
from labctl.capture.host.ssh import LOCAL
from labctl.capture.identity.identify import identify
from labctl.capture.meters.acquisition import ATTEMPTS, Acquisition, State
from labctl.capture.meters.live_values import Monitor
from labctl.capture.phases.sequence import PhaseSequence
from labctl.capture.phases.stopping import StopRequest
from labctl.capture.run.clock_watch import ClockWatch
from labctl.capture.run.drive_actions import RigActions, of_drive
from labctl.capture.run.expand import expand_for, size_of_drives
from labctl.capture.run.header import make_header
from labctl.capture.run.resumption import Resumption
from labctl.capture.run.supervision import Supervisor
from labctl.config.calibration_file import calibration_in_force
from labctl.config.plan import Plan
from labctl.config.rig import Rig
from labctl.errors import (
    ConfigurationError,
    GuardTripped,
    JournalError,
    LabctlError,
    RunFailed,
)
from labctl.record import journal as journals
from labctl.record.drive_state import DriveState
from labctl.record.events import Event, EventKind, OnEvent, Outcome
from labctl.record.journal import Journal
from labctl.record.phase import Phase
from labctl.record.timebase import NS_PER_S, Timebase

CONNECT_WITHIN_S = 12.0
ATTEMPTS_OF_RESUMED = 8
"""A run that was cut off had its meters: they are waited for as long as that takes."""
ABANDON_WITHIN_S = 1.0


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended, completed, failed or aborted, and where its record is."""

    path: Path
    outcome: Outcome
    reason: str
    exit_code: int

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        return {"run": str(self.path), "outcome": self.outcome, "reason": self.reason}


class Run:
    """Runs ``plan`` on ``rig`` once, or goes on with such a run: see ``resumption``."""

    def __init__(
        self,
        rig: Rig,
        plan: Plan,
        plan_text: str,
        runs_root: Path,
        on_event: Callable[[Event], None],
        resumption: Resumption | None = None,
    ) -> None:
        self.rig = rig
        self.plan = plan
        self.phases = (
            expand_for(rig, plan, plan.name) if resumption is None else resumption.header.phases
        )
        size_bytes = size_of_drives(rig)
        self.drives = {
            name: drive.model_copy(update={"size_bytes": size_bytes})
            for name, drive in rig.drives.items()
        }
        self.timebase = Timebase() if resumption is None else resumption.timebase
        self.monitor = Monitor(self.timebase.now_ns)
        self.path: Path | None = None
        self._resumption = resumption
        self._plan_text = plan_text
        self._runs_root = runs_root
        self._on_event = on_event
        self._journal: Journal | None = None
        self._acquisition: Acquisition | None = None
        self._sequence: PhaseSequence | None = None
        self._drive_watches: list[DriveWatch | None] = []
        self._cpu_watch: CpuWatch | None = None
        self._clocks = ClockWatch(self.timebase)
        self._began_ns = self.timebase.now_ns()

    def abandon(self) -> None:
        """The second Ctrl-C: every fio is killed at once, meters and journal get a second."""
        if self._sequence is not None:
            self._sequence.kill()
        if self._journal is not None:
            self.event(
                EventKind.RUN_ENDED, outcome=Outcome.ABORTED, reason="killed by a second Ctrl-C"
            )
        if self._acquisition is not None:
            self._acquisition.stop(ABANDON_WITHIN_S)
        if self._journal is not None:
            self._journal.close(ABANDON_WITHIN_S)

    async def execute(self, stop: StopRequest) -> RunOutcome:
        """Do it all. Raises LabctlError only for what was refused before the journal existed."""
        where, tools = self.rig.file.host, self.rig.tools
        drive_host: DriveHost = (
            LocalHost(self.timebase, tools)
            if where == LOCAL
            else RemoteHost(
                where,
                self.timebase.now_ns,
                tools,
                None if self._resumption is None else self._resumption.host_session,
            )
        )
        try:
            await drive_host.connect()
            return await self._on_host(drive_host, stop)
        finally:
            await drive_host.close()

    async def _on_host(self, drive_host: DriveHost, stop: StopRequest) -> RunOutcome:
        """Do it all, with the drive's host connected."""
        rig, machine = self.rig, drive_host.machine
        where = rig.file.host
        for one in rig.each_drive().values():
            fio = await asyncio.to_thread(software.check_tools, one, machine)
        mistakes = await asyncio.to_thread(
            mistakes_with_host, rig, self.phases, self.plan.name, machine
        )
        if mistakes:
            raise ConfigurationError(mistakes)
        versions = software.versions(fio)
        if where != LOCAL:
            versions |= await asyncio.to_thread(software.versions_of_host, machine, where)
        await asyncio.to_thread(target.check_targets, rig, self.phases, self._runs_root, machine)
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
            ATTEMPTS if self._resumption is None else ATTEMPTS_OF_RESUMED,
        )
        acquisition.start()
        try:
            missing = await asyncio.to_thread(acquisition.wait_settled, CONNECT_WITHIN_S)
            self._refuse_missing(missing)
            self._describe()
            self._open_journal(versions, acquisition.identities(), states, stop)
            await self._begin(versions)
            return await self._recorded(self._rig_actions(drive_host, states, stop), stop, missing)
        finally:
            await asyncio.to_thread(acquisition.stop)
            if self._journal is not None:
                await asyncio.to_thread(self._journal.close)

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
            self.event(EventKind.RUN_STARTED)
            return
        event = self._journal.event(
            EventKind.RUN_RESUMED, **self._resumption.event_data(), versions=versions
        )
        await asyncio.to_thread(self._journal.flush)  # who follows the run reads it there
        self._on_event(event)

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
            controls={
                name: DriveControl(
                    drive_host.machine,
                    drive,
                    None if self._resumption is None else self._resumption.left[name],
                    partial(self._note_setting, **of_drive(name)),
                )
                for name, drive in self.drives.items()
            },
        )

    def _describe(self) -> None:
        self.monitor.describe(
            self.rig.rail_infos(),
            self.rig.temperatures,
            {channel.name: channel.interval_s for channel in self.rig.channel_infos},
            len(self.phases),
        )

    def batch(self, instrument: str, batch: Batch) -> None:
        """Readings came in (from an owner thread)."""
        self.monitor.batch(instrument, batch)

    def state(self, instrument: str, state: State, reason: str) -> None:
        """An instrument came or went (from an owner thread)."""
        self.monitor.state(instrument, state, reason)
        if self._journal is not None:
            kind = (
                EventKind.INSTRUMENT_BACK if state is State.READING else EventKind.INSTRUMENT_LOST
            )
            self._on_event(
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
            self._on_event(self._journal.event(kind, t_ns, **data))
        if kind == EventKind.PHASE_ENDED and self._cpu_watch is not None:
            self._cpu_watch.phase_boundary()

    async def _recorded(
        self, actions: RigActions, stop: StopRequest, missing: dict[str, str]
    ) -> RunOutcome:
        assert self._journal is not None and self._acquisition is not None
        kept = self._resumption
        done, values = (kept.done, kept.values) if kept is not None else ((), None)
        sequence = PhaseSequence(
            self.phases, actions, self, self.timebase.now_ns, done, values, self.plan.resume,
            len(self.drives), self.plan.when_phase_fails,
        )  # fmt: skip
        self._sequence = sequence
        if isinstance(actions.host, RemoteHost):
            actions.host.record_to(self._journal, self.event)
        self._acquisition.record_to(self._journal)
        for name, reason in missing.items():
            self.event(EventKind.INSTRUMENT_LOST, instrument=name, reason=reason)
        owners = self._acquisition.owners
        watch = Supervisor(actions, sequence, owners, self._clocks, self._began_ns)
        try:
            async with watch.watching(), self._watching_drive(actions):
                if self.plan.governor:
                    await asyncio.to_thread(actions.set_governor, self.plan.governor)
                await sequence.carry_out(stop)
        except LabctlError as error:
            reason = "; ".join([*sequence.failed[:1], str(error)])
            outcome = Outcome.ABORTED if isinstance(error, GuardTripped) else Outcome.FAILED
            # a drive that was pulled is a mistake in the rig only before the run has begun
            gone = isinstance(error, ConfigurationError)
            stop.ask(outcome, reason, RunFailed.exit_code if gone else error.exit_code)
        for problem in await asyncio.to_thread(actions.restore):
            self.event(EventKind.NOT_RESTORED, reason=problem)
        if sequence.failed:
            failed = f"{len(sequence.failed)} of {len(self.phases)} phases: {sequence.failed[0]}"
            stop.ask(Outcome.FAILED, failed, RunFailed.exit_code)
        for name in await asyncio.to_thread(self._acquisition.stop):
            self.event(EventKind.INSTRUMENT_STUCK, instrument=name)
        await actions.host.close()
        outcome = stop.outcome or Outcome.COMPLETED
        self.event(EventKind.RUN_ENDED, outcome=outcome, reason=stop.reason)
        with contextlib.suppress(JournalError):
            await asyncio.to_thread(self._journal.flush)
        return RunOutcome(self._journal.path, outcome, stop.reason, stop.exit_code)

    def _note_setting(self, kind: EventKind, **data: Any) -> None:
        """Record what is about to be set, before it is: also a killed run then has it."""
        assert self._journal is not None
        self.event(kind, **data)
        with contextlib.suppress(JournalError):
            self._journal.flush()

    def phase_began(self, phase: Phase, t_ns: int) -> None:
        """A phase does its first I/O (called by the sequence)."""
        left_s = sum(later.planned_s for later in self.phases[phase.index :])
        self.monitor.phase(phase, t_ns, t_ns + round(left_s * NS_PER_S))
        self.event(EventKind.PHASE_STARTED, t_ns, index=phase.index)
        for watch in (self._cpu_watch, *self._drive_watches):
            if watch is not None:
                watch.phase_boundary()

    @contextlib.asynccontextmanager
    async def _watching_drive(self, actions: RigActions) -> AsyncIterator[None]:
        """Record the counters of the drives and of their host."""

        def events_of(drive: str) -> OnEvent:
            return lambda kind, t_ns, data: self.event(kind, t_ns, **data, **of_drive(drive))

        machine, now_ns = actions.host.machine, self.timebase.now_ns
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(
                watching_load(actions.host.sample_load, actions.journal)
            )
            self._cpu_watch = await stack.enter_async_context(
                watching_cpu(machine, now_ns, events_of(""))
            )
            self._drive_watches = [
                await stack.enter_async_context(
                    watching_drive(machine, state, now_ns, events_of(name))
                )
                for name, state in actions.drive_states.items()
            ]
            yield
