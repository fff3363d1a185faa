"""Watts of the drive's host in a phase: shown beside the drive's, and never added to them.

A meter of the host (a board controller, a counter of the processor's energy, a power analyser at
the plug) gives watts, not volts and amps, so it is no rail: nothing here is part of any total.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from labctl.analysis.estimate import Component, Estimate
from labctl.analysis.phase_result import HostPower
from labctl.analysis.power.rail_power import FEWEST_READINGS, LEAST_COVERED
from labctl.analysis.readings.channel_series import ChannelSeries
from labctl.analysis.readings.phase_spans import PhaseSpan
from labctl.analysis.stats.host_watts import host_watts_beside_drive
from labctl.analysis.stats.time_mean import TimeMean
from labctl.analysis.stats.uncertainty import expanded_u, limit_component
from labctl.record.header import HostPowerInfo


def host_powers(
    meters: Sequence[HostPowerInfo],
    channels: Mapping[str, ChannelSeries],
    span: PhaseSpan,
    drive_watts: Estimate | None,
    iops: Estimate | None,
    bytes_per_s: Estimate | None,
) -> dict[str, HostPower]:
    """What each meter of the host read in a phase, by its name; without those that read too little.

    ``drive_watts`` and the rates are those of the phase.
    """
    found = {}
    for meter in meters:
        series = channels.get(meter.channel)
        watts = None if series is None else mean_watts(series, span)
        if watts is not None:
            found[meter.name] = host_watts_beside_drive(
                watts, drive_watts if meter.includes_drive else None, iops, bytes_per_s
            )
    return found


def mean_watts(series: ChannelSeries, span: PhaseSpan) -> Estimate | None:
    """The mean over the readings that are wholly inside a phase, however late they may be stamped;
    None where there are too few. U is NaN where the meter's limits of error are not known."""
    begin_ns, end_ns = span.begin_ns, span.end_ns
    low, high = series.inside(begin_ns, end_ns, span.boundary_u_ns)
    t, values = series.finite(low, high, begin_ns)
    if len(t) < FEWEST_READINGS:
        return None
    span_ns = float(end_ns - begin_ns)
    mean = TimeMean(span_ns, series.interval_ns(low, high), len(t), series.info.dither)
    mean.add(t, values)
    if mean.stood_for < LEAST_COVERED * span_ns:
        return None
    again = mean.scatter_of_process().repeatability
    if not series.info.accuracy_source:
        return Estimate(mean.mean, math.nan, again)
    return Estimate(mean.mean, expanded_u(_host_power_budget(series, mean, span_ns)), again)


def _host_power_budget(series: ChannelSeries, mean: TimeMean, span_ns: float) -> list[Component]:
    info, watts = series.info, mean.series()
    gain, floor = info.accuracy_of_reading * mean.mean, info.accuracy_floor
    integrated = mean.integrated(info.aperture_s * 1e9)
    scatter = mean.scatter_of_phase(integrated, math.hypot(gain, floor))
    unread = max(1.0 - mean.covered / span_ns, 0.0)
    reach = max(watts.max - watts.mean, watts.mean - watts.min)
    return [
        Component("scatter", "A", scatter.u, f"{watts.n} readings", dof=scatter.dof),
        limit_component("gain", gain, info.accuracy_source, part="gain"),
        limit_component("floor", floor, info.accuracy_source),
        limit_component("not covered", unread * reach, f"{unread:.2%} of the phase"),
    ]
