"""The same work before and after every LBA was written: fresh against conditioned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labctl.analysis.estimate import Estimate
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.power.shared_errors import watts_ratio
from labctl.analysis.workload import by_workload, completed_with_io
from labctl.record.events import Outcome
from labctl.record.phase import Role


@dataclass(frozen=True, slots=True)
class Conditioned:
    """One work on the fresh drive and on the conditioned one.

    ``iops_change`` is a part of the fresh IOPS (−0.1: a tenth slower); ``watts_ratio`` is watts
    conditioned / fresh with U (about 95 %), the meters' gains taken out as far as they cancel.
    """

    workload: str
    fresh_index: int
    conditioned_index: int
    fresh_iops: float
    conditioned_iops: float
    iops_change: float
    fresh_watts: Estimate | None
    conditioned_watts: Estimate | None
    watts_ratio: Estimate | None


def conditioned_against_fresh(results: Sequence[PhaseResult]) -> tuple[Conditioned, ...]:
    """Every work that was done before the drive was filled and again after it.

    Compared is the last time before the first fill with the first time after the last fill. Replays
    are not: as fast as their trace, they differ in their service times.
    """
    fills = [
        number
        for number, item in enumerate(results)
        if item.phase.role is Role.PREPARE
        and item.phase.pattern.io
        and item.outcome == Outcome.COMPLETED
    ]
    if not fills:
        return ()
    before = by_workload(item for item in results[: fills[0]] if _fits_conditioned_pair(item))
    after = by_workload(item for item in results[fills[-1] + 1 :] if _fits_conditioned_pair(item))
    return tuple(
        _pair(name, group[-1], after[name][0]) for name, group in before.items() if name in after
    )


def _fits_conditioned_pair(item: PhaseResult) -> bool:
    measured = item.phase.role is Role.MEASURE and item.phase.replay is None
    return measured and completed_with_io(item)


def _pair(name: str, fresh: PhaseResult, conditioned: PhaseResult) -> Conditioned:
    assert fresh.iops and conditioned.iops
    return Conditioned(
        workload=name,
        fresh_index=fresh.phase.index,
        conditioned_index=conditioned.phase.index,
        fresh_iops=fresh.iops,
        conditioned_iops=conditioned.iops,
        iops_change=conditioned.iops / fresh.iops - 1.0,
        fresh_watts=fresh.watts,
        conditioned_watts=conditioned.watts,
        watts_ratio=watts_ratio(conditioned, fresh),
    )
