"""How long one would need who knows the process, and how long who knows all but what no phase
shows.

Either knows how phases of the process scatter, from many that the same meter read. The unsure one
makes its U as labctl does, of the limits of the meters, that scatter, and what a phase up to that
moment cannot exclude:

- *a straight line that goes on to the longest time*: the one that the middle of all phases shows
  by its scatter, up or down, with the uncertainty of what it shows;
- *that a spectrum which rises as far down as the phase shows it goes on to rise*, as 1/f down to
  once in a day, until half of the phases have excluded it (``FEWEST_TO_EXCLUDE``);
- *collection that has yet to begin*, where the process writes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.estimate import Component
from labctl.analysis.stats.uncertainty import expanded_u, limit_component
from labctl.analysis.steady_state.enough import SHORTEST_S, Quantity, Target
from labctl.analysis.steady_state.slow_part import SLOWEST_S
from tests.judge_stopping.loads import STEP_S, Course, Floats, Rise, Rng

READ_S = 0.1
"""Interval of the meter's readings."""

EVERY = round(READ_S / STEP_S)
GAIN = 0.0015
"""Limit of the meter's gain error, a share."""

LEFT = 0.9
"""Share of the longest time up to which an oracle is one: the mean of all of it has no error where
that is what counts as the truth."""

ONE_SIDED = 1.69
"""Standard deviations that a normal error exceeds to one side in 4.55 % of cases."""

FEWEST_TO_EXCLUDE = 10
"""Cosine coefficients of a flat spectrum from which half of the phases pass the best test that lets
one in twenty pass of one that rises as 1/f below them; level and corner are known (Neyman and
Pearson's lemma; without the level it takes 14)."""


@dataclass(frozen=True)
class Oracle:
    """When one ends that knows all phases of a process; None: never. Times in seconds."""

    all_s: float | None
    """It knows all, as to end there is right."""
    unsure_s: float | None
    """It knows all but what no phase shows."""


def oracle(rng: Rng, course: Course, target: Target, collection_s: float = 0.0) -> Oracle:
    """The least times from which on phases of this process, read by the same meter, reach the
    target."""
    moments = rng.integers(EVERY, size=(len(course.watts), course.watts.shape[1] // EVERY))
    moments += np.arange(0, course.watts.shape[1], EVERY)
    readings = np.take_along_axis(course.watts, moments, axis=1) / course.mean[:, None] - 1
    longest = readings.shape[1]
    count = np.arange(1, longest + 1)
    sums = np.cumsum(readings, axis=1)
    means = sums / count
    turned = np.cumsum(readings * count, axis=1) - sums * (count + 1) / 2
    slopes = turned / np.maximum(count * (count**2 - 1.0) / 12, 1.0)
    scatter: Floats = np.sqrt((means**2).mean(axis=0))
    carried = slopes * (longest - count) / 2
    if target.within is None:
        meters, within = 0.0, max(target.floors[Quantity.WATTS], GAIN / np.sqrt(8))
        allowed = within
    else:
        meters, within = GAIN, target.within[Quantity.WATTS]
        allowed = (within - meters) * 2 / ONE_SIDED  # what is left beside a limit that is used up
    every = np.arange(1, longest // 10 + 1) * 10 - 1  # each second
    seconds = READ_S * (every + 1)
    own = np.hypot(scatter[every], carried.std(axis=0)[every])
    if course.rise is not None:
        own = np.hypot(own, unseen(course.rise, seconds))
    lines = np.median(np.abs(carried), axis=0)[every]
    u = np.array([stated_u(meters, line, one) for line, one in zip(lines, own, strict=True)])
    return Oracle(
        since_s(READ_S * count, 2 * scatter > allowed, SHORTEST_S),
        since_s(seconds, u > within, max(SHORTEST_S, collection_s)),
    )


def stated_u(meters: float, line: float, scatter: float) -> float:
    """U of a limit, a line that ends so far off, and a standard deviation, as labctl makes it."""
    limits = [limit_component("meters", meters, ""), limit_component("line", line, "")]
    return expanded_u([*limits, Component("scatter", "A", scatter, "")])


def unseen(rise: Rise, seconds: Floats) -> Floats:
    """The standard deviation that means over so many ``seconds`` have beside what they show, if the
    rise goes on down to once in a day; 0 where phases so long exclude that."""
    hertz = np.geomspace(1 / SLOWEST_S, rise.ends_hertz, 1000)
    more = rise.level - rise.below * hertz  # of each e-fold of the frequency
    in_means = np.sinc(np.outer(seconds, hertz)) ** 2 * more
    square = in_means.mean(axis=1) * np.log(rise.ends_hertz * SLOWEST_S)
    excluded = 2 * seconds * rise.ends_hertz >= FEWEST_TO_EXCLUDE
    found: Floats = np.where(excluded, 0.0, np.sqrt(square))
    return found


def since_s(seconds: Floats, misses: NDArray[np.bool_], least_s: float) -> float | None:
    """From which of the moments on nothing misses the target."""
    late = np.flatnonzero(misses)
    if len(late) == 0:
        return least_s
    if late[-1] + 1 >= len(seconds) or seconds[late[-1] + 1] >= LEFT * seconds[-1]:
        return None
    return max(float(seconds[late[-1] + 1]), least_s)
