"""What a process uses, and whether it uses more and more."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MOST_GROWN = {"resident_bytes": 8 << 20, "descriptors": 3, "threads": 3, "children": 2}
"""A run that is on, or between jobs, makes a difference of some descriptors."""
MOST_CPU_SHARE = 0.10


@dataclass(frozen=True, slots=True)
class Use:
    """What a process uses at a moment."""

    resident_bytes: int
    descriptors: int
    threads: int
    children: int
    """Processes that it started and that are still there, also those that nobody waited for."""
    cpu_s: float

    @classmethod
    def of(cls, pid: int) -> Use:
        """From procfs (proc(5): stat fields 14, 15 and 20, statm field 2)."""
        proc = Path("/proc") / str(pid)
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        children = (file.read_text().split() for file in proc.glob("task/*/children"))
        return cls(
            resident_bytes=int((proc / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE"),
            descriptors=len(list((proc / "fd").iterdir())),
            threads=int(fields[17]),
            children=sum(map(len, children)),
            cpu_s=(int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
        )


def medians(uses: Sequence[Use]) -> dict[str, tuple[float, float]]:
    """Of each quantity, the medians of the second third and of the last; the first warms up."""
    third = len(uses) // 3
    parts = uses[third : 2 * third], uses[2 * third :]
    before, after = (
        [statistics.median(getattr(use, name) for use in part) for name in MOST_GROWN]
        for part in parts
    )
    return dict(zip(MOST_GROWN, zip(before, after, strict=True), strict=True))


def cpu_share(uses: Sequence[Use], elapsed_s: float) -> float:
    """Which part of a processor it took."""
    return (uses[-1].cpu_s - uses[0].cpu_s) / elapsed_s


def grown(uses: Sequence[Use], elapsed_s: float) -> list[str]:
    """What is not flat, in words."""
    wrong = [
        f"{name} grew from {was:,.0f} to {now:,.0f}"
        for name, (was, now) in medians(uses).items()
        if now - was > MOST_GROWN[name]
    ]
    share = cpu_share(uses, elapsed_s)
    return wrong + [f"the daemon takes {share:.0%} of a processor"] * (share > MOST_CPU_SHARE)
