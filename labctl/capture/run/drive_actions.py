"""What a run does to its drives: I/O, purges, power states. Everything is allowed first."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from instruments.reading import Block
from labctl.capture.drive import check_target
from labctl.capture.drive.control import DriveControl
from labctl.capture.host.drive_host import DriveHost
from labctl.capture.identity.node import DrivePlace
from labctl.capture.identity.nvme_pages import power
from labctl.capture.meters.live_values import Monitor
from labctl.capture.phases.contract import PhaseListener
from labctl.capture.phases.fio_process import FioProcess
from labctl.capture.phases.program import Program, ProgramProcess
from labctl.capture.phases.stopping import StopRequest
from labctl.capture.run.header import FIO_CHANNELS
from labctl.capture.run.live_points import LivePoints
from labctl.config.rig import Rig
from labctl.config.rig_file import FIO_INSTRUMENT, Drive
from labctl.errors import JournalError, LabctlError, RunFailed
from labctl.fio.status import FioStatus, Interval, intervals
from labctl.record.drive_state import DriveState
from labctl.record.events import EventKind
from labctl.record.journal import Journal
from labctl.record.layout import FIO_DIR
from labctl.record.marks import OF_OUTPUT
from labctl.record.phase import Phase
from labctl.record.point_end import PointState
from labctl.record.timebase import Timebase


def event_data_of_drive(name: str) -> dict[str, Any]:
    """The extra data of an event about one of several drives."""
    return {"drive": name} if name else {}


@dataclass(frozen=True)
class RigActions:
    """Acts on the drives of ``rig``, where they live; see
    :class:`labctl.capture.phases.contract.DriveActions`.

    ``drives``, ``drive_states`` and ``controls`` by the drive's name, which is empty where there
    is only one. ``at_rest`` is whether no fio of ours is there.
    """

    rig: Rig
    drives: Mapping[str, Drive]
    host: DriveHost
    drive_states: Mapping[str, DriveState]
    journal: Journal
    monitor: Monitor
    timebase: Timebase
    runs_root: Path
    listener: PhaseListener
    at_rest: Callable[[], bool]
    stop: StopRequest
    controls: Mapping[str, DriveControl]
    points: LivePoints
    program: Program | None = None
    """What a phase of a program measures."""

    async def _check(
        self, phases: Sequence[Phase], *, whole_drive: bool = False, at_rest: bool
    ) -> dict[str, DrivePlace]:
        """Refuse what must not be done to the drives; what each is. Raises ConfigurationError,
        Refused."""
        await self._wait_for_host()
        return await asyncio.to_thread(
            check_target.check_targets,
            self.rig,
            phases,
            self.runs_root,
            self.host.machine,
            whole_drive=whole_drive,
            at_rest=at_rest,
        )

    async def _wait_for_host(self) -> None:
        """Wait until the drive's host is there. Raises RunFailed, also when the run shall end."""
        back = asyncio.create_task(self.host.wait_back(), name="host-back")
        try:
            if not await self.stop.or_done(back):
                raise RunFailed("the drive's host is away, and the run shall end")
            back.result()
        finally:
            back.cancel()

    async def start_fio(self, phase: Phase) -> FioProcess:
        """Check that ``phase`` may be done now and start its fio, to be held."""
        places = await self._check([phase], at_rest=self.at_rest())
        for control in self.controls.values():
            await asyncio.to_thread(control.set_again_after, self.host.boot_id)
        before: list[tuple[FioStatus, int]] = []

        def on_status(status: FioStatus, t_ns: int) -> None:
            then, then_ns = before[-1] if before else (None, None)
            # fio notes its runtime, then waits for workers that sleep until the trace's next I/O
            # (3.33): what it prints is of the moment when it prints it.
            paced = phase.replay is not None and phase.replay.stalls
            self._on_status(phase, status, t_ns, then, then_ns if paced else None)
            before[:] = [(status, t_ns)]

        directory = _put_aside(self.journal.path / FIO_DIR / phase.slug)
        return await FioProcess.start(
            phase, self.drives, directory, self.timebase, on_status, self.host, places
        )

    async def check_again(self, phase: Phase) -> dict[str, DrivePlace]:
        """Check what was checked before fio was started, a while ago; what each drive is now."""
        return await self._check([phase], at_rest=True)

    async def start_program(self, phase: Phase) -> ProgramProcess:
        """Start the program of the run on the drives' host."""
        if self.program is None:
            raise RunFailed(f"{phase.label}: no program is run because a record or plan names one")
        await self._wait_for_host()
        directory = _put_aside(self.journal.path / FIO_DIR / phase.slug)

        def on_mark(text: str) -> None:
            self.listener.event(EventKind.MARK, text=text, source=OF_OUTPUT)

        return await ProgramProcess.start(
            self.program, directory, self.timebase, self.host, on_mark
        )

    async def purge(self, phase: Phase) -> None:
        """Check that the drives may be purged now, and do it, all at the same time. When the run
        shall end meanwhile, the programs that do it are killed.

        No fio of ours may be there: it would be taken for somebody who uses the drive.
        """
        places = await self._check([phase], whole_drive=True, at_rest=True)
        self.listener.event(EventKind.PURGE_STARTED, method=phase.purge_method)

        async def purge(name: str, control: DriveControl) -> None:
            place = places.get(name)
            method = await asyncio.to_thread(control.purge, phase, place, lambda: self.stop.asked)
            self.listener.event(EventKind.PURGED, method=method, **event_data_of_drive(name))

        purging = [purge(name, control) for name, control in self.controls.items()]
        together = asyncio.gather(*purging, return_exceptions=True)
        try:
            await self.stop.or_done(together)
        finally:
            killed = not together.done()
            if killed:
                self.host.kill()
        for error in await together:
            if error is not None and killed:
                raise RunFailed("it was not over when the run was to end") from error
            if error is not None:
                raise error

    async def set_power(self, state: int | None, limit_watts: float | None) -> None:
        """Choose an NVMe power state and a power limit; None: those that each drive was found
        with."""
        await self._wait_for_host()
        for name, control in self.controls.items():
            found = await asyncio.to_thread(_set_power, control, state, limit_watts)
            if found is None:
                continue
            number, limit = found
            known = self.drive_states[name].power_states
            max_watts = next((item.max_watts for item in known if item.number == number), None)
            data = {"state": number, "max_watts": max_watts, "limit_watts": limit}
            self.listener.event(EventKind.POWER_STATE, None, **data, **event_data_of_drive(name))

    async def settings_found(self) -> list[dict[str, Any]]:
        """The power state of each drive that has several, and the governor of its host, now."""
        await self._wait_for_host()
        return await asyncio.to_thread(self._settings_found)

    def _settings_found(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for name, control in self.controls.items():
            settings: dict[str, Any] = {}
            with contextlib.suppress(LabctlError):  # a setting that is not known fails no phase
                if self.drive_states[name].power_states:
                    settings["power_state"] = control.power_state()
                if self.drive_states[name].has_power_limit:
                    settings["power_limit_watts"] = power(control.power_limit())
                if governors := set(control.governors().values()):
                    settings["governor"] = " ".join(sorted(governors))
            if settings:
                found.append(settings | event_data_of_drive(name))
        return found

    def set_governor(self, governor: str) -> None:
        """Choose the CPU frequency governor. Raises RunFailed."""
        next(iter(self.controls.values())).set_governor(governor)

    def drive_celsius(self, by_sensor: Mapping[str, float] | None = None) -> dict[str, float]:
        """Each drive's own temperature, or the hottest of the sensors that it has, by drive.

        ``by_sensor``: what a view has of them; None: those of now. Sensors that are no drive's
        count only where there is one drive, or none of theirs is known.
        """
        found = self.monitor.celsius() if by_sensor is None else by_sensor
        owners = self.rig.temperature_drives()
        celsius = {}
        for drive in self.drives:
            own = {name: value for name, value in found.items() if owners.get(name, "") == drive}
            sensors = [value for name, value in own.items() if name in self.rig.own_sensors()]
            if own:
                celsius[drive] = max(sensors or own.values())
        return celsius or {drive: max(found.values()) for drive in self.drives if found}

    def celsius(self) -> float | None:
        """The temperature of the hottest drive now."""
        return max(self.drive_celsius().values(), default=None)

    def watts(self) -> float | None:
        """All rails together now; None while one of them is not known."""
        return self.monitor.view().watts

    def point_began(self, phase: Phase, t_ns: int) -> None:
        """From now on, follow the numbers of ``phase``."""
        self.points.began(phase, t_ns)

    def point_state(self) -> PointState | None:
        """How well they are known by now."""
        found = self.points.state(self.timebase.now_ns(), self.drive_celsius())
        self.monitor.point(found)
        return found

    def _on_status(
        self,
        phase: Phase,
        status: FioStatus,
        t_ns: int,
        before: FioStatus | None,
        begin_ns: int | None,
    ) -> None:
        found = intervals(before, status, t_ns, begin_ns)
        self.monitor.rates(found)
        self._follow_iops(phase, "", t_ns, found)
        with contextlib.suppress(JournalError):  # reported once, through on_failure
            self._record_intervals("", found)
            for drive, now in _actions_by_drive(status):
                then = None if before is None else dict(_actions_by_drive(before)).get(drive)
                own = intervals(then, now, t_ns, begin_ns)
                self._follow_iops(phase, drive, t_ns, own)
                self._record_intervals(f"{drive}.", own)

    def _follow_iops(
        self, phase: Phase, drive: str, t_ns: int, found: Mapping[str, Interval]
    ) -> None:
        if found:
            iops = sum(interval.iops for interval in found.values())
            self.points.status(phase.index, drive, t_ns, iops)

    def _record_intervals(self, prefix: str, found: Mapping[str, Interval]) -> None:
        for side, interval in found.items():
            t_ns = np.array([interval.t_ns], np.int64)
            for name, _, _ in FIO_CHANNELS:
                value = getattr(interval, name)
                if value is None:
                    continue
                block = Block(f"{prefix}{side}.{name}", t_ns, np.array([value]))
                self.journal.readings(FIO_INSTRUMENT, block)


def _set_power(
    control: DriveControl, state: int | None, limit_watts: float | None
) -> tuple[int, float | None] | None:
    """The power state that a drive is in, if it or the limit was ever chosen, and the limit in W
    that it then has; None for no limit, or one that was never chosen. Raises RunFailed."""
    if state is None:
        now = control.set_default_power_state()
    else:
        control.set_power_state(state)
        now = state
    if limit_watts is not None:
        control.set_power_limit(limit_watts)
    elif not control.set_default_power_limit():
        return None if now is None else (now, None)
    return control.power_state() if now is None else now, power(control.power_limit())


def _actions_by_drive(status: FioStatus) -> Iterator[tuple[str, FioStatus]]:
    """The entries of a status on each of several drives."""
    for drive, totals in status.drives.items():
        yield drive, replace(status, totals=totals, drives={})


def _put_aside(directory: Path) -> Path:
    """``directory``, which an earlier attempt's files have left: they get a number."""
    if directory.exists():
        number = next(
            n for n in itertools.count(1) if not _numbered_action_directory(directory, n).exists()
        )
        directory.rename(_numbered_action_directory(directory, number))
    return directory


def _numbered_action_directory(directory: Path, number: int) -> Path:
    return directory.with_name(f"{directory.name}.{number}")
