"""A thermal soak: from when on the temperature stands, where the drive throttled, its recovery.

A temperature stands when, over a window, the means of its five fifths range over no more than
``STANDS.range`` and their least-squares line rises or falls by no more than ``STANDS.line``: the
form of SNIA's steady-state rule, with limits in °C. No standard gives them for an SSD; 1 °C is one
step of a drive's own sensor, and with the thermal time constant of a drive under a heat sink (some
minutes) a drift of 1 °C in five minutes leaves about as much to come.
"""

from __future__ import annotations

import numpy as np

from labctl.analysis.series import Floats
from labctl.analysis.steady import FEWEST_READINGS, WINDOW
from labctl.analysis.tracking import Limits

STANDS = Limits(range=1.0, line=1.0, of_average=False)


def is_steady(t_s: Floats, celsius: Floats, window_s: float) -> bool:
    """Whether the temperature stood over the last ``window_s`` seconds of the readings.

    False while there are fewer than ``window_s`` of them, or too few in a fifth.
    """
    if not len(t_s) or t_s[-1] - t_s[0] < window_s:
        return False
    begin = t_s[-1] - window_s
    inside = t_s >= begin
    fifth = np.clip(((t_s[inside] - begin) / window_s * WINDOW).astype(np.int64), 0, WINDOW - 1)
    counts = np.bincount(fifth, minlength=WINDOW)
    if counts.min() < FEWEST_READINGS:
        return False
    means = np.bincount(fifth, celsius[inside], minlength=WINDOW) / counts
    return STANDS.verdict(means).steady


def steady_after_s(t_s: Floats, celsius: Floats, window_s: float) -> float | None:
    """The end of the first window in which the temperature stood, in the times given, or None."""
    for count in range(2, len(t_s) + 1):
        if t_s[count - 1] - t_s[0] >= window_s and is_steady(
            t_s[:count], celsius[:count], window_s
        ):
            return float(t_s[count - 1])
    return None
