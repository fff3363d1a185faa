"""Runs side by side: every point that they share, the difference, and whether it is significant.

A side is one run or several repeats of it. A difference is significant when repeats show that
it is one: all points and quantities of two sides are judged together, so that about one
comparison in twenty of equal sides shows any (:mod:`labctl.analysis.stats.rotation`). The errors
of the meters are the same in all runs that had the same ones, so they are not in it;
where the instruments differ, a difference must be larger than what they allow, too.

One run a side shows how the drive varies within it, and nothing of how its runs differ: a
difference beyond that is not called significant.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from labctl.analysis.compare.other_instruments import limits_of, same_instruments, same_zeros
from labctl.analysis.compare.planning import findable_changes
from labctl.analysis.compare.points import (
    QUANTITIES,
    AnalysedRun,
    ComparedQuantity,
    MeasuredPoint,
    measured_points,
)
from labctl.analysis.compare.repeats import Basis, RepeatedPair, judge_pairs, mean_of_repeats
from labctl.analysis.estimate import Estimate
from labctl.analysis.run.drives import RunOfDrive
from labctl.analysis.stats.rotation import LEVEL
from labctl.analysis.workload import workload_name
from labctl.record.events import Outcome
from labctl.rounded import rounded

FEW_REPEATS = 3
"""A side, of which a comparison of single runs says what they would tell."""


class Change(StrEnum):
    """Whether two figures differ."""

    SIGNIFICANT = "significant"
    NOT_DISTINGUISHABLE = "not distinguishable"
    ONE_RUN_EACH = "cannot be told from one run each"
    UNKNOWN = "no scatter known"
    MISSING = "not measured in both"


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run that takes part, or one drive of it. ``side`` is a letter: A is what the others are
    compared with. ``name``: the side's, with a number where the side has several runs."""

    name: str
    side: str
    run_id: str
    drive_model: str
    drive_serial: str
    plan_name: str
    outcome: str
    throttled: int
    drive: str = ""
    """Its name in the rig, where one of several drives is meant."""
    begin_ns: int = 0
    scale: float = 1.0
    """By what its plan was scaled down."""


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """One quantity at one point on one side, against the same on side A.

    ``value``: of repeats their mean. ``change`` is (this − A) / A, of temperatures this − A in K;
    None for A itself and where one of them is missing. Its ``u`` is what a difference must exceed
    to count: its ``repeatability`` (of all points together), and the limits of the instruments
    where they were others. ``unthrottled``: of the part of a throttled phase in which the drive
    did not throttle.
    """

    run: str
    value: Estimate | None
    change: Estimate | None
    difference: Change | None
    completed: bool
    throttled: bool
    unthrottled: Estimate | None = None
    basis: Basis | None = None
    """From what the change was judged."""
    p: float | None = None
    """The chance of such a difference anywhere in the comparison, were there none."""
    repeats: tuple[float, ...] = ()
    """The value of each repeat that the change was judged by; of A's in ``against``."""
    against: tuple[float, ...] = ()
    instruments: float = 0.0
    """What instruments that differ allow: a part of the value."""


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One quantity at one point, a cell a side, in order. ``in_parts``: see ComparedQuantity."""

    point: str
    quantity: str
    unit: str
    better: int
    cells: tuple[ComparedCell, ...]
    in_parts: bool = True


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that the sides share. ``only_in``: points that not every run has."""

    runs: tuple[ComparedRun, ...]
    rows: tuple[ComparedRow, ...]
    only_in: dict[str, tuple[str, ...]]
    notes: tuple[str, ...]

    def quantity(self, name: str) -> tuple[ComparedRow, ...]:
        """The rows of one quantity."""
        return tuple(row for row in self.rows if row.quantity == name)

    @property
    def sides(self) -> tuple[str, ...]:
        """The letters, A first."""
        return tuple(dict.fromkeys(run.side for run in self.runs))

    @property
    def basis(self) -> Basis:
        """From what its changes were judged; the weakest of them."""
        found = {cell.basis for row in self.rows for cell in row.cells}
        weakest = (Basis.SINGLE, Basis.ROUNDS)
        return next((one for one in weakest if one in found), Basis.REPEATS)


@dataclass(frozen=True, slots=True)
class _Side:
    """The runs of a side, and what each of them measured at the points."""

    name: str
    runs: tuple[AnalysedRun, ...]
    tables: tuple[Mapping[str, MeasuredPoint], ...]

    def at(self, point: str) -> tuple[MeasuredPoint, ...]:
        """What each run measured there; empty where one of them did not."""
        found = [table.get(point) for table in self.tables]
        return tuple(one for one in found if one is not None) if all(found) else ()

    @property
    def run_names(self) -> tuple[str, ...]:
        if len(self.runs) == 1:
            return (self.name,)
        return tuple(f"{self.name}{number}" for number in range(1, len(self.runs) + 1))


def compare(runs: Sequence[AnalysedRun]) -> Comparison:
    """Each run against the first. Raises ValueError for fewer than two."""
    return compare_sides([[run] for run in runs])


def compare_sides(sides: Sequence[Sequence[AnalysedRun]]) -> Comparison:
    """The repeats of each side against those of the first. Raises ValueError for fewer than two.

    Of runs of several drives, their sum is compared at the points, and after them each drive with
    the one of the same name, at points called ``NAME · POINT``.
    """
    if len(sides) < 2:
        raise ValueError("a comparison needs at least two sides")
    runs = [run for side in sides for run in side]
    counts = Counter(name for _, summary in runs for name in summary.drives)
    drives = {name for name, count in counts.items() if count > 1}
    read = [
        _Side(
            _comparison_side_letter(number),
            tuple(side),
            tuple(measured_points(*run, drives) for run in side),
        )
        for number, side in enumerate(sides)
    ]
    tables = {
        name: table
        for side in read
        for name, table in zip(side.run_names, side.tables, strict=True)
    }
    points = list(dict.fromkeys(point for table in tables.values() for point in table))
    shared = [point for point in points if sum(bool(side.at(point)) for side in read) > 1]
    rows = [_row(point, quantity, read) for quantity in QUANTITIES for point in shared]
    rows = [row for row in rows if any(cell.value is not None for cell in row.cells)]
    found = Comparison(
        runs=tuple(_compared_runs(read)),
        rows=_judged_comparison_rows(rows, len(read) - 1),
        only_in={
            point: tuple(name for name, table in tables.items() if point in table)
            for point in points
            if not all(point in table for table in tables.values())
        },
        notes=(),
    )
    return replace(found, notes=tuple(_notes(found, read)))


def _compared_runs(sides: Sequence[_Side]) -> Iterator[ComparedRun]:
    for side in sides:
        for name, (record, summary) in zip(side.run_names, side.runs, strict=True):
            yield ComparedRun(
                name,
                side.name,
                summary.run_id,
                summary.drive_model,
                summary.drive_serial,
                summary.plan_name,
                summary.outcome,
                sum(item.throttled for item in summary.measured),
                record.drive_name if isinstance(record, RunOfDrive) else "",
                summary.begin_ns,
                summary.scale,
            )


def _comparison_side_letter(number: int) -> str:
    letters = ""
    while True:
        letters = chr(ord("A") + number % 26) + letters
        number = number // 26 - 1
        if number < 0:
            return letters


def _row(point: str, quantity: ComparedQuantity, sides: Sequence[_Side]) -> ComparedRow:
    base = sides[0]
    cells = []
    for side in sides:
        runs = side.at(point)
        values = _comparison_values(quantity, runs)
        free = [quantity.unthrottled(one) for one in runs if one.result.throttled]
        cell = ComparedCell(
            run=side.name,
            value=mean_of_repeats(values) if values else None,
            change=None,
            difference=None,
            completed=bool(runs) and all(one.result.outcome == Outcome.COMPLETED for one in runs),
            throttled=any(one.result.throttled for one in runs),
            unthrottled=mean_of_repeats([one for one in free if one is not None])
            if all(free)
            else None,
        )
        cells.append(cell if side is base else _against(cell, point, quantity, base, side))
    return ComparedRow(
        point, quantity.name, quantity.unit, quantity.better, tuple(cells), quantity.in_parts
    )


def _comparison_values(quantity: ComparedQuantity, runs: Sequence[MeasuredPoint]) -> list[Estimate]:
    """The quantity in each of the runs; none where one of them does not have it."""
    found = [quantity.of(one) for one in runs]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else []


def _against(
    cell: ComparedCell, point: str, quantity: ComparedQuantity, base: _Side, side: _Side
) -> ComparedCell:
    """The cell with its change from A, as far as it is known without the other points."""
    before = mean_of_repeats(_comparison_values(quantity, base.at(point)))
    change, difference = relative_change(before, cell.value)
    if change is None or before is None:
        return replace(cell, difference=difference)
    basis, mine, theirs = _comparison_repeats(quantity, base.at(point), side.at(point))
    instruments = _comparison_instruments(point, quantity, base, side)
    if instruments:
        change = replace(change, u=change.u + instruments * (1.0 + change.value))
        beyond = abs(change.value) > change.u
        if difference is Change.ONE_RUN_EACH and not beyond:
            difference = Change.NOT_DISTINGUISHABLE
    return replace(
        cell,
        change=change if quantity.in_parts else change.scaled(before.value),
        difference=difference,
        basis=basis,
        repeats=theirs,
        against=mine,
        instruments=instruments,
    )


def _comparison_repeats(
    quantity: ComparedQuantity, base: Sequence[MeasuredPoint], other: Sequence[MeasuredPoint]
) -> tuple[Basis, tuple[float, ...], tuple[float, ...]]:
    basis = Basis.REPEATS
    if len(base) == len(other) == 1:
        rounds = base[0].rounds, other[0].rounds
        basis = Basis.ROUNDS if min(map(len, rounds)) > 1 else Basis.SINGLE
        base, other = rounds if basis is Basis.ROUNDS else (base, other)
    mine, theirs = (
        tuple(one.value for one in _comparison_values(quantity, runs)) for runs in (base, other)
    )
    if basis is Basis.ROUNDS and not (mine and theirs):
        basis = Basis.SINGLE
    return basis, mine, theirs


def _comparison_instruments(
    point: str, quantity: ComparedQuantity, base: _Side, side: _Side
) -> float:
    """What instruments that the two sides do not share allow, as a part of the value."""
    if not quantity.of_watts:
        return 0.0
    largest = 0.0
    for (mine, _), one in zip(base.runs, base.at(point), strict=True):
        for (theirs, _), other in zip(side.runs, side.at(point), strict=True):
            shared = same_instruments(mine.header, theirs.header)
            if shared and same_zeros(mine.header, theirs.header):
                continue
            parts = (limits_of(item.result, zeros_only=shared) for item in (one, other))
            largest = max(largest, math.hypot(*parts))
    return largest


def relative_change(
    base: Estimate | None, other: Estimate | None
) -> tuple[Estimate | None, Change]:
    """The relative change from ``base`` to ``other``, and what one run each tells of it.

    Its U is that of the repeatability of both, in quadrature; NaN where one is not known.
    """
    if base is None or other is None or not base.value:
        return None, Change.MISSING
    change = other.value / base.value - 1.0
    if base.repeatability is None or other.repeatability is None:
        return Estimate(change, math.nan), Change.UNKNOWN
    again = math.hypot(
        other.repeatability / base.value, base.repeatability * other.value / base.value**2
    )
    beyond = abs(other.value - base.value) > math.hypot(base.repeatability, other.repeatability)
    verdict = Change.ONE_RUN_EACH if beyond else Change.NOT_DISTINGUISHABLE
    return Estimate(change, again, again), verdict


def repeated_pair(row: ComparedRow, cell: ComparedCell, limit: float = 0.0) -> RepeatedPair | None:
    """The repeats of a cell and of A's, positive where this side is worse; None without repeats.

    Parts are judged as logarithms: which side is A decides nothing. ``limit``: how much worse the
    side may be, in parts or in K.
    """
    if cell.basis in (None, Basis.SINGLE) or not (cell.repeats and cell.against):
        return None
    if not row.in_parts:
        return RepeatedPair(
            tuple(-row.better * value for value in cell.against),
            tuple(-row.better * value for value in cell.repeats),
            row.quantity,
            limit,
        )
    if min(*cell.repeats, *cell.against) <= 0.0:
        return None
    part = 1.0 + limit if row.better < 0 else 1.0 - limit
    allowed = abs(math.log(part)) if part > 0.0 else math.inf
    return RepeatedPair(
        tuple(-row.better * math.log(value) for value in cell.against),
        tuple(-row.better * math.log(value) for value in cell.repeats),
        row.quantity,
        allowed + math.log1p(cell.instruments),
    )


def _judged_comparison_rows(rows: Sequence[ComparedRow], families: int) -> tuple[ComparedRow, ...]:
    """The rows with every change that repeats tell of; each side against A is a family."""
    found = [list(row.cells) for row in rows]
    for side in range(1, families + 1):
        known = {
            number: pair
            for number, row in enumerate(rows)
            if (pair := repeated_pair(row, row.cells[side])) is not None
        }
        verdicts = judge_pairs(list(known.values()), families=families)
        for number, verdict in zip(known, verdicts, strict=True):
            cell = rows[number].cells[side]
            change = cell.change
            assert change is not None
            half = verdict.half_width
            again = half - math.log1p(cell.instruments)
            if rows[number].in_parts:
                half, again = (
                    _comparison_half_width(change.value, width) for width in (half, again)
                )
            significant = verdict.p <= LEVEL
            found[number][side] = replace(
                cell,
                change=Estimate(change.value, half, again),
                difference=Change.SIGNIFICANT if significant else Change.NOT_DISTINGUISHABLE,
                p=verdict.p,
            )
    return tuple(replace(row, cells=tuple(cells)) for row, cells in zip(rows, found, strict=True))


def _comparison_half_width(change: float, width: float) -> float:
    """The distance from a change to the end of its interval that is nearer to no change, where
    ``width`` is half of the interval of its logarithm."""
    return (1.0 + change) * abs(math.expm1(-width if change >= 0.0 else width))


def _notes(found: Comparison, sides: Sequence[_Side]) -> Iterator[str]:
    yield {
        Basis.REPEATS: "± is the repeatability (about 95 %): how the mean of the repeats would "
        "come out again on the same meters. A change is significant beyond the scatter between "
        f"the repeats, at all points and quantities together one time in {1 / LEVEL:.0f} "
        "by chance",
        Basis.ROUNDS: "± is the repeatability (about 95 %). One run each, judged by its rounds: "
        "what another run of the same drive would change is not in them",
        Basis.SINGLE: "± is the repeatability within the run (about 95 %): one run each does not "
        "show how runs of the same drive differ, so no change is called significant",
    }[found.basis]
    if found.basis is Basis.SINGLE:
        changes = findable_changes(sides[0].tables, FEW_REPEATS)
        if changes:
            each = ", ".join(f"{rounded(part, 2)} % of {title}" for title, part in changes.items())
            yield (
                f"{FEW_REPEATS} repeats a side would tell a change of {each}, if runs differ no "
                "more than the stretches of one run do: labctl compare A1 A2 A3 --against B1 B2 "
                "B3; labctl repeats A1 A2 A3 says how many are needed"
            )
    if any(cell.instruments for row in found.rows for cell in row.cells):
        yield (
            "the sides had other meters, or such that did not say who they are, or other zeros: "
            "what these allow counts in changes of watts and of IOPS per watt"
        )
    runs = [run for side in sides for run in side.runs]
    plans = {summary.plan_name for _, summary in runs}
    if len(plans) > 1:
        yield f"the runs followed different plans ({', '.join(sorted(plans))})"
    versions = {record.header.versions.get("fio", "") for record, _ in runs}
    if len(versions) > 1:
        yield f"fio differed: {', '.join(sorted(filter(None, versions)))}"
    durations: dict[str, set[float]] = {}
    for _, summary in runs:
        for item in summary.measured:
            name = workload_name(item.phase)
            durations.setdefault(name, set()).add(round(item.phase.duration_s, 3))
    apart = sum(len(seen) > 1 for seen in durations.values())
    if apart:
        yield f"{apart} points were measured for different times"
