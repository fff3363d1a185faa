"""The job file of a phase: what fio does, how it is held, and how it signals its end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from labctl.capture.identity.opened_target import OpenedTarget
from labctl.config.rig_file import Drive
from labctl.errors import RunFailed
from labctl.fio.job_values import DRIVE_JOB
from labctl.record.phase import Phase, Replay
from labctl.trace.chunks import TraceError
from labctl.trace.replay import write_log

JOB_FILE = "job.fio"
REPLAY_FILE = "replay.log"
HELD = b"labctl-held"
DONE = b"labctl-done"
DISK = b"labctl-disk"
"""Begins a line with the kernel's counters of the drive, at the release and at the end."""
_IO_TICKS = 10
"""Of the fields of ``/sys/class/block/*/stat``, from 1 (kernel: Documentation/block/stat.rst)."""
PERCENTILES = "50:90:95:99:99.9:99.99:99.999"


def write_job_files(
    phase: Phase, drives: Mapping[str, Drive], opened: Mapping[str, OpenedTarget], directory: Path
) -> None:
    """Write the job file into ``directory``, and the log of the trace that it replays, if any.

    One log is for all drives: it fits the smallest. Raises OSError, RunFailed.
    """
    (directory / JOB_FILE).write_text(job_file(phase, drives, opened), encoding="utf-8")
    if phase.replay is None:
        return
    sizes = [drive.size_bytes for drive in drives.values()]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        raise RunFailed(
            f"replay of {phase.replay.trace}: the drive's size is not known: drive.size_bytes"
        )
    try:
        write_log(phase.replay, directory / REPLAY_FILE, min(known))
    except TraceError as error:
        raise RunFailed(str(error)) from error


def job_file(phase: Phase, drives: Mapping[str, Drive], opened: Mapping[str, OpenedTarget]) -> str:
    """The fio jobs of a phase, as text. ``;`` would begin a comment: ``&&`` is used.

    ``drives`` by name, a single one with an empty name; each has as many workers, and a reporting
    group of its own. ``opened``: what fio is given of each that is no NBD address, whose name is
    never part of the job. Of a single block device that replays a trace the kernel's counters are
    printed at both ends.
    """
    counters = ""
    (counted,) = opened.values() if len(drives) == len(opened) == 1 else (None,)
    if phase.replay is not None and counted is not None and counted.node.is_device:
        stat = f"/sys/dev/block/{counted.node.number}/stat"
        counters = f"sed 's/^/{DISK.decode()} /' {stat} >&2 && "
    lines = ["[global]", "thread=1", "group_reporting=1"]
    lines += [
        f"iodepth={phase.queue_depth}",
        f"numjobs={phase.jobs}",
        "randrepeat=0",
        "refill_buffers=1",
        "lat_percentiles=1",
        f"percentile_list={PERCENTILES}",
        "clat_percentiles=0",  # half of the bins in its output
    ]
    lines += _work_lines(phase) if phase.replay is None else []
    lines += [
        f"exec_prerun=echo {HELD.decode()} >&2 && read _{f' && {counters}:' if counters else ''}",
        f"exec_postrun={counters}echo {DONE.decode()} >&2 && :",
    ]
    for name, drive in drives.items():
        lines += [f"[{DRIVE_JOB}{name}]", "new_group=1"] if name else ["[phase]"]
        lines += _drive_lines(phase, drive, opened.get(name))
    return "\n".join([*lines, ""])


def _drive_lines(phase: Phase, drive: Drive, opened: OpenedTarget | None) -> list[str]:
    """What is a drive's own: how it is reached, and where on it the work is."""
    lines = [f"ioengine={drive.engine}"]
    if opened is None:
        lines.append(f"uri={drive.target}")
    else:
        lines += [f"filename={opened.name}", "direct=1"]
        if drive.size_bytes and not opened.node.is_device:
            lines.append(f"filesize={drive.size_bytes}")
    if phase.replay is not None:
        return lines + _replay_lines(phase.replay, opened)
    return lines + _span_lines(phase, drive)


def _work_lines(phase: Phase) -> list[str]:
    """The work of a pattern."""
    lines = [f"rw={phase.pattern}", f"bs={phase.block_size_bytes}", "norandommap=1"]
    if phase.pattern.mixed:
        lines.append(f"rwmixread={phase.read_pct}")
    if phase.buffer_compress_pct:
        lines.append(f"buffer_compress_percentage={phase.buffer_compress_pct}")
    if phase.timed:
        lines += ["time_based=1", f"runtime={round(phase.duration_s * 1000)}ms"]
    return lines


def _replay_lines(replay: Replay, opened: OpenedTarget | None) -> list[str]:
    """The work of a trace. What its log calls the drive is made the target."""
    lines = [f"read_iolog={REPLAY_FILE}"]
    if opened is not None:
        lines.append(f"replay_redirect={opened.name}")
    return lines + (["replay_no_stall=1"] if not replay.stalls else [])


def _span_lines(phase: Phase, drive: Drive) -> list[str]:
    """Where on the drive. Sequential jobs get a part each: on the same part they would only
    measure the drive's cache."""
    span = phase.span_bytes or drive.size_bytes
    if span is None:
        return []
    if phase.jobs > 1 and not phase.pattern.random:
        part = span // phase.jobs // phase.block_size_bytes * phase.block_size_bytes
        return [f"size={part}", f"offset_increment={part}"]
    return [f"size={span}"]


def busy_ms_of(line: bytes) -> int | None:
    """For how long I/O was in flight since the host started, from a line that begins with DISK."""
    fields = line.split()
    return int(fields[_IO_TICKS]) if len(fields) > _IO_TICKS else None
