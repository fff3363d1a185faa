"""Many differences judged at once, from few repeats.

A family of tests (every point and quantity of a comparison) is judged together: the chance that
any of them is called a difference, where none is, is at most the level. As Holm's procedure
(S. Holm, *Scand. J. Statist.* 6 (1979) 65) this controls the family-wise error, but where Holm adds
up the chances as if the tests were strangers to each other, here their joint distribution is used
(P. H. Westfall, S. S. Young, *Resampling-Based Multiple Testing*, 1993): a run that is 1 % faster
at every point is one deviation, not six.

The joint distribution comes from rotation (Ø. Langsrud, *Statistics and Computing* 15 (2005) 53).
Repeats that scatter normally, in whatever way the points vary together, have no preferred
direction among the orthogonal contrasts of the runs. So where the sides do not differ, the contrast
between them is as any other direction, and the statistics of randomly turned data have the
distribution of the one observed. This is exact for every number of repeats and of points; for one
point it is Student's t test.

Each statistic is a contrast over its standard deviation. Three runs a side tell little about the
scatter of one point, so half of its variance is that of all points of the same quantity (the form
of the moderated t: G. K. Smyth, *Stat. Appl. Genet. Mol. Biol.* 3 (2004) 3). A point that
scatters more than the others keeps at least half of its own; the turned data are treated alike, so
the level holds however the scatter differs from point to point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVEL = 0.05
"""Chance of at least one false difference in a family. Of a gate, which looks at one side, half."""

POWER = 0.95
"""Chance with which a planned number of repeats is to find a change."""

TURNS = 9_999
"""Random directions: a chance of 5 % is then known to ±0.4 % (k = 2)."""

DRAWN_RUNS = 2_000
"""Experiments that are drawn to plan repeats."""

AT_ONCE = 2_000_000
"""Numbers of one array at most, so that thousands of points fit into memory."""

SAME_WITHIN = 1e-9
"""Relative: another processor may round the last digits of a mean differently."""

_SEED = 1979
"""The directions are the same every time: a verdict does not change when it is asked for again."""


@dataclass(frozen=True, slots=True)
class Contrasts:
    """Two sides over m points, as contrasts of standard deviation σ of one run.

    ``between`` (m): the difference of the sides' means over :attr:`root`. ``within`` (ν × m): ν
    orthogonal contrasts of the repeats of each side. ``pools`` (m): points with the same number
    are of one quantity. ``root``: √(1/n + 1/n'), the difference's standard deviation over σ.
    """

    between: Floats
    within: Floats
    pools: NDArray[np.int64]
    root: float


@dataclass(frozen=True, slots=True)
class Judged:
    """``p`` (m): adjusted for the whole family. ``half_width`` (m): a difference of the means
    beyond it is one at the family's level, both sides looked at."""

    p: Floats
    half_width: Floats


def contrasts(base: Floats, other: Floats, pools: NDArray[np.int64]) -> Contrasts:
    """Of two sides' repeats (rows) at the same points (columns).

    At least one side has two repeats; both are taken to scatter alike.
    """
    root = math.sqrt(1.0 / len(base) + 1.0 / len(other))
    return Contrasts(
        (other.mean(axis=0) - base.mean(axis=0)) / root,
        np.vstack([contrasts_within_rotation(base), contrasts_within_rotation(other)]),
        pools,
        root,
    )


def contrasts_within_rotation(repeats: Floats) -> Floats:
    """Orthonormal contrasts of the rows: each against the mean of those before it (Helmert)."""
    before = np.cumsum(repeats, axis=0)[:-1]
    count = np.arange(1, len(repeats), dtype=np.float64)[:, None]
    return (repeats[1:] - before / count) * np.sqrt(count / (count + 1.0))


def _rotation_deviations(squares: Floats, pools: NDArray[np.int64]) -> Floats:
    """Standard deviations from variances (… × m): half the point's own, half its quantity's."""
    pooled = np.empty_like(squares)
    for pool in np.unique(pools):
        mine = pools == pool
        pooled[..., mine] = squares[..., mine].mean(axis=-1, keepdims=True)
    found: Floats = np.sqrt(np.maximum((squares + pooled) / 2.0, 0.0))
    return found


def _rotation_ratios(above: Floats, deviations: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        found = above / deviations
    return np.where(above == 0.0, 0.0, found)


def judged(found: Contrasts, limits: Floats, *, families: int = 1, worse: bool = False) -> Judged:
    """The chance of each difference, were none of them beyond its limit (m, ≥ 0).

    Without ``worse`` differences in both directions count, each beyond ± its limit; with it only
    those above it, at half the level. ``families``: how many are judged, this being one of them;
    the level is shared among them (Bonferroni).
    """
    between = found.between * found.root
    if worse:
        beyond = between - limits
    else:
        beyond = np.sign(between) * np.maximum(np.abs(between) - limits, 0.0)
    beyond = np.where(np.abs(beyond) < SAME_WITHIN, 0.0, beyond) / found.root
    deviations = _rotation_deviations(np.square(found.within).mean(axis=0), found.pools)
    sizes = _rotation_sizes(_rotation_ratios(beyond, deviations), worse)
    largest = _largest_by_rotation(np.vstack([beyond, found.within]), found.pools, worse)
    reached = len(largest) - np.searchsorted(largest, sizes * (1.0 - SAME_WITHIN), side="left")
    p = (1.0 + reached) / (1.0 + len(largest))
    critical = largest[min(math.ceil((1.0 - LEVEL / families) * len(largest)), len(largest) - 1)]
    return Judged(np.minimum(p * families, 1.0), critical * deviations * found.root + limits)


def _rotation_sizes(ratios: Floats, worse: bool) -> Floats:
    return ratios if worse else np.abs(ratios)


def _largest_by_rotation(rows: Floats, pools: NDArray[np.int64], worse: bool) -> Floats:
    """The largest statistic of all points in each randomly turned experiment, ascending."""
    random = np.random.default_rng(_SEED)
    total = np.square(rows).sum(axis=0)
    freedom = len(rows) - 1
    step = max(AT_ONCE // rows.shape[1], 1)
    parts = []
    for begin in range(0, TURNS, step):
        turns = random.standard_normal((min(step, TURNS - begin), len(rows)))
        turned = turns / np.linalg.norm(turns, axis=1, keepdims=True) @ rows
        deviations = _rotation_deviations((total - np.square(turned)) / freedom, pools)
        parts.append(_rotation_sizes(_rotation_ratios(turned, deviations), worse).max(axis=1))
    return np.sort(np.concatenate(parts))


@dataclass(frozen=True, slots=True)
class DrawnExperiments:
    """What a number of repeats a side can tell: drawn experiments without a change.

    ``ratios`` (draws × m) and ``deviations`` are those of each; ``critical`` is the statistic
    beyond which one is a difference.
    """

    ratios: Floats
    deviations: Floats
    critical: float
    root: float

    def found(self, changes: Floats) -> NDArray[np.bool_]:
        """In which experiments (draws × m) a change (m) of each point is found there."""
        shifted = self.ratios + _rotation_ratios(changes / self.root, self.deviations)
        return np.asarray(np.abs(shifted) > self.critical)

    def smallest(self) -> Floats:
        """The change (m) that is found at each point with the chance ``POWER``."""
        needed = (self.critical - self.ratios) * self.deviations * self.root
        found: Floats = np.quantile(needed, POWER, axis=0)
        return found


def planned_rotation(scatter: Floats, pools: NDArray[np.int64], repeats: int) -> DrawnExperiments:
    """What ``repeats`` (≥ 2) a side would tell where runs scatter as in ``scatter``.

    Rows of ``scatter`` (r × m): the covariance of the points in one run is their product
    scatterᵀ · scatter.
    """
    random = np.random.default_rng(_SEED)
    freedom = 2 * (repeats - 1)
    m = scatter.shape[1]
    step = max(AT_ONCE // (m * (freedom + 1)), 1)
    ratios, deviations = [], []
    for begin in range(0, DRAWN_RUNS, step):
        draws = min(step, DRAWN_RUNS - begin)
        drawn = random.standard_normal((draws, freedom + 1, len(scatter))) @ scatter
        spread = _rotation_deviations(np.square(drawn[:, 1:]).mean(axis=1), pools)
        ratios.append(_rotation_ratios(drawn[:, 0], spread))
        deviations.append(spread)
    every = np.concatenate(ratios)
    critical = float(np.quantile(np.abs(every).max(axis=1), 1.0 - LEVEL))
    return DrawnExperiments(every, np.concatenate(deviations), critical, math.sqrt(2.0 / repeats))
