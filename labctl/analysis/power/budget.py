"""The uncertainty budget of a rail's watts, line by line, and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from labctl.analysis.estimate import Component, Estimate
from labctl.analysis.phase_result import RailResult, WindowMaximum
from labctl.analysis.power.mains_ripple import MAINS_RIPPLE, left_of_ripple
from labctl.analysis.power.phase_power import PhasePower
from labctl.analysis.power.power_envelope import WindowReadings, envelope
from labctl.analysis.power.rail_power import RailPower
from labctl.analysis.power.shunt import at_drive, shunt_lines
from labctl.analysis.power.source_resistance import aperture_lines, sagged_watts
from labctl.analysis.readings.channel_series import ChannelSeries
from labctl.analysis.run_summary import SourceResistance
from labctl.analysis.stats.ended_points import watts_ended_with
from labctl.analysis.stats.uncertainty import (
    expanded,
    expanded_u,
    left_by_digits,
    limit_component,
)
from labctl.record.calibration_used import day_of
from labctl.record.point_end import PointEnd
from labctl.rounded import rounded

NO_DIGIT = 1e-3
"""Part of a digit below which what digits leave is no line of the budget."""


def rail_budget(
    power: RailPower,
    duration_s: float,
    step_watts: float,
    source: SourceResistance | None = None,
    digits: tuple[float, float] = (0.0, 0.0),
) -> tuple[Component, ...]:
    """Every line of the budget of a rail's mean watts.

    ``step_watts`` is the larger of the rail's steps at the edges of the phase: what a wrong
    alignment would bring in. ``source``: what the rail is supplied through, where it is known.
    ``digits`` are the steps of the volts' and the amps' last digits.
    """
    volts, amps = power.volts.mean, power.amps.mean
    lines = [
        Component(
            name="scatter",
            kind="A",
            watts=power.scatter.u,
            how=f"{power.watts.n} readings, which integrate {power.integrated:.0%} of the time; "
            f"standard deviation {rounded(power.watts.std, 4)} W",
            dof=power.scatter.dof,
        ),
        *_meter_lines("voltage", power.rail.volts, volts, amps),
        *_meter_lines("current", power.rail.amps, amps, volts),
    ]
    lines += shunt_lines(power.rail.info, power.shunt, power.amps, power.watts.mean)
    lines.append(
        limit_component(
            "alignment",
            power.alignment_ns * 1e-9 / duration_s * step_watts,
            f"±{power.alignment_ns * 1e-6:.2f} ms of {duration_s:.1f} s, "
            f"step {rounded(step_watts)} W",
        )
    )
    lines.append(_not_covered_line(power, step_watts, source))
    lines += _digit_lines(power, digits)
    lines += _ripple_lines(power, duration_s)
    if not power.together:
        lines.append(_interpolation_line(power))
    lines += aperture_lines(power, source)
    return tuple(lines)


def _not_covered_line(
    power: RailPower, step_watts: float, source: SourceResistance | None
) -> Component:
    """What the drive may have drawn while its watts were not measured.

    Where the current was read without the voltage it bounds the watts: the voltage hardly moves.
    Where it was not read, watts may also have been at the level of the phase before or after.
    """
    levels = [power.watts.min, power.watts.max]
    if power.amps.n > power.watts.n:
        levels += [power.volts.mean * power.amps.min, power.volts.mean * power.amps.max]
    reach = max(abs(level - power.watts.mean) for level in levels)
    missing = power.missing
    unseen = min(power.unseen, missing)
    further = max(step_watts, reach)
    how = f"{missing:.2%} of the phase; readings lie within ±{rounded(reach)} W"
    if unseen > 0 and further > reach:
        how += f", the phases beside it within ±{rounded(further)} W"
    if power.edge_watts:
        how += f"; readings left out at its edges show {rounded(power.edge_watts, 2)} W of the mean"
    limit = (missing - unseen) * reach + unseen * further + power.edge_watts
    sagged = sagged_watts(power, source)
    if sagged:
        how += (
            f"; the voltage shows {rounded(sagged, 2)} W of the mean where the current was not read"
        )
    limit += sagged
    return limit_component("not covered", limit, how)


def _digit_lines(power: RailPower, digits: tuple[float, float]) -> list[Component]:
    """What the digits of the meters (V, A) leave in the mean, where a value does not move."""
    lines = []
    others = (power.amps.mean, power.volts.mean)
    names = (("voltage", "V"), ("current", "A"))
    for (name, unit), digit, variance, other in zip(
        names, digits, power.step_variances, others, strict=True
    ):
        left = left_by_digits(digit, variance)
        if left > NO_DIGIT * digit:
            lines.append(
                Component(
                    name=f"{name} resolution",
                    kind="B",
                    watts=left * abs(other),
                    how=f"digits of {rounded(digit)} {unit}, which the readings hardly move by",
                    distribution="rectangular",
                )
            )
    return lines


def _ripple_lines(power: RailPower, duration_s: float) -> list[Component]:
    """Mains ripple that neither the integration nor the mean takes out, where there is any.

    The phase of the ripple at the readings is not known: an amplitude a then has the standard
    uncertainty a/√2 (U-shaped: GUM, H.1.3.4).
    """
    rail = power.rail
    part = math.hypot(*(left_of_ripple(one.info, duration_s) for one in (rail.volts, rail.amps)))
    if not part:
        return []
    return [
        Component(
            name="mains ripple",
            kind="B",
            watts=MAINS_RIPPLE * abs(power.watts.mean) * part / math.sqrt(2.0),
            how=f"{part:.2%} of a ripple of ±{MAINS_RIPPLE:.1%} is left in the mean",
            distribution="U-shaped",
        )
    ]


def _meter_lines(
    quantity: str, channel: ChannelSeries, value: float, other: float
) -> list[Component]:
    """What the data sheet allows, in watts: the part of the reading, and the floor.

    The channels of an instrument share its reference, and its ranges share its converter: errors of
    one quantity are one error, whatever the channel or range (volts at the drive and volts
    across its shunt on one logger, too). A channel with a zero also has the zero's line. The
    floor is not reduced: no data sheet gives the part of it that is offset, and it bounds the drift
    of the zero since.
    """
    info, scale = channel.info, channel.scale
    meter = f"{channel.instrument} {info.quantity}"
    source = info.accuracy_source or "the rig"
    floor = info.accuracy_floor * scale
    lines = [
        limit_component(
            f"{quantity} gain",
            info.accuracy_of_reading * value * other,
            f"±{info.accuracy_of_reading:.4%} of reading ({source})",
            source=f"{meter} gain",
            part="gain",
        ),
        limit_component(
            f"{quantity} floor",
            floor * other,
            f"±{rounded(floor)} {'V' if quantity == 'voltage' else 'A'} ({source})",
            source=f"{meter} floor",
        ),
    ]
    zero = channel.zero
    if zero is not None:
        lines.append(
            Component(
                name=f"{quantity} zero",
                kind="A",
                watts=zero.u * scale * abs(other),
                how=f"{zero.value:+.3g} {zero.unit} of {day_of(zero.taken)} subtracted, "
                f"u = {rounded(zero.u, 2)} {zero.unit} from {zero.n} readings",
                dof=zero.dof,
                source=f"zero of {zero.channel}",
                part="zero",
            )
        )
    return lines


def _interpolation_line(power: RailPower) -> Component:
    """V and I are read at different instants: their covariance between readings is not measured,
    and what V's readings leave unknown between them the watts at I's times do not show."""
    sampling = power.volts_scatter.u * abs(power.amps.mean)
    common = power.common_watts / math.sqrt(3.0)
    return Component(
        name="interpolation",
        kind="B",
        watts=math.hypot(sampling, common),
        how="V and I at different instants: at most the product of how far each goes from one "
        "reading to the next is missed",
        distribution="rectangular",
    )


def phase_energy(watts: Estimate, duration_s: float, boundary_u_ns: int) -> Estimate:
    """Joules of a phase: mean watts × duration, with the uncertainty of both edges in U."""
    joules = watts.scaled(duration_s)
    edges = 2.0 * math.sqrt(2.0 / 3.0) * boundary_u_ns * 1e-9 * abs(watts.value)
    return replace(joules, u=math.hypot(joules.u, edges))


def rail_result(
    power: RailPower,
    duration_s: float,
    step: float,
    boundary_u_ns: int,
    source: SourceResistance | None = None,
    digits: tuple[float, float] = (0.0, 0.0),
    end: PointEnd | None = None,
) -> RailResult:
    """The rail's numbers with their uncertainty (arguments: :func:`rail_budget`). ``end``: how its
    phase ended, where that depended on the watts of this rail alone."""
    budget = rail_budget(power, duration_s, step, source, digits)
    watts = replace(
        expanded(power.watts.mean, budget), repeatability=power.process_scatter.repeatability
    )
    watts = watts_ended_with(end, watts)
    return RailResult(
        volts=at_drive(power.rail.info, power.volts, power.amps, power.shunt),
        amps=power.amps,
        watts=watts,
        watts_series=power.watts,
        joules=phase_energy(watts, duration_s, boundary_u_ns),
        budget=budget,
        alignment_ms=power.alignment_ns * 1e-6,
        covered=power.covered,
        power_envelope=envelope(
            power.windows,
            [budget],
            power.watts.mean,
            _window_readings(power, duration_s),
            [power.rail],
        ),
        missing_s=0.0 if power.windows is None else power.windows.searched.missing_s,
    )


def _window_readings(power: RailPower, duration_s: float) -> WindowReadings:
    apart = 0.0 if power.together else 1.0
    volts = power.volts_scatter.u * abs(power.amps.mean) * apart
    common = power.common_watts * apart
    return WindowReadings(power.known, power.noise_watts, volts, common, duration_s)


def total_envelope(
    power: PhasePower, rails: Mapping[str, RailResult], duration_s: float
) -> tuple[WindowMaximum, ...]:
    """The largest means of all rails together over windows; empty when a rail is missing."""
    if power.total is None:
        return ()
    readings = [_window_readings(rail, duration_s) for rail in power.rails.values()]
    return envelope(
        power.windows,
        [rail.budget for rail in rails.values()],
        power.total.mean,
        WindowReadings.together(readings),
        [rail.rail for rail in power.rails.values()],
    )


def total_watts(power: PhasePower, rails: Sequence[RailResult]) -> Estimate | None:
    """The sum of the rails' means; None when a rail is missing (a part is never a total).

    Scatter that rails share (one workload moves them all) shows in the series of the total: the
    larger of that and of the rails taken as independent counts.
    """
    if power.total is None or power.total_scatter is None or power.total_process is None:
        return None
    components = [item for rail in rails for item in rail.budget]
    apart = [rail.scatter.u for rail in power.rails.values()]
    shared = max(power.total_scatter.u**2 - sum(value**2 for value in apart), 0.0)
    if shared:
        dof = power.total_scatter.dof
        components.append(Component("scatter of all rails", "A", math.sqrt(shared), "", dof))
    value = sum(rail.watts.value for rail in rails)
    again = power.total_process.repeatability
    if again is not None:
        each = [rail.process_scatter.expanded_u for rail in power.rails.values()]
        again = max(again, math.hypot(*each))
    return Estimate(value, expanded_u(components), again)
