"""Interpolation of a series of readings onto the times of another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.readings.channel_series import Floats

LONGEST_RUN = 16_384
SHORT_RUN = 256
MORE_RUNS = 16
"""Runs are worth looking for while they are at least ``SHORT_RUN`` long on average, but for so many
at the edge between two long ones, where the rounding of times goes to and fro."""


def interpolated(
    wanted_t: Floats, t: Floats, values: Floats, bridged: Floats | float
) -> tuple[Floats, NDArray[np.bool_] | None]:
    """``values`` at the times ``wanted_t``, linear between readings; times ascending.

    Also which of them are known: not those between readings more than ``bridged`` apart, nor
    those further than that from the first or last. ``bridged`` may be a number for each step
    between two readings. None means all.
    """
    result = np.empty(len(wanted_t))
    known: NDArray[np.bool_] | None = None
    done = 0
    for begin, end, shift in _interpolation_runs(wanted_t, t):
        before = slice(begin + shift, end + shift)
        behind = slice(begin + shift + 1, end + shift + 1)
        span = t[behind] - t[before]
        part = np.subtract(values[behind], values[before], out=result[begin:end])
        share = wanted_t[begin:end] - t[before]
        share /= span
        part *= share
        part += values[before]
        longest = bridged if isinstance(bridged, float) else bridged[before]
        near = span <= longest
        if not near.all():
            known = np.ones(len(wanted_t), np.bool_) if known is None else known
            known[begin:end] = near
        done = end
    if done == len(wanted_t):
        return result, known
    rest, near_rest = _one_by_one(wanted_t[done:], t, values, bridged)
    result[done:] = rest
    if near_rest is not None:
        known = np.ones(len(wanted_t), np.bool_) if known is None else known
        known[done:] = near_rest
    return result, known


def _interpolation_runs(wanted_t: Floats, t: Floats) -> Iterator[tuple[int, int, int]]:
    """Runs (begin, end, shift) of the wanted times, from the first one on, in which number ``n``
    lies between readings ``n + shift`` and ``n + shift + 1``: two series of one rate have few."""
    n = len(wanted_t)
    begin, left = 0, float(MORE_RUNS)
    while begin < n and left > 0:
        shift = int(np.searchsorted(t, wanted_t[begin], side="right")) - 1 - begin
        end = min(n, len(t) - 1 - shift, begin + LONGEST_RUN)
        if begin + shift < 0 or end <= begin:
            return
        wanted = wanted_t[begin:end]
        outside = wanted < t[begin + shift : end + shift]
        outside |= wanted > t[begin + shift + 1 : end + shift + 1]
        first = int(outside.argmax())
        if outside[first]:
            end = begin + first
        yield begin, end, shift
        left += (end - begin) / SHORT_RUN - 1
        begin = end


def _one_by_one(
    wanted_t: Floats, t: Floats, values: Floats, bridged: Floats | float
) -> tuple[Floats, NDArray[np.bool_] | None]:
    result = np.interp(wanted_t, t, values)
    right = np.searchsorted(t, wanted_t, side="right")
    inside = np.clip(right, 1, len(t) - 1)
    longest = np.broadcast_to(bridged, max(len(t) - 1, 1))
    known = t[inside] - t[inside - 1] <= longest[inside - 1]
    known[right == 0] = t[0] - wanted_t[right == 0] <= longest[0]
    late = right == len(t)
    known[late] = wanted_t[late] - t[-1] <= longest[-1]
    return result, (None if bool(known.all()) else known)
