"""Whether every reading that a meter with a memory took is in the record, by its own clock.

Such a meter samples at its own interval, and its driver stamps the n-th reading of an epoch with
n intervals. So a reading that is missing leaves a hole in the stamps, and only those that the
events count as lost, or as no numbers, may be missing.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.readings.clock_fit import EPOCH_NS
from labctl.record.events import Event, EventKind
from labctl.record.reader import RunRecord

CHANNEL = "i12.voltage"


def miscounted(record: RunRecord) -> list[str]:
    """What does not add up, in words."""
    info = record.channel(CHANNEL)
    stamps = np.asarray(record.readings(CHANNEL)["t"])
    return miscounted_of(stamps, info.interval_s, info.aperture_s, record.events)


def miscounted_of(
    stamps: NDArray[np.int64], interval_s: float, aperture_s: float, events: Sequence[Event]
) -> list[str]:
    """What does not add up in the stamps (device ns) of a channel and the events of its run."""
    missing, twice = 0, 0
    for epoch in np.unique(stamps // EPOCH_NS).tolist():
        inside = stamps[stamps // EPOCH_NS == epoch] - epoch * EPOCH_NS
        numbers = np.rint((inside * 1e-9 - aperture_s / 2) / interval_s).astype(int)
        missing += int(numbers[-1]) + 1 - int(numbers[0]) - len(np.unique(numbers))
        twice += len(numbers) - len(np.unique(numbers))
    counted = sum(
        int(event.data.get("count", 0))
        for event in events
        if event.kind == "status" and event.data.get("channel") == CHANNEL
    )
    lines = [f"{twice} readings of {CHANNEL} are there twice"] * bool(twice)
    # A kill takes the count of a status that was on with it: then more may be missing than counted.
    if missing > counted and not cut_off_in_a_status(events):
        lines.append(f"{missing} readings of {CHANNEL} are missing, {counted} are counted")
    return lines


def cut_off_in_a_status(events: Sequence[Event]) -> bool:
    """Whether a status of the channel was on when the run was cut off."""
    kinds = [
        event.kind
        for event in events
        if event.kind == EventKind.RUN_RESUMED or event.data.get("channel") == CHANNEL
    ]
    return any(
        pair == ("status_began", EventKind.RUN_RESUMED) for pair in itertools.pairwise(kinds)
    )
