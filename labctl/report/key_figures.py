"""What a run says in a few lines: the figures that stand on top of the table and the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from labctl.analysis.results import Cause, PhaseResult, RunSummary, ThrottleInterval

MOST_SEPARATE = 3
"""Slow stretches of one phase and cause up to which each is told by itself."""


def utc(t_ns: int, pattern: str = "%Y-%m-%d %H:%M:%S") -> str:
    """A time of the run in UTC, as a person reads it."""
    return datetime.fromtimestamp(t_ns / 1e9, tz=UTC).strftime(pattern)


def rail_names(summary: RunSummary) -> tuple[str, ...]:
    """Every rail that any phase measured, highest power first."""
    power: dict[str, float] = {}
    for result in summary.phases:
        for name, rail in result.rails.items():
            power[name] = max(power.get(name, 0.0), rail.watts.value)
    return tuple(sorted(power, key=lambda name: -power[name]))


def highest_power_phase(results: Iterable[PhaseResult]) -> PhaseResult | None:
    """The phase with the highest mean power."""
    known = [(item.watts.value, item) for item in results if item.watts is not None]
    return max(known, key=lambda pair: pair[0], default=(0.0, None))[1]


def most_efficient_phase(results: Iterable[PhaseResult]) -> PhaseResult | None:
    """The completed phase that did most operations for its energy."""
    known = [
        (item.iops_per_watt.value, item)
        for item in results
        if item.iops_per_watt is not None and item.outcome == "completed"
    ]
    return max(known, key=lambda pair: pair[0], default=(0.0, None))[1]


def worst_alignment_ms(results: Iterable[PhaseResult]) -> float | None:
    """The largest doubt about meter time against workload time in any phase."""
    return max(
        (item.alignment_ms for item in results if item.alignment_ms is not None), default=None
    )


def causes_in(summary: RunSummary, result: PhaseResult) -> tuple[str, ...]:
    """The causes of what slowed a phase down, in words, each once."""
    index = result.phase.index
    causes = (item.cause for item in summary.throttling if item.phase_index == index)
    return tuple(dict.fromkeys(cause.words for cause in causes))


@dataclass(frozen=True, slots=True)
class SlowStretches:
    """Slow stretches of one phase and cause, told together where there are many of them."""

    phase_index: int
    cause: Cause
    count: int
    seconds: float
    evidence: str
    """Of the first of them."""


def slow_stretches(stretches: Sequence[ThrottleInterval]) -> tuple[SlowStretches, ...]:
    """Those of one phase and cause as one where there are more than ``ONE_BY_ONE`` of them."""
    groups: dict[tuple[int, Cause], list[ThrottleInterval]] = {}
    for item in stretches:
        groups.setdefault((item.phase_index, item.cause), []).append(item)
    told = []
    for (index, cause), group in groups.items():
        parts = [group] if len(group) > MOST_SEPARATE else [[item] for item in group]
        told += [
            SlowStretches(
                index, cause, len(part), sum(one.duration_s for one in part), part[0].evidence
            )
            for part in parts
        ]
    return tuple(told)


def shared_notes(summary: RunSummary) -> dict[str, tuple[int, ...]]:
    """What a reader must know, each note once, with the indices of the phases it is about."""
    notes: dict[str, list[int]] = {}
    for result in summary.phases:
        for note in result.notes:
            notes.setdefault(note, []).append(result.phase.index)
    return {note: tuple(indices) for note, indices in notes.items()}
