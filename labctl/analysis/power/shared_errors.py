"""The uncertainty that two phases of one run share, the ratio of their watts and watts above idle.

The gain error of a meter is the same in every phase of a run. In the ratio of two phases' watts it
cancels as far as each rail has the same share in both; the rest of it, and everything else of the
budget, stays. (Across runs nothing is taken to cancel: see
:mod:`labctl.analysis.compare.comparison`.)
"""

from __future__ import annotations

import math
from dataclasses import replace

from labctl.analysis.estimate import Component, Estimate
from labctl.analysis.phase_result import PhaseResult, RailResult
from labctl.analysis.stats.uncertainty import (
    combined,
    difference_components,
    expanded,
    student_factor,
)


def rail_u_apart(rail: RailResult) -> float:
    """Standard uncertainty (k = 1) of a rail's watts without what all phases share, W."""
    return combined([item for item in rail.budget if item.part != "gain"])[0]


def rail_u_gain(rail: RailResult) -> float:
    """Standard uncertainty (k = 1) that the gains of the rail's meters leave, W."""
    return combined([item for item in rail.budget if item.part == "gain"])[0]


def watts_ratio(one: PhaseResult, other: PhaseResult) -> Estimate | None:
    """Watts of ``one`` over watts of ``other``, two phases of one run, with U (about 95 %).

    None when one of them has no total.
    """
    if one.watts is None or other.watts is None or other.watts.value <= 0 or one.watts.value <= 0:
        return None
    ratio = one.watts.value / other.watts.value
    apart: list[Component] = []
    for result, watts in ((one, one.watts.value), (other, other.watts.value)):
        for rail in result.rails.values():
            u, dof = combined([item for item in rail.budget if item.part != "gain"])
            apart.append(Component("apart", "A", u / watts, "", dof))
    gain = 0.0
    for name in one.rails.keys() & other.rails.keys():
        here, there = one.rails[name], other.rails[name]
        share = here.watts.value / one.watts.value - there.watts.value / other.watts.value
        if here.watts.value:
            gain += (rail_u_gain(here) / abs(here.watts.value) * share) ** 2
    u, dof = combined([*apart, Component("gain", "B", math.sqrt(gain), "")])
    return Estimate(ratio, ratio * student_factor(dof) * u)


def watts_above_idle(
    rails: dict[str, RailResult], idle: dict[str, RailResult], joined: Estimate | None
) -> Estimate | None:
    """Watts above idle, rail by rail on the same meters, summed.

    ``joined`` is the phase's total: without one there is nothing to subtract from. None when the
    rails of both phases are not the same. The repeatability is that of both phases.
    """
    if joined is None or rails.keys() != idle.keys():
        return None
    components: list[Component] = []
    value = 0.0
    for name, rail in rails.items():
        above = rail.watts.value - idle[name].watts.value
        value += above
        share = above / rail.watts.value if rail.watts.value else 1.0
        components += difference_components(rail.budget, idle[name].budget, share)
    again = [joined.repeatability, *(rail.watts.repeatability for rail in idle.values())]
    known = [value for value in again if value is not None]
    both = math.hypot(*known) if len(known) == len(again) else None
    return replace(expanded(value, components), repeatability=both)
