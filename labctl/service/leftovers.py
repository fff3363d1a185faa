"""What a run that was killed has left behind: its fio, and settings of the drive and its host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from labctl.capture.drive.control import DriveControl
from labctl.capture.drive.settings import left_changed
from labctl.capture.host.machine import Machine
from labctl.capture.host.ssh import machine_at
from labctl.checks import Check, warning
from labctl.errors import LabctlError, RunFailed
from labctl.record import HEADER_FILE, RunRecord
from labctl.rig import Rig, parse_rig
from labctl.service.home import find_home
from labctl.service.processes import end_fio_of
from labctl.service.rig_lock import use_of


def end_leftovers(run: Path) -> list[str]:
    """Kill every fio of a run that nobody looks after any more, and put back what it had set.

    A line for what was put back, or could not be. Never raises; a host that is away takes seconds.
    """
    end_fio_of(run)
    try:
        told = [_put_back(run, control) for control in controls_of(RunRecord(run))]
    except LabctlError as error:
        return [f"what {run.name} has set is not put back: {error}"]
    return [line for lines in told for line in lines]


def _put_back(run: Path, control: DriveControl) -> list[str]:
    left = control.left_over()
    problems = control.restore() if left else []
    if problems:
        return [f"what {run.name} has set is not put back: {problem}" for problem in problems]
    return [f"{run.name} had left {left}: put back"] if left else []


def check_leftovers(rig: Rig, machine: Machine) -> Iterator[Check]:
    """Whether the run before on this rig has left something set. Raises LabctlError."""
    before = use_of(find_home(), rig)
    if before is None or before.process.alive or not Path(before.run).is_dir():
        return
    for control in controls_of(RunRecord(Path(before.run)), machine):
        left = control.left_over()
        if left:
            yield warning(
                "drive",
                f"the run {before.run} was killed and has left {left}",
                "the next run puts it back, and so does labctl run --resume",
            )


def controls_of(record: RunRecord, machine: Machine | None = None) -> Iterator[DriveControl]:
    """What can put back the settings that a run left changed, for each drive where it left any.

    ``machine``: the drive's host, where there is a connection. Raises RunFailed when a target of
    the rig is another drive now, ConfigurationError.
    """
    rig = parse_rig(record.header.rig_text, f"{record.path / HEADER_FILE}: rig")
    for name, drive in rig.drives.items():
        changed = left_changed(record.events, name)
        if not changed:
            continue
        machine = machine or machine_at(rig.file.host, rig.tools)
        control = DriveControl(machine, drive, changed)
        state = record.header.drive_states.get(name, record.header.drive_state)
        serial = control.serial()
        if state is not None and state.serial and serial and serial != state.serial:
            raise RunFailed(f"{drive.target} is another drive now ({serial})")
        yield control
