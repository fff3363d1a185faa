"""Checks of the rails: volts, amps and watts as they are read now, next to what drives idle at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np

from instruments.drivers.fixed_voltage import SOURCE as NOT_MEASURED
from labctl.analysis.estimate import Component, Estimate
from labctl.analysis.stats.uncertainty import expanded, limit_component, scatter_of
from labctl.capture.meters.listening import ChannelReadings
from labctl.capture.meters.live_values import LiveRail, RecentValues, live_rail
from labctl.config.rig import Rig
from labctl.record.header import RailInfo
from labctl.rounded import rounded
from labctl.service.doctor.checks import Check, ok, trouble, warning

LEAST_IDLE_WATTS = 0.02
"""In its deepest sleep an M.2 drive draws 2 to 10 mW, awake and idle none less than some tens."""
MOST_IDLE_WATTS = 25.0
"""The most that a drive in the U.2 form factor may draw at all (SFF-TA-1001, SFF-8639)."""
IDLE = "drives idle at 0.05 to 10 W"
_FEWEST = 3
"""Readings from which a scatter can be told."""

Readings: TypeAlias = Mapping[str, ChannelReadings]


def check_rails(rig: Rig, readings: Readings) -> Iterator[Check]:
    """What each rail carries now, its volts against their tolerance, and each drive's watts."""
    infos = {info.name: info for info in rig.rail_infos()}
    watts: dict[str, Estimate | None] = {}
    for name, info in infos.items():
        volts, sensed = readings[info.voltage], readings[info.current]
        live = live_rail(info, RecentValues.of(volts.mean), RecentValues.of(sensed.mean))
        watts[name] = _rail_watts_now(info, live, volts, sensed)
        if live.volts is None:
            silent = info.voltage if volts.mean is None else info.current
            yield trouble(name, f"{silent} gave no reading: its volts are not known")
            continue
        measured = volts.channel.accuracy.source != NOT_MEASURED
        yield _volts(rig, info, live, watts[name], measured)
        yield from _check_rail_span(rig, info, sensed)
    yield from _idle_power(rig, watts)


def _rail_watts_now(
    info: RailInfo, live: LiveRail, volts: ChannelReadings, sensed: ChannelReadings
) -> Estimate | None:
    """The watts now, with the limits of the meters and of the shunt and the readings' scatter."""
    if live.volts is None or live.amps is None or live.watts is None:
        return None
    amps_each = 1.0 / (info.shunt_ohm or 1.0)
    components = [
        limit_component(name, readings.channel.accuracy.limit(readings.mean or 0.0) * scale, "")
        for name, readings, scale in (
            ("voltage", volts, live.amps),
            ("current", sensed, live.volts * amps_each),
        )
    ]
    if info.shunt_ohm:
        limit_ohm = info.shunt_u_ohm or info.shunt_ohm * info.shunt_tolerance_pct / 100
        components.append(limit_component("shunt", live.watts * limit_ohm / info.shunt_ohm, ""))
    if len(sensed.values) >= _FEWEST:
        scatter = scatter_of(np.array(sensed.values))
        u = scatter.u * amps_each * live.volts
        components.append(Component("scatter", "A", u, "", scatter.dof))
    return expanded(live.watts, components)


def _volts(
    rig: Rig, info: RailInfo, live: LiveRail, watts: Estimate | None, measured: bool
) -> Check:
    """Volts, amps and watts, and whether the volts are within the rail's tolerance."""
    assert live.volts is not None
    parts = [f"{live.volts:.3f} V"]
    if live.amps is not None and watts is not None:
        parts += [
            f"{rounded(live.amps, 4)} A",
            f"{rounded(watts.value, 4)} W ± {rounded(watts.u, 2)} W",
        ]
    off_pct = (live.volts / info.nominal_volts - 1) * 100
    parts.append(
        f"{off_pct:+.1f} % of {info.nominal_volts:g} V" if measured else "volts not measured"
    )
    text = ", ".join(parts)
    if abs(off_pct) <= info.tolerance_pct:
        return ok(info.name, text)
    if abs(off_pct) > 50:
        return trouble(info.name, text, "is the drive's supply on, and are the probes right?")
    text += f" (tolerance ±{info.tolerance_pct:g} %)"
    todo = "check supply and probes"
    drop = info.in_series_ohm * (live.amps or 0.0)
    if abs((live.volts + drop) / info.nominal_volts - 1) * 100 <= info.tolerance_pct:
        text += f": {rounded(drop)} V are lost across {info.in_series_ohm:g} Ω"
        todo = "take a smaller shunt or range, or raise the supply"
    worse = rig.file.limits.when_out_of_tolerance == "abort"
    return (trouble if worse else warning)(info.name, text, todo)


def _check_rail_span(rig: Rig, info: RailInfo, sensed: ChannelReadings) -> Iterator[Check]:
    """Whether the meter of the current reaches as far as the limit of watts."""
    limit, span = rig.file.limits.watts, sensed.channel.range
    if limit is None or span is None:
        return
    most, span_amps = limit / info.nominal_volts, span / (info.shunt_ohm or 1.0)
    if span_amps < most:
        yield warning(
            info.name,
            f"its current is measured up to {rounded(span_amps)} A; limits.watts alone on this "
            f"rail would be {rounded(most)} A",
            "labctl range finds the range",
        )


def _idle_power(rig: Rig, watts: Mapping[str, Estimate | None]) -> Iterator[Check]:
    """Of each drive with rails of its own, and of what they share, the watts next to a drive's."""
    for drive in dict.fromkeys(rail.drive for rail in rig.file.rails.values()):
        rails = [name for name, rail in rig.file.rails.items() if rail.drive == drive]
        known = [found for name in rails if (found := watts[name]) is not None]
        if len(known) < len(rails):
            continue
        total = Estimate(sum(one.value for one in known), sum(one.u for one in known))
        subject = f"power {drive}" if drive else "power"
        text = f"{rounded(total.value, 4)} W ± {rounded(total.u, 2)} W now; {IDLE}"
        if total.value + total.u >= LEAST_IDLE_WATTS and total.value - total.u <= MOST_IDLE_WATTS:
            yield ok(subject, text)
        else:
            yield warning(
                subject,
                text,
                "is the drive on, are the leads the right way round, and is shunt_ohm in ohms "
                "(50 mΩ are 0.05)?",
            )
