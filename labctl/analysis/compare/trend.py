"""The same drive, plan and rig through months: what moved, when, by how much, how sure.

A series is the runs of one drive on one rig by one plan, in order of time. How far runs differ
without a reason is taken from the runs themselves, and every point and quantity of a series is
judged as one family (:mod:`labctl.analysis.stats.series_changes`): about one series in twenty in
which nothing happened shows anything.

The errors of the meters are the same in all runs that had the same ones, so they are not in a
comparison of these. Where the instruments changed, watts may differ by what both sets allow; a
difference between the sets is a change only beyond that. A slow drift of watts is one only
beyond what the meters may have drifted themselves within their limits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from labctl.analysis.compare.conditions import FIRMWARE, ConditionChange, changes_between
from labctl.analysis.compare.series_table import (
    COARSE,
    WATCHED,
    RunOfSeries,
    SeriesTable,
    in_order,
)
from labctl.analysis.compare.trend_results import (
    LevelChange,
    MovedPoint,
    OutOfLine,
    Trend,
    TrendRow,
    TrendRun,
    TrendSeries,
    TrendVerdict,
)
from labctl.analysis.estimate import Estimate
from labctl.analysis.stats.rotation import LEVEL, POWER, Floats
from labctl.analysis.stats.series_candidates import (
    FEWEST_RUNS,
    Bools,
    Candidate,
    CandidateKind,
    candidates_of,
    first_turn,
)
from labctl.analysis.stats.series_changes import ChangeModel, FoundChange, find_changes
from labctl.analysis.stats.series_fit import dark_uncertainty, fitted, smallest_step
from labctl.analysis.stats.uncertainty import student_factor

POWER_Z = 1.645
"""Standard deviations beyond the limit with which a change is found with the chance ``POWER``."""
assert POWER == 0.95

MOST_SETS = 4
"""Of instruments, a quarter of the runs at most: where they change more often, what they allow
is in every comparison."""

WARMER_K = 2.0
"""By how much a drive must begin warmer, for that to be named."""


def trend(runs: Sequence[RunOfSeries]) -> Trend:
    """Every series among the runs. A run that is there twice (two names, one id) counts once."""
    once = {(one.run_id, one.begin_ns, one.drive): one for one in runs}
    groups: dict[tuple[object, ...], list[RunOfSeries]] = {}
    for one in sorted(once.values(), key=lambda one: (one.begin_ns, one.run_id)):
        groups.setdefault(one.key, []).append(one)
    versions: dict[tuple[object, ...], list[tuple[object, ...]]] = {}
    for key in groups:
        versions.setdefault(key[:-1], []).append(key)
    found = [
        replace(
            _series(mine),
            plan_version=versions[key[:-1]].index(key) + 1,
            plan_versions=len(versions[key[:-1]]),
        )
        for key, mine in groups.items()
    ]
    return Trend(tuple(sorted(found, key=lambda one: -len(one.runs))))


def _series(runs: Sequence[RunOfSeries]) -> TrendSeries:
    runs, notes = in_order(runs)
    first = runs[0]
    changed = [(), *(changes_between(a.conditions, b.conditions) for a, b in pairwise(runs))]
    empty = TrendSeries(
        first.rig, first.plan, first.scale, *first.drive, 1, 1,
        tuple(
            TrendRun(
                number, one.run_id, one.begin_ns, one.outcome, one.throttled, one.celsius, what
            )
            for number, (one, what) in enumerate(zip(runs, changed, strict=True), start=1)
        ),
        TrendVerdict.TOO_FEW, (), (), (), 0.0, _newest_state(changed), tuple(notes),
    )  # fmt: skip
    table = SeriesTable(runs)
    if len(runs) < FEWEST_RUNS or not table.columns:
        return replace(empty, rows=_plain_rows(table))
    return _Judged(table, empty).series()


def _newest_state(changed: Sequence[tuple[ConditionChange, ...]]) -> int:
    """Runs since the firmware changed; where it never did, since anything did; 0: nothing did."""
    n = len(changed)
    firmware = [
        number
        for number, what in enumerate(changed)
        if any(one.name.partition(" of ")[0] == FIRMWARE for one in what)
    ]
    any_change = [number for number, what in enumerate(changed) if what]
    return n - (firmware or any_change or [n])[-1]


def _plain_rows(table: SeriesTable) -> tuple[TrendRow, ...]:
    """The values alone."""
    return tuple(
        TrendRow(
            point, quantity, WATCHED[quantity].unit, WATCHED[quantity].better,
            _trend_numbers(table.raw[:, number]), (None,) * len(table.runs), None, None, None, None,
            moved=False,
        )
        for number, (quantity, point) in enumerate(table.keys)
    )  # fmt: skip


def _trend_numbers(values: Floats) -> tuple[float | None, ...]:
    return tuple(None if math.isnan(one) else float(one) for one in values)


@dataclass(frozen=True, slots=True)
class _Part:
    """One change in one column: its logarithm, the standard deviation that this has by the
    scatter, and what the instruments allow in it."""

    size: float
    root: float
    limit: float


class _Judged:
    """A series that is long enough, judged."""

    def __init__(self, table: SeriesTable, empty: TrendSeries) -> None:
        self._table = table
        self._empty = empty
        self._n = len(table.runs)
        self._sets = self._instrument_sets()
        by_column = [[] if self._sets is None else self._fixed(number) for number in table.columns]
        self._by_column = by_column
        seconds = [(one.begin_ns - table.runs[0].begin_ns) / 1e9 for one in table.runs]
        if sorted(seconds) != seconds or seconds[-1] <= 0:
            seconds = [float(number) for number in range(self._n)]  # no clock to go by
        named = frozenset(one.number - 1 for one in empty.runs if one.changed)
        self._candidates = candidates_of(seconds, named, self._states())
        quantities = [table.keys[number][0] for number in table.columns]
        _, pools = np.unique(quantities, return_inverse=True)
        values = table.logs[:, table.columns]
        own = np.nan_to_num(table.own[:, table.columns])
        self._model: ChangeModel = find_changes(values, pools, self._candidates, by_column, own)

    def _instrument_sets(self) -> list[Floats] | None:
        """A regressor for each set of instruments but the one of most runs; None where meters do
        not say who they are, or change too often to be told apart."""
        kinds = [one.instruments for one in self._table.runs]
        sets = sorted(dict.fromkeys(kinds), key=lambda one: -kinds.count(one))
        if None in kinds or len(sets) * MOST_SETS > self._n:
            return None
        return [np.array([float(kind == one) for kind in kinds]) for one in sets[1:]]

    def _fixed(self, column: int) -> list[Floats]:
        of_watts = WATCHED[self._table.keys[column][0]].of_watts
        return self._sets or [] if of_watts else []

    def _states(self) -> list[tuple[str, str, Bools]]:
        found = []
        names = dict.fromkeys(name for one in self._table.runs for name in one.conditions)
        for name in names:
            values = [one.conditions.get(name, "") for one in self._table.runs]
            found += [
                (name, value, np.array([one == value for one in values]))
                for value in dict.fromkeys(values)
            ]
        return found

    def series(self) -> TrendSeries:
        """The whole answer."""
        model, runs = self._model, self._table.runs
        changes = [self._change(found) for found in model.found]
        changes += self._between_sets()
        changes.sort(key=lambda one: (not one.real, one.run))
        outliers = self._outliers()
        moved = {(p.quantity, p.point) for c in changes for p in c.moved if not p.by_meters}
        rows = {
            self._table.keys[column]: self._row(number, column, moved)
            for number, column in enumerate(self._table.columns)
        }
        plain = {(row.quantity, row.point): row for row in _plain_rows(self._table)}
        verdict = TrendVerdict.MOVED if moved else TrendVerdict.NOTHING
        return replace(
            self._empty,
            verdict=verdict,
            changes=tuple(changes),
            outliers=tuple(outliers),
            rows=tuple(rows.get(key, plain[key]) for key in self._table.keys),
            autocorrelation=model.autocorrelation,
            notes=(*self._empty.notes, *self._notes(runs)),
        )

    def _notes(self, runs: Sequence[RunOfSeries]) -> list[str]:
        notes = []
        if any(one.instruments is None for one in runs):
            notes.append(
                "a meter did not say who it is: what the meters allow counts in every change of "
                "watts and of IOPS per watt"
            )
        elif self._sets is None:
            notes.append(
                "the instruments changed too often to be told apart: what they allow counts in "
                "every change of watts and of IOPS per watt"
            )
        elif self._sets:
            notes.append(
                f"{len(self._sets) + 1} sets of instruments: watts between two of them must "
                "differ by more than both allow"
            )
        few = len(self._table.keys) - len(self._table.columns)
        if few:
            notes.append(f"{few} values were measured in fewer than {FEWEST_RUNS} runs: not judged")
        if self._table.coarse:
            notes.append(
                f"{self._table.coarse} values are left out: their own doubt is more than "
                f"{COARSE:g} times what runs scatter"
            )
        if self._model.autocorrelation > 0.0:
            notes.append(
                "runs that follow each other are alike (autocorrelation "
                f"{self._model.autocorrelation:.2f}): a change must be larger by "
                f"{self._model.alike - 1.0:.0%}. Where nothing happens, more of such series show a "
                f"change than one in {1 / LEVEL:.0f}"
            )
        return notes

    def _regressors(self, number: int) -> list[Floats]:
        rows = [np.array(self._candidates[one].rows) for one in self._model.changes[number]]
        return [*self._by_column[number], *rows]

    def _parts(self, number: int) -> tuple[list[_Part], Floats]:
        """Of a column, by its number: its sets of instruments and its changes, and its levels."""
        values = self._table.logs[:, self._table.columns[number]]
        fit = fitted(values, self._regressors(number), self._model.outliers[:, number])
        deviation = float(self._model.deviation[number]) * self._model.alike
        fixed = len(self._by_column[number])
        limits = [
            *[self._table.limit(self._table.columns[number])] * fixed,
            *(
                self._limit(number, self._candidates[one])
                for one in self._model.changes[number]
            ),
        ]  # fmt: skip
        parts = [
            _Part(float(size), float(root) * deviation, limit)
            for size, root, limit in zip(fit.coefficients, fit.roots, limits, strict=True)
        ]
        return parts, fit.values

    def _limit(self, number: int, candidate: Candidate) -> float:
        """What the instruments allow in a change of a column, a part."""
        column = self._table.columns[number]
        if not WATCHED[self._table.keys[column][0]].of_watts:
            return 0.0
        if self._sets is None or candidate.kind is CandidateKind.DRIFT:
            return self._table.limit(column)
        if candidate.kind is CandidateKind.STEP:
            before, after = self._table.runs[candidate.at - 1], self._table.runs[candidate.at]
            if before.zeros == after.zeros:
                return 0.0
        return self._table.limit(column, zeros=True)

    def _moved(self, number: int, part: _Part, p: float) -> MovedPoint:
        quantity, point = self._table.keys[self._table.columns[number]]
        change = math.expm1(part.size)
        width = student_factor(float(self._model.freedom[number])) * part.root
        limit = math.log1p(part.limit)
        u, again = ((1.0 + change) * math.expm1(one) for one in (width + limit, width))
        by_meters = limit > 0.0 and abs(part.size) - limit <= self._model.critical * part.root
        worse = change * WATCHED[quantity].better < 0.0
        return MovedPoint(point, quantity, Estimate(change, u, again), p, worse, by_meters)

    def _change(self, found: FoundChange) -> LevelChange:
        candidate = self._candidates[found.candidate]
        moved = []
        for number, p in zip(found.columns, found.p, strict=True):
            place = list(self._model.changes[number]).index(found.candidate)
            parts, _ = self._parts(number)
            moved.append(self._moved(number, parts[len(self._by_column[number]) + place], p))
        return self._level_change(
            candidate.kind, candidate.at, found.first, found.last, candidate.state, found.kinds,
            moved, np.array(candidate.rows) > 0.5,
        )  # fmt: skip

    def _level_change(
        self, kind: CandidateKind, at: int, first: int, last: int, state: tuple[str, str],
        maybe: tuple[CandidateKind, ...], moved: Sequence[MovedPoint],
        after: Bools,
    ) -> LevelChange:  # fmt: skip
        run = self._empty.runs[at]
        return LevelChange(
            kind, at + 1, run.run_id, run.begin_ns, first + 1, last + 1,
            run.changed if kind is CandidateKind.STEP else (), state, maybe,
            tuple(sorted(moved, key=lambda one: -abs(one.change.value))), self._warmer(after),
        )  # fmt: skip

    def _warmer(self, after: Bools) -> float | None:
        """By how much the drive began warmer, where that is more than chance and ``WARMER_K``."""
        sides = [
            [one.celsius for one, it in zip(self._table.runs, after, strict=True)
             if bool(it) is side and one.celsius is not None]
            for side in (False, True)
        ]  # fmt: skip
        if min(map(len, sides)) < 2:
            return None
        before, now = (np.array(side) for side in sides)
        step = float(now.mean() - before.mean())
        doubt = math.sqrt(now.var(ddof=1) / len(now) + before.var(ddof=1) / len(before))
        return step if abs(step) > max(WARMER_K, 3.0 * doubt) else None

    def _between_sets(self) -> list[LevelChange]:
        """Watts that moved where the instruments changed, a change for each set of them."""
        found = []
        for place, runs in enumerate(self._sets or []):
            moved = []
            for number in range(len(self._table.columns)):
                if not self._by_column[number]:
                    continue
                part = self._parts(number)[0][place]
                if abs(part.size) > self._model.critical * part.root:
                    moved.append(self._moved(number, part, LEVEL))
            if moved:
                at = first_turn(runs > 0.5)
                found.append(
                    self._level_change(
                        CandidateKind.STEP, at, at, at, ("", ""), (), moved, runs > 0.5
                    )
                )
        return found

    def _outliers(self) -> list[OutOfLine]:
        found = []
        last = self._n - 1
        for run in np.flatnonzero(self._model.outliers.any(axis=1)):
            points = []
            for number in map(int, np.flatnonzero(self._model.outliers[run])):
                column = self._table.columns[number]
                deviation = float(self._model.deviation[number])
                left = float(self._table.logs[run, column] - self._parts(number)[1][run])
                part = _Part(left, math.hypot(deviation, float(self._table.own[run, column])), 0.0)
                points.append(self._moved(number, part, LEVEL))
            mine = self._empty.runs[run]
            back = set(self._empty.runs[run + 1].changed) if run < last else set()
            undone = tuple(
                one
                for one in mine.changed
                if run == last or ConditionChange(one.name, one.after, one.before) in back
            )
            points.sort(key=lambda one: -abs(one.change.value))
            found.append(
                OutOfLine(
                    mine.number, mine.run_id, bool(run == last), tuple(points), undone,
                    mine.throttled,
                )
            )  # fmt: skip
        return found

    def _row(self, number: int, column: int, moved: set[tuple[str, str]]) -> TrendRow:
        quantity, point = self._table.keys[column]
        parts, levels = self._parts(number)
        deviation = float(self._model.deviation[number])
        wide = deviation * self._model.alike
        there = ~np.isnan(self._table.logs[:, column]) & ~self._model.outliers[:, number]
        left = (self._table.logs[:, column] - levels)[there]
        half = self._n // 2
        tells = smallest_step(
            self._model.critical, wide, half, self._n - half, power_z=POWER_Z
        )  # fmt: skip
        return TrendRow(
            point,
            quantity,
            WATCHED[quantity].unit,
            WATCHED[quantity].better,
            _trend_numbers(self._table.raw[:, column]),
            _trend_numbers(np.exp(levels)),
            deviation,
            dark_uncertainty(left, self._table.own[there, column]),
            math.expm1(tells) if math.isfinite(tells) else None,
            self._newest(number, parts, levels, wide),
            (quantity, point) in moved,
        )

    def _newest(
        self, number: int, parts: Sequence[_Part], levels: Floats, wide: float
    ) -> Estimate | None:
        """The newest level against the first: its u is what a change must exceed to count."""
        size = float(levels[-1] - levels[0])
        rows = [row[-1] - row[0] for row in self._regressors(number)]
        known = [part for part, weight in zip(parts, rows, strict=True) if weight]
        if known:
            width = self._model.critical * math.hypot(*(part.root for part in known))
            limit = math.log1p(max(part.limit for part in known))
        else:
            newest = self._empty.newest_state or self._n // 2
            width = smallest_step(self._model.critical, wide, self._n - newest, newest)
            limit = 0.0
        if not math.isfinite(width):
            return None
        change = math.expm1(size)
        u, again = ((1.0 + change) * math.expm1(one) for one in (width + limit, width))
        return Estimate(change, u, again)
