"""Slow stretches of a run in few lines: their causes in words, and many of one kind as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.throttle_result import Cause, ThrottleInterval

MOST_SEPARATE = 3
"""Slow stretches of one phase and cause up to which each is listed on its own."""


def causes_in(summary: RunSummary, result: PhaseResult) -> tuple[str, ...]:
    """The causes of what slowed a phase down, in words, each once."""
    index = result.phase.index
    causes = (item.cause for item in summary.throttling if item.phase_index == index)
    return tuple(dict.fromkeys(cause.words for cause in causes))


@dataclass(frozen=True, slots=True)
class SlowStretches:
    """Slow stretches of one phase and cause, listed as one where there are many of them."""

    phase_index: int
    cause: Cause
    count: int
    seconds: float
    evidence: str
    """Of the first of them."""


def slow_stretches(stretches: Sequence[ThrottleInterval]) -> tuple[SlowStretches, ...]:
    """One item a stretch, or one a phase and cause that has more than ``MOST_SEPARATE``."""
    groups: dict[tuple[int, Cause], list[ThrottleInterval]] = {}
    for item in stretches:
        groups.setdefault((item.phase_index, item.cause), []).append(item)
    found = []
    for (index, cause), group in groups.items():
        parts = [group] if len(group) > MOST_SEPARATE else [[item] for item in group]
        found += [
            SlowStretches(
                index, cause, len(part), sum(one.duration_s for one in part), part[0].evidence
            )
            for part in parts
        ]
    return tuple(found)
