"""A thermal soak: when the temperature became steady, where the drive throttled, its recovery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.readings.channel_series import Floats, channel_series
from labctl.analysis.readings.live_iops import live_iops
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.steady_state.temperature import steady_after_s
from labctl.analysis.throttle_result import Cause, ThrottleInterval
from labctl.analysis.throttling.temperature import Temperatures
from labctl.analysis.workload import workload_name
from labctl.record.events import EventKind
from labctl.record.phase import Pattern
from labctl.record.reader import RunRecord


@dataclass(frozen=True, slots=True)
class Recovery:
    """The cool-down after a soak, and the same work after that.

    ``iops_part`` is its IOPS as a part of those of the soak before the drive throttled (None: not
    known).
    """

    seconds: float
    begin_celsius: float
    end_celsius: float
    wanted_celsius: float
    reached: bool
    iops_part: float | None


@dataclass(frozen=True, slots=True)
class Soak:
    """A phase that lasts until the temperature is steady; times are seconds since it began.

    ``steady_after_s``: the end of the first steady window, None without one.
    ``throttled``: where the drive first throttled because of its heat, None if it did not.
    """

    phase_index: int
    label: str
    sensor: str
    begin_celsius: float
    end_celsius: float
    highest_celsius: float
    duration_s: float
    window_s: float
    steady_after_s: float | None
    steady_celsius: float | None
    throttled: ThrottleInterval | None
    throttled_after_s: float | None
    recovery: Recovery | None


def soaks(record: RunRecord, summary: RunSummary) -> tuple[Soak, ...]:
    """Every soak of a run; none where no temperature was recorded."""
    found = (
        _soak(record, summary, number)
        for number, item in enumerate(summary.phases)
        if item.phase.steady_temperature_s and item.phase.round <= 1
    )
    return tuple(one for one in found if one is not None)


def _soak(record: RunRecord, summary: RunSummary, number: int) -> Soak | None:
    item = summary.phases[number]
    series = _soak_temperature(record, item)
    if series is None:
        return None
    sensor, t_s, celsius = series
    window_s = item.phase.steady_temperature_s
    steady = _recorded_steady_s(record, item)
    if steady is None:
        steady = steady_after_s(t_s, celsius, window_s)
    throttled = next(
        (
            one
            for one in sorted(summary.throttling, key=lambda one: one.begin_ns)
            if one.phase_index == item.phase.index and one.cause is Cause.THERMAL
        ),
        None,
    )
    return Soak(
        phase_index=item.phase.index,
        label=item.phase.label,
        sensor=sensor,
        begin_celsius=float(celsius[0]),
        end_celsius=float(celsius[-1]),
        highest_celsius=float(celsius.max()),
        duration_s=item.duration_s,
        window_s=window_s,
        steady_after_s=steady,
        steady_celsius=None
        if steady is None
        else float(celsius[(t_s >= steady - window_s) & (t_s <= steady)].mean()),
        throttled=throttled,
        throttled_after_s=None
        if throttled is None
        else (throttled.begin_ns - item.begin_ns) * 1e-9,
        recovery=_recovery(record, summary.phases[number + 1 :], item, throttled),
    )


def _recorded_steady_s(record: RunRecord, item: PhaseResult) -> float | None:
    """When the run found the temperature steady and ended the phase, seconds since it began."""
    times_ns = [
        event.t_ns
        for event in record.events
        if event.kind == EventKind.TEMPERATURE_STEADY
        and event.data.get("index") == item.phase.index
        and event.data.get("reached")
    ]
    return (min(times_ns[-1], item.end_ns) - item.begin_ns) * 1e-9 if times_ns else None


def _soak_temperature(record: RunRecord, item: PhaseResult) -> tuple[str, Floats, Floats] | None:
    """The drive's own sensor, else the first: its name, seconds since the phase began, and °C."""
    channels = {info.name: info for info in record.header.channels}
    sensors = {
        sensor: channel_series(record, channels[name]).between(item.begin_ns, item.end_ns)
        for sensor, name in record.header.temperatures.items()
        if name in channels
    }
    found = Temperatures.of(sensors, record.header.own_sensors(), None).sensors
    if not found:
        return None
    t_s = (found[0].t_ns - item.begin_ns).astype(np.float64) * 1e-9
    return found[0].name, t_s, found[0].celsius


def _recovery(
    record: RunRecord,
    later: Sequence[PhaseResult],
    soak: PhaseResult,
    throttled: ThrottleInterval | None,
) -> Recovery | None:
    place = next((n for n, one in enumerate(later) if one.phase.pattern is Pattern.COOL), None)
    cooled = None if place is None else later[place]
    series = None if cooled is None else _soak_temperature(record, cooled)
    if place is None or cooled is None or series is None or cooled.phase.until_celsius is None:
        return None
    _, _, celsius = series
    name = workload_name(soak.phase)
    again = next((item for item in later[place + 1 :] if workload_name(item.phase) == name), None)
    before = _before(record, soak, throttled)
    part = again.iops / before if again is not None and again.iops and before else None
    return Recovery(
        seconds=cooled.duration_s,
        begin_celsius=float(celsius[0]),
        end_celsius=float(celsius[-1]),
        wanted_celsius=cooled.phase.until_celsius,
        reached=float(celsius[-1]) <= cooled.phase.until_celsius,
        iops_part=part,
    )


def _before(
    record: RunRecord, soak: PhaseResult, throttled: ThrottleInterval | None
) -> float | None:
    """IOPS of the soak up to where the drive throttled."""
    if throttled is None:
        return soak.iops
    t_s, iops = live_iops(record, soak)
    free = iops[t_s < (throttled.begin_ns - soak.begin_ns) * 1e-9]
    return float(free.mean()) if len(free) else throttled.iops_before
