"""What readings leave unknown between each other: little, where a load goes on from where it was.

Half the mean square of the differences between readings a time h apart is their variogram (G.
Matheron, *Economic Geology* 58 (1963) 1246):

    D(h) = nugget + slope · h

The *nugget* differs from one reading to the next however close they are, like white noise. The
slope is of a load that goes away from where it was, by small steps or by edges at any moment.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.stats.running_stats import dot

Floats = NDArray[np.float64]

LEFT_OF_SLOPE = 1 / 6
"""What a straight line between two readings leaves of the slope's part: a random walk whose step
over h has the variance 2D is away from the line by the area of a Brownian bridge, whose variance is
2D · h²/12 = D · h²/6."""

SHARED = 3
"""Neighbouring pairs of differences that depend on each other: they share a reading."""


class Variogram:
    """Takes the differences of neighbouring readings part by part; O(n), fixed memory.

    Of two neighbouring differences a and b, (a + b)²/2 counts for twice the interval and
    (a² + b²)/4 for one, so their difference (a² + b²)/4 + a·b is the slope's part over one.
    """

    def __init__(self) -> None:
        self._last = self._squares = self._products = np.empty(0)
        self._n = 0
        self._nearby = self._grown = self._grown_sq = 0.0

    def add(self, apart: Floats) -> None:
        """Take the next differences; NaN for one across readings that were lost."""
        if not len(apart):
            return
        if len(self._last):
            self._add(np.concatenate((self._last, apart[:1])))
        self._add(apart)
        self._last = apart[-1:].copy()

    def _add(self, apart: Floats) -> None:
        n = len(apart)
        if len(self._squares) < n:
            self._squares, self._products = np.empty(n), np.empty(n)
        squares = np.multiply(apart, apart, out=self._squares[:n])
        products = np.multiply(apart[:-1], apart[1:], out=self._products[: n - 1])
        one, other = squares[:-1], squares[1:]
        if math.isnan(float(products.sum())):
            known = ~np.isnan(products)
            one, other, products = one[known], other[known], products[known]
        nearby = (float(one.sum()) + float(other.sum())) / 4
        self._n += len(products)
        self._nearby += nearby
        self._grown += nearby + float(products.sum())
        # the sum of ((one + other) / 4 + products)²
        fourths = dot(one, one) + dot(other, other) + 18 * dot(products, products)
        thirds = dot(one, products) + dot(other, products)
        self._grown_sq += fourths / 16 + thirds / 2

    @property
    def slope_share(self) -> float:
        """The slope's share of what neighbouring readings differ by, at least: less its standard
        error, so that a few edges, whose moments did not average out, have none. 0 to 1."""
        if self._n < SHARED or not self._nearby > 0:
            return 0.0
        spread = max(self._grown_sq - self._grown**2 / self._n, 0.0)
        surely = self._grown - math.sqrt(SHARED * spread)
        return min(max(surely / self._nearby, 0.0), 1.0)

    @property
    def left(self) -> float:
        """The share of D(h) · h² that a mean over time leaves unknown in an interval h."""
        return 1.0 - self.slope_share * (1.0 - LEFT_OF_SLOPE)
