"""Every fio of a run: those that are held until their phase begins, and those at work."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from labctl.capture.host.ssh import HostUnreachable
from labctl.capture.phases.contract import DriveActions
from labctl.capture.phases.fio_process import FioProcess
from labctl.capture.phases.stopping import StopRequest
from labctl.record.phase import Phase
from labctl.record.timebase import NS_PER_S

TRIES = 3
"""How often a fio is started that is lost with the connection to its host before its phase."""


class FioPool:
    """Starts each fio of a run by ``actions``, ahead of its phase."""

    def __init__(self, actions: DriveActions, now_ns: Callable[[], int]) -> None:
        self._actions = actions
        self._now_ns = now_ns
        self._there: list[FioProcess] = []
        self._holding: dict[int, asyncio.Task[FioProcess]] = {}
        self._checked_ns: dict[int, int] = {}

    def __iter__(self) -> Iterator[FioProcess]:
        """Those that are there, held or at work."""
        return iter(tuple(self._there))

    @property
    def none(self) -> bool:
        """Whether no fio is there, not even a held one."""
        return not self._there

    def kill(self) -> None:
        """SIGKILL to all of them."""
        for fio in self._there:
            fio.kill()

    def hold(self, phase: Phase | None, stop: StopRequest) -> None:
        """Begin to start the fio of ``phase``, unless it is being held."""
        if phase is None or stop.asked:
            return
        if phase.index not in self._holding:
            task = asyncio.create_task(self._held(phase), name=f"hold-{phase.index}")
            self._holding[phase.index] = task

    async def wait_held(self, phase: Phase | None, stop: StopRequest) -> None:
        """Wait until the fio of ``phase`` waits for its turn, or cannot (which :meth:`take` tells),
        or the run shall end."""
        if phase is not None and phase.index in self._holding:
            await stop.or_done(self._holding[phase.index])

    async def _held(self, phase: Phase) -> FioProcess:
        self._checked_ns[phase.index] = self._now_ns()
        fio = await self._actions.start_fio(phase)
        self._there.append(fio)
        await fio.wait_held()
        return fio

    def checked_s(self, phase: Phase) -> float:
        """How long ago it was checked whether the fio of ``phase`` may be started."""
        return (self._now_ns() - self._checked_ns[phase.index]) / NS_PER_S

    async def take(self, phase: Phase, stop: StopRequest) -> FioProcess | None:
        """The held fio of ``phase``, which is the caller's to release; None when the run shall end.

        One that was lost with the connection to its host is started anew. Raises RunFailed.
        """
        for _ in range(TRIES - 1):
            try:
                fio = await self._taken(phase, stop)
            except HostUnreachable:
                continue
            if fio is None or not fio.lost:
                return fio
            self.forget(fio)
        return await self._taken(phase, stop)

    async def _taken(self, phase: Phase, stop: StopRequest) -> FioProcess | None:
        if stop.asked:
            return None
        self.hold(phase, stop)
        await stop.or_done(self._holding[phase.index])
        return None if stop.asked else self._holding.pop(phase.index).result()

    async def drop_held(self) -> None:
        """Give up every fio that waits for its turn."""
        for fio in self._there:
            if fio.release_ns is None:
                fio.kill()
        for holding in self._holding.values():
            with contextlib.suppress(Exception):  # it was not to be used any more
                await holding
        self._holding.clear()
        for fio in [item for item in self._there if item.release_ns is None]:
            await fio.stop()
            self.forget(fio)

    def forget(self, fio: FioProcess) -> None:
        """It has ended."""
        self._there.remove(fio)
