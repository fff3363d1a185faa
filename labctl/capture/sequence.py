"""Phase after phase, without idle time between them.

The fio of the next phase is started and held while the present one still works. A phase that
fails is recorded and the next one follows; what a safety rule forbids ends the run, after the
phase that is on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any, Protocol

from labctl.capture.fio import FioProcess
from labctl.capture.ssh import HostUnreachable
from labctl.capture.stopping import StopRequest
from labctl.errors import RunFailed
from labctl.plan import Pattern, Phase
from labctl.timebase import NS_PER_MS, NS_PER_S

HOLD_AHEAD_S = 3.0
"""The next fio is started this long before the end of the present phase."""
ATTEMPTS = 3
"""To get a phase's fio held on a host whose connection comes and goes."""


class Narrator(Protocol):
    """Takes what happens to phases."""

    def phase_began(self, phase: Phase, t_ns: int) -> None:
        """``phase`` does its first I/O about now."""
        ...

    def event(self, kind: str, t_ns: int | None = None, **data: Any) -> None:
        """Something for the journal happened (now, unless ``t_ns`` is given)."""
        ...


class PhaseSequence:
    """Carries out ``phases`` in their order.

    ``start_fio`` checks that a phase may be done and starts its fio, to be held. Failures of
    phases are collected in ``failed``.
    """

    def __init__(
        self,
        phases: Sequence[Phase],
        start_fio: Callable[[Phase], Awaitable[FioProcess]],
        narrator: Narrator,
        now_ns: Callable[[], int],
    ) -> None:
        self.failed: list[str] = []
        self._phases = tuple(phases)
        self._start_fio = start_fio
        self._narrator = narrator
        self._now_ns = now_ns
        self._fios: list[FioProcess] = []
        self._holding: dict[int, asyncio.Task[FioProcess]] = {}
        self._finishing: list[asyncio.Task[None]] = []

    def kill(self) -> None:
        """SIGKILL to every fio there is, held or at work."""
        for fio in self._fios:
            fio.kill()

    async def carry_out(self, stop: StopRequest) -> None:
        """All phases, or as many as there are until ``stop`` is asked for.

        Raises LabctlError for what ends the run: a safety rule, a target that is gone, a journal
        that cannot be written. However it ends, no fio is left.
        """
        try:
            for phase, following in pairwise((*self._phases, None)):
                assert phase is not None
                if stop.asked:
                    return
                if phase.pattern is Pattern.IDLE:
                    await self._idle(phase, following, stop)
                else:
                    await self._work(phase, following, stop)
        finally:
            await self._end(stop)

    async def _idle(self, phase: Phase, following: Phase | None, stop: StopRequest) -> None:
        begin_ns = self._now_ns()
        self._narrator.phase_began(phase, begin_ns)
        end_ns = begin_ns + round(phase.duration_s * NS_PER_S)
        await self._until(end_ns - round(HOLD_AHEAD_S * NS_PER_S), stop)
        self._hold(following, stop)
        await self._until(end_ns, stop)
        now_ns = self._now_ns()
        outcome = "interrupted" if stop.asked and now_ns < end_ns else "completed"
        self._ended(phase, outcome, begin_ns, now_ns, NS_PER_MS, stop.reason)

    async def _work(self, phase: Phase, following: Phase | None, stop: StopRequest) -> None:
        fio = await self._ready(phase, stop)
        if fio is None:
            return
        self._narrator.phase_began(phase, fio.release())
        done = asyncio.create_task(fio.wait_done(), name=f"phase-{phase.index}")
        asked = asyncio.create_task(stop.wait(), name="stop")
        try:
            if phase.fill_bytes is None:
                ahead_s = max(phase.duration_s - HOLD_AHEAD_S, 0.0)
                await asyncio.wait(
                    (done, asked), timeout=ahead_s, return_when=asyncio.FIRST_COMPLETED
                )
                self._hold(following, stop)
            await asyncio.wait((done, asked), return_when=asyncio.FIRST_COMPLETED)
            problem = done.exception() if done.done() else None
            if done.done() and problem is None:
                self._finish_later(phase, fio)
                return
            await fio.stop()
            if problem is None:
                self._closed(phase, fio, "interrupted", stop.reason)
            else:
                self.failed.append(str(problem))
                self._closed(phase, fio, "failed", str(problem))
        finally:
            for task in (done, asked):
                task.cancel()

    def _hold(self, phase: Phase | None, stop: StopRequest) -> None:
        """Begin to start the fio of ``phase``, unless it is an idle one or is being held."""
        if phase is None or stop.asked or phase.pattern is Pattern.IDLE:
            return
        if phase.index not in self._holding:
            task = asyncio.create_task(self._held(phase), name=f"hold-{phase.index}")
            self._holding[phase.index] = task

    async def _held(self, phase: Phase) -> FioProcess:
        fio = await self._start_fio(phase)
        self._fios.append(fio)
        await fio.wait_held()
        return fio

    async def _ready(self, phase: Phase, stop: StopRequest) -> FioProcess | None:
        """The held fio of ``phase``; None when it did not get ready or the run shall end.

        One that was lost with the connection to its host is started anew.
        """
        try:
            for _ in range(ATTEMPTS - 1):
                try:
                    fio = await self._taken(phase, stop)
                except HostUnreachable:
                    continue
                if fio is None or not fio.lost:
                    return fio
                self._fios.remove(fio)
            return await self._taken(phase, stop)
        except RunFailed as error:
            self.failed.append(str(error))
            now_ns = self._now_ns()
            self._ended(phase, "failed", now_ns, now_ns, 0, str(error))
            return None

    async def _taken(self, phase: Phase, stop: StopRequest) -> FioProcess | None:
        self._hold(phase, stop)
        holding = self._holding[phase.index]
        asked = asyncio.create_task(stop.wait(), name="stop")
        try:
            await asyncio.wait((holding, asked), return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
        return None if stop.asked else self._holding.pop(phase.index).result()

    def _finish_later(self, phase: Phase, fio: FioProcess) -> None:
        """fio takes tens of milliseconds to print and exit: the next phase does not wait."""

        async def finish() -> None:
            problem = await fio.finish()
            if problem:
                self.failed.append(problem)
            self._closed(phase, fio, "failed" if problem else "completed", problem)

        self._finishing.append(asyncio.create_task(finish(), name=f"finish-{phase.index}"))

    def _closed(self, phase: Phase, fio: FioProcess, outcome: str, reason: str) -> None:
        window = fio.window()
        assert window is not None
        clock = asdict(window.clock) if window.clock is not None else {}
        self._ended(phase, outcome, window.begin_ns, window.end_ns, window.u_ns, reason, **clock)
        self._fios.remove(fio)

    def _ended(
        self,
        phase: Phase,
        outcome: str,
        begin_ns: int,
        end_ns: int,
        u_ns: int,
        reason: str,
        **clock: int,
    ) -> None:
        self._narrator.event(
            "phase_ended",
            index=phase.index,
            outcome=outcome,
            reason=reason,
            begin_ns=begin_ns,
            end_ns=end_ns,
            boundary_u_ns=u_ns,
            **clock,
        )

    async def _end(self, stop: StopRequest) -> None:
        """Whatever is still there ends now."""
        await asyncio.gather(*self._finishing)
        for fio in self._fios:
            if fio.release_ns is None:
                fio.kill()
        for holding in self._holding.values():
            with contextlib.suppress(Exception):  # it was not to be used any more
                await holding
        for fio in list(self._fios):
            await fio.stop()
            if fio.release_ns is not None:
                self._closed(fio.phase, fio, "interrupted", stop.reason or "the run ended")
        self._fios.clear()

    async def _until(self, t_ns: int, stop: StopRequest) -> None:
        remaining_s = (t_ns - self._now_ns()) / NS_PER_S
        if remaining_s > 0:
            await stop.wait(remaining_s)
