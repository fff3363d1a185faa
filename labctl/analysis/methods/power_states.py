"""The same work in each power state of the drive: what a lower limit costs, and what it saves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labctl.analysis.power.shared_errors import watts_ratio
from labctl.analysis.results import Estimate, PhaseResult
from labctl.analysis.workload import completed_with_io, workload_name


@dataclass(frozen=True, slots=True)
class StateRow:
    """One work in one state. The parts are of the lowest-numbered state, which may draw most.

    ``watts_part`` has U (k = 2), the meters' gains taken out as far as they cancel.
    """

    workload: str
    power_state: int
    phase_index: int
    iops: float
    watts: Estimate | None
    iops_per_watt: Estimate | None
    iops_part: float
    watts_part: Estimate | None


def power_state_table(results: Sequence[PhaseResult]) -> tuple[StateRow, ...]:
    """Every work that was done in two or more states.

    A work that was done again in one state counts once, the first time.
    """
    found: dict[str, dict[int, PhaseResult]] = {}
    for item in results:
        state = item.phase.power_state
        if state is not None and completed_with_io(item):
            name = workload_name(item.phase, state=False)
            found.setdefault(name, {}).setdefault(state, item)
    rows = []
    for name, by_state in found.items():
        if len(by_state) < 2:
            continue
        first = by_state[min(by_state)]
        rows += [_row(name, state, by_state[state], first) for state in sorted(by_state)]
    return tuple(rows)


def _row(name: str, state: int, item: PhaseResult, first: PhaseResult) -> StateRow:
    assert item.iops and first.iops
    return StateRow(
        workload=name,
        power_state=state,
        phase_index=item.phase.index,
        iops=item.iops,
        watts=item.watts,
        iops_per_watt=item.iops_per_watt,
        iops_part=item.iops / first.iops,
        watts_part=watts_ratio(item, first) if item is not first else Estimate(1.0, 0.0),
    )
