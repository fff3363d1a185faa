"""Watts and IOPS of the part of a phase in which the drive did not throttle."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from labctl.analysis.estimate import Component, Estimate
from labctl.analysis.power.budget import rail_result
from labctl.analysis.power.phase_power import phase_power
from labctl.analysis.readings.channel_series import Floats, Ints, RailSeries
from labctl.analysis.run_summary import SourceResistance
from labctl.analysis.stats.uncertainty import expanded_u, scatter_of

GUARD_NS = 1_000_000_000
"""Left out on either side of throttling: its edges are known to about half a second, and the change
of a drive may take a second."""

SHORTEST_NS = 2_000_000_000
"""A piece between two throttled stretches that is shorter than this is left out."""

LEAST_S = 3.0
"""Below this in all no number is given."""


@dataclass(frozen=True, slots=True)
class UnthrottledPart:
    """``seconds`` of a phase that were surely not throttled, and what it did in them.

    ``watts`` and ``iops`` are None when they were not measured, or ``seconds`` are too few.
    """

    seconds: float
    watts: Estimate | None
    iops: Estimate | None


def unthrottled_pieces(
    begin_ns: int, end_ns: int, throttled: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """(begin_ns, end_ns) of the parts of a phase ``GUARD_NS`` away from throttled stretches."""
    pieces = []
    at = begin_ns
    for low, high in throttled:
        pieces.append((at, low - GUARD_NS))
        at = high + GUARD_NS
    pieces.append((at, end_ns))
    return tuple((low, high) for low, high in pieces if high - low >= SHORTEST_NS)


def unthrottled_part(
    rails: Sequence[RailSeries],
    t_ns: Ints,
    iops: Floats,
    pieces: Sequence[tuple[int, int]],
    boundary_u_ns: int,
    sources: Mapping[str, SourceResistance],
) -> UnthrottledPart:
    """Watts and IOPS in ``pieces`` of a phase.

    ``rails``: all of the rig. ``t_ns`` are the middles of the intervals of fio's ``iops``,
    ``sources`` what the rails are supplied through.
    """
    seconds = sum(high - low for low, high in pieces) / 1e9
    if seconds < LEAST_S:
        return UnthrottledPart(seconds, None, None)
    return UnthrottledPart(
        seconds,
        _unthrottled_watts(rails, pieces, seconds, boundary_u_ns, sources),
        _unthrottled_iops(t_ns, iops, pieces),
    )


def _unthrottled_watts(
    rails: Sequence[RailSeries],
    pieces: Sequence[tuple[int, int]],
    seconds: float,
    boundary_u_ns: int,
    sources: Mapping[str, SourceResistance],
) -> Estimate | None:
    """The mean over all pieces, each weighted by its length.

    What scatters is independent from piece to piece; errors of meters, shunt and alignment are
    the same in all and add up. None when a rail was not measured in any of them.
    """
    value = shared = again = 0.0
    settled = True
    lines: dict[tuple[str, str], list[Component]] = {}
    measured_s = 0.0
    for low, high in pieces:
        power = phase_power(rails, low, high, boundary_u_ns)
        if power.total is None or power.total_scatter is None or power.total_process is None:
            continue
        duration_s = (high - low) / 1e9
        measured_s += duration_s
        weight = duration_s / seconds
        apart = 0.0
        for name, rail in power.rails.items():
            result = rail_result(rail, duration_s, 0.0, boundary_u_ns, sources.get(name))
            value += weight * result.watts.value
            apart += rail.scatter.u**2
            for line in result.budget:
                scaled = replace(line, watts=weight * line.watts)
                lines.setdefault((name, line.name), []).append(scaled)
        again += (weight * power.total_process.expanded_u) ** 2
        settled = settled and power.total_process.settled
        shared += weight**2 * max(power.total_scatter.u**2 - apart, 0.0)
    if measured_s < LEAST_S:
        return None
    budget = [_unthrottled_budget_line(same) for same in lines.values()]
    if shared:
        budget.append(Component("scatter of all rails", "A", math.sqrt(shared), ""))
    part = measured_s / seconds
    repeatability = math.sqrt(again) / part if settled else None
    return Estimate(value / part, expanded_u(budget) / part, repeatability)


def _unthrottled_budget_line(same: Sequence[Component]) -> Component:
    """One line of the budgets of all pieces."""
    if same[0].kind != "A":
        return replace(same[0], watts=sum(line.watts for line in same))
    squares = sum(line.watts**2 for line in same)
    fourth = sum(line.watts**4 / line.dof for line in same)
    dof = squares**2 / fourth if fourth > 0 else math.inf
    return replace(same[0], watts=math.sqrt(squares), dof=dof)


def _unthrottled_iops(
    t_ns: Ints, iops: Floats, pieces: Sequence[tuple[int, int]]
) -> Estimate | None:
    """The mean of the interval IOPS whose middles are in the pieces, with its uncertainty."""
    inside = np.zeros(len(t_ns), dtype=np.bool_)
    for low, high in pieces:
        inside |= (t_ns >= low) & (t_ns < high)
    values = iops[inside]
    if len(values) < 2:
        return None
    u = scatter_of(values).expanded_u
    return Estimate(float(values.mean()), u, u)
