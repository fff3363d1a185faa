"""Readings of a phase as means over equal cells of its time, merged by two as it goes on.

The cells of all rails begin and end together whatever their meters' intervals are, so those of a
total are sums of them. A reading stands for the time since the one before, as fio's statuses do;
of meters that is half an interval late, which no scatter depends on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_CELLS = 1024
"""Cells that are kept at most; from then on half as many of twice the time."""


class TimeCells:
    """Takes readings one by one: O(1) each, and memory for ``MOST_CELLS`` means."""

    def __init__(self, width_s: float) -> None:
        """``width_s`` > 0: at first; not below the usual interval between two readings."""
        self._width_s = width_s
        self._means: list[float] = []
        self._edge_s = width_s
        self._open = 0.0
        self.last_s = 0.0
        """The time of the newest reading."""

    def add(self, t_s: float, value: float) -> None:
        """Take a reading, at seconds since the phase began; one that is not later than the one
        before is left out."""
        begin_s = self.last_s
        if t_s <= begin_s:
            return
        while t_s >= self._edge_s:
            self._means.append((self._open + value * (self._edge_s - begin_s)) / self._width_s)
            begin_s, self._open = self._edge_s, 0.0
            if len(self._means) >= MOST_CELLS:
                self._means = self.means(2 * self._width_s).tolist()
                self._width_s *= 2
            self._edge_s = (len(self._means) + 1) * self._width_s
        self._open += value * (t_s - begin_s)
        self.last_s = t_s

    @property
    def width_s(self) -> float:
        """Of a cell now: 2ᵏ times what it was at first."""
        return self._width_s

    def means(self, width_s: float) -> Floats:
        """The means of the whole cells of ``width_s``, which is 2ᵏ times the present width."""
        merged = round(width_s / self._width_s)
        whole = len(self._means) // merged * merged
        means: Floats = np.array(self._means[:whole]).reshape(-1, merged).mean(axis=1)
        return means


def total(rails: list[TimeCells]) -> tuple[float, Floats]:
    """Width and means of the cells of all ``rails`` together, as far as each of them has come."""
    if not rails:
        return 1.0, np.empty(0)
    width_s = max(rail.width_s for rail in rails)
    means = [rail.means(width_s) for rail in rails]
    shortest = min(len(one) for one in means)
    together: Floats = np.sum([one[:shortest] for one in means], axis=0)
    return width_s, together
