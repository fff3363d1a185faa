"""The one way out of a run, whatever has ended it: nothing of it is left, and its record says why.

Each step is done whatever the ones before it raised, and for a limited time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labctl.capture.drive.control import DriveControl
from labctl.capture.host.drive_host import DriveHost
from labctl.capture.meters.acquisition import Acquisition
from labctl.capture.phases.ending import Ending
from labctl.capture.phases.sequence import PhaseSequence
from labctl.capture.phases.stopping import StopRequest
from labctl.capture.run.drive_actions import event_data_of_drive
from labctl.errors import (
    INTERRUPTED,
    ConfigurationError,
    GuardTripped,
    JournalError,
    LabctlError,
    RunFailed,
    error_line,
)
from labctl.record.events import EventKind, Outcome
from labctl.record.journal import Journal

HOST_BACK_WITHIN_S = 20.0
"""What was set on a drive waits so long for its host, to which there is an attempt each 8 s."""
RESTORE_WITHIN_S = 120.0
"""What was set on a drive is put back by a few programs, each given 30 s."""
STEP_WITHIN_S = 40.0
"""Every other step: to write what is left of the record may take 30 s."""
_log = logging.getLogger(__name__)


class StoppedBeforehand(LabctlError):
    """A run was stopped before it had begun: nothing is recorded."""

    exit_code = INTERRUPTED


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


class RunEnd:
    """The steps that end a run, in the order in which they stand here."""

    def __init__(
        self, event: Callable[..., None], stop: StopRequest, sequence: PhaseSequence | None
    ) -> None:
        self._event = event
        self._stop = stop
        self._sequence = sequence
        self._ending = Ending()

    def because_of(self, error: BaseException) -> None:
        """Let the outcome be that of ``error``, unless the end was asked for before."""
        failed = [] if self._sequence is None else self._sequence.failed
        reason = "; ".join([*failed[:1], error_line(error)])
        if isinstance(error, GuardTripped):
            self._stop.ask(Outcome.ABORTED, reason, error.exit_code)
        elif isinstance(error, LabctlError):
            # a drive that was pulled is a mistake in the rig only before the run has begun
            gone = isinstance(error, ConfigurationError)
            self._stop.ask(Outcome.FAILED, reason, RunFailed.exit_code if gone else error.exit_code)
        elif isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
            self._stop.ask(Outcome.ABORTED, "cancelled", INTERRUPTED)
        else:
            _log.error("unexpected", exc_info=error)
            self._stop.ask(Outcome.FAILED, reason, RunFailed.exit_code)

    async def programs(self, host: DriveHost | None) -> None:
        """Kill every fio and every other program that is still there."""
        async with self._ending.step("fio and other programs", STEP_WITHIN_S):
            if host is not None:
                host.kill()

    async def settings(self, controls: Mapping[str, DriveControl], host: DriveHost) -> None:
        """Put back what was set on each drive and its host."""
        if any(control.has_changed for control in controls.values()):
            with contextlib.suppress(Exception):  # reported as what is not put back
                async with asyncio.timeout(HOST_BACK_WITHIN_S):
                    await host.wait_back()
        for name, control in controls.items():
            async with self._ending.step(f"settings {name}".rstrip(), RESTORE_WITHIN_S):
                for problem in await asyncio.to_thread(control.restore):
                    self._event(EventKind.NOT_RESTORED, reason=problem, **event_data_of_drive(name))

    async def meters(self, acquisition: Acquisition | None, *, recorded: bool) -> None:
        """Close every meter; ``recorded``: there is a record for those that could not be."""
        async with self._ending.step("meters", STEP_WITHIN_S):
            stuck = [] if acquisition is None else await asyncio.to_thread(acquisition.stop)
            for name in stuck if recorded else ():
                self._event(EventKind.INSTRUMENT_STUCK, instrument=name)

    async def host(self, host: DriveHost | None) -> None:
        """Close the connection to the drive's host, and end what is left there."""
        async with self._ending.step("the drive's host", STEP_WITHIN_S):
            if host is not None:
                await host.close()

    async def record(self, journal: Journal) -> RunOutcome:
        """Write all that is left and how the run ended, and let go of the journal."""
        async with self._ending.step("the record", STEP_WITHIN_S):
            await asyncio.to_thread(journal.flush)
        outcome = self._outcome(journal)
        async with self._ending.step("the end of the record", STEP_WITHIN_S):
            self._event(EventKind.RUN_ENDED, outcome=outcome.outcome, reason=outcome.reason)
        async with self._ending.step("closing the record", STEP_WITHIN_S):
            await asyncio.to_thread(journal.close)
        return self._outcome(journal)

    def _outcome(self, journal: Journal) -> RunOutcome:
        """How the run ended: completed only where every phase was, and its record is whole."""
        stop, sequence = self._stop, self._sequence
        problems = [*([] if sequence is None else sequence.end_problems), *self._ending.problems]
        if sequence is not None and sequence.failed:
            count = f"{len(sequence.failed)} of {sequence.count} phases"
            reason = f"{count}: {sequence.failed[0]}"
            stop.ask(Outcome.FAILED, reason, sequence.failed_code)
        if journal.failure is not None:
            stop.ask(Outcome.FAILED, journal.failure, JournalError.exit_code)
        if problems:
            stop.ask(Outcome.FAILED, f"at its end: {'; '.join(problems)}", RunFailed.exit_code)
        outcome = stop.outcome or Outcome.COMPLETED
        return RunOutcome(journal.path, outcome, stop.reason, stop.exit_code)
