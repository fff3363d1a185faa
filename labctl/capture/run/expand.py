"""The phases of a plan on a rig: what a run will do."""

from __future__ import annotations

from dataclasses import dataclass

from labctl.capture.drive import target
from labctl.capture.host.ssh import machine_at
from labctl.config.plan import Plan
from labctl.config.rig import Rig, smallest
from labctl.errors import ConfigurationError
from labctl.record.phase import Phase


@dataclass(frozen=True, slots=True)
class PlannedWork:
    """What a plan does on a rig: its phases, and how much of each drive they may use, in bytes
    (None: not known)."""

    phases: tuple[Phase, ...]
    size_bytes: int | None


def planned_work(rig: Rig, plan: Plan) -> PlannedWork:
    """What ``plan`` does on ``rig``, whose drives are asked for their sizes: that may take seconds
    over ssh. Raises ConfigurationError when they do not fit, HostUnreachable."""
    size_bytes = size_of_drives(rig)
    return PlannedWork(phases_for(rig, plan, plan.name, size_bytes), size_bytes)


def expand_for(rig: Rig, plan: Plan, plan_file: str) -> tuple[Phase, ...]:
    """The phases of ``plan`` on ``rig``. Raises ConfigurationError when they do not fit."""
    return phases_for(rig, plan, plan_file, size_of_drives(rig))


def phases_for(rig: Rig, plan: Plan, plan_file: str, size_bytes: int | None) -> tuple[Phase, ...]:
    """The same, on drives of this size; nothing is asked."""
    phases = plan.expand(size_bytes)
    mistakes = rig.mistakes_with(phases, plan_file)
    if mistakes:
        raise ConfigurationError(mistakes)
    return phases


def size_of_drives(rig: Rig) -> int | None:
    """How much of each drive is tested, in bytes: all of the smallest. None where one is not
    known."""
    machine = machine_at(rig.file.host)
    return smallest(
        [drive.size_bytes or target.size_of(drive.target, machine) for drive in rig.drives.values()]
    )
