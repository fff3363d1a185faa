"""The phases of a plan on a rig: what a run will do."""

from __future__ import annotations

from labctl.capture.drive import target
from labctl.capture.host.ssh import machine_at
from labctl.config.plan import Plan
from labctl.config.rig import Rig
from labctl.errors import ConfigurationError
from labctl.record.phase import Phase


def expand_for(rig: Rig, plan: Plan, plan_file: str) -> tuple[Phase, ...]:
    """The phases of ``plan`` on ``rig``. Raises ConfigurationError when they do not fit."""
    phases = plan.expand(size_of_drives(rig))
    mistakes = rig.mistakes_with(phases, plan_file)
    if mistakes:
        raise ConfigurationError(mistakes)
    return phases


def size_of_drives(rig: Rig) -> int | None:
    """How much of each drive is tested, in bytes: all of the smallest. None where one is not
    known."""
    machine = machine_at(rig.file.host)
    sizes = [
        drive.size_bytes or target.size_of(drive.target, machine) for drive in rig.drives.values()
    ]
    return min((size for size in sizes if size), default=None) if all(sizes) else None
