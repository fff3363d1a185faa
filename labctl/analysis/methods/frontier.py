"""The most IOPS under a limit of watts, and the least watts for given IOPS.

The frontier is that of what was measured: phases of one kind of work that no other phase beats in
both. Between them the power model of the rails gives watts for IOPS. Nothing is
extrapolated: below the slowest phase and beyond the fastest there is no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labctl.analysis.estimate import Estimate
from labctl.analysis.methods.power_model import RailModel, model_watts
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.workload import by_workload, completed_with_io
from labctl.rounded import rounded


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """A phase that no other phase beats in both IOPS and watts."""

    phase_index: int
    label: str
    queue_depth: int
    iops: float
    watts: Estimate


@dataclass(frozen=True, slots=True)
class Frontier:
    """The frontier of one kind of work, by rising IOPS."""

    workload: str
    points: tuple[FrontierPoint, ...]


@dataclass(frozen=True, slots=True)
class FrontierAnswer:
    """``measured``: the best phase that surely keeps the limit (watts + U under it).

    ``iops`` ± and ``watts``: what the model gives at the limit, held to what was measured; None
    where it has no answer. ``why``: the reason, or what limits.
    """

    workload: str
    measured: FrontierPoint | None
    iops: Estimate | None
    watts: Estimate | None
    why: str


def frontiers(results: Sequence[PhaseResult]) -> tuple[Frontier, ...]:
    """The frontier of each kind of work."""
    found = []
    for name, group in by_workload(results, depth=False).items():
        usable = [item for item in group if completed_with_io(item) and item.watts is not None]
        points = tuple(_point(item) for item in _frontier_results(usable))
        if points:
            found.append(Frontier(name, points))
    return tuple(found)


def _frontier_results(results: Sequence[PhaseResult]) -> list[PhaseResult]:
    kept: list[PhaseResult] = []
    for item in sorted(results, key=lambda one: (-(one.iops or 0.0), _frontier_watts(one))):
        if not kept or _frontier_watts(item) < _frontier_watts(kept[-1]):
            kept.append(item)
    return kept[::-1]


def _frontier_watts(result: PhaseResult) -> float:
    assert result.watts is not None
    return result.watts.value


def _point(result: PhaseResult) -> FrontierPoint:
    assert result.watts is not None and result.iops is not None
    phase = result.phase
    return FrontierPoint(phase.index, phase.label, phase.queue_depth, result.iops, result.watts)


def most_iops(
    frontier: Frontier,
    limit_watts: float,
    models: Sequence[RailModel],
    results: Sequence[PhaseResult],
) -> FrontierAnswer:
    """The most IOPS of a kind of work with at most ``limit_watts``.

    Measurements overrule the model: there is no answer where even the slowest phase exceeded the
    limit beyond its U, and none above the IOPS of such a phase.
    """
    keeping = [
        point for point in frontier.points if point.watts.value + point.watts.u <= limit_watts
    ]
    measured = keeping[-1] if keeping else None
    first, last = frontier.points[0], frontier.points[-1]
    if measured is last:
        why = "the fastest phase measured stays under the limit"
        return FrontierAnswer(
            frontier.workload, measured, Estimate(last.iops, 0.0), last.watts, why
        )
    if not models:
        return FrontierAnswer(frontier.workload, measured, None, None, "there is no power model")
    at_first = _frontier_watts_at(first.iops, first, models, results)
    at_idle = _frontier_watts_at(0.0, first, models, results)
    watts_per_iops = (at_first.value - at_idle.value) / first.iops
    if watts_per_iops <= 0:
        why = "in the model the watts do not rise with the IOPS"
        return FrontierAnswer(frontier.workload, measured, None, None, why)
    iops = first.iops + (limit_watts - at_first.value) / watts_per_iops
    over = [point for point in frontier.points if point.watts.value - point.watts.u > limit_watts]
    if iops < first.iops or first in over:
        why = f"the limit is below the slowest phase measured ({rounded(first.watts.value)} W)"
        return FrontierAnswer(frontier.workload, measured, None, None, why)
    most = over[0] if over else last
    held = min(iops, most.iops)
    watts = _frontier_watts_at(held, first, models, results)
    why = "from the power model"
    if held < iops:
        why = f"held to {'a phase that took more' if over else 'the fastest phase measured'}"
    return FrontierAnswer(
        frontier.workload, measured, Estimate(held, watts.u / watts_per_iops), watts, why
    )


def least_watts(
    frontier: Frontier,
    iops: float,
    models: Sequence[RailModel],
    results: Sequence[PhaseResult],
) -> FrontierAnswer:
    """The least watts at which a kind of work does at least ``iops``."""
    enough = [point for point in frontier.points if point.iops >= iops]
    measured = min(enough, key=lambda point: point.watts.value) if enough else None
    if measured is None:
        fastest = frontier.points[-1]
        why = f"more than the fastest phase measured ({fastest.iops:.0f} IOPS at {fastest.label})"
        return FrontierAnswer(frontier.workload, None, None, None, why)
    first = frontier.points[0]
    if iops < first.iops or not models:
        why = "the most frugal phase measured does as much"
        return FrontierAnswer(
            frontier.workload, measured, Estimate(first.iops, 0.0), measured.watts, why
        )
    watts = _frontier_watts_at(iops, first, models, results)
    return FrontierAnswer(
        frontier.workload, measured, Estimate(iops, 0.0), watts, "from the power model"
    )


def _frontier_watts_at(
    iops: float, first: FrontierPoint, models: Sequence[RailModel], results: Sequence[PhaseResult]
) -> Estimate:
    reads, writes, size = _mix(first, results)
    return model_watts(models, iops * reads, iops * writes, iops * size)


def _mix(first: FrontierPoint, results: Sequence[PhaseResult]) -> tuple[float, float, float]:
    """Reads, writes and bytes of one I/O of this work."""
    item = next(one for one in results if one.phase.index == first.phase_index)
    iops = item.iops or 1.0
    reads = item.read.iops / iops if item.read else 0.0
    writes = item.write.iops / iops if item.write else 0.0
    return reads, writes, (item.bytes_per_s or 0.0) / iops
