"""The band of all straight lines that pass between upper points and lower points.

A sample of a device clock bounds its offset from above and from below, and the offset follows a
straight line (offset and drift). The lines under every upper point and over every lower point are
those that the samples allow: a convex polygon in (slope, height). Nothing is fitted, so no outlier
distorts the result: a late answer only gives wide bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Band:
    """Every allowed line ``height + slope · x``, by the corners of its polygon."""

    slopes: Floats
    heights: Floats

    def limits(self, x: float) -> tuple[float, float]:
        """The lowest and the highest allowed value at ``x``."""
        values = self.heights + self.slopes * x
        return float(values.min()), float(values.max())


def lower_hull(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The corners of the lower convex hull of points, x ascending.

    Each pass drops the points on or above the chord of their neighbours, which cannot be corners.
    About log n passes are needed.
    """
    order = np.lexsort((y, x))
    x, y = x[order], y[order]
    first = np.ones(len(x), dtype=bool)
    first[1:] = x[1:] > x[:-1]
    x, y = x[first], y[first]
    while len(x) > 2:
        rise = np.diff(y) / np.diff(x)
        keep = np.ones(len(x), dtype=bool)
        keep[1:-1] = rise[1:] > rise[:-1]
        if keep.all():
            break
        x, y = x[keep], y[keep]
    return x, y


def band_between(
    x_upper: Floats, upper: Floats, x_lower: Floats, lower: Floats, steepest: float
) -> Band | None:
    """The lines under all upper and over all lower points, slopes within ±``steepest``.

    None when there is no such line: the points contradict each other. O(n log n).
    """
    x_top, top = lower_hull(x_upper, upper)
    x_bottom, bottom = lower_hull(x_lower, -lower)
    slopes_top = np.diff(top) / np.diff(x_top)
    slopes_bottom = np.diff(bottom) / np.diff(x_bottom)

    def ceiling(slope: Floats) -> Floats:
        touched = np.searchsorted(slopes_top, slope)
        result: Floats = top[touched] - slope * x_top[touched]
        return result

    def ground(slope: Floats) -> Floats:
        touched = np.searchsorted(slopes_bottom, -slope)
        result: Floats = -bottom[touched] - slope * x_bottom[touched]
        return result

    bends = np.concatenate([slopes_top, -slopes_bottom, [-steepest, steepest]])
    slopes = np.unique(bends[np.abs(bends) <= steepest])
    width = ceiling(slopes) - ground(slopes)
    open_ = np.flatnonzero(width >= 0)
    if not len(open_):
        return None
    low, high = int(open_[0]), int(open_[-1])
    inside = list(slopes[low : high + 1])
    if low > 0:
        inside.insert(0, _zero_crossing(slopes[low - 1], width[low - 1], slopes[low], width[low]))
    if high + 1 < len(slopes):
        inside.append(_zero_crossing(slopes[high], width[high], slopes[high + 1], width[high + 1]))
    allowed = np.array(inside)
    return Band(
        slopes=np.concatenate([allowed, allowed]),
        heights=np.concatenate([ceiling(allowed), ground(allowed)]),
    )


def _zero_crossing(x0: float, y0: float, x1: float, y1: float) -> float:
    return float(x0 + (x1 - x0) * (0.0 - y0) / (y1 - y0)) if y1 != y0 else float(x0)


def highest_line_below(x: Floats, y: Floats, steepest: float) -> tuple[float, float]:
    """(height, slope) of the line under all points with the least mean distance to them.

    It is the edge of the lower hull at the mean of ``x``, where the linear programme "raise the
    line at mean x" has its optimum. Its slope is limited to ±``steepest``.
    """
    x_hull, y_hull = lower_hull(x, y)
    slope = 0.0
    if len(x_hull) > 1:
        edge = int(np.clip(np.searchsorted(x_hull, x.mean()) - 1, 0, len(x_hull) - 2))
        slope = float((y_hull[edge + 1] - y_hull[edge]) / (x_hull[edge + 1] - x_hull[edge]))
    slope = float(np.clip(slope, -steepest, steepest))
    return float((y_hull - slope * x_hull).min()), slope
