"""Any trace as a fio iolog, for replay with ``read_iolog``.

Version 3 where the trace has times (fio 3.31 or newer waits as the trace did), else version 2. fio
takes microseconds; what lies closer together follows at once. A trace must fit the drive: it is
refused, or folded onto it when asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labctl.record.atomic_write import replacing
from labctl.trace.chunks import Chunk, IoTrace, Op, TraceError

ALIGN_BYTES = 512
FILE_NAME = "drive"
_ACTIONS = {Op.READ: "read", Op.WRITE: "write", Op.TRIM: "trim", Op.FLUSH: "sync"}


@dataclass(frozen=True, slots=True)
class Conversion:
    """What was written. ``wrapped``: I/Os that were folded onto the drive."""

    path: Path
    version: int
    ios: int
    wrapped: int
    bad_lines: int
    bad_shown: tuple[str, ...]


def convert(
    trace: IoTrace,
    target: Path,
    drive_bytes: int,
    *,
    wrap: bool = False,
    disk: int | None = None,
) -> Conversion:
    """Write a trace as a fio iolog, in one step.

    The log calls the drive ``FILE_NAME``: give fio ``replay_redirect`` with the real one.
    ``disk`` picks one of several in the trace. Raises TraceError when an I/O lies beyond the drive
    (and ``wrap`` is not asked for), the trace has several disks and none was picked, or the file
    cannot be written.
    """
    version = 3 if trace.has_times else 2
    ios = wrapped = 0
    seen: set[int] = set()
    last_us = 0
    try:
        with replacing(target) as fresh, fresh.open("w", encoding="ascii") as log:
            log.write(f"fio version {version} iolog\n")
            log.writelines(_converted_trace_actions(version, ("add", "open"), 0))
            for chunk in trace.chunks:
                part = _of_disk(trace, chunk, disk, seen)
                part, folded = _on_drive(trace, part, drive_bytes, wrap=wrap)
                wrapped += folded
                ios += len(part)
                if len(part) and version == 3:
                    times = np.maximum.accumulate(np.maximum(part.t_ns // 1000, last_us))
                    last_us = int(times[-1])
                else:
                    times = np.zeros(len(part), np.int64)
                log.writelines(_converted_trace_lines(version, part, times.tolist()))
            log.writelines(_converted_trace_actions(version, ("close",), last_us))
            if not ios:
                what = "" if disk is None else f" of disk {disk}"
                raise TraceError(f"{trace.path}: no I/O{what} in it")
    except OSError as error:
        raise TraceError(f"cannot write {target}: {error.strerror or error}") from error
    return Conversion(target, version, ios, wrapped, trace.bad.count, trace.bad.shown)


def _of_disk(trace: IoTrace, chunk: Chunk, disk: int | None, seen: set[int]) -> Chunk:
    """I/Os of the picked disk; of all when there is only one."""
    if disk is not None:
        return chunk.only(chunk.disk == disk)
    seen |= set(np.unique(chunk.disk).tolist())
    if len(seen) > 1:
        names = ", ".join(str(one) for one in sorted(seen)[:10])
        raise TraceError(
            f"{trace.path}: I/Os of several disks ({names}) cannot be replayed on one drive: pick "
            "one with --disk"
        )
    return chunk


def _on_drive(trace: IoTrace, chunk: Chunk, drive_bytes: int, *, wrap: bool) -> tuple[Chunk, int]:
    """The I/Os at places that the drive has, and how many had to be moved."""
    end = chunk.offset + chunk.size
    beyond = (end > drive_bytes) & (chunk.op != Op.FLUSH)
    if not beyond.any():
        return chunk, 0
    first = int(np.flatnonzero(beyond)[0])
    large = chunk.size > drive_bytes
    if not wrap or large.any():
        at = int(np.flatnonzero(large)[0]) if large.any() else first
        advice = "" if large.any() else ": --wrap folds such I/Os onto the drive"
        raise TraceError(
            f"{trace.path}: line {int(chunk.line[at])} ends at byte {int(end[at])}, the drive has "
            f"{drive_bytes}{advice}"
        )
    offset = np.where(beyond, chunk.offset % drive_bytes, chunk.offset)
    latest = (drive_bytes - chunk.size) // ALIGN_BYTES * ALIGN_BYTES
    offset = np.where(beyond, np.minimum(offset, latest), offset)
    moved = Chunk(
        chunk.t_ns, chunk.op, offset, chunk.size, chunk.service_ns, chunk.disk, chunk.line
    )
    return moved, int(beyond.sum())


def _converted_trace_actions(version: int, actions: tuple[str, ...], at_us: int) -> Iterator[str]:
    for action in actions:
        yield f"{at_us} {FILE_NAME} {action}\n" if version == 3 else f"{FILE_NAME} {action}\n"


def _converted_trace_lines(version: int, chunk: Chunk, times: list[int]) -> Iterator[str]:
    actions = [_ACTIONS[Op(op)] for op in range(len(Op))]
    rows = zip(times, chunk.op.tolist(), chunk.offset.tolist(), chunk.size.tolist(), strict=True)
    if version == 3:
        for t, op, offset, size in rows:
            yield f"{t} {FILE_NAME} {actions[op]} {offset} {size}\n"
    else:
        for _, op, offset, size in rows:
            yield f"{FILE_NAME} {actions[op]} {offset} {size}\n"
