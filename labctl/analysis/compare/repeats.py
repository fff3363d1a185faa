"""What repeats tell of a difference: the pairs of a comparison, judged as one family.

Repeats are runs of a side or, where both sides are one run each, the rounds of its measurement
window. IOPS per watt is formed for each repeat, so whatever IOPS and watts have in common is
in its scatter (JCGM 100:2008, 5.2.2 and note 3 of H.2.4: the second way, by the results).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from labctl.analysis.estimate import Estimate
from labctl.analysis.stats.rotation import Floats, contrasts, judged
from labctl.analysis.stats.uncertainty import student_factor


class Basis(StrEnum):
    """From what it is known how a figure scatters."""

    REPEATS = "repeats"
    ROUNDS = "rounds"
    SINGLE = "one run each"


@dataclass(frozen=True, slots=True)
class RepeatedPair:
    """One quantity at one point: the value of each repeat of both sides, in the unit or as log.

    ``limit`` ≥ 0, in the same: how far apart they may be for another reason.
    """

    base: tuple[float, ...]
    other: tuple[float, ...]
    pool: str
    """The quantity: its points are taken to scatter alike, as far as their own scatter agrees."""
    limit: float = 0.0


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """``p``: the chance of such a difference in the whole family, were there none.

    ``half_width``: how large a difference must be to count, at both sides.
    """

    p: float
    half_width: float


def mean_of_repeats(estimates: Sequence[Estimate]) -> Estimate | None:
    """The mean of repeats. Its U is that of the instruments, which does not average out; its
    repeatability Student's, from how the repeats scatter. None without any."""
    n = len(estimates)
    if n < 2:
        return estimates[0] if estimates else None
    values = [one.value for one in estimates]
    mean = math.fsum(values) / n
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    again = student_factor(n - 1) * math.sqrt(variance / n)
    return Estimate(mean, math.fsum(one.u for one in estimates) / n, again)


def judge_pairs(
    pairs: Sequence[RepeatedPair], *, families: int = 1, worse: bool = False
) -> tuple[PairVerdict, ...]:
    """Every pair, judged with all the others. At least one side of each has two repeats.

    Pairs with as many repeats on each side are turned together; where the numbers differ (points
    measured in rounds beside others) the level is shared among the groups. ``families`` and
    ``worse``: see :func:`labctl.analysis.stats.rotation.judged`.
    """
    groups: dict[tuple[int, int], list[int]] = {}
    for number, pair in enumerate(pairs):
        groups.setdefault((len(pair.base), len(pair.other)), []).append(number)
    found: dict[int, PairVerdict] = {}
    for members in groups.values():
        mine = [pairs[number] for number in members]
        _, pools = np.unique([one.pool for one in mine], return_inverse=True)
        both = contrasts(
            _repeats_as_rows([o.base for o in mine]),
            _repeats_as_rows([o.other for o in mine]),
            pools,
        )
        limits = np.array([one.limit for one in mine])
        result = judged(both, limits, families=families * len(groups), worse=worse)
        for number, p, half_width in zip(members, result.p, result.half_width, strict=True):
            found[number] = PairVerdict(float(p), float(half_width))
    return tuple(found[number] for number in range(len(pairs)))


def _repeats_as_rows(columns: Sequence[tuple[float, ...]]) -> Floats:
    return np.array(columns, dtype=np.float64).T
