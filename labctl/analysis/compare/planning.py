"""How many repeats a side tell a change: the comparison of repeats, on drawn ones.

Runs are drawn that scatter as those given do, all points and quantities together, and judged by the
same test as a comparison. A change counts as findable where it is found in 95 of 100 of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from labctl.analysis.compare.points import (
    QUANTITIES,
    AnalysedRun,
    ComparedQuantity,
    MeasuredPoint,
    measured_points,
)
from labctl.analysis.compare.repeats import Basis
from labctl.analysis.estimate import COVERAGE_FACTOR, Estimate
from labctl.analysis.stats.rotation import (
    POWER,
    DrawnExperiments,
    Floats,
    contrasts_within_rotation,
    planned_rotation,
)

MOST_REPEATS = 50
"""A side: more are not looked for."""

_Tables = Sequence[Mapping[str, MeasuredPoint]]


@dataclass(frozen=True, slots=True)
class RepeatsNeeded:
    """Of one quantity: its scatter from repeat to repeat (standard deviation, a part of the
    value), and how many repeats a side tell the change.

    ``some``: at one point or more, where all change; ``every``: at each point. None: more than
    ``MOST_REPEATS``. ``largest_at`` names the point that scatters most.
    """

    quantity: str
    title: str
    median: float
    largest: float
    largest_at: str
    some: int | None
    every: int | None


@dataclass(frozen=True, slots=True)
class RepeatsPlan:
    """``change`` is a part of the value. With the basis ``SINGLE`` the scatter is that within one
    run, and the numbers are the fewest possible."""

    change: float
    basis: Basis
    repeats: int
    needed: tuple[RepeatsNeeded, ...]


@dataclass(frozen=True, slots=True)
class _Scatter:
    """Logarithms: rows × columns, a column a quantity at a point; the covariance of a run is
    rowsᵀ · rows."""

    columns: tuple[tuple[ComparedQuantity, str], ...]
    rows: Floats
    basis: Basis
    repeats: int

    def plan(self, repeats: int) -> DrawnExperiments:
        names = [quantity.name for quantity, _ in self.columns]
        _, pools = np.unique(names, return_inverse=True)
        return planned_rotation(self.rows, pools, repeats)

    def of(self, quantity: ComparedQuantity) -> list[int]:
        return [number for number, (one, _) in enumerate(self.columns) if one is quantity]


def plan_repeats(runs: Sequence[AnalysedRun], change: float) -> RepeatsPlan:
    """How many repeats a side tell a ``change`` (a part of the value) where runs scatter as these.

    Several runs are repeats of each other; of one run its rounds are, or the scatter within it is
    the least that there can be. Raises ValueError where nothing scatters or ``change`` is not > 0.
    """
    if not change > 0:
        raise ValueError("a change to be found is larger than zero")
    scatter = _planning_scatter([measured_points(record, summary, ()) for record, summary in runs])
    if not scatter.columns:
        raise ValueError("the runs have no point in common whose scatter is known")
    fewest = _Fewest(scatter)
    needed = []
    for quantity in dict.fromkeys(one for one, _ in scatter.columns):
        mine = scatter.of(quantity)
        spread = np.sqrt(np.square(scatter.rows[:, mine]).sum(axis=0))
        changes = np.zeros(len(scatter.columns))
        changes[mine] = math.log1p(change)
        needed.append(
            RepeatsNeeded(
                quantity.name,
                quantity.title,
                float(np.median(spread)),
                float(spread.max()),
                scatter.columns[mine[int(spread.argmax())]][1],
                fewest.repeats(changes, mine, every=False),
                fewest.repeats(changes, mine, every=True),
            )
        )
    return RepeatsPlan(change, scatter.basis, scatter.repeats, tuple(needed))


class _Fewest:
    """Searches the fewest repeats; what a number of them would tell is drawn once."""

    def __init__(self, scatter: _Scatter) -> None:
        self._scatter = scatter
        self._plans: dict[int, DrawnExperiments] = {}

    def repeats(self, changes: Floats, mine: Sequence[int], *, every: bool) -> int | None:
        low, high = 2, MOST_REPEATS + 1
        while low < high:
            middle = (low + high) // 2
            if self._is_found(middle, changes, mine, every):
                high = middle
            else:
                low = middle + 1
        return low if low <= MOST_REPEATS else None

    def _is_found(self, repeats: int, changes: Floats, mine: Sequence[int], every: bool) -> bool:
        if repeats not in self._plans:
            self._plans[repeats] = self._scatter.plan(repeats)
        found = self._plans[repeats].found(changes)[:, mine]
        share = found.mean(axis=0).min() if every else found.any(axis=1).mean()
        return bool(share >= POWER)


def findable_changes(tables: _Tables, repeats: int) -> dict[str, float]:
    """The change of each quantity, by its title, that this many repeats a side find at every
    point (%); quantities whose scatter is not known are left out."""
    scatter = _planning_scatter(tables)
    if not scatter.columns:
        return {}
    smallest = scatter.plan(repeats).smallest()
    quantities = dict.fromkeys(one for one, _ in scatter.columns)
    return {
        one.title: 100.0 * math.expm1(float(smallest[scatter.of(one)].max())) for one in quantities
    }


def _planning_scatter(tables: _Tables) -> _Scatter:
    points = [point for point in tables[0] if all(point in table for table in tables)]
    asked = [one for one in QUANTITIES if one.in_parts and one.name != "bytes_per_s"]
    pairs = [(quantity, point) for quantity in asked for point in points]
    if len(tables) > 1:
        columns = {
            (quantity, point): [quantity.of(table[point]) for table in tables]
            for quantity, point in pairs
        }
        return _planning_scatter_between(columns, Basis.REPEATS)
    (table,) = tables
    lengths = {len(table[point].rounds) for point in points if table[point].rounds}
    if lengths and max(lengths) > 1:
        columns = {
            (quantity, point): [quantity.of(one) for one in table[point].rounds]
            for quantity, point in pairs
            if len(table[point].rounds) == max(lengths)
        }
        return _planning_scatter_between(columns, Basis.ROUNDS)
    within = {}
    for quantity, point in pairs:
        found = quantity.of(table[point])
        if found is not None and found.repeatability is not None and found.value > 0:
            within[quantity, point] = found.repeatability / COVERAGE_FACTOR / found.value
    return _Scatter(tuple(within), np.diag(list(within.values())), Basis.SINGLE, 1)


def _planning_scatter_between(
    columns: Mapping[tuple[ComparedQuantity, str], Sequence[Estimate | None]], basis: Basis
) -> _Scatter:
    """From repeats of which each column has the values."""
    logs = {}
    for key, estimates in columns.items():
        values = [one.value for one in estimates if one is not None and one.value > 0]
        if len(values) == len(estimates):
            logs[key] = [math.log(value) for value in values]
    if not logs:
        return _Scatter((), np.empty((0, 0)), basis, 0)
    rows = contrasts_within_rotation(np.array(list(logs.values())).T)
    return _Scatter(tuple(logs), rows / math.sqrt(len(rows)), basis, len(rows) + 1)
