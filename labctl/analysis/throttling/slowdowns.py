"""Where in a phase the drive did clearly less than just before, and until when.

IOPS are cut into stretches of constant level (on a logarithmic scale: a dip of half is the same
dip at any level). A walk through them keeps the level that the drive last showed it can do; a
stretch that falls abruptly and clearly below it is a slowdown until that level is reached again.
A level that drifts is followed, so a slow recovery or decline is none.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from labctl.analysis.readings.channel_series import Floats
from labctl.analysis.stats.change_points import calm_scatter, scatter_of_steps, segment_bounds
from labctl.analysis.throttling.signals import SteppedIops

REDUCED = 0.90
"""A stretch counts as reduced below this fraction of the level before it."""

ABRUPT = 0.94
"""Mean IOPS just after over just before a change; a slower decline is no slowdown."""

STALLED = 0.02
"""Below this fraction of the level before no I/O gets through."""

SHORTEST_S = 1.0
"""Shortest level that is told apart: two statuses of fio."""

AROUND_S = 3.0
"""What "just before" and "just after" mean."""

LEAST_CHANGE = 0.02
"""Penalty of a further level in squared logarithms: 7 % for 2 s are just worth one."""

FLOOR = 0.01
"""Share of the median below which levels are not told apart."""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A reduced stretch, in steps of its grid; levels are relative to the grid's unit.

    ``at_start``: the phase began in it. ``to_end``: the level before was not reached again.
    The level before was that of the steps from ``beside`` to ``begin`` (at the start of a phase:
    from ``end`` to ``beside``).
    """

    begin: int
    end: int
    beside: int
    before: float
    during: float
    at_start: bool
    to_end: bool


@dataclass(frozen=True, slots=True)
class Levels:
    """A phase in stretches of constant level: ``bounds`` from 0 to its end."""

    x: Floats
    bounds: tuple[int, ...]
    noise: float
    """Relative standard deviation of a single step."""
    around: int
    """Steps of ``AROUND_S``."""

    @classmethod
    def of(cls, grid: SteppedIops) -> Levels:
        """Cut a phase into its levels."""
        z = np.log(grid.x + FLOOR)
        shortest = grid.points(SHORTEST_S)
        noise = calm_scatter(z)
        penalty = max(4 * noise**2 * np.log(max(len(z), 2)), LEAST_CHANGE)
        bounds = segment_bounds(z, penalty, shortest)
        return cls(grid.x, tuple(bounds), noise, grid.points(AROUND_S))

    def limit(self, steps: int) -> float:
        """Fraction of the level before below which so many steps are reduced, noise allowing."""
        return min(REDUCED, float(np.exp(-3 * self.noise / steps**0.5)))

    def mean(self, begin: int, end: int) -> float:
        """Mean level of some steps."""
        return float(self.x[begin:end].mean())

    def before(self, bound: int, not_before: int) -> float:
        """The level just before a bound."""
        return self.mean(max(bound - self.around, not_before), bound)

    def after(self, bound: int, not_after: int) -> float:
        """The level just after a bound."""
        return self.mean(bound, min(bound + self.around, not_after))


def inner(begin: int, end: int) -> tuple[int, int]:
    """Without the steps at both edges, if any are left then: a status next to an edge may hold
    some of both levels."""
    return (begin + 1, end - 1) if end - begin > 2 else (begin, end)


def slowdowns(levels: Levels, start: int = 0, stop: int | None = None) -> list[Slowdown]:
    """The reduced stretches between two bounds of a phase, in order.

    ``start`` and ``stop`` must be bounds. Only from the start of the phase can a stretch be
    reduced at its start: it is, when it ends with an abrupt rise.
    """
    stop = levels.bounds[-1] if stop is None else stop
    bounds = [bound for bound in levels.bounds if start <= bound <= stop]
    found: list[Slowdown] = []
    reference, first_rise = 0.0, False
    begin: int | None = None
    beside = start
    for low, high in itertools.pairwise(bounds):
        level = levels.mean(low, high)
        if low == start:
            reference = level
            continue
        previous = bounds[bounds.index(low) - 1]
        before, after = levels.before(low, previous), levels.after(low, high)
        if begin is None:
            abrupt = after <= ABRUPT * max(before, STALLED * reference)
            if abrupt and level < levels.limit(high - low) * reference:
                begin, beside = low, previous
                continue
            if start == 0 and not found and not first_rise and before < ABRUPT * after:
                first_rise = True
                if levels.mean(0, low) < levels.limit(low) * level:
                    found.append(Slowdown(0, low, high, after, levels.mean(0, low), True, False))
            reference = level
        elif max(level, levels.mean(*inner(low, high))) >= REDUCED * reference:
            found.append(_ended(levels, (begin, low, beside), reference))
            begin, reference = None, level
    if begin is not None:
        found.append(_ended(levels, (begin, stop, beside), reference, to_end=True))
    return found


def _ended(
    levels: Levels, steps: tuple[int, int, int], reference: float, to_end: bool = False
) -> Slowdown:
    during = levels.mean(steps[0], steps[1])
    return Slowdown(*steps, reference, during, at_start=False, to_end=to_end)


def is_restless(grid: SteppedIops | None) -> bool:
    """Whether the statuses of a phase scatter so much that a fall to ``REDUCED`` for ``AROUND_S``
    may be hidden in them (three standard deviations)."""
    if grid is None:
        return False
    scatter = scatter_of_steps(np.log(grid.x + FLOOR))
    return bool(scatter > -math.log(REDUCED) / 3 * math.sqrt(grid.points(AROUND_S)))


def rises(levels: Levels) -> list[int]:
    """Bounds at which IOPS rose abruptly and above all that came before in the phase."""
    found: list[int] = []
    highest = levels.mean(*levels.bounds[:2])
    for previous, low, high in zip(
        levels.bounds, levels.bounds[1:], levels.bounds[2:], strict=False
    ):
        level = levels.mean(low, high)
        abrupt = levels.before(low, previous) < ABRUPT * levels.after(low, high)
        if abrupt and highest < levels.limit(high - low) * level:
            found.append(low)
        highest = max(highest, level)
    return found
