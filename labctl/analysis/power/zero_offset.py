"""Zero offsets: whether readings can be those of a channel with zero input."""

from __future__ import annotations

import math

from labctl.analysis.readings.channel_series import Floats
from labctl.record.header import ChannelInfo
from labctl.rounded import rounded

OBVIOUS = 5.0
"""Multiple of a meter's floor beyond which a reading is no zero: an idle drive reads hundreds of
floors."""

THERMAL_EMF_VOLTS = 100e-6
"""What the junctions of a shunt and its leads may add: some µV/K (copper against tin, lead or
nichrome), and tens of kelvin between the ends of a hot one. A zero is there to remove it."""

FEWEST_READINGS = 5
"""Fewest readings for a scatter."""


def why_not_zero(info: ChannelInfo, values: Floats) -> str:
    """Why readings are not those of a channel with zero input; empty when they may be.

    The mean must be near zero, and the readings quiet: a drive that sleeps and wakes has a small
    mean, but is never quiet.
    """
    limit = OBVIOUS * info.accuracy_floor
    if info.quantity == "voltage":
        limit += THERMAL_EMF_VOLTS
    mean, std = float(values.mean()), float(values.std(ddof=1))
    if math.isfinite(mean) and abs(mean) <= limit and std <= limit:
        return ""
    return (
        f"{info.name} reads {rounded(mean, 4)} {info.unit} "
        f"(standard deviation {rounded(std, 2)} {info.unit}); "
        f"nothing would be within ±{rounded(limit, 2)} {info.unit}"
    )
