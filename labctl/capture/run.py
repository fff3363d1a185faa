"""A run: one plan on one rig, from the checks to the end of the journal.

The order of things: everything that can be refused is refused before anything is touched; then
the meters connect; then the journal is opened; then phase follows phase, the fio of the next held
ready behind the present one. However it ends, fio is dead and the meters are local.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from instruments.reading import Batch, Block
from labctl import journal as journals
from labctl.capture import drive as drives
from labctl.capture import host
from labctl.capture.acquisition import Acquisition, State
from labctl.capture.fio import FioProcess
from labctl.capture.monitor import Interval, Monitor, intervals
from labctl.capture.remote_host import RemoteHost
from labctl.capture.sequence import PhaseSequence
from labctl.capture.spawn import DriveHost, LocalHost
from labctl.capture.ssh import LOCAL, machine_at
from labctl.capture.stopping import StopRequest
from labctl.errors import ConfigurationError, JournalError, LabctlError, RunFailed
from labctl.fio_output import DIRECTIONS, Status
from labctl.journal import Journal
from labctl.plan import Phase, Plan
from labctl.record import FIO_DIR, ChannelInfo, Event, Header
from labctl.rig import FIO_INSTRUMENT, Rig
from labctl.timebase import NS_PER_MS, NS_PER_S, Anchor, Timebase

CONNECT_WITHIN_S = 12.0
ABANDON_WITHIN_S = 1.0
REQUIRED_GONE_S = 10.0
"""A meter that is ``required = "always"`` may be away this long."""
WALL_STEP_NS = 100 * NS_PER_MS

_FIO_CHANNELS = (
    ("iops", "iops", "1/s"),
    ("bytes_per_s", "bytes_per_s", "B/s"),
    ("latency_mean_us", "latency", "µs"),
)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended: "completed", "failed" or "aborted", and where its record is."""

    path: Path
    outcome: str
    reason: str
    exit_code: int


def expand_for(rig: Rig, plan: Plan, plan_file: str) -> tuple[Phase, ...]:
    """The phases of ``plan`` on ``rig``. Raises ConfigurationError when they do not fit."""
    phases = plan.expand(rig.drive.size_bytes or _size_of_target(rig))
    mistakes = rig.mistakes_with(phases, plan_file)
    if mistakes:
        raise ConfigurationError(mistakes)
    return phases


def _size_of_target(rig: Rig) -> int | None:
    return drives.size_of(Path(rig.drive.target), machine_at(rig.file.host))


class Run:
    """Runs ``plan`` on ``rig`` once."""

    def __init__(
        self,
        rig: Rig,
        plan: Plan,
        plan_text: str,
        runs_root: Path,
        on_event: Callable[[Event], None],
    ) -> None:
        self.rig = rig
        self.plan = plan
        self.phases = expand_for(rig, plan, plan.name)
        size_bytes = rig.drive.size_bytes or _size_of_target(rig)
        self.drive = rig.drive.model_copy(update={"size_bytes": size_bytes})
        self.timebase = Timebase()
        self.monitor = Monitor(self.timebase.now_ns)
        self.path: Path | None = None
        self._plan_text = plan_text
        self._runs_root = runs_root
        self._on_event = on_event
        self._journal: Journal | None = None
        self._acquisition: Acquisition | None = None
        self._sequence = PhaseSequence(self.phases, self._start_fio, self, self.timebase.now_ns)
        self._wall_offset_ns = 0
        self._host: DriveHost = LocalHost(self.timebase)
        self._host_versions: dict[str, str] = {}
        self._stop = StopRequest()

    def abandon(self) -> None:
        """The second Ctrl-C: every fio is killed at once, meters and journal get a second."""
        self._sequence.kill()
        if self._journal is not None:
            self.event("run_ended", outcome="aborted", reason="killed by a second Ctrl-C")
        if self._acquisition is not None:
            self._acquisition.stop(ABANDON_WITHIN_S)
        if self._journal is not None:
            self._journal.close(ABANDON_WITHIN_S)

    async def execute(self, stop: StopRequest) -> RunOutcome:
        """Do it all. Raises LabctlError only for what was refused before the journal existed."""
        self._stop = stop
        if self.rig.file.host != LOCAL:
            self._host = RemoteHost(self.rig.file.host, self.timebase.now_ns)
        try:
            await self._host.connect()
            return await self._on_host(stop)
        finally:
            await self._host.close()

    async def _on_host(self, stop: StopRequest) -> RunOutcome:
        """Do it all, with the drive's host connected."""
        machine, where = self._host.machine, self.rig.file.host
        engine = self.rig.drive.engine
        fio = await asyncio.to_thread(host.check_tools, engine, self.rig.path, machine, where)
        if where != LOCAL:
            self._host_versions = await asyncio.to_thread(host.versions_of_host, machine, where)
        await asyncio.to_thread(
            drives.check_target, self.rig, self.phases, self._runs_root, machine
        )
        acquisition = Acquisition(
            self.rig.create_instruments(self.timebase.now_ns), self.timebase.now_ns, self
        )
        self._acquisition = acquisition
        acquisition.start()
        try:
            failed = await asyncio.to_thread(acquisition.wait_settled, CONNECT_WITHIN_S)
            self._refuse_missing(failed)
            path = self.path = journals.create(self._runs_root, self._header(fio))
            loop = asyncio.get_running_loop()

            def journal_failed(message: str) -> None:
                loop.call_soon_threadsafe(stop.ask, "failed", message, JournalError.exit_code)

            self._journal = Journal(path, self.timebase.now_ns, journal_failed)
            return await self._recorded(path, stop, failed)
        finally:
            await asyncio.to_thread(acquisition.stop)
            if self._journal is not None:
                await asyncio.to_thread(self._journal.close)

    def batch(self, instrument: str, batch: Batch) -> None:
        """Readings came in (from an owner thread)."""
        self.monitor.batch(instrument, batch)

    def state(self, instrument: str, state: State, reason: str) -> None:
        """An instrument came or went (from an owner thread)."""
        self.monitor.state(instrument, state, reason)
        if self._journal is not None:
            kind = "instrument_back" if state is State.READING else "instrument_lost"
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

    def _header(self, fio: str) -> Header:
        assert self._acquisition is not None
        anchor: Anchor = self.timebase.anchor
        begun = np.datetime64(self.timebase.now_ns(), "ns").astype("datetime64[s]").item()
        stamp = begun.strftime("%Y%m%dT%H%M%SZ")
        meters = tuple(
            ChannelInfo.of(name, channel)
            for name, channels in self.rig.channels.items()
            for channel in channels
        )
        workload = tuple(
            ChannelInfo(
                name=f"{FIO_INSTRUMENT}.{side}.{name}", quantity=quantity, unit=unit, interval_s=0.5
            )
            for side in DIRECTIONS
            if any(side in phase.directions for phase in self.phases)
            for name, quantity, unit in _FIO_CHANNELS
        )
        self.monitor.describe(
            self.rig.rail_infos(),
            self.rig.file.temperatures,
            {channel.name: channel.interval_s for channel in meters},
            len(self.phases),
        )
        return Header(
            run_id=f"{stamp}_{self.rig.name}_{self.plan.name}",
            rig_name=self.rig.name,
            plan_name=self.plan.name,
            rig_text=self.rig.text,
            plan_text=self._plan_text,
            phases=self.phases,
            channels=meters + workload,
            rails=self.rig.rail_infos(),
            temperatures=dict(self.rig.file.temperatures),
            drive=self.rig.drive_info(),
            anchor=anchor,
            versions=host.versions(fio) | self._host_versions,
            identities=self._acquisition.identities(),
        )

    def event(self, kind: str, t_ns: int | None = None, **data: Any) -> None:
        """Put it into the journal and tell who watches."""
        assert self._journal is not None
        with contextlib.suppress(JournalError):  # told once, through on_failure
            self._on_event(self._journal.event(kind, t_ns, **data))

    async def _recorded(self, path: Path, stop: StopRequest, failed: dict[str, str]) -> RunOutcome:
        assert self._journal is not None and self._acquisition is not None
        self.event("run_started")
        if isinstance(self._host, RemoteHost):
            self._host.record_to(self._journal, self.event)
        self._acquisition.record_to(self._journal)
        for name, reason in failed.items():
            self.event("instrument_lost", instrument=name, reason=reason)
        try:
            async with self._watching(stop):
                await self._sequence.carry_out(stop)
        except LabctlError as error:
            reason = "; ".join([*self._sequence.failed[:1], str(error)])
            stop.ask("failed", reason, error.exit_code)
        failed_phases = self._sequence.failed
        if failed_phases:
            told = f"{len(failed_phases)} of {len(self.phases)} phases: {failed_phases[0]}"
            stop.ask("failed", told, RunFailed.exit_code)
        outcome = stop.outcome or "completed"
        stuck = await asyncio.to_thread(self._acquisition.stop)
        for name in stuck:
            self.event("instrument_stuck", instrument=name)
        await self._host.close()
        self.event("run_ended", outcome=outcome, reason=stop.reason)
        with contextlib.suppress(JournalError):
            await asyncio.to_thread(self._journal.flush)
        return RunOutcome(path, outcome, stop.reason, stop.exit_code)

    async def _start_fio(self, phase: Phase) -> FioProcess:
        """Check that ``phase`` may be done now and start its fio, to be held."""
        assert self._journal is not None
        await self._wait_for_host()
        await asyncio.to_thread(
            drives.check_target, self.rig, [phase], self._runs_root, self._host.machine
        )
        before: list[Status] = []

        def on_status(status: Status, t_ns: int) -> None:
            self._on_status(status, t_ns, before[-1] if before else None)
            before[:] = [status]

        directory = self._journal.path / FIO_DIR / phase.slug
        return await FioProcess.start(
            phase, self.drive, directory, self.timebase, on_status, self._host
        )

    async def _wait_for_host(self) -> None:
        """Wait until the drive's host is there. Raises RunFailed, also when the run shall end."""
        back = asyncio.create_task(self._host.wait_back(), name="host-back")
        asked = asyncio.create_task(self._stop.wait(), name="stop")
        try:
            await asyncio.wait((back, asked), return_when=asyncio.FIRST_COMPLETED)
            if not back.done():
                raise RunFailed("the drive's host is away, and the run shall end")
            back.result()
        finally:
            back.cancel()
            asked.cancel()

    def _on_status(self, status: Status, t_ns: int, before: Status | None) -> None:
        assert self._journal is not None
        found = intervals(before, status, t_ns)
        self.monitor.rates(found)
        with contextlib.suppress(JournalError):
            for side, interval in found.items():
                self._record_interval(side, interval)

    def _record_interval(self, side: str, interval: Interval) -> None:
        assert self._journal is not None
        t_ns = np.array([interval.t_ns], np.int64)
        for name, _, _ in _FIO_CHANNELS:
            value = getattr(interval, name)
            if value is not None:
                block = Block(f"{side}.{name}", t_ns, np.array([value]))
                self._journal.readings(FIO_INSTRUMENT, block)

    def phase_began(self, phase: Phase, t_ns: int) -> None:
        """A phase does its first I/O (told by the sequence)."""
        left_s = sum(later.duration_s for later in self.phases[phase.index :])
        self.monitor.phase(phase, t_ns, t_ns + round(left_s * NS_PER_S))
        self.event("phase_started", t_ns, index=phase.index)

    @contextlib.asynccontextmanager
    async def _watching(self, stop: StopRequest) -> AsyncIterator[None]:
        """Look after what may go wrong beside the phases, once a second."""

        async def watch() -> None:
            while True:
                await asyncio.sleep(1.0)
                self._note_wall_step()
                self._note_required(stop)

        task = asyncio.create_task(watch(), name="watch")
        try:
            yield
        finally:
            task.cancel()

    def _note_wall_step(self) -> None:
        offset_ns = self.timebase.wall_offset_ns()
        if abs(offset_ns - self._wall_offset_ns) > WALL_STEP_NS:
            seconds = (offset_ns - self._wall_offset_ns) / NS_PER_S
            self.event("wall_clock_step", seconds=round(seconds, 6))
        self._wall_offset_ns = offset_ns

    def _note_required(self, stop: StopRequest) -> None:
        assert self._acquisition is not None
        now = asyncio.get_running_loop().time()
        for name, owner in self._acquisition.owners.items():
            lost_at = owner.lost_at
            if (
                self.rig.file.instruments[name].required == "always"
                and lost_at is not None
                and now - lost_at > REQUIRED_GONE_S
            ):
                stop.ask(
                    "failed",
                    f"{name} is required and has been away for {REQUIRED_GONE_S:.0f} s: "
                    f"{owner.reason}",
                    1,
                )
