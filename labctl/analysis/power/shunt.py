"""The shunt or ammeter in a rail, its temperature, and its effect on the watts.

A shunt's resistance moves with its temperature: R = R₀ · (1 + α · (T − T₀)), where T is the
temperature around it plus the rise from its own heat, θ · R₀ · mean(I²), in equilibrium. Known
effects are corrected, unknown ones are in the budget. The power lost in it is the supply's, not
the drive's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from labctl.analysis.estimate import Component, Series
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.readings.channel_series import ChannelSeries
from labctl.analysis.stats.uncertainty import limit_component
from labctl.record.header import RailInfo
from labctl.record.timebase import NS_PER_S
from labctl.rounded import rounded

UNKNOWN_KELVIN = 25.0
"""Assumed half-width around the reference temperature of a shunt of unknown temperature."""

BESIDE_NS = 10 * NS_PER_S
"""Readings so close to a phase count as well: temperatures move slowly, and a short phase may have
no reading of its own."""

PPM = 1e-6


@dataclass(frozen=True, slots=True)
class ShuntState:
    """The shunt of a rail in a phase. ``celsius`` ± ``celsius_limit`` is around it,
    ``rise_kelvin`` comes on top; ``factor`` is what its amps are multiplied by."""

    celsius: float
    celsius_limit: float
    rise_kelvin: float
    factor: float
    measured: str = ""
    """The channel that the temperature is from; empty where the rig gives it."""


def temperature_of_shunt(
    info: RailInfo, channel: ChannelSeries | None, begin_ns: int, end_ns: int
) -> tuple[float, float, str]:
    """°C around a shunt in a phase, the half-width of what is unknown of it, and the channel.

    What the channel read in the phase: the middle of it, its spread and its limits of error. Where
    it read nothing, the range of the rig; without one, ``UNKNOWN_KELVIN`` around the reference.
    """
    if channel is not None:
        _, celsius = channel.between(begin_ns - BESIDE_NS, end_ns + BESIDE_NS)
        celsius = celsius[np.isfinite(celsius)]
        if len(celsius):
            low, high = float(celsius.min()), float(celsius.max())
            limit = channel.info.accuracy_floor + channel.info.accuracy_of_reading * abs(high)
            return (low + high) / 2, (high - low) / 2 + limit, channel.info.name
    if info.shunt_celsius is not None:
        low, high = info.shunt_celsius
        return (low + high) / 2, (high - low) / 2, ""
    return info.shunt_reference_celsius, UNKNOWN_KELVIN, ""


def shunt_state(
    info: RailInfo, amps: Series, celsius: float, celsius_limit: float, measured: str = ""
) -> ShuntState | None:
    """State of a shunt in a phase; ``amps`` are calculated with its nominal resistance.

    None without a shunt, and where the rig gives it no temperature coefficient.
    """
    ohm = info.shunt_ohm
    if ohm is None or not (info.shunt_ppm_per_kelvin or info.shunt_ppm_per_kelvin_limit):
        return None
    rise = info.shunt_kelvin_per_watt * ohm * _mean_square(amps)
    above = celsius + rise - info.shunt_reference_celsius
    factor = 1.0 / (1.0 + info.shunt_ppm_per_kelvin * PPM * above)
    return ShuntState(celsius, celsius_limit, rise, factor, measured)


def _mean_square(amps: Series) -> float:
    scatter = amps.std**2 * (amps.n - 1) / amps.n if amps.n > 1 else 0.0
    return amps.mean**2 + scatter


def drop_per_amp(info: RailInfo, state: ShuntState | None) -> float:
    """Volts between where they were measured and the drive, for each corrected ampere (Ω).

    The drop across a shunt was measured itself: it is that of the amps before their correction.
    """
    return info.drop_ohm / (1.0 if state is None else state.factor)


def at_drive(info: RailInfo, volts: Series, amps: Series, state: ShuntState | None) -> Series:
    """Volts at the drive: without the mean drop, where they were measured before it."""
    drop = drop_per_amp(info, state) * amps.mean
    if not drop:
        return volts
    return replace(volts, mean=volts.mean - drop, min=volts.min - drop, max=volts.max - drop)


def shunt_lines(
    info: RailInfo, state: ShuntState | None, amps: Series, watts: float
) -> list[Component]:
    """The lines of the budget that a shunt, or an ammeter's drop, brings in.

    Where the volts are measured before the shunt its drop is measured, too: P = (V − v) · v / R
    goes with 1/R as V · v / R does.
    """
    lines: list[Component] = []
    if info.shunt_ohm is not None:
        lines.append(_resistance_line(info, info.shunt_ohm, watts))
    if state is not None:
        lines += _temperature_lines(info, state, watts)
    if info.volts_at == "supply" and info.burden_ohm:
        part = info.burden_tolerance_pct / 100
        lines.append(
            limit_component(
                "burden",
                part * info.burden_ohm * _mean_square(amps),
                f"drop of the ammeter: {info.burden_ohm:g} Ω ± {rounded(part)} × of it (the rig)",
            )
        )
    return lines


def _resistance_line(info: RailInfo, ohm: float, watts: float) -> Component:
    source = f"shunt of {info.name}"
    if info.shunt_u_ohm is not None:
        return Component(
            name="shunt",
            kind="B",
            watts=abs(watts) * info.shunt_u_ohm / info.shunt_k / ohm,
            how=f"{ohm:g} Ω, U = {rounded(info.shunt_u_ohm)} Ω (k = {info.shunt_k:g}), calibrated",
            source=source,
            part="gain",
        )
    tolerance = info.shunt_tolerance_pct / 100
    how = f"±{tolerance:.3%} of {ohm:g} Ω (the rig)"
    return limit_component("shunt", tolerance * watts, how, source=source, part="gain")


def _temperature_lines(info: RailInfo, state: ShuntState, watts: float) -> list[Component]:
    """What is unknown of a shunt's temperature, and of how its resistance goes with it.

    A phase may be over before the shunt has come to its equilibrium, and how much it warms
    depends on how it is mounted: the whole rise counts as unknown.
    """
    lines = []
    alpha = abs(info.shunt_ppm_per_kelvin)
    where = state.measured or "the rig"
    if alpha:
        lines.append(
            limit_component(
                "shunt temperature",
                alpha * PPM * state.celsius_limit * watts,
                f"{info.shunt_ppm_per_kelvin:g} ppm/K, {state.celsius:.1f} °C ± "
                f"{rounded(state.celsius_limit, 2)} K around it ({where}); corrected by "
                f"{(state.factor - 1) / PPM:+.0f} ppm",
                source=state.measured,
            )
        )
        if state.rise_kelvin:
            lines.append(
                limit_component(
                    "shunt self-heating",
                    alpha * PPM * state.rise_kelvin * watts,
                    f"{info.shunt_kelvin_per_watt:g} K/W: {rounded(state.rise_kelvin, 2)} K in "
                    "equilibrium, corrected; all of it is the limit",
                )
            )
    if info.shunt_ppm_per_kelvin_limit:
        away = abs(state.celsius - info.shunt_reference_celsius) + state.celsius_limit
        away += state.rise_kelvin
        lines.append(
            limit_component(
                "shunt coefficient",
                info.shunt_ppm_per_kelvin_limit * PPM * away * watts,
                f"±{info.shunt_ppm_per_kelvin_limit:g} ppm/K over up to {rounded(away, 2)} K from "
                f"{info.shunt_reference_celsius:g} °C ({where})",
                source=f"shunt coefficient of {info.name}",
            )
        )
    return lines


def burden_problems(rails: Sequence[RailInfo], phases: Sequence[PhaseResult]) -> tuple[str, ...]:
    """A line for each rail that only the drop of its shunt or ammeter takes out of tolerance."""
    lines = []
    for info in rails:
        measured = [item.rails[info.name] for item in phases if info.name in item.rails]
        if not info.in_series_ohm or not measured:
            continue
        lowest = min(measured, key=lambda rail: rail.volts.mean)
        drop = info.in_series_ohm * lowest.amps.mean
        least = info.nominal_volts * (1 - info.tolerance_pct / 100)
        if lowest.volts.mean < least <= lowest.volts.mean + drop:
            lines.append(
                f"{info.name}: the drop of {rounded(drop)} V across {info.in_series_ohm:g} Ω "
                f"leaves the drive {lowest.volts.mean:.3f} V, below the {least:.3f} V that "
                f"±{info.tolerance_pct:g} % allow: take a smaller shunt or range, or raise the "
                "supply"
            )
    return tuple(lines)


def temperature_problems(
    rails: Sequence[RailInfo], channels: Mapping[str, ChannelSeries]
) -> tuple[str, ...]:
    """A line for each shunt whose temperature was to be measured and was not."""
    return tuple(
        f"{info.name}: {info.shunt_temperature} gave no temperature of the shunt: "
        + (
            "the range of the rig stands in"
            if info.shunt_celsius is not None
            else f"±{UNKNOWN_KELVIN:g} K around {info.shunt_reference_celsius:g} °C are allowed for"
        )
        for info in rails
        if info.shunt_temperature is not None
        and not len(channels.get(info.shunt_temperature) or ())
    )
