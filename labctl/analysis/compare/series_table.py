"""What a series of runs keeps of each of them, their order, and the table that they make."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from labctl.analysis.compare.conditions import conditions_of, meters_of
from labctl.analysis.compare.other_instruments import limits_of, own_doubt
from labctl.analysis.compare.points import (
    QUANTITIES,
    AnalysedRun,
    ComparedQuantity,
    MeasuredPoint,
    measured_points,
)
from labctl.analysis.estimate import COVERAGE_FACTOR, Estimate
from labctl.analysis.stats.rotation import Floats
from labctl.analysis.stats.series_candidates import FEWEST_RUNS, Bools
from labctl.record.events import Outcome
from labctl.record.header import Header
from labctl.record.phase import Phase

WATCHED = {one.name: one for one in QUANTITIES if one.in_parts and one.name != "bytes_per_s"}
"""The data rate follows from the IOPS; a temperature is a condition."""

COARSE = 3.0
"""A value whose own doubt is so many times the scatter of the runs is left out."""


@dataclass(frozen=True, slots=True)
class RunOfSeries:
    """What a series keeps of a run. ``values`` by quantity and point: the value, its own standard
    uncertainty, and what instruments and zeros allow (about 95 %), these as parts of it."""

    run_id: str
    begin_ns: int
    rig: str
    plan: str
    scale: float
    drive: tuple[str, str]
    """Model and serial number."""
    phases: tuple[Phase, ...]
    outcome: str
    conditions: Mapping[str, str]
    instruments: tuple[object, ...] | None
    """None where a meter did not say who it is."""
    zeros: tuple[object, ...]
    values: Mapping[tuple[str, str], tuple[float, float, float, float]]
    throttled: int
    celsius: float | None
    """At the begin of the first phase, by the drive's own sensors."""
    drive_ios: int | None
    """What the drive counted in its life; it never goes back."""

    @property
    def key(self) -> tuple[object, ...]:
        """Equal in runs of one series."""
        return (self.rig, self.drive, self.plan, self.scale, self.phases)


def run_of_series(run: AnalysedRun) -> RunOfSeries:
    """What a series needs of a run; the rest can be forgotten."""
    record, summary = run
    header = record.header
    values: dict[tuple[str, str], tuple[float, float, float, float]] = {}
    for point, measured in measured_points(record, summary, set(summary.drives)).items():
        if measured.result.outcome != Outcome.COMPLETED:
            continue
        for quantity in WATCHED.values():
            found = quantity.of(measured)
            if found is not None and math.isfinite(found.value) and found.value > 0.0:
                values[quantity.name, point] = (
                    found.value,
                    *_series_table_doubts(quantity, measured, found),
                )
    smart = header.drive_state.smart if header.drive_state else None
    counted = (smart.host_read_commands, smart.host_write_commands) if smart else (None, None)
    own = set(header.own_sensors())
    first = summary.phases[0].temperatures if summary.phases else {}
    begun = [one.start for sensor, one in first.items() if sensor in own]
    return RunOfSeries(
        run_id=summary.run_id,
        begin_ns=summary.begin_ns,
        rig=summary.rig_name,
        plan=summary.plan_name,
        scale=summary.scale,
        drive=(summary.drive_model, summary.drive_serial),
        phases=header.phases,
        outcome=summary.outcome,
        conditions=conditions_of(header),
        instruments=_series_table_instruments(header),
        zeros=header.calibration.zeros if header.calibration else (),
        values=values,
        throttled=sum(item.throttled for item in summary.measured),
        celsius=max(begun, default=None),
        drive_ios=sum(counted) if None not in counted else None,  # type: ignore[arg-type]
    )


def _series_table_doubts(
    quantity: ComparedQuantity, measured: MeasuredPoint, found: Estimate
) -> tuple[float, float, float]:
    own = (found.repeatability or 0.0) / COVERAGE_FACTOR / found.value
    if not quantity.of_watts:
        return own, 0.0, 0.0
    result = measured.result
    own = max(own, own_doubt(result))
    return own, limits_of(result), limits_of(result, zeros_only=True)


def _series_table_instruments(header: Header) -> tuple[object, ...] | None:
    meters = meters_of(header)
    return (*meters.items(), *header.rails) if all(meters.values()) else None


def in_order(runs: Sequence[RunOfSeries]) -> tuple[list[RunOfSeries], list[str]]:
    """The runs as they were made, and a note where that is not as their clocks say.

    A clock may have gone back; what the drive counts does not.
    """
    counts = [one.drive_ios for one in runs]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or known == sorted(known):
        return list(runs), []
    order = sorted(range(len(runs)), key=lambda number: (known[number], number))
    wrong = [runs[place].run_id for number, place in enumerate(order) if place != number]
    note = (
        f"the clock of {len(wrong)} runs cannot be right (the first: {wrong[0]}): what the drive "
        "counted of its I/Os says in which order they were made, and that is taken"
    )
    return [runs[number] for number in order], [note]


class SeriesTable:
    """The series as columns: one quantity at one point each, logarithms, NaN where missing."""

    def __init__(self, runs: Sequence[RunOfSeries]) -> None:
        self.runs = runs
        keys = dict.fromkeys(key for one in runs for key in one.values)
        order = {name: number for number, name in enumerate(WATCHED)}
        self.keys = sorted(keys, key=lambda key: order[key[0]])
        nothing = (math.nan,) * 4
        whole = np.array(
            [[one.values.get(key, nothing) for key in self.keys] for one in runs], dtype=np.float64
        ).reshape(len(runs), len(self.keys), 4)
        self.raw, self.own = whole[..., 0], whole[..., 1]
        self._limits = whole[..., 2:]
        logs = np.log(self.raw)
        coarse = self._coarse(logs)
        self.coarse = int(coarse.sum())
        self.logs = np.where(coarse, np.nan, logs)
        enough = (~np.isnan(self.logs)).sum(axis=0) >= FEWEST_RUNS
        self.columns = [int(one) for one in np.flatnonzero(enough)]

    def _coarse(self, logs: Floats) -> Bools:
        """Values whose own doubt is far larger than the runs scatter and than is usual there."""
        found = np.zeros(logs.shape, dtype=bool)
        for column in range(logs.shape[1]):
            there = ~np.isnan(logs[:, column])
            if there.sum() >= FEWEST_RUNS:
                own = self.own[:, column]
                spread = float(np.subtract(*np.quantile(logs[there, column], (0.75, 0.25)))) / 1.349
                usual = max(spread, float(np.median(own[there])))
                found[:, column] = there & (own > COARSE * usual)
        return found

    def limit(self, column: int, *, zeros: bool = False) -> float:
        """What instruments (or zeros) that two runs do not share allow between them, a part."""
        mine = self._limits[:, column, int(zeros)]
        return float(np.nanmedian(mine)) * math.sqrt(2.0)
