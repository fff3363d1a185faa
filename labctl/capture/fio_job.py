"""The job file of a phase: what fio is told to do, and how it is held and tells its end."""

from __future__ import annotations

from labctl.capture.machine import Machine
from labctl.plan import Phase
from labctl.rig import Drive

JOB_FILE = "job.fio"
HELD = b"labctl-held"
DONE = b"labctl-done"
PERCENTILES = "50:90:95:99:99.9:99.99:99.999"


def job_file(phase: Phase, drive: Drive, is_device: bool) -> str:
    """The fio job of a phase on a drive, as text. ``;`` would begin a comment: ``&&`` is used.

    ``is_device``: the target is a block device, whose size is its own.
    """
    lines = ["[global]", f"ioengine={drive.engine}", "thread=1", "group_reporting=1"]
    if drive.engine == "nbd":
        lines.append(f"uri={drive.target}")
    else:
        lines += [f"filename={_escaped(drive.target)}", "direct=1"]
        if drive.size_bytes and not is_device:
            lines.append(f"filesize={drive.size_bytes}")
    lines += [
        f"rw={phase.pattern}",
        f"bs={phase.block_size_bytes}",
        f"iodepth={phase.queue_depth}",
        f"numjobs={phase.jobs}",
        "norandommap=1",
        "randrepeat=0",
        "refill_buffers=1",
        "lat_percentiles=1",
        f"percentile_list={PERCENTILES}",
    ]
    if phase.pattern.mixed:
        lines.append(f"rwmixread={phase.read_pct}")
    if phase.buffer_compress_pct:
        lines.append(f"buffer_compress_percentage={phase.buffer_compress_pct}")
    lines += _span_lines(phase, drive)
    if not phase.fills:
        lines += ["time_based=1", f"runtime={round(phase.duration_s * 1000)}ms"]
    lines += [
        f"exec_prerun=echo {HELD.decode()} >&2 && read _",
        f"exec_postrun=echo {DONE.decode()} >&2 && :",
        "[phase]",
        "",
    ]
    return "\n".join(lines)


def _escaped(path: str) -> str:
    """fio splits file names at colons."""
    return path.replace(":", r"\:")


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


def is_block_device(drive: Drive, machine: Machine) -> bool:
    """Whether the target is one; asked only where it matters."""
    if drive.engine == "nbd" or not drive.size_bytes:
        return False
    return machine.run(["test", "-b", drive.target]).exit_code == 0
