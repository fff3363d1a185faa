"""Interpolation of a series of readings onto the times of another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.readings.channel_series import Floats


def interpolated(
    wanted_t: Floats, t: Floats, values: Floats, bridged: Floats | float
) -> tuple[Floats, NDArray[np.bool_] | None]:
    """``values`` at the times ``wanted_t``, linear between readings; times ascending.

    Also which of them are known: not those between readings more than ``bridged`` apart, nor
    those further than that from the first or last. ``bridged`` may be a number for each step
    between two readings. None means all.
    """
    start = int(np.searchsorted(t, wanted_t[0], side="right")) - 1
    stop = start + len(wanted_t)
    if start >= 0 and stop < len(t):
        before, after = t[start:stop], t[start + 1 : stop + 1]
        if bool((before <= wanted_t).all()) and bool((wanted_t <= after).all()):
            span = after - before
            share = wanted_t - before
            share /= span
            result = values[start + 1 : stop + 1] - values[start:stop]
            result *= share
            result += values[start:stop]
            known = span <= (bridged if isinstance(bridged, float) else bridged[start:stop])
            return result, (None if bool(known.all()) else known)
    result = np.interp(wanted_t, t, values)
    right = np.searchsorted(t, wanted_t, side="right")
    inside = np.clip(right, 1, len(t) - 1)
    longest = np.broadcast_to(bridged, max(len(t) - 1, 1))
    known = t[inside] - t[inside - 1] <= longest[inside - 1]
    known[right == 0] = t[0] - wanted_t[right == 0] <= longest[0]
    late = right == len(t)
    known[late] = wanted_t[late] - t[-1] <= longest[-1]
    return result, (None if bool(known.all()) else known)
