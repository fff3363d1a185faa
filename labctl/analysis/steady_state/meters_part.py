"""What the meters of a rig allow of its watts, before anything is measured.

The same limits as in the budget of a result (:mod:`labctl.analysis.power.budget`), as far as they
are known from the rig alone: a lower bound of U that no waiting passes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from labctl.analysis.stats.coverage import RECTANGULAR
from labctl.analysis.stats.uncertainty import expanded_u, limit_component
from labctl.analysis.steady_state.enough import MetersPart
from labctl.record.header import ChannelInfo, RailInfo


def meters_part(rails: Sequence[RailInfo], channels: Mapping[str, ChannelInfo]) -> MetersPart:
    """The limits of all ``rails`` together at their nominal volts; ``channels`` by name.

    Rails that the same meters measure have the same gain error, and others are no better than the
    worst: the largest gain is that of the sum.
    """
    parts = [_of_rail(rail, channels[rail.voltage], channels[rail.current]) for rail in rails]
    gain = max((part.gain for part in parts), default=0.0)
    return MetersPart(gain, sum(part.floor_watts for part in parts))


def _of_rail(rail: RailInfo, volts: ChannelInfo, current: ChannelInfo) -> MetersPart:
    shunt = rail.shunt_tolerance_pct / 100
    if rail.shunt_ohm and rail.shunt_u_ohm is not None:
        shunt = RECTANGULAR * rail.shunt_u_ohm / rail.shunt_k / rail.shunt_ohm
    gain = math.hypot(
        volts.accuracy_of_reading,
        volts.accuracy_floor / rail.nominal_volts,
        current.accuracy_of_reading,
        shunt if rail.shunt_ohm else 0.0,
    )
    floor_amps = current.accuracy_floor / (rail.shunt_ohm or 1.0)
    return MetersPart(gain, floor_amps * rail.nominal_volts)


def reachable_pct(part: MetersPart) -> float:
    """U (k = 2) that no time goes below, in percent of watts that are so many that the floors of
    the meters do not count."""
    return 100 * expanded_u([limit_component("meters", part.gain, "")])
