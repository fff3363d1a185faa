"""A phase's IOPS in stretches of constant level, on a logarithmic scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from labctl.analysis.readings.channel_series import Floats
from labctl.analysis.stats.change_points import calm_scatter, scatter_of_steps, segment_bounds
from labctl.analysis.throttling.signals import SteppedIops

REDUCED = 0.90
"""IOPS over those before, below which the drive did less: a choice."""

STALLED = 0.02
"""Below this fraction of the level before no I/O gets through."""

SHORTEST_LEVEL_S = 1.0
"""Shortest level that is a level of its own: two statuses of fio."""

SHORTEST_S = 2.0
"""Shortest slowdown that is reported, but for thermal ones: two levels."""

AROUND_S = 3.0
"""What "just before" and "just after" mean."""

LEAST_CHANGE = 0.02
"""Penalty of a further level in squared logarithms: 7 % for 2 s are just worth one."""

FLOOR = 0.01
"""Share of the median below which levels are one."""

SURE = 3.0
"""Standard deviations by which a level must differ for it not to be noise."""

Steps = tuple[int, int]
"""Of a grid, the second one not included."""


@dataclass(frozen=True, slots=True)
class Levels:
    """A phase in stretches of constant level: ``steps``, without those on the way from one to the
    next; ``begins`` where each of them began to show."""

    x: Floats
    steps: tuple[Steps, ...]
    begins: tuple[int, ...]
    noise: float
    """Relative standard deviation of a single step."""
    around: int
    """Steps of ``AROUND_S``."""

    @classmethod
    def of(cls, grid: SteppedIops) -> Levels:
        """Cut a phase into its levels."""
        z = np.log(grid.x + FLOOR)
        noise = calm_scatter(z)
        penalty = max(4 * noise**2 * np.log(max(len(z), 2)), LEAST_CHANGE)
        cut = list(pairwise(segment_bounds(z, penalty, grid.points(SHORTEST_LEVEL_S))))
        means = [float(grid.x[low:high].mean()) for low, high in cut]
        passing = 1.5 * grid.points(SHORTEST_LEVEL_S)
        steps, begins = [cut[0]], [0]
        at = None
        for number, one in enumerate(cut[1:], 1):
            between = number + 1 < len(cut) and (
                min(means[number - 1], means[number + 1])
                < means[number]
                < max(means[number - 1], means[number + 1])
            )
            if between and one[1] - one[0] <= passing and at is None:
                half = (means[number - 1] + means[number + 1]) / 2
                falls = means[number - 1] > means[number + 1]
                at = one[0] if (means[number] < half) == falls else one[1]
                continue
            steps.append(one)
            begins.append(one[0] if at is None else at)
            at = None
        return cls(grid.x, tuple(steps), tuple(begins), noise, grid.points(AROUND_S))

    def mean(self, begin: int, end: int) -> float:
        """Mean level of some steps, without those at both edges where there are others: a status
        next to an edge may hold some of both levels."""
        if end - begin > 2:
            begin, end = begin + 1, end - 1
        return max(float(self.x[begin:end].mean()), FLOOR)

    def last(self, steps: Steps) -> float:
        """The level in the last ``AROUND_S`` of some steps."""
        return self.mean(max(steps[1] - self.around, steps[0]), steps[1])

    def first(self, steps: Steps) -> float:
        """The level in the first ``AROUND_S`` of some steps."""
        return self.mean(steps[0], min(steps[0] + self.around, steps[1]))

    def doubt(self, steps: Steps) -> float:
        """By how much (logarithm) a level of so many steps may differ by noise, of which no more is
        known than of means of ``AROUND_S``."""
        return SURE * self.noise / math.sqrt(min(steps[1] - steps[0], self.around))


def is_restless(grid: SteppedIops | None) -> bool:
    """Whether the statuses of a phase scatter so much that a fall to ``REDUCED`` for ``AROUND_S``
    may be hidden in them."""
    if grid is None:
        return False
    scatter = scatter_of_steps(np.log(grid.x + FLOOR))
    return bool(SURE * scatter > -math.log(REDUCED) * math.sqrt(grid.points(AROUND_S)))
