"""What may have happened in a series of runs: candidates for the search of
:mod:`labctl.analysis.stats.series_changes`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]

FEWEST_RUNS = 8
"""Runs with which a step can be told at all. Of seven there are only 35 ways to choose three, and
two of them, at the begin and at the end, look alike: 2/35 is more than ``LEVEL``."""

FEWEST_BESIDE = 2
"""Runs on each side of a step; a single one may be an outlier."""

STRETCHES = 10
"""Parts of a series, at whose ends a stretch may begin or end: a level that comes back shows in no
single step (A. B. Olshen et al., *Biostatistics* 5 (2004) 557)."""


class CandidateKind(StrEnum):
    """What a level did. A stretch is only looked for: it is found as the two steps at its ends."""

    STEP = "step"
    DRIFT = "drift"
    STATE = "state"
    STRETCH = "stretch"


@dataclass(frozen=True, slots=True)
class Candidate:
    """What may have happened: ``rows`` is its regressor, a number a run.

    Of a step, a stretch and a state 0 or 1, of a drift 0 at the first and 1 at the last run, so
    that its coefficient is always the whole change. ``at``: the first run after a step. ``named``:
    something is known to have changed there.
    """

    kind: CandidateKind
    at: int
    rows: tuple[float, ...]
    named: bool = False
    state: tuple[str, str] = ("", "")
    """Of a state: the name of what has it, and its value."""


def candidates_of(
    seconds: Sequence[float], named: frozenset[int], states: Sequence[tuple[str, str, Bools]] = ()
) -> tuple[Candidate, ...]:
    """Every step with two runs on each side, stretches, the line in time, and the ``states``.

    ``seconds``: when each run began. ``named``: numbers of runs before which something changed.
    ``states``: name, value and the runs that have it; those that a step describes are left out.
    """
    n = len(seconds)
    found = [
        Candidate(CandidateKind.STEP, at, tuple(float(run >= at) for run in range(n)), at in named)
        for at in range(FEWEST_BESIDE, n - FEWEST_BESIDE + 1)
    ]
    ends = sorted({round(part * n / STRETCHES) for part in range(1, STRETCHES)})
    found += [
        Candidate(
            CandidateKind.STRETCH, begin, tuple(float(begin <= run < end) for run in range(n))
        )
        for begin, end in combinations(ends, 2)
        if end - begin >= FEWEST_BESIDE
    ]
    span = seconds[-1] - seconds[0]
    if span > 0:
        line = tuple((one - seconds[0]) / span for one in seconds)
        found.append(Candidate(CandidateKind.DRIFT, 0, line))
    known: set[tuple[float, ...]] = set()
    for name, value, runs in states:
        few = int(min(runs.sum(), n - runs.sum()))
        turns = int(np.count_nonzero(np.diff(runs.astype(int))))
        rows = tuple(float(one) for one in runs)
        other = tuple(1.0 - one for one in rows)
        if few < FEWEST_BESIDE or turns < 2 or known & {rows, other}:
            continue
        known.add(rows)
        found.append(Candidate(CandidateKind.STATE, first_turn(runs), rows, True, (name, value)))
    return tuple(found)


def first_turn(runs: Bools) -> int:
    """The number of the first run that is not in the state that the series began in."""
    return int(np.argmax(runs != runs[0]))
