"""Watts of a rail from its readings: V interpolated onto I's times, times I."""

from __future__ import annotations

import numpy as np

from labctl.analysis.power.interpolation import interpolated
from labctl.analysis.readings.channel_series import Floats
from labctl.analysis.stats.time_mean import STANDS_FOR

BRIDGED = 2 * STANDS_FOR
"""Multiple of the usual interval over which V is still interpolated: four lost readings, as many as
the readings of P beside a gap may stand for."""


def rail_volts(
    t_amps: Floats,
    amps: Floats,
    t_volts: Floats,
    volts: Floats,
    bridged: Floats | float,
    drop_ohm: float = 0.0,
) -> tuple[Floats, Floats, Floats]:
    """Times, volts at the drive, and amps of one rail at I's times, without those where V is
    missing.

    Times ascend, in any unit from any origin; ``bridged`` is in the same unit: the
    longest stretch between two readings of V that may be interpolated over, or that of each step
    between two of them. ``drop_ohm`` is the resistance between where V is measured and the drive,
    and I · R is taken off.
    """
    if len(t_amps) == len(t_volts) and np.array_equal(t_amps, t_volts):
        return t_amps, (volts - amps * drop_ohm if drop_ohm else volts), amps
    volts_at, known = interpolated(t_amps, t_volts, volts, bridged)
    if drop_ohm:
        volts_at -= amps * drop_ohm
    return (
        (t_amps, volts_at, amps) if known is None else (t_amps[known], volts_at[known], amps[known])
    )


def rail_watts(
    t_amps: Floats,
    amps: Floats,
    t_volts: Floats,
    volts: Floats,
    bridged: Floats | float,
    drop_ohm: float = 0.0,
) -> tuple[Floats, Floats]:
    """Times and watts of one rail (arguments: :func:`rail_volts`): (V − I·R)·I.

    All watts are calculated here: those of results, of sinks, of the live view and of the limits.
    """
    t, volts_at, amps_at = rail_volts(t_amps, amps, t_volts, volts, bridged, drop_ohm)
    return t, volts_at * amps_at
