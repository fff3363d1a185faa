"""Checks of the journal's disk and of the rig's limits against the plan."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from labctl.capture.drive.safety import existing
from labctl.capture.run.guard import LITTLE_DISK_BYTES
from labctl.config.rig import Rig
from labctl.record.layout import READING
from labctl.service.doctor.checks import Check, ok, trouble, warning

FIO_BYTES_PER_S = 20_000
"""The size of fio's own files and of the events of a run: 17 kB a second in phases of 6 s on the
bench (128 KiB writes, one direction); longer phases and more jobs were not measured."""


def journal_bytes_per_s(rig: Rig) -> float:
    """Bytes per second that a run on ``rig`` writes: readings, fio's files and events."""
    rates = (
        1 / channel.interval_s
        for channels in rig.channels.values()
        for channel in channels
        if channel.interval_s > 0
    )
    return READING.itemsize * sum(rates) + FIO_BYTES_PER_S


def check_disk(rig: Rig, runs_root: Path, seconds: float | None) -> Iterator[Check]:
    """Whether ``runs_root`` has room for a run of ``seconds`` (None: of unknown length)."""
    folder = existing(runs_root)
    if not os.access(folder, os.W_OK | os.X_OK):
        yield trouble("disk", f"{folder} cannot be written to", "choose another with --runs")
        return
    free = shutil.disk_usage(folder).free
    rate = journal_bytes_per_s(rig)
    has = f"{folder} has {free / 1e9:.1f} GB free; the journal takes {rate * 3.6e-3:.1f} MB an hour"
    limit = rig.file.limits.free_disk
    keep = LITTLE_DISK_BYTES if limit is None else limit
    need = rate * (seconds or 0.0)
    if free < keep or free < need + keep:
        wants = f", the run {need / 1e6:.0f} MB, and {keep / 1e6:.0f} MB must stay free"
        yield (warning if limit is None and free > need else trouble)(
            "disk", has + wants, "make room (labctl tidy), or choose another disk with --runs"
        )
    elif free < 2 * need + keep:
        yield warning("disk", f"{has}, the run about {need / 1e9:.1f} GB", "make room: labctl tidy")
    else:
        yield ok("disk", has)


def check_limits(rig: Rig, seconds: float | None) -> Iterator[Check]:
    """Which limits are set, and whether a plan of ``seconds`` keeps ``limits.hours``."""
    limits = rig.file.limits
    if limits.celsius is None:
        yield warning(
            "limits",
            "no limit of temperature: nothing pauses a run that gets too hot",
            "set celsius in [limits]",
        )
    names = ("celsius", "watts", "free_disk", "hours")
    if found := [f"{name} {getattr(limits, name):g}" for name in names if getattr(limits, name)]:
        yield ok("limits", ", ".join(found))
    if limits.hours is not None and seconds is not None and seconds > limits.hours * 3600:
        yield trouble(
            "limits",
            f"the plan takes {seconds / 3600:.1f} h, limits.hours is {limits.hours:g}: it would be "
            "aborted",
            "raise limits.hours or shorten the plan",
        )
