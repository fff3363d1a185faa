"""What a run does to the drive: I/O, purges, power states. Everything is allowed first."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from instruments.reading import Block
from labctl.capture.drive import target
from labctl.capture.drive.control import DriveControl
from labctl.capture.fio import FioProcess
from labctl.capture.header import FIO_CHANNELS
from labctl.capture.host.spawn import DriveHost
from labctl.capture.monitor import Interval, Monitor, intervals
from labctl.capture.sequence import Narrator
from labctl.capture.stopping import StopRequest
from labctl.drive_state import DriveState
from labctl.errors import JournalError, RunFailed
from labctl.fio_output import Status
from labctl.journal import Journal
from labctl.phase import Phase
from labctl.record import FIO_DIR
from labctl.rig import FIO_INSTRUMENT, Drive, Rig
from labctl.timebase import Timebase

COMPOSITE = "composite"
"""The sensor that is the drive's own temperature, where the rig has one of that name."""


@dataclass(frozen=True)
class DriveHands:
    """Acts on the drive of ``rig``, where it lives; see :class:`labctl.capture.sequence.Hands`.

    ``at_rest`` says whether no fio of ours is there. ``restore`` puts back what was changed.
    """

    rig: Rig
    drive: Drive
    host: DriveHost
    drive_state: DriveState
    journal: Journal
    monitor: Monitor
    timebase: Timebase
    runs_root: Path
    narrator: Narrator
    at_rest: Callable[[], bool]
    stop: StopRequest
    control: DriveControl

    async def _check(self, phases: Sequence[Phase], whole_drive: bool = False) -> None:
        """Refuse what must not be done to the drive. Raises ConfigurationError, Refused."""
        await self._wait_for_host()
        await asyncio.to_thread(
            target.check_target,
            self.rig,
            phases,
            self.runs_root,
            self.host.machine,
            whole_drive=whole_drive,
            at_rest=self.at_rest(),
        )

    async def _wait_for_host(self) -> None:
        """Wait until the drive's host is there. Raises RunFailed, also when the run shall end."""
        back = asyncio.create_task(self.host.wait_back(), name="host-back")
        asked = asyncio.create_task(self.stop.wait(), name="stop")
        try:
            await asyncio.wait((back, asked), return_when=asyncio.FIRST_COMPLETED)
            if not back.done():
                raise RunFailed("the drive's host is away, and the run shall end")
            back.result()
        finally:
            back.cancel()
            asked.cancel()

    async def start_fio(self, phase: Phase) -> FioProcess:
        """Check that ``phase`` may be done now and start its fio, to be held."""
        await self._check([phase])
        await asyncio.to_thread(self.control.set_again_after, self.host.boot_id)
        before: list[Status] = []

        def on_status(status: Status, t_ns: int) -> None:
            self._on_status(status, t_ns, before[-1] if before else None)
            before[:] = [status]

        directory = _put_aside(self.journal.path / FIO_DIR / phase.slug)
        return await FioProcess.start(
            phase, self.drive, directory, self.timebase, on_status, self.host
        )

    async def purge(self, phase: Phase) -> None:
        """Check that the drive may be purged now, and do it."""
        await self._check([phase], whole_drive=True)
        self.narrator.event("purge_started", method=phase.purge_method)
        method = await asyncio.to_thread(self.control.purge, phase, lambda: self.stop.asked)
        self.narrator.event("purged", method=method)

    async def set_power_state(self, state: int) -> None:
        """Choose an NVMe power state until the end of the run."""
        await asyncio.to_thread(self.control.set_power_state, state)
        known = self.drive_state.power_states
        max_watts = next((item.max_watts for item in known if item.number == state), None)
        self.narrator.event("power_state", state=state, max_watts=max_watts)

    def celsius(self) -> float | None:
        """The drive's own temperature now, or the hottest of the sensors that there are."""
        found = self.monitor.view().celsius
        return found.get(COMPOSITE, max(found.values(), default=None))

    def watts(self) -> float | None:
        """All rails together now; None while one of them is not known."""
        known = [rail.watts for rail in self.monitor.view().rails.values()]
        found = [watts for watts in known if watts is not None]
        return sum(found) if found and len(found) == len(known) else None

    def _on_status(self, status: Status, t_ns: int, before: Status | None) -> None:
        found = intervals(before, status, t_ns)
        self.monitor.rates(found)
        with contextlib.suppress(JournalError):  # told once, through on_failure
            for side, interval in found.items():
                self._record_interval(side, interval)

    def _record_interval(self, side: str, interval: Interval) -> None:
        t_ns = np.array([interval.t_ns], np.int64)
        for name, _, _ in FIO_CHANNELS:
            value = getattr(interval, name)
            if value is not None:
                block = Block(f"{side}.{name}", t_ns, np.array([value]))
                self.journal.readings(FIO_INSTRUMENT, block)


def _put_aside(directory: Path) -> Path:
    """``directory``, which an earlier attempt's files have left: they get a number."""
    if directory.exists():
        number = next(n for n in itertools.count(1) if not _numbered(directory, n).exists())
        directory.rename(_numbered(directory, number))
    return directory


def _numbered(directory: Path, number: int) -> Path:
    return directory.with_name(f"{directory.name}.{number}")
