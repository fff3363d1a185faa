"""Cleans up after a killed run: its fio, changed settings of drive and host, the missing report."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from instruments.process_environment import environment_without_secrets
from labctl.capture.drive.changed_settings import left_changed
from labctl.capture.drive.control import DriveControl
from labctl.capture.host.machine import Machine
from labctl.capture.host.ssh import machine_at
from labctl.capture.run.resume_agreement import drive_differences, in_words
from labctl.config.rig import Rig
from labctl.errors import LabctlError, RunFailed
from labctl.record.reader import RunRecord
from labctl.report.pages.report_files import is_made
from labctl.service.locks.processes import POLL_EVERY_S, PROC, start_ticks

REPORT_WITHIN_S = 100.0


def end_leftovers(run: Path, rig: Rig) -> list[str]:
    """Kill every fio of a killed run, and restore the settings that it had changed on the drives
    of ``rig``.

    Gives a line for each drive whose settings were restored, or could not be.
    Never raises; a host that is away takes seconds.
    """
    end_fio_of(run)
    try:
        lines_of_drives = [
            _restore_settings(run, control) for control in controls_of(RunRecord(run), rig)
        ]
    except LabctlError as error:
        return [f"what {run.name} has set is not put back: {error}"]
    return [line for lines in lines_of_drives for line in lines]


def _restore_settings(run: Path, control: DriveControl) -> list[str]:
    left = control.left_over()
    problems = control.restore() if left else []
    if problems:
        return [f"what {run.name} has set is not put back: {problem}" for problem in problems]
    return [f"{run.name} had left {left}: put back"] if left else []


def finish_report(run: Path) -> list[str]:
    """Make the report of a run that was completed and then killed, unless it has been made.

    Gives a line for the result. Never raises.
    """
    with contextlib.suppress(LabctlError):  # labctl report names what is wrong with the record
        if is_made(RunRecord(run)):
            return []
    command = [sys.executable, "-P", "-m", "labctl.cli.main", "report", str(run)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace",
            timeout=REPORT_WITHIN_S, check=False, env=environment_without_secrets(),
        )  # fmt: skip
        problem = done.stderr.strip() if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    return [f"{run.name} has no report: {problem}"] if problem else [f"{run.name}: report made"]


def controls_of(
    record: RunRecord, rig: Rig, machine: Machine | None = None
) -> Iterator[DriveControl]:
    """Controls that restore the settings a run left changed, one for each drive with any.

    ``rig`` is of this machine, and its drives must be those of the record. ``machine``: the drives'
    host, where there is a connection. Raises RunFailed when they are others, or a target is another
    drive now, ConfigurationError.
    """
    left = {name: left_changed(record.events, name) for name in rig.drives}
    others = drive_differences(record, rig) if any(left.values()) else []
    if others:
        raise RunFailed(
            f"it was made with other drives than those of {rig.path}: {in_words(others)}"
        )
    for name, drive in rig.drives.items():
        if not left[name]:
            continue
        machine = machine or machine_at(rig.file.host, rig.tools)
        control = DriveControl(machine, drive, left[name])
        state = record.header.drive_states.get(name, record.header.drive_state)
        serial = control.serial()
        if state is not None and state.serial and serial and serial != state.serial:
            raise RunFailed(f"{drive.target} is another drive now ({serial})")
        yield control


_RUNS_FIO = ("fio", "sh", "setpriv")
"""Names of processes below a run's fio directory: fio, and the shells that wait to start one."""
_KILLED_WITHIN_S = 5.0


def end_fio_of(run: Path) -> int:
    """Kill every fio, and every shell that waits to start one, in a run's directory; how many.

    The kernel kills a run's fio when labctl dies; this is for the case that it did not.
    """
    deadline = time.monotonic() + _KILLED_WITHIN_S
    killed: set[int] = set()
    while found := list(_fio_below(run)):
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed.update(found)
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_EVERY_S)
    return len(killed)


def _fio_below(run: Path) -> Iterator[int]:
    folder = run.resolve() / "fio"
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name = (entry / "comm").read_text().strip()
            if name not in _RUNS_FIO or start_ticks(int(entry.name)) == 0:
                continue
            where = (entry / "cwd").readlink()
        except OSError:
            continue
        if where.is_relative_to(folder):
            yield int(entry.name)
