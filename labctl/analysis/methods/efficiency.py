"""Work per energy: the queue depth at which it is best, and what one more I/O costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from labctl.analysis.estimate import Estimate
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.power.shared_errors import watts_ratio
from labctl.analysis.workload import by_workload, completed_with_io

BYTES_PER_GB = 1e9


@dataclass(frozen=True, slots=True)
class Knee:
    """The most efficient queue depth of a workload.

    ``as_good`` are the depths (the best included) that do not differ from the best beyond the
    uncertainty and the repeatability of the watts: the knee may be at any of them.
    """

    workload: str
    queue_depth: int
    iops_per_watt: Estimate
    as_good: tuple[int, ...]

    @property
    def certain(self) -> bool:
        """Whether only one depth can be the best."""
        return len(self.as_good) == 1


@dataclass(frozen=True, slots=True)
class MarginalEnergy:
    """Energy above idle of one I/O, and of a GB (10⁹ bytes)."""

    phase_index: int
    label: str
    joules_per_io: Estimate | None
    joules_per_gb: Estimate | None


@dataclass(frozen=True, slots=True)
class RailShare:
    """A rail's part of the total power of a phase, 0 to 1 (rails may also feed back: below 0)."""

    phase_index: int
    label: str
    rail: str
    share: Estimate


def efficiency_knees(results: Sequence[PhaseResult]) -> tuple[Knee, ...]:
    """The knee of each workload that was done at two or more queue depths.

    Phases in which the drive throttled do not count. A depth that was done again counts once, at
    its best.
    """
    found = []
    for name, group in by_workload(results, depth=False).items():
        best: dict[int, PhaseResult] = {}
        for item in group:
            if item.iops_per_watt is None or not completed_with_io(item) or item.throttled:
                continue
            depth = item.phase.queue_depth
            if depth not in best or _efficiency_value(item) > _efficiency_value(best[depth]):
                best[depth] = item
        if len(best) < 2:
            continue
        top = max(best.values(), key=_efficiency_value)
        assert top.iops_per_watt is not None
        as_good = tuple(
            depth for depth, item in sorted(best.items()) if not clearly_less(item, top)
        )
        found.append(Knee(name, top.phase.queue_depth, top.iops_per_watt, as_good))
    return tuple(found)


def _efficiency_value(result: PhaseResult) -> float:
    return result.iops_per_watt.value if result.iops_per_watt is not None else 0.0


def clearly_less(item: PhaseResult, top: PhaseResult) -> bool:
    """Whether ``item`` does less for its energy than ``top`` beyond what is known.

    A knee is a statement about the drive: beside what the instruments leave unknown in the ratio,
    the repeatability of the watts of both phases counts. Of the IOPS nothing does.
    """
    if item is top:
        return False
    ratio = watts_ratio(item, top)
    if ratio is None or not math.isfinite(ratio.u):
        return False
    efficiency = _efficiency_value(item) / _efficiency_value(top)
    doubt = math.hypot(
        ratio.u / ratio.value, _efficiency_repeatability(item), _efficiency_repeatability(top)
    )
    return 1.0 - efficiency > efficiency * doubt


def _efficiency_repeatability(result: PhaseResult) -> float:
    """That of the watts, as a part of them; 0 where it is not known."""
    watts = result.watts
    if watts is None or watts.repeatability is None:
        return 0.0
    return watts.repeatability / watts.value


def marginal_energies(results: Sequence[PhaseResult]) -> tuple[MarginalEnergy, ...]:
    """Energy above idle of every phase that did work and has watts above idle."""
    found = []
    for item in results:
        if item.marginal_watts is None or not completed_with_io(item):
            continue
        found.append(
            MarginalEnergy(
                item.phase.index,
                item.phase.label,
                _marginal_efficiency(item.marginal_watts, item.iops),
                _marginal_efficiency(item.marginal_watts, (item.bytes_per_s or 0.0) / BYTES_PER_GB),
            )
        )
    return tuple(found)


def _marginal_efficiency(watts: Estimate, rate: float | None) -> Estimate | None:
    return watts.scaled(1.0 / rate) if rate else None


def rail_shares(results: Sequence[PhaseResult]) -> tuple[RailShare, ...]:
    """Each rail's part of the power of each phase that has a total.

    U adds up rail and total as if their errors were independent: they are partly the same, so it
    is rather too large.
    """
    found = []
    for item in results:
        if item.watts is None or item.watts.value <= 0:
            continue
        for name, rail in item.rails.items():
            share = rail.watts.value / item.watts.value
            u = math.hypot(rail.watts.u, share * item.watts.u) / item.watts.value
            found.append(RailShare(item.phase.index, item.phase.label, name, Estimate(share, u)))
    return tuple(found)
