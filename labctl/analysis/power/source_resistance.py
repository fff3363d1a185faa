"""The resistance that a rail is supplied through, and what it hides inside one aperture.

A rail sags when the current rises: V = V₀ − R · I, with R of the supply, leads and connectors up to
where the volts are measured. A meter gives the mean of V and of I over its aperture, and where the
load switches within it, V is low just while I is high:

    mean(V · I) = mean(V) · mean(I) − R · var(I)

R is seen in the run's own levels. The variance of I inside an aperture is seen by a fast ammeter
only; else it is bounded by the lowest and the highest current that may occur:
var(I) ≤ (highest − mean) · (mean − lowest) (R. Bhatia, C. Davis, *Amer. Math. Monthly* 107 (2000)
353).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from labctl.analysis.estimate import Component, Estimate
from labctl.analysis.power.phase_power import PhasePower
from labctl.analysis.power.rail_power import RailPower
from labctl.analysis.power.shunt import at_drive, drop_per_amp
from labctl.analysis.run_summary import SourceResistance
from labctl.analysis.stats.uncertainty import limit_component, student_factor
from labctl.rounded import rounded

NAME = "V and I inside one aperture"
"""The line of the budget."""

FAST_S = 0.002
"""Longest aperture of a meter that follows the load, and the shortest period of a load: what
is faster the capacitors at a drive's input smooth before it reaches the rail."""

LEAST_SPREAD = 0.02
"""Least difference of currents, as a part of the highest, that shows a resistance."""


def source_resistances(
    powers: Sequence[PhasePower], idle: Sequence[bool]
) -> dict[str, SourceResistance]:
    """The resistance of each rail in which the currents of phases differ, by the rail's name.

    ``powers`` are in order of time, ``idle`` says which of the phases had no work.
    """
    found = {}
    for name in dict.fromkeys(name for power in powers for name in power.rails):
        measured = [power.rails[name] for power in powers if name in power.rails]
        resting = [
            power.rails[name]
            for power, rests in zip(powers, idle, strict=True)
            if rests and name in power.rails
        ]
        source = _source_resistance(name, measured, resting)
        if source is not None:
            found[name] = source
    return found


def _source_resistance(
    name: str, measured: Sequence[RailPower], resting: Sequence[RailPower]
) -> SourceResistance | None:
    """Least squares of the steps of V on the steps of I from each phase to the next: what the
    supply drifts by over hours is no part of them."""
    highest = max(one.amps.max for one in measured)
    volts = np.array(
        [
            at_drive(one.rail.info, one.volts, one.amps, one.shunt).mean + one.unread_volts
            for one in measured
        ]
    )
    rises = np.diff([one.amps.mean for one in measured])
    sags = -np.diff(volts)
    squares = float(rises @ rises)
    if not len(rises) or float(np.abs(rises).max()) < LEAST_SPREAD * abs(highest):
        return None
    ohm = float(rises @ sags) / squares
    noise = np.array(
        [math.hypot(a.volts_scatter.u, b.volts_scatter.u) for a, b in itertools.pairwise(measured)]
    )
    u = 2.0 * math.sqrt(float((rises * noise) @ (rises * noise))) / squares
    if len(rises) > 1:
        residuals = sags - ohm * rises
        variance = float(residuals @ residuals) / (len(rises) - 1) / squares
        u = max(u, student_factor(len(rises) - 1) * math.sqrt(variance))
    gains = sum(
        one.info.accuracy_of_reading for one in (measured[0].rail.volts, measured[0].rail.amps)
    )
    lowest = max(min((one.amps.min for one in resting), default=0.0), 0.0)
    busiest = max(one.amps.mean for one in measured)
    return SourceResistance(
        rail=name,
        ohm=Estimate(ohm, math.hypot(u, gains * ohm)),
        steps=len(rises),
        lowest_amps=lowest,
        highest_amps=max(highest, 2 * busiest - lowest),
    )


def aperture_lines(power: RailPower, source: SourceResistance | None) -> list[Component]:
    """The line of what mean(V) · mean(I) may be too high by; none where no resistance is seen.

    A limit on one side (GUM 4.3.8) that the watts are not corrected by: a load that does not switch
    needs no correction.
    """
    if source is None or not source.significant:
        return []
    variance, seen = _variance_inside(power, source)
    ohm = source.ohm.value + source.ohm.u
    how = f"{rounded(source.ohm.value)} Ω ± {rounded(source.ohm.u, 2)} Ω behind the rail, {seen}"
    return [limit_component(NAME, ohm * variance, how, source="load inside one aperture")]


def sagged_watts(power: RailPower, source: SourceResistance | None) -> float:
    """By how much more of the mean (W, ≥ 0) the drive may have drawn, or less, because readings of
    the current were lost while the load was another: the voltage was read then, and shows it.

    It is an auxiliary quantity, known for the whole phase, of which the mean over what was read
    should be that of the whole (regression estimator: W. G. Cochran, *Sampling Techniques*, ch. 7).
    A difference within the uncertainty of the volts' mean says nothing, nor does one where nothing
    is known to be behind where the volts are measured. The watts are not corrected by it.
    """
    apart, doubt = abs(power.unread_volts), 2.0 * power.volts_scatter.u
    if source is None or not source.significant or apart <= doubt:
        return 0.0
    # the volts that were read sag by what is behind them only
    behind = source.ohm.value - source.ohm.u - drop_per_amp(power.rail.info, power.shunt)
    return (apart + doubt) / behind * abs(power.volts.mean) if behind > 0 else 0.0


def _variance_inside(power: RailPower, source: SourceResistance) -> tuple[float, str]:
    """The largest variance of I that an aperture may hide, A², and where it is from."""
    volts_s, amps_s = power.rail.volts.info.aperture_s, power.rail.amps.info.aperture_s
    stated = power.rail.info.load_swing_amps
    mean = power.amps.mean
    if max(volts_s, amps_s) <= FAST_S:
        # an edge in the middle of an aperture: of a square of that period, 4/3 of aperture / period
        hidden = min(4 / 3 * max(volts_s, amps_s) / FAST_S, 1.0)
        return hidden * power.amps.std**2, f"{hidden:.0%} of the variance of the current"
    if stated is not None:
        return stated**2 / 4, f"the current swings by at most {stated:g} A (the rig)"
    if amps_s <= FAST_S:
        low, high, may = power.amps.min, power.amps.max, "switches"
    else:
        low, high, may = source.lowest_amps, source.highest_amps, "may switch"
    variance = max((high - mean) * (mean - low), 0.0)
    return variance, f"the current {may} between {rounded(low)} A and {rounded(high)} A"
