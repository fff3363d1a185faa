"""What throttling is judged by, taken from a run: one :class:`PhaseSignals` a phase with work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from labctl.analysis.estimate import Estimate
from labctl.analysis.power.phase_power import phase_power
from labctl.analysis.power.rail_power import FEWEST_READINGS
from labctl.analysis.readings.channel_series import ChannelSeries, RailSeries
from labctl.analysis.readings.live_iops import total_iops
from labctl.analysis.readings.phase_spans import PhaseSpan
from labctl.analysis.throttling.host_load import HostLoad
from labctl.analysis.throttling.signals import PhaseSignals
from labctl.analysis.throttling.smart_counters import Counters
from labctl.analysis.throttling.temperature import Temperatures
from labctl.record.phase import Pattern, Role
from labctl.record.reader import RunRecord

AROUND_NS = 3_000_000_000

IDLE_ROLES = (Role.IDLE_BEFORE, Role.IDLE_AFTER)


def run_signals(
    record: RunRecord,
    rails: Sequence[RailSeries],
    channels: Mapping[str, ChannelSeries],
    spans: Sequence[PhaseSpan],
    live: Sequence[ChannelSeries],
    idle_watts: Estimate | None,
) -> tuple[PhaseSignals, ...]:
    """What throttling is judged by, of each phase with work, in order."""
    live = [series for series in live if len(series)]
    if not spans:
        return ()
    everything = (min(span.begin_ns for span in spans), max(span.end_ns for span in spans))
    sensors = {
        sensor: channels[name].between(*everything)
        for sensor, name in record.header.temperatures.items()
        if name in channels
    }
    header = record.header
    temperature = Temperatures.of(sensors, header.own_sensors(), header.drive.warning_celsius)
    whole = len(rails) == len(record.header.rails)

    def watts_between(begin_ns: int, end_ns: int) -> float | None:
        if not whole:
            return None
        total = phase_power(rails, begin_ns, end_ns, 0).total
        return total.mean if total is not None else _watts_of_slow_volts(rails, begin_ns, end_ns)

    stamped_here = [
        series for series in channels.values() if series.info.clock == "host" and len(series)
    ]
    counters, host = Counters.of(record.events), HostLoad.of(record)
    signals = []
    for span in spans:
        phase = span.phase
        if phase.role in IDLE_ROLES or phase.pattern is Pattern.PROGRAM or phase.replay is not None:
            continue  # what a replay does varies as its trace does, and a program as it likes
        t_ns, iops = total_iops(live, span.begin_ns, span.end_ns)
        signals.append(
            PhaseSignals(
                index=span.phase.index,
                begin_ns=span.begin_ns,
                end_ns=span.end_ns,
                writes=span.phase.writes,
                t_ns=t_ns,
                iops=iops,
                temperature=temperature,
                watts_between=watts_between,
                workload=f"{span.phase.label} {span.phase.span_bytes} "
                f"{span.phase.buffer_compress_pct}",
                idle_watts=idle_watts.value if idle_watts is not None else None,
                counters=counters,
                silent_between=lambda begin_ns, end_ns: _run_signals_silent(
                    stamped_here, begin_ns, end_ns
                ),
                host=host,
            )
        )
    return tuple(signals)


def _watts_of_slow_volts(rails: Sequence[RailSeries], begin_ns: int, end_ns: int) -> float | None:
    """Total watts of a stretch that is too short for a slow voltmeter: a rail's volts hardly change
    in seconds, so those around it are taken. None where they, or readings of its amps, are not
    there."""
    total = 0.0
    for rail in rails:
        _, amps = rail.amps.between(begin_ns, end_ns)
        _, volts = rail.volts.between(begin_ns - AROUND_NS, end_ns + AROUND_NS)
        if len(amps) < FEWEST_READINGS or not len(volts):
            return None
        total += float(amps.mean() * np.median(volts))
    return total


def _run_signals_silent(
    channels: Sequence[ChannelSeries], begin_ns: int, end_ns: int
) -> bool | None:
    """Whether no channel had a reading between two moments, of those that should have had one."""
    due = [one for one in channels if 2 * one.info.interval_s * 1e9 < end_ns - begin_ns]
    if not due:
        return None
    return all(not len(one.between(begin_ns, end_ns)[0]) for one in due)
