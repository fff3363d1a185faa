"""Rails whose readings of a phase give no mean with a two-sided uncertainty, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from instruments.reading import Status
from labctl.analysis.phase_result import RailResult, no_watts_note
from labctl.analysis.power.phase_power import PhasePower
from labctl.analysis.power.rail_power import RailPower
from labctl.analysis.power.reading_faults import LOST_WITH_LOAD, clipped, stuck_in
from labctl.analysis.readings.channel_series import ChannelSeries
from labctl.analysis.readings.channel_statuses import ChannelStatus, channel_statuses
from labctl.analysis.readings.phase_spans import PhaseSpan
from labctl.record.reader import RunRecord
from labctl.rounded import rounded


@dataclass(frozen=True, slots=True)
class UnsoundRail:
    """``why`` a rail has no watts in a phase. ``at_least``: what was read is a lower bound."""

    why: str
    at_least: bool


def unsound_rails(
    record: RunRecord, spans: Sequence[PhaseSpan], powers: Sequence[PhasePower]
) -> list[dict[str, UnsoundRail]]:
    """Of each phase, the rails that have readings and yet no watts.

    Readings over range, cut off at full scale, or lost while the load was high are a lower bound;
    those lost while it was low, and those of a meter that was stuck, are none.
    """
    overloads = [one for one in channel_statuses(record)[0] if one.status == Status.OVERLOAD]
    stuck = _unsound_stuck_channels(spans, powers)
    found: list[dict[str, UnsoundRail]] = []
    for number, (span, power) in enumerate(zip(spans, powers, strict=True)):
        unsound = {}
        for name, rail in power.rails.items():
            channels = (rail.rail.volts, rail.rail.amps)
            over = [one.info.name for one in channels if _unsound_by_overload(one, span, overloads)]
            walls = [
                one.info.name
                for one, repeats in zip(channels, rail.repeats, strict=True)
                if clipped(repeats, _full_scale(one))
            ]
            held = [one.info.name for one in channels if (number, one.info.name) in stuck]
            if held:
                unsound[name] = UnsoundRail(f"{held[0]} was stuck at one value", False)
            elif over:
                unsound[name] = UnsoundRail(f"{over[0]} was over its range at times", True)
            elif walls:
                unsound[name] = UnsoundRail(f"the readings of {walls[0]} are cut off", True)
            elif abs(rail.lost_at) > LOST_WITH_LOAD:
                unsound[name] = _lost_with_load(rail)
        found.append(unsound)
    return found


def _lost_with_load(rail: RailPower) -> UnsoundRail:
    where = "high" if rail.lost_at > 0 else "low"
    return UnsoundRail(f"readings were lost where the load was {where}", rail.lost_at > 0)


def _unsound_by_overload(
    channel: ChannelSeries, span: PhaseSpan, overloads: Sequence[ChannelStatus]
) -> bool:
    return any(
        one.channel == channel.info.name
        and one.begin_ns <= span.end_ns
        and (one.end_ns is None or one.end_ns >= span.begin_ns)
        for one in overloads
    )


def _full_scale(channel: ChannelSeries) -> float | None:
    """The end of a channel's range in the quantity that its values have."""
    if not channel.info.range:
        return None
    zero = 0.0 if channel.zero is None else channel.zero.value
    return (channel.info.range - zero) * channel.scale


def _unsound_stuck_channels(
    spans: Sequence[PhaseSpan], powers: Sequence[PhasePower]
) -> set[tuple[int, str]]:
    """(number of the phase, channel) of every channel that was stuck in a phase."""
    order = sorted(range(len(spans)), key=lambda number: spans[number].begin_ns)
    busy = [spans[number].phase.pattern.io for number in order]
    found = set()
    for name in dict.fromkeys(name for power in powers for name in power.rails):
        rails = [powers[number].rails.get(name) for number in order]
        for which in (0, 1):
            repeats = [None if rail is None else rail.repeats[which] for rail in rails]
            for place in stuck_in(repeats, busy):
                rail = rails[place]
                assert rail is not None
                channel = (rail.rail.volts, rail.rail.amps)[which]
                found.add((order[place], channel.info.name))
    return found


def without_unsound(
    power: PhasePower,
    unsound: Mapping[str, UnsoundRail],
    rails: Mapping[str, RailResult] = MappingProxyType({}),
) -> tuple[PhasePower, float | None]:
    """The power without those rails, and what all rails drew at least.

    The bound is the mean of what was read less its U; None where the phase has a total, or a rail
    is without any bound.
    """
    if not unsound:
        return power, None
    bounds = {name: rail.watts.value - rail.watts.u for name, rail in rails.items()}
    lines = []
    for name, one in unsound.items():
        bound = (
            f": at least {rounded(bounds[name], 4)} W" if one.at_least and name in bounds else ""
        )
        lines.append(no_watts_note(name, f"{one.why}{bound}"))
    sound = {name: rail for name, rail in power.rails.items() if name not in unsound}
    known = not power.missing and all(one.at_least for one in unsound.values())
    rest = PhasePower(sound, None, None, None, (*power.missing, *lines))
    return rest, max(sum(bounds.values()), 0.0) if known else None
