"""Runs side by side: every point that they share, the difference, and whether it is significant.

A difference counts as significant when it is larger than both uncertainties together
(in quadrature, about 95 %). Nothing is taken to cancel, also where both runs used the same meters:
how much of a gain error two runs share depends on time, temperature and range, and a difference
called significant must be real. So small true differences may be called "not
distinguishable" here.

The uncertainty of IOPS is that of their scatter within the phase. What a second run of the same
drive would change (another state of its flash) is not in it: to know that, repeat runs.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from labctl.analysis.latency import latency_percentile_us
from labctl.analysis.readings.live_iops import iops_estimate
from labctl.analysis.results import Estimate, PhaseResult, RunSummary
from labctl.analysis.run.drives import RunOfDrive, runs_of_drives
from labctl.analysis.stats.uncertainty import ratio
from labctl.analysis.steady_state.window_means import rounds_of_mean, scatter_u
from labctl.analysis.workload import ordinal, workload_name
from labctl.record.events import Outcome
from labctl.record.phase import Pattern
from labctl.record.reader import RunRecord


class Change(StrEnum):
    """Whether two figures differ."""

    SIGNIFICANT = "significant"
    NOT_DISTINGUISHABLE = "not distinguishable"
    UNKNOWN = "no uncertainty known"
    MISSING = "not measured in both"


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


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """A phase of a run with the uncertainty of its IOPS."""

    result: PhaseResult
    iops: Estimate | None


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run that takes part, or one drive of it. ``name`` is a letter: A is what the others are
    compared with."""

    name: str
    run_id: str
    drive_model: str
    drive_serial: str
    plan_name: str
    outcome: str
    throttled: int
    drive: str = ""
    """Its name in the rig, where one of several drives is meant."""


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """One quantity at one point in one run, against the same in run A.

    ``change`` is (this − A) / A with U, of temperatures this − A in K; None for A itself and
    where one of them is missing.
    ``unthrottled``: of the part of a throttled phase in which the drive did not throttle.
    """

    run: str
    value: Estimate | None
    change: Estimate | None
    difference: Change | None
    completed: bool
    throttled: bool
    unthrottled: Estimate | None = None


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One quantity at one point, a cell a run, in order. ``in_parts``: see ComparedQuantity."""

    point: str
    quantity: str
    unit: str
    better: int
    cells: tuple[ComparedCell, ...]
    in_parts: bool = True


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that the runs share. ``only_in``: points that not every run has."""

    runs: tuple[ComparedRun, ...]
    rows: tuple[ComparedRow, ...]
    only_in: dict[str, tuple[str, ...]]
    notes: tuple[str, ...]

    def quantity(self, name: str) -> tuple[ComparedRow, ...]:
        """The rows of one quantity."""
        return tuple(row for row in self.rows if row.quantity == name)


def _latency_p99(measured: MeasuredPoint) -> Estimate | None:
    p99_us = latency_percentile_us(measured.result, "99")
    return None if p99_us is None else Estimate(p99_us, math.nan)


def _celsius(measured: MeasuredPoint) -> Estimate | None:
    celsius = measured.result.celsius_max
    return None if celsius is None else Estimate(celsius, math.nan)


def _efficiency(measured: MeasuredPoint) -> Estimate | None:
    return ratio(measured.iops, measured.result.watts)


def _bytes_per_s(measured: MeasuredPoint) -> Estimate | None:
    if measured.iops is None or not measured.result.bytes_per_s:
        return None
    factor = measured.result.bytes_per_s / measured.iops.value
    return Estimate(measured.result.bytes_per_s, measured.iops.u * factor)


QUANTITIES = (
    ComparedQuantity("watts", "total watts", "W", -1, lambda one: one.result.watts),
    ComparedQuantity("iops", "IOPS", "IOPS", 1, lambda one: one.iops),
    ComparedQuantity("bytes_per_s", "data rate", "B/s", 1, _bytes_per_s),
    ComparedQuantity("iops_per_watt", "IOPS per watt", "IOPS/W", 1, _efficiency),
    ComparedQuantity("latency_p99_us", "99 % latency", "µs", -1, _latency_p99, False),
    ComparedQuantity("celsius_max", "warmest", "°C", -1, _celsius, False, False),
)
"""Latency and temperature come without an uncertainty: their differences are only shown."""


def compare(runs: Sequence[tuple[RunRecord, RunSummary]]) -> Comparison:
    """All runs against the first. Raises ValueError for fewer than two.

    Of runs of several drives, their sum is compared at the points, and after them each drive with
    the one of the same name, at points called ``NAME · POINT``.
    """
    if len(runs) < 2:
        raise ValueError("a comparison needs at least two runs")
    names = [_letter(number) for number in range(len(runs))]
    again = _drives_of_several(runs)
    tables = [_points(record, summary, again) for record, summary in runs]
    points = list(dict.fromkeys(point for table in tables for point in table))
    shared = [point for point in points if sum(point in table for table in tables) > 1]
    rows = []
    for quantity in QUANTITIES:
        for point in shared:
            row = _row(point, quantity, names, [table.get(point) for table in tables])
            if any(cell.value is not None for cell in row.cells):
                rows.append(row)
    return Comparison(
        runs=tuple(
            ComparedRun(
                name,
                summary.run_id,
                summary.drive_model,
                summary.drive_serial,
                summary.plan_name,
                summary.outcome,
                sum(item.throttled for item in summary.measured),
                record.drive_name if isinstance(record, RunOfDrive) else "",
            )
            for name, (record, summary) in zip(names, runs, strict=True)
        ),
        rows=tuple(rows),
        only_in={
            point: tuple(name for name, table in zip(names, tables, strict=True) if point in table)
            for point in points
            if not all(point in table for table in tables)
        },
        notes=tuple(_notes(runs)),
    )


def _letter(number: int) -> str:
    letters = ""
    while True:
        letters = chr(ord("A") + number % 26) + letters
        number = number // 26 - 1
        if number < 0:
            return letters


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


def _drives_of_several(runs: Sequence[tuple[RunRecord, RunSummary]]) -> set[str]:
    """The names of drives that more than one of the runs has beside others."""
    counts = Counter(name for _, summary in runs for name in summary.drives)
    return {name for name, count in counts.items() if count > 1}


def _points(
    record: RunRecord, summary: RunSummary, drives: Container[str]
) -> dict[str, MeasuredPoint]:
    found = {
        name: MeasuredPoint(result, _iops(record, summary, result))
        for name, result in named_points(summary).items()
    }
    for drive, one in runs_of_drives(record).items():
        if drive in drives:
            own = _points(one, summary.drives[drive], ())
            found |= {of_drive(drive, name): measured for name, measured in own.items()}
    return found


def _iops(record: RunRecord, summary: RunSummary, result: PhaseResult) -> Estimate | None:
    """IOPS with U from the scatter within a phase, or between the rounds of a window."""
    rounds = rounds_of_mean(summary, result)
    if not rounds:
        return iops_estimate(record, result)
    values = [item.iops for item in rounds if item.iops]
    return Estimate(sum(values) / len(values), scatter_u(values)) if values else None


def _row(
    point: str,
    quantity: ComparedQuantity,
    names: Sequence[str],
    measured: Sequence[MeasuredPoint | None],
) -> ComparedRow:
    values = [quantity.of(one) if one is not None else None for one in measured]
    cells = []
    for name, one, value in zip(names, measured, values, strict=True):
        first = name == names[0]
        change, difference = (None, None) if first else relative_change(values[0], value)
        if change is not None and values[0] is not None and not quantity.in_parts:
            change = Estimate(change.value * values[0].value, change.u * values[0].value)
        cells.append(
            ComparedCell(
                run=name,
                value=value,
                change=change,
                difference=difference,
                completed=one is not None and one.result.outcome == Outcome.COMPLETED,
                throttled=one is not None and one.result.throttled,
                unthrottled=None if one is None else _unthrottled(quantity, one),
            )
        )
    return ComparedRow(
        point, quantity.name, quantity.unit, quantity.better, tuple(cells), quantity.in_parts
    )


def _unthrottled(quantity: ComparedQuantity, measured: MeasuredPoint) -> Estimate | None:
    result = measured.result
    if not result.throttled or not quantity.has_unthrottled:
        return None
    iops = result.iops_unthrottled
    rate = None
    if iops is not None and result.iops and result.bytes_per_s:
        rate = result.bytes_per_s / result.iops * iops.value
    free = replace(result, watts=result.watts_unthrottled, bytes_per_s=rate)
    return quantity.of(MeasuredPoint(free, iops))


def relative_change(
    base: Estimate | None, other: Estimate | None
) -> tuple[Estimate | None, Change]:
    """The relative change from ``base`` to ``other`` with U, and whether it is significant."""
    if base is None or other is None or not base.value:
        return None, Change.MISSING
    change = other.value / base.value - 1.0
    u = math.hypot(other.u / base.value, base.u * other.value / base.value**2)
    if not math.isfinite(u):
        return Estimate(change, math.nan), Change.UNKNOWN
    beyond = abs(other.value - base.value) > math.hypot(base.u, other.u)
    verdict = Change.SIGNIFICANT if beyond else Change.NOT_DISTINGUISHABLE
    return Estimate(change, u), verdict


def _notes(runs: Sequence[tuple[RunRecord, RunSummary]]) -> list[str]:
    notes = [
        "U holds every error in full, also those that the runs share (the same meters' gains): "
        "a difference called significant is one",
        "the uncertainty of IOPS is their scatter within the phase: what another run of the same "
        "drive would change is not in it",
    ]
    plans = {summary.plan_name for _, summary in runs}
    if len(plans) > 1:
        notes.append(f"the runs followed different plans ({', '.join(sorted(plans))})")
    versions = {record.header.versions.get("fio", "") for record, _ in runs}
    if len(versions) > 1:
        notes.append(f"fio differed: {', '.join(sorted(filter(None, versions)))}")
    durations: dict[str, set[float]] = {}
    for _, summary in runs:
        for item in summary.measured:
            name = workload_name(item.phase)
            durations.setdefault(name, set()).add(round(item.phase.duration_s, 3))
    apart = sum(len(seen) > 1 for seen in durations.values())
    if apart:
        notes.append(f"{apart} points were measured for different times")
    return notes
