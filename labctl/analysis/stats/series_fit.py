"""What one series of runs shows beside its changes: a fit of known regressors, the step that can be
told, and how far runs scatter beyond their own uncertainty."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from labctl.analysis.stats.rotation import LEVEL, Floats
from labctl.analysis.stats.series_candidates import FEWEST_BESIDE, Bools


def student_limit(chance: float, freedom: float) -> float:
    """Student's t that is exceeded with a small ``chance``, from the normal distribution
    (D. L. Wallace, *Ann. Math. Statist.* 30 (1959) 1124): within 3 % for 7 and more degrees of
    freedom, more and not less."""
    z = NormalDist().inv_cdf(1.0 - chance) * (8.0 * freedom + 3.0) / (8.0 * freedom + 1.0)
    return math.sqrt(freedom * math.expm1(min(z * z / freedom, 700.0)))


@dataclass(frozen=True, slots=True)
class Fit:
    """One column: ``coefficients`` of its regressors and their standard uncertainty for a standard
    deviation of 1, and the value of each run by them (n)."""

    coefficients: Floats
    roots: Floats
    values: Floats


def fitted(values: Floats, regressors: Sequence[Floats], without: Bools) -> Fit:
    """The least-squares fit of a level and ``regressors`` to ``values`` (n, NaN where missing),
    leaving out the runs of ``without``."""
    table = np.column_stack([np.ones(len(values)), *regressors])
    there = ~np.isnan(values) & ~without
    inverse = np.linalg.pinv(table[there])
    coefficients = inverse @ values[there]
    roots = np.sqrt(np.square(inverse).sum(axis=1))
    return Fit(coefficients[1:], roots[1:], table @ coefficients)


def smallest_step(
    critical: float, deviation: float, before: int, after: int, *, power_z: float = 0.0
) -> float:
    """The step between so many runs that counts, ``power_z`` standard deviations beyond that;
    infinite where too few runs can show none.

    Of a group of runs that is too small, every choice of as many others is as likely: two over the
    number of choices is the smallest chance there is.
    """
    few = min(before, after)
    if few < FEWEST_BESIDE or 2.0 / math.comb(before + after, few) > LEVEL:
        return math.inf
    return (critical + power_z) * deviation * math.sqrt(1.0 / before + 1.0 / after)


def dark_uncertainty(values: Floats, own: Floats) -> float:
    """By how much runs scatter beyond their own standard uncertainties ``own``: the standard
    deviation between runs that the moments of Q give (R. DerSimonian, N. Laird, *Control. Clin.
    Trials* 7 (1986) 177; as dark uncertainty: M. Thompson, S. L. R. Ellison, *Accred. Qual. Assur.*
    16 (2011) 483). Of residuals; 0 where they scatter no more."""
    n = len(values)
    if n < 2 or not np.all(own > 0.0):
        return float(values.std(ddof=1)) if n > 1 else 0.0
    weights = 1.0 / np.square(own)
    mean = np.average(values, weights=weights)
    q = float(weights @ np.square(values - mean))
    scale = float(weights.sum() - np.square(weights).sum() / weights.sum())
    return math.sqrt(max(q - (n - 1), 0.0) / scale)
