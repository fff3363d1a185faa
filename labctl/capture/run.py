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
from labctl.capture.drive_watch import DriveWatch, watching_drive
from labctl.capture.fio import FioProcess
from labctl.capture.identity.identify import identify
from labctl.capture.machine import LocalMachine
from labctl.capture.monitor import Interval, Monitor, intervals
from labctl.drive_state import DriveState
from labctl.errors import ConfigurationError, JournalError, LabctlError, RunFailed
from labctl.fio_output import DIRECTIONS, Status
from labctl.journal import Journal
from labctl.plan import Pattern, Phase, Plan
from labctl.record import FIO_DIR, ChannelInfo, Event, Header
from labctl.rig import FIO_INSTRUMENT, Rig
from labctl.timebase import NS_PER_MS, NS_PER_S, Anchor, Timebase

CONNECT_WITHIN_S = 12.0
ABANDON_WITHIN_S = 1.0
HOLD_AHEAD_S = 3.0
"""The next fio is started this long before the end of the present phase."""
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


class StopRequest:
    """Somebody wants the run to end: the first reason counts."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.reason = ""
        self.exit_code = 0
        self.outcome = ""

    def ask(self, outcome: str, reason: str, exit_code: int) -> None:
        """Ask for the end; later requests change nothing."""
        if not self._event.is_set():
            self.outcome, self.reason, self.exit_code = outcome, reason, exit_code
            self._event.set()

    @property
    def asked(self) -> bool:
        """Whether the end was asked for."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until somebody asks."""
        await self._event.wait()


def expand_for(rig: Rig, plan: Plan, plan_file: str) -> tuple[Phase, ...]:
    """The phases of ``plan`` on ``rig``. Raises ConfigurationError when they do not fit."""
    phases = plan.expand(rig.drive.size_bytes or drives.size_of(Path(rig.drive.target)))
    mistakes = rig.mistakes_with(phases, plan_file)
    if mistakes:
        raise ConfigurationError(mistakes)
    return phases


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
        size_bytes = rig.drive.size_bytes or drives.size_of(Path(rig.drive.target))
        self.drive = rig.drive.model_copy(update={"size_bytes": size_bytes})
        self.timebase = Timebase()
        self.monitor = Monitor(self.timebase.now_ns)
        self.path: Path | None = None
        self._plan_text = plan_text
        self._runs_root = runs_root
        self._on_event = on_event
        self._journal: Journal | None = None
        self._acquisition: Acquisition | None = None
        self._fios: list[FioProcess] = []
        self._finishing: list[asyncio.Task[None]] = []
        self._failed: list[str] = []
        self._wall_offset_ns = 0
        self._machine = LocalMachine()
        self._drive_state: DriveState | None = None
        self._drive_watch: DriveWatch | None = None

    def abandon(self) -> None:
        """The second Ctrl-C: every fio is killed at once, meters and journal get a second."""
        for fio in self._fios:
            fio.kill()
        if self._journal is not None:
            self._event("run_ended", outcome="aborted", reason="killed by a second Ctrl-C")
        if self._acquisition is not None:
            self._acquisition.stop(ABANDON_WITHIN_S)
        if self._journal is not None:
            self._journal.close(ABANDON_WITHIN_S)

    async def execute(self, stop: StopRequest) -> RunOutcome:
        """Do it all. Raises LabctlError only for what was refused before the journal existed."""
        fio = await asyncio.to_thread(host.check_tools, self.rig.drive.engine, self.rig.path)
        await asyncio.to_thread(
            drives.check_target, self.rig, self.phases, self._runs_root, self._machine
        )
        self._drive_state = await asyncio.to_thread(
            identify,
            self._machine,
            self.rig.drive.target,
            self.rig.drive.engine,
            self.rig.drive.smart_device,
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
            versions=host.versions(fio),
            identities=self._acquisition.identities(),
            drive_state=self._drive_state,
        )

    def _event(self, kind: str, t_ns: int | None = None, **data: Any) -> None:
        assert self._journal is not None
        with contextlib.suppress(JournalError):  # told once, through on_failure
            self._on_event(self._journal.event(kind, t_ns, **data))

    async def _recorded(self, path: Path, stop: StopRequest, failed: dict[str, str]) -> RunOutcome:
        assert self._journal is not None and self._acquisition is not None
        self._event("run_started")
        self._acquisition.record_to(self._journal)
        for name, reason in failed.items():
            self._event("instrument_lost", instrument=name, reason=reason)
        try:
            async with self._watching(stop), self._watching_drive():
                await self._all_phases(stop)
        except LabctlError as error:
            stop.ask("failed", str(error), error.exit_code)
        finally:
            await self._end_fios()
        if not stop.asked and self._failed:
            count = len(self._failed)
            stop.ask("failed", f"{count} of {len(self.phases)} phases: {self._failed[0]}", 1)
        outcome = stop.outcome or "completed"
        stuck = await asyncio.to_thread(self._acquisition.stop)
        for name in stuck:
            self._event("instrument_stuck", instrument=name)
        self._event("run_ended", outcome=outcome, reason=stop.reason)
        with contextlib.suppress(JournalError):
            await asyncio.to_thread(self._journal.flush)
        return RunOutcome(path, outcome, stop.reason, stop.exit_code)

    async def _all_phases(self, stop: StopRequest) -> None:
        held = await self._held(0)
        for phase, following in zip(self.phases, (*self.phases[1:], None), strict=True):
            if stop.asked:
                break
            if phase.pattern is Pattern.IDLE:
                held = await self._idle(phase, following, stop)
            else:
                held = await self._work(phase, held, following, stop)

    async def _idle(
        self, phase: Phase, following: Phase | None, stop: StopRequest
    ) -> FioProcess | None:
        begin_ns = self._begin(phase)
        ahead_s = max(phase.duration_s - HOLD_AHEAD_S, 0.0)
        await self._until(begin_ns + round(ahead_s * NS_PER_S), stop)
        held = await self._held(following.index) if following and not stop.asked else None
        end_ns = begin_ns + round(phase.duration_s * NS_PER_S)
        await self._until(end_ns, stop)
        now_ns = self.timebase.now_ns()
        outcome = "interrupted" if stop.asked and now_ns < end_ns else "completed"
        self._ended(phase, outcome, begin_ns, now_ns, NS_PER_MS, stop.reason)
        return held

    async def _work(
        self, phase: Phase, fio: FioProcess | None, following: Phase | None, stop: StopRequest
    ) -> FioProcess | None:
        assert fio is not None
        self._begin(phase, fio.release())
        done = asyncio.create_task(fio.wait_done(), name=f"phase-{phase.index}")
        asked = asyncio.create_task(stop.wait(), name="stop")
        held: FioProcess | None = None
        try:
            if phase.fill_bytes is None and following is not None:
                ahead_s = max(phase.duration_s - HOLD_AHEAD_S, 0.0)
                await asyncio.wait(
                    (done, asked), timeout=ahead_s, return_when=asyncio.FIRST_COMPLETED
                )
                if not done.done() and not stop.asked:
                    held = await self._held(following.index)
            await asyncio.wait((done, asked), return_when=asyncio.FIRST_COMPLETED)
            if done.done() and done.exception() is None:
                if held is None and following is not None and not stop.asked:
                    held = await self._held(following.index)
                self._finish_later(phase, fio)
                return held
            await fio.stop()
            problem = done.exception() if done.done() else None
            self._closed(
                phase, fio, "failed" if problem else "interrupted", str(problem or stop.reason)
            )
            if problem:
                self._failed.append(str(problem))
                if held is None and following is not None and not stop.asked:
                    held = await self._held(following.index)
            return held
        finally:
            for task in (done, asked):
                task.cancel()

    async def _held(self, index: int) -> FioProcess | None:
        """Start the fio of a phase and hold it; None for an idle phase."""
        phase = self.phases[index]
        if phase.pattern is Pattern.IDLE:
            return None
        assert self._journal is not None
        at_rest = not self._fios
        await asyncio.to_thread(
            drives.check_target,
            self.rig,
            [phase],
            self._runs_root,
            self._machine,
            at_rest=at_rest,
        )
        before: list[Status] = []

        def on_status(status: Status) -> None:
            self._on_status(status, before[-1] if before else None)
            before[:] = [status]

        fio = await FioProcess.start(
            phase,
            self.drive,
            self._journal.path / FIO_DIR / phase.slug,
            self.timebase,
            on_status,
        )
        self._fios.append(fio)
        await fio.wait_held()
        return fio

    def _on_status(self, status: Status, before: Status | None) -> None:
        assert self._journal is not None
        wall_ms = status.wall_ms
        now_ns = self.timebase.now_ns()
        true_ns = now_ns if wall_ms is None else self.timebase.from_wall_ns(wall_ms * NS_PER_MS)
        found = intervals(before, status, true_ns)
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

    def _begin(self, phase: Phase, t_ns: int | None = None) -> int:
        begin_ns = self.timebase.now_ns() if t_ns is None else t_ns
        left_s = sum(later.duration_s for later in self.phases[phase.index :])
        self.monitor.phase(phase, begin_ns, begin_ns + round(left_s * NS_PER_S))
        self._event("phase_started", begin_ns, index=phase.index)
        if self._drive_watch is not None:
            self._drive_watch.phase_boundary()
        return begin_ns

    def _ended(
        self, phase: Phase, outcome: str, begin_ns: int, end_ns: int, u_ns: int, reason: str
    ) -> None:
        self._event(
            "phase_ended",
            index=phase.index,
            outcome=outcome,
            reason=reason,
            begin_ns=begin_ns,
            end_ns=end_ns,
            boundary_u_ns=u_ns,
        )

    def _closed(self, phase: Phase, fio: FioProcess, outcome: str, reason: str) -> None:
        window = fio.window()
        assert window is not None
        self._ended(phase, outcome, window.begin_ns, window.end_ns, window.u_ns, reason)
        self._fios.remove(fio)

    def _finish_later(self, phase: Phase, fio: FioProcess) -> None:
        """fio takes tens of milliseconds to print and exit: the next phase does not wait."""

        async def finish() -> None:
            problem = await fio.finish()
            if problem:
                self._failed.append(problem)
            self._closed(phase, fio, "failed" if problem else "completed", problem)

        self._finishing.append(asyncio.create_task(finish(), name=f"finish-{phase.index}"))

    async def _end_fios(self) -> None:
        """Whatever is still there ends now."""
        await asyncio.gather(*self._finishing)
        for fio in list(self._fios):
            await fio.stop()
            if fio.release_ns is not None:
                self._closed(fio.phase, fio, "interrupted", "the run ended")
        self._fios.clear()

    async def _until(self, t_ns: int, stop: StopRequest) -> None:
        remaining_s = (t_ns - self.timebase.now_ns()) / NS_PER_S
        if remaining_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(remaining_s):
                    await stop.wait()

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

    @contextlib.asynccontextmanager
    async def _watching_drive(self) -> AsyncIterator[None]:
        """Look after the drive's own counters; their events go into the journal."""
        assert self._drive_state is not None

        def on_event(kind: str, t_ns: int, data: dict[str, Any]) -> None:
            self._event(kind, t_ns, **data)

        watching = watching_drive(self._machine, self._drive_state, self.timebase.now_ns, on_event)
        async with watching as self._drive_watch:
            yield

    def _note_wall_step(self) -> None:
        offset_ns = self.timebase.wall_offset_ns()
        if abs(offset_ns - self._wall_offset_ns) > WALL_STEP_NS:
            seconds = (offset_ns - self._wall_offset_ns) / NS_PER_S
            self._event("wall_clock_step", seconds=round(seconds, 6))
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
