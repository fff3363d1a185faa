"""The same work in each power state or at each power limit of the drive: what that costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from labctl.analysis.estimate import Estimate
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.power.shared_errors import watts_ratio
from labctl.analysis.workload import completed_with_io, workload_name


@dataclass(frozen=True, slots=True)
class StateRow:
    """One work in one state, or at one limit. The parts are of what may draw most: the
    lowest-numbered state, no limit or the highest.

    ``watts_part`` has U (k = 2), the meters' gains taken out as far as they cancel.
    """

    workload: str
    power_state: int | None
    power_limit_watts: float | None
    phase_index: int
    iops: float
    watts: Estimate | None
    iops_per_watt: Estimate | None
    iops_part: float
    watts_part: Estimate | None


def power_state_table(results: Sequence[PhaseResult]) -> tuple[StateRow, ...]:
    """Every work that was done in two or more states, or at two or more limits.

    A work that was done again in one state counts once, the first time.
    """
    found: dict[str, dict[tuple[int, float], PhaseResult]] = {}
    for item in results:
        state, limit = item.phase.power_state, item.phase.power_limit_watts
        if (state is not None or limit is not None) and completed_with_io(item):
            name = workload_name(item.phase, state=False)
            place = state or 0, -(math.inf if limit is None else limit)
            found.setdefault(name, {}).setdefault(place, item)
    rows = []
    for name, by_place in found.items():
        if len(by_place) < 2:
            continue
        first = by_place[min(by_place)]
        rows += [_row(name, by_place[place], first) for place in sorted(by_place)]
    return tuple(rows)


def _row(name: str, item: PhaseResult, first: PhaseResult) -> StateRow:
    assert item.iops and first.iops
    return StateRow(
        workload=name,
        power_state=item.phase.power_state,
        power_limit_watts=item.phase.power_limit_watts,
        phase_index=item.phase.index,
        iops=item.iops,
        watts=item.watts,
        iops_per_watt=item.iops_per_watt,
        iops_part=item.iops / first.iops,
        watts_part=watts_ratio(item, first) if item is not first else Estimate(1.0, 0.0),
    )
