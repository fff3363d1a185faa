"""One phase as fio printed it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from labctl.fio.status import FioStatus
from labctl.importing.work_logs import Trace
from labctl.record.phase import Pattern, Role
from labctl.record.timebase import NS_PER_S


@dataclass(frozen=True, slots=True)
class Work:
    """One phase as fio printed it. ``place`` says where, for a message."""

    file: Path
    place: str
    pattern: Pattern
    block_size_bytes: int
    queue_depth: int
    jobs: int
    read_pct: int
    compress_pct: int
    begin_ns: int
    end_ns: int
    boundary_u_ns: int
    timed_by: str
    """How begin and end are known, in words."""
    output: str | None
    """Its document alone, where it shares its file with others; None: the whole file is its."""
    runtime_ms: int
    total_ios: int
    error: str = ""
    """What went wrong, as fio says."""
    statuses: tuple[FioStatus, ...] = ()
    """What it had done at moments of its own wall clock, where it said so on its way."""
    logs: tuple[Path, ...] = ()
    """fio's own logs of it, and what they say over time."""
    traces: tuple[Trace, ...] = ()
    stated: bool = True
    """Whether fio printed the options of its jobs."""
    sweep: str = ""
    sweep_number: int = 0
    """What a given plan calls it; empty: no plan was given."""
    role: Role = Role.MEASURE
    notes: tuple[str, ...] = ()
    """What of its logs could not be used."""

    @property
    def duration_s(self) -> float:
        """From begin to end."""
        return (self.end_ns - self.begin_ns) / NS_PER_S
