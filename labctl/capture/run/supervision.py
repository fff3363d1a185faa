"""What a run looks at beside its phases, each second: clocks, marks that people set, meters that
must be there, and the limits of the rig."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Mapping

from labctl.capture.meters.acquisition import Owner
from labctl.capture.phases.sequence import Pause, PhaseSequence
from labctl.capture.run.clock_watch import ClockWatch
from labctl.capture.run.drive_actions import RigActions
from labctl.capture.run.guard import Guard, GuardSample
from labctl.errors import GuardTripped, RunFailed
from labctl.record.events import EventKind, Outcome
from labctl.record.marks import MarkRequests
from labctl.record.timebase import NS_PER_S

REQUIRED_GONE_S = 10.0
"""A meter that is ``required = "always"`` may be away this long."""


class Supervisor:
    """Watches a run with these ``actions``, phases and ``owners`` of its meters, by name."""

    def __init__(
        self,
        actions: RigActions,
        sequence: PhaseSequence,
        owners: Mapping[str, Owner],
        clocks: ClockWatch,
        began_ns: int,
    ) -> None:
        self._actions = actions
        self._sequence = sequence
        self._owners = owners
        self._clocks = clocks
        self._began_ns = began_ns
        self._guard = Guard(actions.rig)
        self._marks = MarkRequests(actions.journal.path, actions.timebase)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Supervise; an error here ends the run."""

        async def watch() -> None:
            async for _ in self._clocks.samples(self._actions.listener.event):
                self._marks.record(self._actions.listener.event)
                self._note_required()
                self._keep_limits()

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled():
                reason = f"limits are not watched any more: {task.exception()!r}"
                self._actions.stop.ask(Outcome.FAILED, reason, RunFailed.exit_code)

        task = asyncio.create_task(watch(), name="watch")
        task.add_done_callback(ended)
        try:
            yield
        finally:
            task.cancel()
            self._marks.record(self._actions.listener.event)

    def _note_required(self) -> None:
        """Stop a run whose meter that it cannot do without is away for too long."""
        now = asyncio.get_running_loop().time()
        instruments = self._actions.rig.file.instruments
        for name, owner in self._owners.items():
            lost_at = owner.lost_at
            if (
                instruments[name].required == "always"
                and lost_at is not None
                and now - lost_at > REQUIRED_GONE_S
            ):
                self._actions.stop.ask(
                    Outcome.FAILED,
                    f"{name} is required and has been away for {REQUIRED_GONE_S:.0f} s: "
                    f"{owner.reason}",
                    RunFailed.exit_code,
                )

    def _keep_limits(self) -> None:
        """Act on limits of the rig that were passed since the last sample."""
        actions, event = self._actions, self._actions.listener.event
        now_ns = actions.timebase.now_ns()
        free_bytes = None
        with contextlib.suppress(OSError):  # the journal reports it; the other limits hold
            free_bytes = shutil.disk_usage(actions.journal.path).free
        running_s = (now_ns - self._began_ns) / NS_PER_S
        view = actions.monitor.view()
        celsius = actions.drive_celsius(view.celsius)
        sample = GuardSample(view, celsius, free_bytes, running_s)
        tripped, over = self._guard.changes(sample, now_ns / NS_PER_S)
        for trip in over:
            event(EventKind.GUARD_OVER, limit=trip.limit)
        for trip in tripped:
            event(EventKind.GUARD_TRIPPED, limit=trip.limit, reason=trip.reason, action=trip.action)
            limits = actions.rig.file.limits
            if trip.action == "abort":
                actions.stop.ask(Outcome.ABORTED, trip.reason, GuardTripped.exit_code)
            elif trip.action == "pause":
                cool = Pause(trip.reason, limits.cool_celsius, limits.cool_within_s)
                self._sequence.pause(cool)
