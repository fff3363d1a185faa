"""The points and quantities that runs are compared at."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container
from dataclasses import dataclass, replace

from labctl.analysis.compare.repeats import mean_of_repeats
from labctl.analysis.estimate import Estimate
from labctl.analysis.latency import latency_percentile_us
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.readings.live_iops import iops_estimate
from labctl.analysis.run.drives import runs_of_drives
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.stats.uncertainty import ratio
from labctl.analysis.steady_state.window_means import rounds_of_mean
from labctl.analysis.workload import ordinal, workload_name
from labctl.record.phase import Pattern
from labctl.record.reader import RunRecord

AnalysedRun = tuple[RunRecord, RunSummary]


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """A phase of a run, or the mean over a window of rounds, with its IOPS.

    ``rounds`` are those that it is the mean of, in order; empty for a single phase.
    """

    result: PhaseResult
    iops: Estimate | None
    rounds: tuple[MeasuredPoint, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparedQuantity:
    """A quantity that is compared. ``better`` is +1 where more is better, −1 where less is."""

    name: str
    title: str
    unit: str
    better: int
    of: Callable[[MeasuredPoint], Estimate | None]
    has_unthrottled: bool = True
    """Whether it is known of the part of a phase in which the drive did not throttle."""
    in_parts: bool = True
    """Whether a change is given as a fraction of the value. For °C it is not: 0 °C is no zero."""
    of_watts: bool = False
    """Whether the errors of the meters are in it."""

    def unthrottled(self, measured: MeasuredPoint) -> Estimate | None:
        """Of the part of a throttled phase in which the drive did not throttle."""
        result = measured.result
        if not result.throttled or not self.has_unthrottled:
            return None
        iops = result.iops_unthrottled
        rate = None
        if iops is not None and result.iops and result.bytes_per_s:
            rate = result.bytes_per_s / result.iops * iops.value
        free = replace(result, watts=result.watts_unthrottled, bytes_per_s=rate)
        return self.of(MeasuredPoint(free, iops))


def _latency_p99(measured: MeasuredPoint) -> Estimate | None:
    p99_us = latency_percentile_us(measured.result, "99")
    return None if p99_us is None else Estimate(p99_us, math.nan)


def _point_celsius(measured: MeasuredPoint) -> Estimate | None:
    celsius = measured.result.celsius_max
    return None if celsius is None else Estimate(celsius, math.nan)


def _point_efficiency(measured: MeasuredPoint) -> Estimate | None:
    found, stated = ratio(measured.iops, measured.result.watts), measured.result.iops_per_watt
    return found if found is None or stated is None else replace(found, u=stated.u)


def _bytes_per_s(measured: MeasuredPoint) -> Estimate | None:
    if measured.iops is None or not measured.result.bytes_per_s:
        return None
    return measured.iops.scaled(measured.result.bytes_per_s / measured.iops.value)


QUANTITIES = (
    ComparedQuantity("watts", "total watts", "W", -1, lambda one: one.result.watts, of_watts=True),
    ComparedQuantity("iops", "IOPS", "IOPS", 1, lambda one: one.iops),
    ComparedQuantity("bytes_per_s", "data rate", "B/s", 1, _bytes_per_s),
    ComparedQuantity(
        "iops_per_watt", "IOPS per watt", "IOPS/W", 1, _point_efficiency, of_watts=True
    ),
    ComparedQuantity("latency_p99_us", "99 % latency", "µs", -1, _latency_p99, False),
    ComparedQuantity("celsius_max", "warmest", "°C", -1, _point_celsius, False, False),
)
"""Latency and temperature come without an uncertainty: only repeats tell how they scatter."""


def named_points(summary: RunSummary) -> dict[str, PhaseResult]:
    """The results of a run by the names of their points: what was done in rounds once, as its mean.

    Work that comes again is called by its sweep ("conditioned: randread 4k QD1"), and where that
    is not unique, by how often it was done.
    """
    found: dict[str, PhaseResult] = {}
    idle = [item for item in summary.phases if item.phase.pattern is Pattern.IDLE]
    for result in sorted([*idle, *summary.points], key=lambda item: item.phase.index):
        phase = result.phase
        name = phase.label if phase.pattern is Pattern.IDLE else workload_name(phase)
        again = (f"{name} ({ordinal(number)} time)" for number in itertools.count(2))
        names = itertools.chain((name, f"{phase.sweep}: {name}"), again)
        found[next(one for one in names if one not in found)] = result
    return found


def of_drive(drive: str, point: str) -> str:
    """The name of a point as one of several drives did it."""
    return f"{drive} · {point}"


def measured_points(
    record: RunRecord, summary: RunSummary, drives: Container[str]
) -> dict[str, MeasuredPoint]:
    """The points of a run by name, then those of each of its ``drives``."""
    found = {
        name: _measured(record, summary, result) for name, result in named_points(summary).items()
    }
    for drive, one in runs_of_drives(record).items():
        if drive in drives:
            own = measured_points(one, summary.drives[drive], ())
            found |= {of_drive(drive, name): measured for name, measured in own.items()}
    return found


def _measured(record: RunRecord, summary: RunSummary, result: PhaseResult) -> MeasuredPoint:
    rounds = rounds_of_mean(summary, result)
    if not rounds:
        return MeasuredPoint(result, iops_estimate(record, result))
    each = tuple(
        MeasuredPoint(item, Estimate(item.iops, math.nan) if item.iops else None) for item in rounds
    )
    return MeasuredPoint(result, mean_of_repeats([item.iops for item in each if item.iops]), each)
