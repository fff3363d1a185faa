"""Two channels that measure the same at the same time: their difference, and if it is allowed.

The difference is taken reading by reading, so what the load does in the meantime is in both and
falls out; its scatter is the type A part. The limits of error of both are the type B part. Both
together are the U of the difference, and En = |difference| / U (ISO/IEC 17043) shows whether the
two agree: up to 1 they do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labctl.analysis.estimate import Component
from labctl.analysis.power.interpolation import interpolated
from labctl.analysis.power.shunt import shunt_lines, shunt_state, temperature_of_shunt
from labctl.analysis.power.zero_offset import FEWEST_READINGS
from labctl.analysis.readings.channel_series import ChannelSeries, Floats
from labctl.analysis.stats.running_stats import RunningStats, mean_and_scatter
from labctl.analysis.stats.uncertainty import expanded_u, limit_component
from labctl.record.header import RailInfo

BRIDGED = 2.5
"""Multiple of the usual interval over which the faster one is interpolated: one lost reading. What
two meters differ by is not to be guessed over more."""


@dataclass(frozen=True, slots=True)
class ComparedChannel:
    """One channel, in the quantity that is compared; ``shunt`` is the rail's, where its volts are
    across one, and ``celsius`` what measures the temperature of that."""

    channel: ChannelSeries
    shunt: RailInfo | None = None
    celsius: ChannelSeries | None = None


@dataclass(frozen=True, slots=True)
class MeterDifference:
    """``means`` of both and ``difference`` = first − second with its U, in one unit."""

    means: tuple[float, float]
    difference: float
    u: float
    en: float
    n: int
    budget: tuple[Component, ...]
    """Standard uncertainties in the unit of the difference, not in watts."""


def meter_difference(first: ComparedChannel, second: ComparedChannel) -> MeterDifference | None:
    """The difference of two sides; None when they have too few readings at the same time.

    Each channel has limits of error, so the U of the difference is never nothing.
    """
    channels = (first.channel, second.channel)
    if min(len(one) for one in channels) < 2:
        return None
    slower = max(channels, key=lambda one: one.interval_ns(0, len(one)))
    other = channels[0] if slower is channels[1] else channels[1]
    origin_ns = int(slower.clock.to_host_ns(np.ascontiguousarray(slower.stamps[:1]))[0])
    t = slower.elapsed_ns(0, len(slower), origin_ns)
    other_t = other.elapsed_ns(0, len(other), origin_ns)
    inside = (t >= other_t[0]) & (t <= other_t[-1])
    t, own = t[inside], slower.values(0, len(slower))[inside]
    if len(t) < FEWEST_READINGS:
        return None
    bridged = BRIDGED * other.interval_ns(0, len(other))
    theirs, known = interpolated(t, other_t, other.values(0, len(other)), bridged)
    if known is not None:
        own, theirs = own[known], theirs[known]
    if len(own) < FEWEST_READINGS:
        return None
    by_side = (theirs, own) if slower is channels[1] else (own, theirs)
    one, lines = _with_shunt(first, by_side[0])
    two, other_lines = _with_shunt(second, by_side[1])
    apart, scatter = mean_and_scatter(one - two)
    budget = [
        Component("scatter of the differences", "A", scatter.u, f"{len(own)} pairs", scatter.dof),
        *lines,
        *other_lines,
    ]
    expanded = expanded_u(budget)
    means = float(one.mean()), float(two.mean())
    return MeterDifference(means, apart, expanded, abs(apart) / expanded, len(own), tuple(budget))


def _with_shunt(side: ComparedChannel, values: Floats) -> tuple[Floats, list[Component]]:
    """Values of one side, corrected for its shunt, and its limits of error."""
    info, scale, zero = side.channel.info, side.channel.scale, side.channel.zero
    mean = float(values.mean())
    name, source = info.name, info.accuracy_source or "the rig"
    lines = [
        limit_component(f"{name} gain", info.accuracy_of_reading * mean, source),
        limit_component(f"{name} floor", info.accuracy_floor * scale, source),
    ]
    if zero is not None:
        lines.append(Component(f"{name} zero", "A", zero.u * scale, "its zero", zero.dof))
    rail = side.shunt
    if rail is None:
        return values, lines
    stats = RunningStats(len(values))
    stats.add(values)
    amps = stats.series()
    channel = side.channel
    ends = np.ascontiguousarray(channel.stamps[[0, -1]])
    begin_ns, end_ns = (int(one) for one in channel.clock.to_host_ns(ends))
    around = temperature_of_shunt(rail, side.celsius, begin_ns, end_ns)
    state = shunt_state(rail, amps, *around)
    lines += shunt_lines(rail, state, amps, mean)
    return values if state is None else values * state.factor, lines
