"""Headline averages of the reviews: queue depths 1, 2 and 4; six mixes of reads and writes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from labctl.analysis.estimate import Estimate
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.workload import by_workload, completed_with_io, workload_name

LOW_DEPTHS = (1, 2, 4)
"""The usual queue depths of a desktop."""

MIXES_PCT = (100, 80, 60, 40, 20, 0)
"""Read shares of the mixed tests."""


@dataclass(frozen=True, slots=True)
class HeadlineAverage:
    """A headline figure: plain means over the phases ``of``.

    U of ``watts`` is the mean of the phases' U: errors of one meter do not average out.
    ``iops_per_watt`` is mean IOPS over mean watts.
    """

    name: str
    of: tuple[str, ...]
    iops: float
    bytes_per_s: float
    watts: Estimate | None
    iops_per_watt: Estimate | None
    throttled: tuple[str, ...] = ()
    """Those of the phases in which the drive throttled."""


def low_depth_averages(results: Sequence[PhaseResult]) -> tuple[HeadlineAverage, ...]:
    """One figure a workload that was done at queue depths 1, 2 and 4."""
    found = []
    for name, group in by_workload(results, depth=False).items():
        chosen = _first_each(group, LOW_DEPTHS, [item.phase.queue_depth for item in group])
        if chosen:
            found.append(_average(f"{name}, mean of QD 1, 2, 4", chosen))
    return tuple(found)


def mixed_averages(results: Sequence[PhaseResult]) -> tuple[HeadlineAverage, ...]:
    """One figure a mixed workload that was done at all six read shares."""
    groups: dict[str, list[PhaseResult]] = {}
    for item in results:
        if item.phase.pattern.mixed:
            share = f" {item.phase.read_pct}% read"
            groups.setdefault(workload_name(item.phase).replace(share, ""), []).append(item)
    found = []
    for name, group in groups.items():
        chosen = _first_each(group, MIXES_PCT, [item.phase.read_pct for item in group])
        if chosen:
            found.append(_average(f"{name}, mean of six mixes", chosen))
    return tuple(found)


def _first_each(
    group: Sequence[PhaseResult], wanted: Sequence[int], values: Sequence[int]
) -> list[PhaseResult]:
    """The first completed phase with I/O at each wanted value; none when one is missing."""
    chosen = []
    for value in wanted:
        fitting = [
            item
            for item, own in zip(group, values, strict=True)
            if own == value and completed_with_io(item)
        ]
        if not fitting:
            return []
        chosen.append(fitting[0])
    return chosen


def _average(name: str, chosen: Sequence[PhaseResult]) -> HeadlineAverage:
    n = len(chosen)
    iops = sum(item.iops or 0.0 for item in chosen) / n
    measured = [item.watts for item in chosen if item.watts is not None]
    watts = per_watt = None
    if len(measured) == n:
        watts = Estimate(sum(one.value for one in measured) / n, sum(one.u for one in measured) / n)
        if watts.value > 0 and math.isfinite(watts.u):
            value = iops / watts.value
            per_watt = Estimate(value, value * watts.u / watts.value)
    return HeadlineAverage(
        name=name,
        of=tuple(item.phase.label for item in chosen),
        iops=iops,
        bytes_per_s=sum(item.bytes_per_s or 0.0 for item in chosen) / n,
        watts=watts,
        iops_per_watt=per_watt,
        throttled=tuple(item.phase.label for item in chosen if item.throttled),
    )
