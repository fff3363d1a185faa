"""What the replay of a trace asks of a drive, and the log for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from labctl.record.phase import Replay
from labctl.trace.chunks import TraceError
from labctl.trace.convert import Conversion, convert
from labctl.trace.describe import Description, describe
from labctl.trace.formats import open_trace


@dataclass(frozen=True, slots=True)
class Demand:
    """``read_pct`` is 0 only without reads and 100 only without writes (or trims); ``duration_s``
    is 0 where the trace has no times, or they are not kept."""

    read_pct: int
    duration_s: float


def demand_of(replay: Replay, drive_bytes: int | None) -> Demand:
    """What a replay does. Raises TraceError when the trace cannot be read or does not fit."""
    path = Path(replay.trace)
    try:
        at = path.stat()
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from error
    found = _replay_description(path, at.st_mtime_ns, at.st_size, replay.disk)
    if drive_bytes is not None and found.span_bytes > drive_bytes and not replay.wrap:
        raise TraceError(
            f"{path} needs a drive of {found.span_bytes} bytes, this one has {drive_bytes}: "
            "replay_wrap = true folds what lies beyond onto it"
        )
    writes = found.writes + found.trims
    share = round(100 * found.reads / (found.reads + writes or 1))
    read_pct = max(min(share, 99 if writes else 100), 1 if found.reads else 0)
    duration_s = found.duration_s if replay.stalls and found.duration_s is not None else 0.0
    return Demand(read_pct, duration_s)


@lru_cache(maxsize=16)
def _replay_description(
    path: Path, mtime_ns: int, size_bytes: int, disk: int | None
) -> Description:
    """Reading a trace takes seconds: one that did not change is read once."""
    return describe(open_trace(path), disk)


def write_log(replay: Replay, target: Path, drive_bytes: int) -> Conversion:
    """Write the log that fio replays. Raises TraceError."""
    trace = open_trace(Path(replay.trace))
    return convert(trace, target, drive_bytes, wrap=replay.wrap, disk=replay.disk)
