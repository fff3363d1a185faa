"""By how much one machine's clock is ahead of another's, from steps of watts at edges of phases.

Far: for every offset of the searched ranges, how much of the variance of the readings is left when
each phase has a level of its own and what is around them another one. Phases of one length, one
after another, fit as well when they are shifted by one: so the best offsets must also fit what fio
did, no fewer watts for more I/O of the same kind, and none less than at rest.

Near: at each edge with a clear step, the lag that fits the readings around it best, each a mean
over its interval; the offset and the drift are those that most edges agree on, and how far they
disagree is their uncertainty.

What this cannot tell is refused: another offset that fits about as well, or no step at all.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.readings.phase_shifts import fit_shifts, moved
from labctl.analysis.readings.step_edges import EdgeFit, confirmed_by, fit_edges
from labctl.analysis.readings.step_search import OffsetSearch

Floats = NDArray[np.float64]

MOST_READINGS = 400_000
"""That a search is made over; of more, means over equal times are taken."""

AS_GOOD = 1.5
"""Another offset is as good if what it leaves of the variance is less than this many times what the
best one leaves."""

MOST_LEFT = 0.7
"""Share of the variance that may be left at the best offset: with more, the phases explain
nothing."""


class NoAlignment(StrEnum):
    """Why there is no offset."""

    NOT_COVERED = "not_covered"
    NO_STEPS = "no_steps"
    AMBIGUOUS = "ambiguous"


@dataclass(frozen=True, slots=True)
class Misfit(Exception):
    """No offset can be stated. ``offsets_s``: those that fit equally well, the best first."""

    why: NoAlignment
    offsets_s: tuple[float, ...] = ()
    left: tuple[float, ...] = ()
    """Share of the variance that each leaves."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """Add the offset to a reading's time, and it is on the clock of the phases.

    ``u_s`` is the half-width (about 95 %) at the worst of both ends of the phases. The offset holds
    at ``middle_s``; behind that it grows by ``drift`` a second.
    """

    offset_s: float
    u_s: float
    middle_s: float
    drift: float
    edges: int
    left: float
    """Share of the variance that is left."""
    second_s: float | None
    second_left: float | None
    """The next best offset that was searched, and what it leaves; None: there is none."""
    confirmed: tuple[bool, ...]
    """Of each phase, whether an edge of it has a clear step."""
    searched: tuple[tuple[float, float], ...]
    """Offsets that were searched, and what of the variance each leaves, for a picture."""
    shifts: tuple[tuple[float, float], ...] = ()
    """Where the steps tell better than what was stated when phases were: of each what to add to its
    times, and the half-width of what is then unknown of them (s)."""

    def at(self, phase_time_s: float) -> float:
        """The offset at a moment of the phases' clock."""
        return self.offset_s + self.drift * (phase_time_s - self.middle_s)


def align(
    t: Floats,
    watts: Floats,
    spans: Sequence[tuple[float, float]],
    ranges: Sequence[tuple[float, float]],
    work: Sequence[tuple[Hashable, float]],
    doubts: Sequence[float] = (),
) -> Alignment:
    """The offset of readings against phases.

    ``t`` (s, ascending, on the meter's clock) and ``watts`` are the readings, ``spans`` begin and
    end of each phase (s, on its own clock, in order), ``ranges`` the offsets that are searched,
    ``work`` of each phase what kind of work it did (pattern, block size) and at how many IOPS;
    ``doubts`` the half-width of what is unknown of its times (s; left out: nothing). Raises Misfit.
    """
    interval = float(np.median(np.diff(t))) if len(t) > 2 else 0.0
    if interval <= 0 or not np.ptp(watts):
        raise Misfit(NoAlignment.NO_STEPS)
    t, watts, interval = _thinned_for_alignment(t, watts, interval)
    far = OffsetSearch(t, watts, spans, work)
    found = far.candidates(ranges, interval)
    if not found:
        raise Misfit(NoAlignment.NOT_COVERED)
    offset, least = found[0]
    second = next((one for one in found if abs(one[0] - offset) > far.shortest / 2), None)
    if least > MOST_LEFT:
        raise Misfit(NoAlignment.NO_STEPS, (offset,), (least,))
    if second is not None and second[1] < AS_GOOD * least:
        raise Misfit(NoAlignment.AMBIGUOUS, (offset, second[0]), (least, second[1]))
    shifts: tuple[tuple[float, float], ...] = ()
    off = 0.0
    if doubts and max(doubts) > interval / 2:
        found_shifts = fit_shifts(t, watts, spans, np.array(doubts), offset, interval)
        if found_shifts is not None:
            spans, offset = moved(spans, found_shifts.shifts), found_shifts.offset
            off = found_shifts.off
            both = found_shifts.shifts.tolist(), found_shifts.u.tolist()
            shifts = tuple(zip(*both, strict=True))
    near = fit_edges(t, watts, spans, offset, interval, off)
    if near is None:
        raise Misfit(NoAlignment.NO_STEPS, (offset,))
    return Alignment(
        offset_s=near.offset,
        u_s=near.u,
        middle_s=near.middle,
        drift=near.drift,
        edges=near.edges,
        left=least,
        second_s=None if second is None else second[0],
        second_left=None if second is None else second[1],
        confirmed=confirmed_by(t, watts, spans, near, interval, off),
        searched=far.curve(found),
        shifts=shifts,
    )


def confirmed_phases(
    t: Floats, watts: Floats, spans: Sequence[tuple[float, float]]
) -> tuple[bool, ...]:
    """Of each phase, whether an edge of it has a clear step in readings that are on its clock."""
    interval = float(np.median(np.diff(t))) if len(t) > 2 else 0.0
    if interval <= 0:
        return (False,) * len(spans)
    t, watts, interval = _thinned_for_alignment(t, watts, interval)
    return confirmed_by(t, watts, spans, EdgeFit(0.0, 0.0, 0.0, 0.0, 0), interval)


def _thinned_for_alignment(
    t: Floats, watts: Floats, interval: float
) -> tuple[Floats, Floats, float]:
    many = math.ceil(len(t) / MOST_READINGS)
    if many <= 1:
        return t, watts, interval
    whole = len(t) // many * many
    return (
        t[:whole].reshape(-1, many).mean(axis=1),
        watts[:whole].reshape(-1, many).mean(axis=1),
        interval * many,
    )
