"""The drive's own power reading against the meters: a cross-check of both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.power.rail_power import phase_power
from labctl.analysis.readings.channel_series import RailSeries
from labctl.analysis.results import OwnPower
from labctl.record.events import Event, EventKind
from labctl.record.layout import READING
from labctl.record.reader import RunRecord
from labctl.record.timebase import NS_PER_S

MEAN_OVER_NS = NS_PER_S
"""What the drive's reading is a mean over (NVMe SMART log, Interval Power Measurement)."""

APART = 0.10
"""Difference from which a reader is warned: drives state no accuracy for it, and what they count
as theirs (a converter on the board) differs by a few per cent."""


def own_power(record: RunRecord, rails: Sequence[RailSeries]) -> OwnPower | None:
    """Both means over all samples of the drive's reading; None without one.

    Only samples at which every rail was measured count.
    """
    if not rails or len(rails) != len(record.header.rails):
        return None
    pairs = []
    for sample in own_power_readings(record.events):
        total = phase_power(rails, int(sample["t"]) - MEAN_OVER_NS, int(sample["t"]), 0).total
        if total is not None:
            pairs.append((float(sample["v"]), total.mean))
    if not pairs:
        return None
    drive_watts, meter_watts = np.mean(pairs, axis=0)
    return OwnPower(float(drive_watts), float(meter_watts), len(pairs))


def own_power_problem(found: OwnPower | None) -> tuple[str, ...]:
    """A line when drive and meters contradict each other."""
    if found is None or abs(found.difference) <= APART:
        return ()
    return (
        f"the drive itself reports {found.drive_watts:.2f} W where the meters read "
        f"{found.meter_watts:.2f} W ({found.difference:+.0%}, {found.looks} samples): is a rail "
        "not measured, or a shunt not what the rig says?",
    )


def own_power_readings(events: Iterable[Event]) -> NDArray[np.void]:
    """The drive's own power readings, dtype READING (ns on the run's timebase, watts)."""
    samples = [
        (event.t_ns, float(event.data["watts"]))
        for event in events
        if event.kind == EventKind.DRIVE_POWER and isinstance(event.data.get("watts"), int | float)
    ]
    return np.array(samples, READING)
