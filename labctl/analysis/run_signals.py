"""What throttling is judged by, taken from a run: one :class:`PhaseSignals` a phase with work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from labctl.analysis.counters import Counters
from labctl.analysis.heat import Heat
from labctl.analysis.phases import PhaseSpan
from labctl.analysis.power import phase_power
from labctl.analysis.results import Estimate
from labctl.analysis.series import ChannelSeries, RailSeries
from labctl.analysis.signals import PhaseSignals
from labctl.plan import Role
from labctl.record import RunRecord

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
        sensor: (name, *channels[name].between(*everything))
        for sensor, name in record.header.temperatures.items()
        if name in channels
    }
    heat = Heat.of(sensors, record.header.drive.warning_celsius)
    whole = len(rails) == len(record.header.rails)

    def watts_between(begin_ns: int, end_ns: int) -> float | None:
        total = phase_power(rails, begin_ns, end_ns, 0).total
        return total.mean if total is not None and whole else None

    stamped_here = [
        series for series in channels.values() if series.info.clock == "host" and len(series)
    ]
    counters = Counters.of(record.events)
    signals = []
    for span in spans:
        if span.phase.role in IDLE_ROLES or span.phase.replay is not None:
            continue  # what a replay does varies as its trace does
        t_ns, iops = _live_iops(live, span)
        signals.append(
            PhaseSignals(
                index=span.phase.index,
                begin_ns=span.begin_ns,
                end_ns=span.end_ns,
                writes=span.phase.writes,
                t_ns=t_ns,
                iops=iops,
                heat=heat,
                watts_between=watts_between,
                workload=f"{span.phase.label} {span.phase.span_bytes} "
                f"{span.phase.buffer_compress_pct}",
                idle_watts=idle_watts.value if idle_watts is not None else None,
                counters=counters,
                silent_between=lambda begin_ns, end_ns: _silent(stamped_here, begin_ns, end_ns),
            )
        )
    return tuple(signals)


def _silent(channels: Sequence[ChannelSeries], begin_ns: int, end_ns: int) -> bool | None:
    """Whether no channel had a reading between two moments, of those that should have had one."""
    due = [one for one in channels if 2 * one.info.interval_s * 1e9 < end_ns - begin_ns]
    if not due:
        return None
    return all(not len(one.between(begin_ns, end_ns)[0]) for one in due)


def _live_iops(
    live: Sequence[ChannelSeries], span: PhaseSpan
) -> tuple[
    np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.float64]]
]:
    """Read and write IOPS together; both come from the same statuses of fio."""
    parts = [series.between(span.begin_ns, span.end_ns) for series in live]
    if not parts:
        return np.empty(0, np.int64), np.empty(0)
    times = np.unique(np.concatenate([t for t, _ in parts]))
    total = np.zeros(len(times))
    for t, values in parts:
        total[np.searchsorted(times, t)] += values
    return times, total
