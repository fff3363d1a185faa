"""Mean, extremes and scatter of a series of readings that comes part by part, read once."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.estimate import Series
from labctl.analysis.stats.uncertainty import Scatter, scatter_of_mean

MOST_BLOCKS = 2048
"""Blocks kept of a phase: up to twice as many readings are kept one by one."""


def dot(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Their scalar product, by this thread alone: numpy's own starts threads for so little."""
    return float(np.einsum("i,i->", one, other))


class RunningStats:
    """Takes a series part by part and gives its statistics; O(n) time, fixed memory."""

    def __init__(self, expected: int) -> None:
        """``expected``: about how many readings will come (it sets the size of blocks)."""
        self._block = max(expected // MOST_BLOCKS, 1)
        self._blocks: list[NDArray[np.float64]] = []
        self._open_sum = 0.0
        self._open_n = 0
        self._shift = 0.0
        self._sum = 0.0
        self._squares = 0.0
        self._min = math.inf
        self._max = -math.inf
        self._scatter: Scatter | None = None
        self.n = 0

    def add(self, values: NDArray[np.float64], shifted: NDArray[np.float64] | None = None) -> None:
        """Take the next readings; ``shifted``: the same less the first of all, where at hand."""
        if not len(values):
            return
        if not self.n:
            self._shift = float(values[0])
        if shifted is None:
            shifted = values - self._shift
        self._scatter = None
        self.n += len(values)
        self._sum += float(shifted.sum())
        self._squares += dot(shifted, shifted)
        self._min = min(self._min, float(values.min()))
        self._max = max(self._max, float(values.max()))
        self._add_blocks(shifted)

    def _add_blocks(self, shifted: NDArray[np.float64]) -> None:
        if self._open_n:
            head = shifted[: self._block - self._open_n]
            self._open_sum += float(head.sum())
            self._open_n += len(head)
            shifted = shifted[len(head) :]
            if self._open_n == self._block:
                self._blocks.append(np.array([self._open_sum / self._block]))
                self._open_sum, self._open_n = 0.0, 0
        whole = len(shifted) // self._block * self._block
        if whole:
            self._blocks.append(shifted[:whole].reshape(-1, self._block).mean(axis=1))
        rest = shifted[whole:]
        self._open_sum += float(rest.sum())
        self._open_n += len(rest)

    @property
    def mean(self) -> float:
        """The mean so far; NaN when nothing came."""
        return self._shift + self._sum / self.n if self.n else math.nan

    @property
    def variance(self) -> float:
        """The variance of single readings (n − 1); NaN below two."""
        if self.n < 2:
            return math.nan
        return max(self._squares - self._sum**2 / self.n, 0.0) / (self.n - 1)

    def scatter(self) -> Scatter:
        """Type A uncertainty of the mean."""
        if self._scatter is None:
            blocks = np.concatenate(self._blocks) if self._blocks else np.empty(0)
            self._scatter = scatter_of_mean(blocks, self.variance, self.n)
        return self._scatter

    def series(self) -> Series:
        """The statistics so far."""
        return Series(
            mean=self.mean,
            min=self._min,
            max=self._max,
            std=math.sqrt(self.variance),
            n=self.n,
            n_effective=self.scatter().n_effective,
        )


def mean_and_scatter(values: NDArray[np.float64]) -> tuple[float, Scatter]:
    """Mean of readings that may depend on each other, and its type A uncertainty."""
    stats = RunningStats(len(values))
    stats.add(values)
    return stats.mean, stats.scatter()
