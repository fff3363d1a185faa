"""Where in a series of runs the level of many quantities changed: steps, drifts, states, outliers.

Each column of a table is one quantity at one point, each row a run, in the order of time. If
nothing happened between the runs, any other order of them was as likely, however a run scatters and
however the columns vary together: so the largest statistic of all columns and all candidates in
randomly reordered runs is the distribution of the one observed (R. A. Fisher, *The Design of
Experiments*, 1935; of the largest of many: P. H. Westfall, S. S. Young, *Resampling-Based Multiple
Testing*, 1993). It controls the family-wise error as Holm's procedure does, without adding up
chances that depend on each other, and asks for no normal distribution.

A candidate is a regressor: a step between two runs, a straight line in time, or the runs in one
state (those with one of two firmwares that take turns). Its statistic is its contrast over the
standard deviation of what is left; half of that variance is the column's own, half that of all
columns of the same quantity (as in :mod:`labctl.analysis.stats.rotation`). The largest is taken as
a change, and the search goes on in what it leaves (segmentation by halves: L. Ju. Vostrikova,
*Soviet Math. Dokl.* 24 (1981) 55; permutation of residuals: D. Freedman, D. Lane, *J. Bus. Econ.
Stat.* 1 (1983) 292).

Runs that follow each other may be more alike than others are; that is no change. The
autocorrelation ρ of what the best candidates leave, of all columns together and less what it is in
reordered runs, widens every standard deviation by √((1 + ρ) / (1 − ρ)), that of a first-order
process (G. E. P. Box, G. M. Jenkins, *Time Series Analysis*, 1970).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.stats.rotation import LEVEL, Floats
from labctl.analysis.stats.series_candidates import (
    FEWEST_BESIDE,
    FEWEST_RUNS,
    Bools,
    Candidate,
    CandidateKind,
)
from labctl.analysis.stats.series_fit import student_limit

ORDERS = 1_999
"""Random orders: a chance of 5 % is then known to ±1 % (k = 2)."""

MOST_CHANGES = 12
"""Searches in one series."""

PLACES = 7.35
"""A step may be at every place whose likelihood is e^−(this / 2) of the best one or more. About
95 %: beside the place of a step the log-likelihood falls as a random walk with drift, whose largest
excursion on one side is exponential, so P(2Δ ≤ x) = (1 − e^(−x/2))² (D. Siegmund, *Int. Stat. Rev.*
56 (1988) 31)."""

NAMED_PLACES = 3.84
"""The same for a place where something is known to have changed: χ² of one degree of freedom."""

MOST_ALIKE = 0.9
"""Autocorrelation that is corrected for at most."""

_AT_ONCE = 50_000
"""Numbers of one array at most: what fits into a processor's cache is three times as fast."""

_SEED = 1935
"""The orders are the same every time: a verdict does not change when it is asked for again."""


@dataclass(frozen=True, slots=True)
class FoundChange:
    """A change that some of the columns made together.

    ``candidate``: its number. ``first`` and ``last``: between which runs (numbers of the first run
    after it) a step may be. ``p`` of each of ``columns``: the chance of such a change anywhere in
    the series, were there none. ``kinds``: what else it may have been.
    """

    candidate: int
    columns: tuple[int, ...]
    p: tuple[float, ...]
    first: int
    last: int
    kinds: tuple[CandidateKind, ...]


@dataclass(frozen=True, slots=True)
class ChangeModel:
    """What is known of the columns afterwards.

    ``changes`` (m tuples): numbers of the candidates of each column. ``deviation`` (m): the
    standard deviation of one run, ``alike`` (≥ 1) its factor for runs that follow each other.
    ``critical``: the statistic beyond which a change counts. ``outliers`` (n × m).
    """

    found: tuple[FoundChange, ...]
    changes: tuple[tuple[int, ...], ...]
    deviation: Floats
    freedom: Floats
    alike: float
    autocorrelation: float
    critical: float
    outliers: Bools


@dataclass(frozen=True, slots=True)
class _Space:
    """Columns with the same known parts: ``basis`` (n × a, orthonormal) spans these, ``contrasts``
    (K × n) are the candidates beside them, of length 1, or 0 where there is nothing beside."""

    columns: NDArray[np.intp]
    basis: Floats
    contrasts: Floats


@dataclass(frozen=True, slots=True)
class _Scan:
    """Of one search: statistics (K × m), log-likelihoods (K × m), without a change (m), chances
    (m), and the largest statistic that counts as none."""

    sizes: Floats
    likely: Floats
    p: Floats
    critical: float
    alike: float
    autocorrelation: float


def find_changes(
    values: Floats,
    pools: NDArray[np.int64],
    candidates: Sequence[Candidate],
    fixed: Sequence[Sequence[Floats]],
    own: Floats,
) -> ChangeModel:
    """Every change in ``values`` (n runs × m columns, NaN where missing).

    ``pools`` (m): columns with the same number are of one quantity. ``fixed`` (m): regressors that
    a column has in any case (other meters). ``own`` (n × m): the standard uncertainty of each
    value, which an outlier must exceed, too. Raises ValueError for fewer than ``FEWEST_RUNS`` runs.
    """
    n, m = values.shape
    if n < FEWEST_RUNS:
        raise ValueError(f"at least {FEWEST_RUNS} runs")
    search = _Search(values, pools, candidates, fixed)
    outliers = np.zeros((n, m), dtype=bool)
    while True:
        found, changes, scan = search.changes(outliers)
        left, deviation, freedom = search.left(changes, outliers)
        more = search.outliers(changes, outliers, left, own)
        if not (more & ~outliers).any() or len(found) >= MOST_CHANGES:
            break
        outliers |= more
    return ChangeModel(
        tuple(found), tuple(map(tuple, changes)), deviation, freedom, scan.alike,
        scan.autocorrelation, scan.critical, outliers,
    )  # fmt: skip


class _Search:
    """The table, and what may have happened to it."""

    def __init__(
        self,
        values: Floats,
        pools: NDArray[np.int64],
        candidates: Sequence[Candidate],
        fixed: Sequence[Sequence[Floats]],
    ) -> None:
        self._values = values
        self._pools = pools
        self._candidates = candidates
        self._rows = np.array([one.rows for one in candidates])
        self._fixed = fixed
        centred = self._rows - self._rows.mean(axis=1, keepdims=True)
        whole = np.square(centred).sum(axis=1)
        drift = np.array([one.kind is CandidateKind.DRIFT for one in candidates])
        # two runs beside two are worth 1; a line needs a quarter of what it is worth alone
        self._least = np.where(drift, whole / 4.0, 1.0 - 1e-9)

    def changes(self, outliers: Bools) -> tuple[list[FoundChange], list[list[int]], _Scan]:
        """The changes, the numbers of those of each column, and the last search, without any."""
        changes: list[list[int]] = [[] for _ in self._fixed]
        found: list[FoundChange] = []
        while True:
            scan = self._scan(changes, outliers)
            told = scan.p <= LEVEL
            if not told.any() or len(found) >= MOST_CHANGES:
                return found, changes, scan
            one = self._together(scan, told, [old.candidate for old in found])
            stretch = self._candidates[one.candidate].kind is CandidateKind.STRETCH
            for each in self._ends(one, changes, outliers, scan) if stretch else [one]:
                _add_series_change(each, found, changes)

    def _together(self, scan: _Scan, told: Bools, known: Sequence[int]) -> FoundChange:
        """The change of the clearest column, and every column that may have made it, too.

        It is one of the ``known`` changes of other columns where it may be, else one where
        something is known to have happened, else where it fits all these columns best.
        """
        sizes = np.where(told, scan.sizes.max(axis=0), 0.0)
        best = int(sizes.argmax())
        behind = 2.0 * (scan.likely.max(axis=0) - scan.likely) / scan.alike**2
        places = behind[:, best] <= PLACES
        gain = scan.likely[:, told].sum(axis=1)
        named = np.array([one.named for one in self._candidates]) & (
            behind[:, best] <= NAMED_PLACES
        )
        again = np.zeros(len(places), dtype=bool)
        again[list(known)] = places[list(known)]
        where = next(one for one in (again, named, places) if one.any())
        chosen = int(np.where(where, gain, -np.inf).argmax())
        with_it = told & ((behind[chosen] <= PLACES) | (scan.sizes[chosen] > scan.critical))
        with_it[best] = True
        columns = tuple(int(one) for one in np.flatnonzero(with_it))
        steps = [
            one.at
            for one, place in zip(self._candidates, places, strict=True)
            if place and one.kind is CandidateKind.STEP
        ]
        mine = self._candidates[chosen]
        at = [*steps, mine.at] if mine.kind is CandidateKind.STEP else [mine.at]
        kinds = {
            one.kind
            for one, place in zip(self._candidates, places, strict=True)
            if place and one.kind not in (mine.kind, CandidateKind.STRETCH)
        }
        chances = tuple(float(scan.p[one]) for one in columns)
        return FoundChange(chosen, columns, chances, min(at), max(at), tuple(sorted(kinds)))

    def _ends(
        self,
        stretch: FoundChange,
        changes: Sequence[Sequence[int]],
        outliers: Bools,
        scan: _Scan,
    ) -> list[FoundChange]:
        """The two steps at the ends of a stretch, where they fit its columns best."""
        n = len(self._values)
        steps = {
            one.at: number
            for number, one in enumerate(self._candidates)
            if one.kind is CandidateKind.STEP
        }  # fmt: skip
        pairs = [(a, b) for a, b in combinations(steps, 2) if b - a >= FEWEST_BESIDE]
        arcs = np.zeros((len(pairs), n))
        for row, (a, b) in enumerate(pairs):
            arcs[row, a:b] = 1.0
        arcs -= arcs.mean(axis=1, keepdims=True)
        arcs /= np.linalg.norm(arcs, axis=1, keepdims=True)
        left, _, freedom = self.left(changes, outliers)
        mine = left[:, list(stretch.columns)]
        part = np.square(arcs @ mine) / np.maximum(np.square(mine).sum(axis=0), 1e-300)
        likely = -np.log1p(-np.minimum(part, 1.0 - 1e-12)) * freedom[list(stretch.columns)]
        begin, end = pairs[int(likely.sum(axis=1).argmax())]
        clearest = likely[:, int(likely.max(axis=0).argmax())]
        near = [
            pair
            for pair, one in zip(pairs, clearest, strict=True)
            if (clearest.max() - one) / scan.alike**2 <= PLACES
        ]
        return [
            FoundChange(steps[at], stretch.columns, stretch.p, min(places), max(places), ())
            for at, places in (
                (begin, [begin, *(a for a, b in near if b == end)]),
                (end, [end, *(b for a, b in near if a == begin)]),
            )
        ]

    def _spaces(self, changes: Sequence[Sequence[int]]) -> list[_Space]:
        groups: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
        for column, (own, fixed) in enumerate(zip(changes, self._fixed, strict=True)):
            key = (tuple(sorted(own)), tuple(id(one) for one in fixed))
            groups.setdefault(key, []).append(column)
        spaces = []
        for (own, _), columns in groups.items():
            known = [*self._fixed[columns[0]], *(self._rows[one] for one in own)]
            basis = _series_change_basis(known, self._values.shape[0])
            beside = self._rows - (self._rows @ basis) @ basis.T
            square = np.square(beside).sum(axis=1)
            worth = square >= self._least
            unit = np.where(worth[:, None], beside / np.sqrt(np.maximum(square, 1e-12))[:, None], 0)
            spaces.append(_Space(np.array(columns), basis, unit))
        return spaces

    def _complete(self, space: _Space, outliers: Bools) -> Floats:
        """The space's columns; what is missing or set aside is as the rest says that it were."""
        values = self._values[:, space.columns].copy()
        missing = np.isnan(values) | outliers[:, space.columns]
        for column in np.flatnonzero(missing.any(axis=0)):
            there = ~missing[:, column]
            fit = np.linalg.lstsq(space.basis[there], values[there, column], rcond=None)[0]
            values[~there, column] = space.basis[~there] @ fit
        left: Floats = values - space.basis @ (space.basis.T @ values)
        return left

    def _freedom(self, space: _Space, outliers: Bools) -> Floats:
        gone = np.isnan(self._values[:, space.columns]) | outliers[:, space.columns]
        free = len(self._values) - space.basis.shape[1] - gone.sum(axis=0)
        found: Floats = np.maximum(free.astype(np.float64), 2.0)
        return found

    def left(
        self, changes: Sequence[Sequence[int]], outliers: Bools
    ) -> tuple[Floats, Floats, Floats]:
        """What the changes leave (n × m), its standard deviation and its degrees of freedom (m)."""
        n, m = self._values.shape
        left, freedom = np.empty((n, m)), np.empty(m)
        for space in self._spaces(changes):
            left[:, space.columns] = self._complete(space, outliers)
            freedom[space.columns] = self._freedom(space, outliers)
        variance = np.square(left).sum(axis=0) / freedom
        deviation: Floats = np.sqrt(_series_change_variances(variance, self._pools))
        return left, deviation, freedom

    def outliers(
        self, changes: Sequence[Sequence[int]], outliers: Bools, left: Floats, own: Floats
    ) -> Bools:
        """Values (n × m) that are no part of the rest: Student's t of what each is off, without
        itself (R. D. Cook, S. Weisberg, *Residuals and Influence in Regression*, 1982, 2.2.2), at
        the level over the number of all values (Bonferroni)."""
        n, m = self._values.shape
        found = np.zeros((n, m), dtype=bool)
        for space in self._spaces(changes):
            mine = left[:, space.columns]
            free = (1.0 - np.square(space.basis).sum(axis=1))[:, None]
            known = free > 1e-6
            square = np.where(known, np.square(mine) / np.where(known, free, 1.0), 0.0)
            freedom = np.maximum(self._freedom(space, outliers) - 1.0, 1.0)
            others = np.maximum(np.square(mine).sum(axis=0) - square, 0.0) / freedom
            limits = np.array([student_limit(LEVEL / (2 * n * m), one) for one in freedom])
            doubt = others + np.square(own[:, space.columns])
            found[:, space.columns] = square > np.square(limits) * doubt
        both: Bools = found & ~np.isnan(self._values) | outliers
        return both

    def _scan(self, changes: Sequence[Sequence[int]], outliers: Bools) -> _Scan:
        spaces = self._spaces(changes)
        tables = [self._complete(space, outliers) for space in spaces]
        freedom = [self._freedom(space, outliers) - 1.0 for space in spaces]
        n, m = self._values.shape
        order = np.arange(n)[None, :]
        sizes, variance, alike, free = self._statistics(spaces, tables, freedom, order)
        random = np.random.default_rng(_SEED)
        step = max(_AT_ONCE // max(len(self._candidates) * m, n * m), 1)
        largest, alikes = [], []
        for begin in range(0, ORDERS, step):
            count = min(step, ORDERS - begin)
            orders = random.permuted(np.tile(np.arange(n), (count, 1)), axis=1)
            drawn, _, also, _ = self._statistics(spaces, tables, freedom, orders)
            largest.append(drawn.max(axis=(1, 2)))
            alikes.append(also)
        usual = np.concatenate(alikes)
        middle = float(usual.mean())
        reached = np.sort(np.concatenate(largest) / _series_change_widening(usual - middle))
        factor = float(_series_change_widening(alike - middle)[0])
        own = sizes[0] / factor
        place = np.searchsorted(reached, own.max(axis=0) * (1.0 - 1e-9), side="left")
        p = (1.0 + len(reached) - place) / (1.0 + len(reached))
        critical = reached[min(math.ceil((1.0 - LEVEL) * len(reached)), len(reached) - 1)]
        with np.errstate(divide="ignore"):
            likely = -(free + 1.0) / 2.0 * np.log(np.maximum(variance[0], 1e-300))
        # a candidate that has nothing beside what is known is none
        likely = np.where(own > 0.0, likely, -np.inf)
        likely[:, ~(own > 0.0).any(axis=0)] = 0.0
        autocorrelation = float(np.clip(alike[0] - middle, 0.0, MOST_ALIKE))
        return _Scan(own, likely, p, float(critical), factor, autocorrelation)

    def _statistics(
        self,
        spaces: Sequence[_Space],
        tables: Sequence[Floats],
        freedom: Sequence[Floats],
        orders: NDArray[np.int64],
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Statistics and variances (orders × K × m), autocorrelations (orders), freedom (m)."""
        many, m, kinds = len(orders), self._values.shape[1], len(self._candidates)
        squares, variance = np.empty((many, kinds, m)), np.empty((many, kinds, m))
        alike, free = np.zeros(many), np.empty(m)
        for space, table, mine in zip(spaces, tables, freedom, strict=True):
            turned = table[orders]
            if space.basis.shape[1] > 1:
                turned = turned - space.basis @ (space.basis.T @ turned)
            contrast = space.contrasts @ turned
            square = np.square(contrast)
            total = np.square(turned).sum(axis=1)
            squares[:, :, space.columns] = square
            variance[:, :, space.columns] = (total[:, None] - square) / mine
            free[space.columns] = mine
            best = square.argmax(axis=1)[:, None]
            size = np.take_along_axis(contrast, best, axis=1)[:, 0]
            rest = turned - np.swapaxes(space.contrasts[best[:, 0]] * size[..., None], 1, 2)
            whole = np.maximum(total - np.square(size), 1e-300)
            alike += ((rest[:, 1:] * rest[:, :-1]).sum(axis=1) / whole).sum(axis=1)
        variance = _series_change_variances(np.maximum(variance, 0.0, out=variance), self._pools)
        squares[squares < 1e-24] = 0.0
        sizes = np.sqrt(np.divide(squares, np.maximum(variance, 1e-300), out=squares))
        return sizes, variance, alike / m, free


def _add_series_change(
    one: FoundChange, found: list[FoundChange], changes: Sequence[list[int]]
) -> None:
    """Give a change to its columns that do not have it, and to the list if it is not there."""
    columns = [
        (column, p)
        for column, p in zip(one.columns, one.p, strict=True)
        if one.candidate not in changes[column]
    ]
    for column, _ in columns:
        changes[column].append(one.candidate)
    new = replace(one, columns=tuple(c for c, _ in columns), p=tuple(p for _, p in columns))
    for place, old in enumerate(found):
        if old.candidate == one.candidate:
            found[place] = replace(
                old, columns=(*old.columns, *new.columns), p=(*old.p, *new.p)
            )  # fmt: skip
            return
    found.append(new)


def _series_change_variances(variances: Floats, pools: NDArray[np.int64]) -> Floats:
    """Half of each variance (… × m) its own, half that of its quantity."""
    members = np.equal.outer(pools, np.arange(pools.max() + 1)).astype(np.float64)
    middle = variances @ (members / np.maximum(members.sum(axis=0), 1.0))
    both: Floats = (variances + middle[..., pools]) / 2.0
    return both


def _series_change_widening(autocorrelation: Floats) -> Floats:
    alike = np.clip(autocorrelation, 0.0, MOST_ALIKE)
    found: Floats = np.sqrt((1.0 + alike) / (1.0 - alike))
    return found


def _series_change_basis(rows: Sequence[Floats], n: int) -> Floats:
    """Orthonormal columns that span 1 and the rows (n × a)."""
    table = np.column_stack([np.ones(n), *rows])
    left, sizes, _ = np.linalg.svd(table, full_matrices=False)
    found: Floats = left[:, sizes > sizes[0] * 1e-9]
    return found
