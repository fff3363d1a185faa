"""Latency of a phase over both directions of its I/O."""

from __future__ import annotations

from labctl.analysis.phase_result import PhaseResult
from labctl.fio.results import Direction


def latency_directions(result: PhaseResult) -> dict[str, Direction]:
    """The directions in which the phase did anything: ``read``, ``write``."""
    both = {"read": result.read, "write": result.write}
    return {name: one for name, one in both.items() if one is not None and one.total_ios}


def latency_mean_us(result: PhaseResult) -> float | None:
    """Mean over every I/O of the phase, µs."""
    parts = latency_directions(result).values()
    total = sum(part.total_ios for part in parts)
    if not total:
        return None
    return sum(part.latency_mean_us * part.total_ios for part in parts) / total


def latency_percentile_us(result: PhaseResult, percentile: str) -> float | None:
    """A percentile ("99"), µs; of a mixed phase the slower direction's."""
    found = [
        part.latency_percentiles_us[percentile]
        for part in latency_directions(result).values()
        if percentile in part.latency_percentiles_us
    ]
    return max(found, default=None)


def latency_bounds_us(result: PhaseResult, percentile: str) -> tuple[float, float] | None:
    """The least and the most that a percentile may be, µs; of a mixed phase the slower
    direction's. None where it is known exactly, or not at all."""
    parts = [
        one
        for one in latency_directions(result).values()
        if percentile in one.latency_percentiles_us
    ]
    rows = [
        one.latency_bounds_us.get(percentile, (one.latency_percentiles_us[percentile],) * 2)
        for one in parts
    ]
    if not any(percentile in one.latency_bounds_us for one in parts):
        return None
    return max(low for low, _ in rows), max(high for _, high in rows)


def latency_max_us(result: PhaseResult) -> float | None:
    """The slowest I/O of the phase, µs."""
    return max((part.latency_max_us for part in latency_directions(result).values()), default=None)
