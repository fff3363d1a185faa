"""By how much phases are off the times that are stated of them, from the steps of the watts.

Where nobody wrote down when a phase began, its times hang on something else: the end of all jobs,
the gap between two of them. Its length is known. So it lies between the step at its begin and the
step at its end: it began no earlier than the one, and no later than its length before the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.readings.step_edges import Edge, edges_of, lag_of

MOSTLY = 0.5
"""Share of the phases that must be seen between their steps. With fewer it is not these phases that
are seen, or not their lengths: fio's clock may run fast."""

SHORTER = 3.0
"""Between steps that are closer than a phase is long, by more than so many of their standard
deviations, is not that phase, or fio counted more seconds than there were."""

Floats = NDArray[np.float64]
Spans = list[tuple[float, float]]


class Pass(Enum):
    """How the steps are looked at: as far off as phases may be; near where that says they are,
    which must agree; and with both ends of a pause, where these can be told from each other."""

    FAR = 1
    NEAR = 2
    PAUSES = 3


@dataclass(frozen=True, slots=True)
class PhaseShifts:
    """What to add to the times of each phase (s), and the half-width of what is then unknown of
    them against the watts (about 95 %); ``offset``: what to add to the meter's times; ``off``: the
    largest doubt of those that were seen (s)."""

    shifts: Floats
    u: Floats
    offset: float
    off: float


def fit_shifts(
    t: Floats,
    watts: Floats,
    spans: Sequence[tuple[float, float]],
    doubts: Floats,
    offset: float,
    interval: float,
) -> PhaseShifts | None:
    """The shifts of phases; None where too few have a clear step at both of their edges.

    ``t`` and ``watts`` are the readings, ``offset`` (s) brings them near the phases ``spans``.
    ``doubts``: of each phase the half-width of what is unknown of its times (s). The times of one
    without two clear steps, or whose steps are closer than it is long, are left to it.
    """
    worst = float(doubts.max())
    reach, around = 2 * worst, np.zeros(len(spans))
    late, u = around, np.full(len(spans), math.inf)
    for step in Pass:
        # each time closer around where they were seen
        pause = 0.0 if step is Pass.PAUSES else 2 * reach
        seen = _phase_shifts_seen(t, watts, _at(spans, around), offset, interval, reach, pause)
        better = seen.u < u if step is Pass.PAUSES else np.full(len(u), True)
        late, u = np.where(better, around + seen.late, late), np.where(better, seen.u, u)
        known = np.isfinite(u)
        if known.sum() < MOSTLY * len(known):
            return None
        around, reach = _filled_phase_shifts(late, known), float(u[known].max())
    # what all have in common is the meter's offset: the surest times say it
    weights = np.where(known, 1 / np.hypot(doubts, np.where(known, u, 0.0)) ** 2, 0.0)
    common = float(weights @ np.where(known, late, 0.0) / weights.sum())
    shifts = _filled_phase_shifts(late, known) - common
    sure = known & (np.abs(shifts) <= 2 * (worst + interval))
    if not sure.any():
        return None
    shifts = _filled_phase_shifts(np.where(sure, shifts, np.nan), sure)
    stated = doubts <= interval / 2  # better than any step could say it
    # the offset is as sure as the surest time that it rests on; the doubt is of no shift
    unseen = doubts + float((doubts + u)[sure].min()) + np.abs(shifts)
    return PhaseShifts(
        np.where(stated, 0.0, shifts),
        np.where(stated, doubts, np.where(sure, u, unseen)),
        offset - common,
        float(u[sure].max()),
    )


def moved(spans: Sequence[tuple[float, float]], shifts: Floats) -> Spans:
    """Phases at their shifted times, none of them before the one before it has ended."""
    found = _at(spans, shifts)
    for k in range(len(found) - 1):
        (begin, end), (after, last) = found[k], found[k + 1]
        if end > after:
            middle = min(max((end + after) / 2, begin), last)
            found[k], found[k + 1] = (begin, middle), (middle, last)
    return found


def _at(spans: Sequence[tuple[float, float]], shifts: Floats) -> Spans:
    """Phases at their shifted times, as long as they are."""
    return [(begin + own, end + own) for (begin, end), own in zip(spans, shifts, strict=True)]


@dataclass(frozen=True, slots=True)
class _Seen:
    """By how much each phase is late (s), and the half-width of its doubt; NaN, infinite: of one
    without two clear steps."""

    late: Floats
    u: Floats


def _phase_shifts_seen(
    t: Floats, watts: Floats, spans: Spans, offset: float, interval: float,
    off: float, pause: float,
) -> _Seen:  # fmt: skip
    """``off``: how far a step may be from its edge; a pause shorter than ``pause`` may be none."""
    reach = 3 * interval + off
    steps: dict[tuple[int, str], tuple[float, float]] = {}
    apart = moved(spans, np.zeros(len(spans)))
    for edge in edges_of(apart, interval, pause, reach):
        fitted = lag_of(t, watts, edge, offset, interval, reach)
        if fitted is None:
            continue
        at = edge.at - fitted[0]
        for phase, end in _phase_shift_ends(edge, apart):
            steps[phase, end] = at - spans[phase][0 if end == "begin" else 1], fitted[1]
    late, u = np.full(len(spans), math.nan), np.full(len(spans), math.inf)
    for k in range(len(spans)):
        if (k, "begin") in steps and (k, "end") in steps:
            (first, spread), (last, other) = steps[k, "begin"], steps[k, "end"]
            unsure = math.hypot(spread, other) + interval / 20
            if last - first < -(SHORTER * unsure + interval):
                continue
            late[k] = (first + last) / 2
            u[k] = abs(last - first) / 2 + unsure
    return _Seen(late, u)


def _phase_shift_ends(edge: Edge, spans: Spans) -> list[tuple[int, str]]:
    """The phases that begin or end at an edge."""
    if len(edge.phases) == 2:
        return [(edge.phases[0], "end"), (edge.phases[1], "begin")]
    (phase,) = edge.phases
    return [(phase, "begin" if edge.at == spans[phase][0] else "end")]


def _filled_phase_shifts(late: Floats, known: NDArray[np.bool_]) -> Floats:
    """Of phases that were not seen, what those beside them are."""
    places = np.arange(len(late))
    found: Floats = np.interp(places, places[known], late[known])
    return found
