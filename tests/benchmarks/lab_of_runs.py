"""Line protocol of a whole lab: so many rigs, runs and phases, as the sinks would have sent them.

Results of phases, events, bins and heartbeats go through the sinks' own points and line writer, so
what fills the database here is what fills it in a lab. Nothing is random.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from labctl.analysis.estimate import Estimate, Series
from labctl.analysis.phase_result import PhaseResult, RailResult, TemperatureResult, WindowMaximum
from labctl.analysis.power.sliding_maxima import WINDOWS_S
from labctl.analysis.throttle_result import Cause, ThrottleInterval, ThrottleVerdict
from labctl.capture.meters.live_values import LiveRail, View
from labctl.fio.results import Direction
from labctl.record.events import Event, EventKind, Outcome
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.timebase import NS_PER_S
from labctl.service.runs.shipping import HEARTBEAT_EVERY_S, at_work
from labctl.sinks.follow.event_points import event_point, throttle_point
from labctl.sinks.follow.phase_points import compared_point, result_point
from labctl.sinks.influxdb.line_protocol import line, lines
from labctl.sinks.schema import Point, PointSeries, Value, rig_point

DAY_S = 86_400
IO_HZ = 2
RAILS = {"12V": (12.0, 0.8), "3V3": (3.3, 0.2)}
"""Nominal volts, and the rail's share of the watts."""

PERCENTILES = ("50", "90", "95", "99", "99.9", "99.99")
WORKLOADS = (
    (Pattern.RANDREAD, 4096),
    (Pattern.RANDWRITE, 4096),
    (Pattern.RANDREAD, 16384),
    (Pattern.RANDWRITE, 16384),
    (Pattern.READ, 131072),
    (Pattern.WRITE, 131072),
    (Pattern.RANDREAD, 131072),
    (Pattern.RANDWRITE, 131072),
    (Pattern.READ, 1 << 20),
    (Pattern.WRITE, 1 << 20),
)
THROTTLED_EVERY = 20
"""Each so many phases one is throttled for half of its time."""


@dataclass(frozen=True)
class Lab:
    """``runs`` of ``phases`` (2 of them idle) of ``phase_s``, spread over ``rigs`` and ``days``.

    Of each rig the last run is half done at ``now_s``. Heartbeats are of the last day alone.
    """

    now_s: int
    rigs: int = 40
    runs: int = 1000
    phases: int = 100
    phase_s: int = 30
    days: int = 7

    @cached_property
    def plan(self) -> tuple[Phase, ...]:
        """The phases of every run."""
        work = [
            Phase(0, Role.MEASURE, f"{pattern} {size}", pattern, self.phase_s, size, 1 << step, 1)
            for pattern, size in WORKLOADS
            for step in range(-(-(self.phases - 2) // len(WORKLOADS)))
        ]
        before = Phase(0, Role.IDLE_BEFORE, "idle", Pattern.IDLE, self.phase_s)
        phases = (before, *work[: self.phases - 2], replace(before, role=Role.IDLE_AFTER))
        return tuple(replace(phase, index=index) for index, phase in enumerate(phases))

    @property
    def run_s(self) -> int:
        """Seconds of one run."""
        return self.phases * self.phase_s

    def begins(self) -> Iterator[tuple[dict[str, str], int]]:
        """The tags and the first second of each run."""
        each = self.runs // self.rigs
        slot_s = self.days * DAY_S // each
        for rig in range(self.rigs):
            for number in range(each):
                begin_s = self.now_s - (each - 1 - number) * slot_s - self.run_s // 2 - 7 * rig
                name = f"bench-{rig + 1:02d}"
                stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(begin_s))
                run = f"{stamp}_{name}_sweeps"
                yield {"rig": name, "drive": f"SN-{rig % 7}{number % 5}", "run": run}, begin_s

    def lines(self) -> Iterator[list[str]]:
        """The lines of one run after the other, then those of the heartbeats of each rig."""
        running: dict[str, tuple[dict[str, str], int]] = {}
        for tags, begin_s in self.begins():
            running[tags["rig"]] = (tags, begin_s)
            texts = [line(point) for point in self._points(tags, begin_s)]
            of_bins = [text for series in self._series(tags, begin_s) for text in lines(series)]
            yield [text for text in texts if text] + of_bins
        for tags, begin_s in running.values():
            yield [text for text in map(line, self._heartbeats(tags, begin_s)) if text]

    def _points(self, tags: dict[str, str], begin_s: int) -> Iterator[Point]:
        by_index = {phase.index: phase for phase in self.plan}

        def event(second: float, kind: EventKind, **data: object) -> Point:
            return event_point(Event(round(second * NS_PER_S), kind, data), by_index, tags)

        yield event(begin_s - 1, EventKind.RUN_STARTED)
        for phase in self.plan:
            start = begin_s + phase.index * self.phase_s
            if start >= self.now_s:
                return
            yield event(start, EventKind.PHASE_STARTED, index=phase.index)
            end = start + self.phase_s
            if end > self.now_s:
                return
            yield event(
                end - 0.01, EventKind.PHASE_ENDED, index=phase.index, outcome=Outcome.COMPLETED
            )
            result = self._result(phase, start)
            yield result_point(result, start * NS_PER_S, tags)
            compared = compared_point(result, start * NS_PER_S, tags)
            if compared is not None and begin_s + self.run_s < self.now_s:
                yield compared
            if phase.index % THROTTLED_EVERY == THROTTLED_EVERY - 1:
                yield throttle_point(self._throttled(phase, start), phase.label, tags)
        yield event(begin_s + self.run_s, EventKind.RUN_ENDED, outcome=Outcome.COMPLETED)

    def _throttled(self, phase: Phase, start: int) -> ThrottleInterval:
        begin, end = start + self.phase_s / 2, start + self.phase_s
        return ThrottleInterval(
            *(round(begin * NS_PER_S), round(end * NS_PER_S), phase.index, Cause.THERMAL),
            *("9.0 k to 6.1 k IOPS at 71 °C", 9e3, 6.1e3),
            *(8.0, 6.0, 71.0),
        )

    def _result(self, phase: Phase, start: int) -> PhaseResult:
        watts = _watts(phase)
        iops = _iops(phase)
        hot = phase.index % THROTTLED_EVERY == THROTTLED_EVERY - 1
        side = None
        if iops:
            mean_us = phase.queue_depth / iops * 1e6
            percentiles = {name: mean_us * (1 + k) for k, name in enumerate(PERCENTILES)}
            rates = (iops, iops * phase.block_size_bytes, int(iops * self.phase_s))
            side = Direction(*rates, mean_us, mean_us * 9, percentiles)

        def known(value: float) -> Estimate | None:
            return Estimate(value, value * 0.004, value * 0.01) if iops else None

        return PhaseResult(
            phase=phase,
            outcome="completed",
            begin_ns=start * NS_PER_S,
            end_ns=(start + self.phase_s) * NS_PER_S,
            gap_before_ms=10.0,
            rails=_rails(watts, self.phase_s),
            watts=Estimate(watts, watts * 0.004, watts * 0.01),
            watts_series=None,
            joules=Estimate(watts * self.phase_s, watts * 0.1),
            marginal_watts=None,
            read=None if phase.writes else side,
            write=side if phase.writes else None,
            iops=iops or None,
            bytes_per_s=iops * phase.block_size_bytes or None,
            iops_per_watt=known(iops / watts),
            bytes_per_joule=known(iops * phase.block_size_bytes / watts),
            joules_per_io=known(watts / iops if iops else 0.0),
            temperatures={"composite": TemperatureResult(45.0, 50.0 + watts, 48.0)},
            throttled_s=self.phase_s / 2 if hot else 0.0,
            alignment_ms=0.8,
            steady=True if iops else None,
            throttling=ThrottleVerdict("throttled" if hot else "none seen", "") if iops else None,
            unthrottled_s=self.phase_s / 2 if hot else float(self.phase_s),
            watts_unthrottled=known(watts),
            iops_unthrottled=known(iops),
            power_envelope=_envelope(watts, self.phase_s),
        )

    def _series(self, tags: dict[str, str], begin_s: int) -> Iterator[PointSeries]:
        """The bins of a run, and what fio reported."""
        seconds = np.arange(begin_s, min(begin_s + self.run_s, self.now_s))
        t_ns = seconds * NS_PER_S + NS_PER_S // 2
        index = (seconds - begin_s) // self.phase_s
        wave = 1 + 0.01 * np.sin(seconds)
        watts = np.array([_watts(phase) for phase in self.plan])[index] * wave
        for rail, (nominal, share) in RAILS.items():
            part = watts * share
            volts = nominal * (1 - 0.001 * part)
            columns = {
                "volts": volts,
                "amps": part / volts,
                "watts": part,
                "watts_min": part * 0.97,
                "watts_max": part * 1.04,
                "n": np.full(len(part), 100),
            }
            limits = {"volts_nominal": nominal, "volts_tolerance_pct": 5.0}
            yield PointSeries("power", {**tags, "rail": rail}, t_ns, columns, limits)
        limits = {"warning_celsius": 80.0, "critical_celsius": 85.0}
        heat = {"celsius": np.round(40 + 1.5 * watts, 1)}
        yield PointSeries("temperature", {**tags, "sensor": "composite"}, t_ns, heat, limits)
        all_iops = np.array([_iops(phase) for phase in self.plan])[index] * wave
        sizes = np.array([phase.block_size_bytes for phase in self.plan])[index]
        depths = np.array([phase.queue_depth for phase in self.plan])[index]
        writes = np.array([phase.writes for phase in self.plan])[index]
        for op, chosen in (("read", ~writes), ("write", writes)):
            rows = np.repeat(np.flatnonzero(chosen & (all_iops > 0)), IO_HZ)
            iops = all_iops[rows]
            at = seconds[rows] * NS_PER_S + np.tile(
                np.arange(IO_HZ) * (NS_PER_S // IO_HZ), len(rows) // IO_HZ
            )
            done = {"iops": iops, "bytes_per_s": iops * sizes[rows]}
            done["latency_mean_us"] = depths[rows] / iops * 1e6
            yield PointSeries("io", {**tags, "op": op}, at, done)

    def _heartbeats(self, tags: dict[str, str], begin_s: int) -> Iterator[Point]:
        """Those of the last day: of a run in its second half of the day, idle before."""
        for second in range(self.now_s - DAY_S, self.now_s, round(HEARTBEAT_EVERY_S)):
            index = (second - begin_s) // self.phase_s
            phase = self.plan[min(index, self.phases - 1)] if index >= 0 else None
            yield rig_point(
                *(tags["rig"], second * NS_PER_S, "running" if phase else "idle", 2, True, 0.4),
                at_work=phase and self._at_work(phase, tags, float(begin_s + self.run_s - second)),
            )

    def _at_work(
        self, phase: Phase, tags: dict[str, str], left_s: float
    ) -> dict[str, Value | None]:
        watts = _watts(phase)
        view = View(
            phase,
            phases_total=self.phases,
            rails={"12V": LiveRail(12.0, watts / 12.0, watts)},
            celsius={"composite": 40 + 1.5 * watts},
        )
        return at_work(view, tags, "sweeps", left_s)


def _rails(watts: float, seconds: float) -> dict[str, RailResult]:
    found = {}
    for rail, (nominal, share) in RAILS.items():
        part = watts * share
        series = Series(part, part * 0.97, part * 1.04, part * 0.01, 1000, 900.0)
        found[rail] = RailResult(
            volts=series.scaled(nominal / part),
            amps=series.scaled(1 / nominal),
            watts=Estimate(part, part * 0.005, part * 0.01),
            watts_series=series,
            joules=Estimate(part * seconds, part * 0.1),
            budget=(),
            alignment_ms=0.8,
            covered=1.0,
            power_envelope=_envelope(part, seconds),
        )
    return found


def _envelope(watts: float, seconds: float) -> tuple[WindowMaximum, ...]:
    """The largest means over windows that fit the phase: the more, the shorter they are."""
    return tuple(
        WindowMaximum(window_s, Estimate(most, most * 0.01), 0)
        for window_s in WINDOWS_S
        if window_s <= seconds
        for most in (watts * (1 + 0.05 * math.log10(seconds / window_s)),)
    )


def _iops(phase: Phase) -> float:
    if not phase.queue_depth:
        return 0.0
    most = min(8e5, 3e9 / phase.block_size_bytes)
    return most * phase.queue_depth / (phase.queue_depth + 8)


def _watts(phase: Phase) -> float:
    return 4.0 + 8.0 * phase.queue_depth / (phase.queue_depth + 6)
