"""When a temperature is steady: the form of SNIA's steady-state rule with limits in °C.

No standard gives such limits for an SSD. 1 °C is one step of a drive's own sensor, and with a
thermal time constant of ten minutes a drift of 0.5 °C in five minutes leaves about 1 °C to come.
"""

from __future__ import annotations

import numpy as np

from labctl.analysis.readings.channel_series import Floats
from labctl.analysis.steady_state.rule import FEWEST_READINGS, WINDOW
from labctl.analysis.steady_state.tracking import SteadyLimits

STEADY_CELSIUS = SteadyLimits(range=1.0, line=0.5, of_average=False)


def is_temperature_steady(t_s: Floats, celsius: Floats, window_s: float) -> bool:
    """Whether the temperature was steady over the last ``window_s`` seconds of the readings.

    ``t_s`` ascends. False when the readings span less than that time, or are too few in a fifth.
    """
    if not len(t_s) or t_s[-1] - t_s[0] < window_s:
        return False
    begin = t_s[-1] - window_s
    first = int(np.searchsorted(t_s, begin))
    inside = (t_s[first:] - begin) / window_s * WINDOW
    fifth = np.minimum(inside.astype(np.int64), WINDOW - 1)
    counts = np.bincount(fifth, minlength=WINDOW)
    if counts.min() < FEWEST_READINGS:
        return False
    means = np.bincount(fifth, celsius[first:], minlength=WINDOW) / counts
    return STEADY_CELSIUS.verdict(means).steady


def steady_after_s(t_s: Floats, celsius: Floats, window_s: float) -> float | None:
    """The end (s) of the first window in which the temperature was steady, to a second, or None."""
    if not len(t_s):
        return None
    for moment in np.arange(t_s[0] + window_s, t_s[-1] + 1.0, 1.0):
        count = int(np.searchsorted(t_s, moment, side="right"))
        if is_temperature_steady(t_s[:count], celsius[:count], window_s):
            return float(t_s[count - 1])
    return None
