"""Which range to lock before a measurement, from a peak seen on a larger one.

A change of range in the middle of a measurement is a gap, and a range that is too small cuts
readings off. So the heaviest point is run once with the largest range that can be (the *ranging
pass*), and the range for the measurement follows from the peak that was seen there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from instruments.errors import SettingRefused
from instruments.reading import Batch, Status

MARGIN: Final = 0.25
"""More than a ranging pass sees: it is short, its readings are means over their aperture, and a
drive that warms up draws more."""


def range_to_lock(ranges: Sequence[float], peak: float, margin: float = MARGIN) -> float:
    """The smallest of ``ranges`` that holds ``peak`` and ``margin`` (a fraction) more.

    Where none is so large but the largest holds ``peak`` itself, that is the largest. All in the
    unit of the channel; the sign of ``peak`` does not matter. The 20 % over a range that many
    meters still measure is not counted on.

    Raises SettingRefused where no range holds the peak, ValueError for no ranges, a negative
    margin or a peak that is no number.
    """
    if not ranges or margin < 0 or not math.isfinite(peak):
        raise ValueError(f"cannot choose from {list(ranges)} for a peak of {peak} + {margin:.0%}")
    ascending = sorted(ranges)
    wanted = abs(peak) * (1 + margin)
    for value in ascending:
        if value >= wanted:
            return value
    if ascending[-1] >= abs(peak):
        return ascending[-1]
    raise SettingRefused(
        f"a peak of {abs(peak):g} is above the largest range, {ascending[-1]:g}: use a smaller "
        "shunt or another meter"
    )


class PeakHold:
    """The largest reading of a ranging pass, per channel, and whether it can be trusted."""

    def __init__(self) -> None:
        self._peaks: dict[str, float] = {}
        self._cut_off: set[str] = set()

    def take(self, batch: Batch) -> None:
        """Count a batch in."""
        for block in batch.blocks:
            if len(block):
                largest = float(abs(block.values).max())
                self._peaks[block.channel] = max(largest, self._peaks.get(block.channel, 0.0))
        for reading in batch.statuses:
            if reading.status is Status.OVERLOAD:
                self._cut_off.add(reading.channel)

    def peak(self, channel: str) -> float | None:
        """The largest reading of ``channel``, without its sign; None when there was none.

        Raises SettingRefused where it was cut off: nobody knows how large it was.
        """
        if channel in self._cut_off:
            raise SettingRefused(
                f"{channel}: overload in the ranging pass: run it with the largest range"
            )
        return self._peaks.get(channel)
