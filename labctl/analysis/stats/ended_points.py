"""The repeatability of a phase whose end depended on it.

Such a phase ended when it was known well enough what its whole ``duration_s`` would have given
(:mod:`labctl.analysis.steady_state.enough`): scatter, and what the mean could still have moved.
That number is in the record, and it is the one that its results have. An estimate from the readings
of the shorter phase, however good, would be a second number for the same thing.
"""

from __future__ import annotations

from dataclasses import replace

from labctl.analysis.estimate import Estimate
from labctl.record.point_end import PointEnd, PointEnding, PointNumber


def ended_with(
    end: PointEnd | None, number: PointNumber | None, estimated: float | None
) -> float | None:
    """The repeatability of a phase's ``number`` as a share of it (about 95 %).

    ``end``: how the phase ended; None where that did not depend on its numbers. ``estimated``: the
    share that its readings give; it counts where the number was not asked for. Where it is None,
    for they depend on each other for longer than the phase shows, and the phase went on to its
    longest time, none is stated.
    """
    if end is None or number is None or not number.repeats_pct >= 0:
        return estimated
    if end.ended is PointEnding.LONGEST and estimated is None:
        return None
    return number.repeats_pct / 100


def watts_ended_with(end: PointEnd | None, watts: Estimate) -> Estimate:
    """The watts of all rails of a phase together, with the repeatability that it ended with."""
    value, again = abs(watts.value), watts.repeatability
    if end is None or not value:
        return watts
    share = ended_with(end, end.state.watts, None if again is None else again / value)
    return replace(watts, repeatability=None if share is None else share * value)
