"""What a sequence of phases needs: actions on the drive, and a listener for what happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from labctl.capture.identity.node import DrivePlace
from labctl.capture.phases.fio_process import FioProcess
from labctl.capture.phases.program import ProgramProcess
from labctl.capture.phases.sampling import LiveDrive
from labctl.record.events import EventKind
from labctl.record.phase import Phase


class PhaseListener(Protocol):
    """Takes what happens to phases."""

    def phase_began(self, phase: Phase, t_ns: int) -> None:
        """``phase`` does its first I/O about now."""

    def event(self, kind: EventKind, t_ns: int | None = None, **data: Any) -> None:
        """Something for the journal happened (now, unless ``t_ns`` is given)."""


class DriveActions(LiveDrive, Protocol):
    """What is done to the drive. Each checks first that it may be done, and raises Refused."""

    async def start_fio(self, phase: Phase) -> FioProcess:
        """Start the fio of a phase, to be held. Raises RunFailed."""

    async def check_again(self, phase: Phase) -> Mapping[str, DrivePlace]:
        """Whether the held fio of a phase may still begin, and what each drive is now; no other
        fio of ours is there."""

    async def start_program(self, phase: Phase) -> ProgramProcess:
        """Start the program that a phase measures. Raises RunFailed."""

    async def purge(self, phase: Phase) -> None:
        """Take the drive back to fresh. Raises RunFailed."""

    async def set_power(self, state: int | None, limit_watts: float | None) -> None:
        """Choose an NVMe power state and a power limit; None: those before the run. Raises
        RunFailed."""

    async def settings_found(self) -> Sequence[Mapping[str, Any]]:
        """The settings that the drives and their host have now, as the data of events."""
