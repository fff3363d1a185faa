"""The power measurement that the simulated drive does itself (NVMe 2.3, feature and log page 25h).

It reads the joules that the drive really draws, with a gain error of its own, each second.
"""

from __future__ import annotations

from ctypes import sizeof
from typing import Final

from instruments.simulated.drive.model import DriveModel
from instruments.simulated.drive.nvme_structures import HistogramBin, PowerMeasurementLog, power
from instruments.simulated.drive.parameters import OwnPower

_INTERVAL_NS: Final = 1_000_000_000
_BIN_MILLIWATTS: Final = 250
_MOST_BINS: Final = 120
_MOST_MINUTES: Final = 0xFFFF
_MINUTE_NS: Final = 60_000_000_000
_ENABLED, _WITH_TIME_OF_MAXIMUM = 1, 1 << 3


class OwnPowerMeter:
    """Follows the drive; :meth:`advance` often enough to meet the end of each second."""

    def __init__(self, ssd: DriveModel, parameters: OwnPower) -> None:
        self._ssd, self._parameters = ssd, parameters
        self.interval_watts = parameters.gain * ssd.parameters.power.idle_watts
        self._begin_ns, self._begin_joules = ssd.t_ns, ssd.joules
        self._generation = 0
        self._until_ns: int | None = None
        self._watts: list[float] = []
        self._maximum_ns = 0

    def advance(self) -> bool:
        """Complete the interval that has ended by the drive's time; whether one has."""
        ssd = self._ssd
        elapsed_ns = ssd.t_ns - self._begin_ns
        if elapsed_ns < _INTERVAL_NS:
            return False
        joules = ssd.joules - self._begin_joules
        self.interval_watts = self._parameters.gain * joules / (elapsed_ns * 1e-9)
        self._begin_ns, self._begin_joules = ssd.t_ns, ssd.joules
        if self.is_on:
            self._watts.append(self.interval_watts)
            if self.interval_watts == max(self._watts):
                self._maximum_ns = ssd.t_ns
        if self._until_ns is not None and ssd.t_ns >= self._until_ns:
            self._until_ns = None
        return True

    @property
    def is_on(self) -> bool:
        """Whether it collects intervals."""
        return self._until_ns is not None

    def set(self, value: int) -> None:
        """What Set Features of 25h has in dword 11: action, type, minutes until it stops."""
        if value & 0xF == 0:
            self._until_ns = None
            return
        minutes = value >> 16 or _MOST_MINUTES
        self._generation = (self._generation + 1) % 256
        self._watts = []
        self._maximum_ns = 0
        self._begin_ns, self._begin_joules = self._ssd.t_ns, self._ssd.joules
        self._until_ns = self._ssd.t_ns + minutes * _MINUTE_NS

    def page(self) -> bytes:
        """Log page 25h."""
        watts = self._watts
        counts = [0] * _MOST_BINS
        beyond = 0
        for one in watts:
            place = int(one * 1000 / _BIN_MILLIWATTS)
            if place < _MOST_BINS:
                counts[place] += 1
            else:
                beyond += 1
        bins = b"".join(
            bytes(HistogramBin(count, power(place * _BIN_MILLIWATTS / 1000)))
            for place, count in enumerate(counts)
        )
        left_ns = 0 if self._until_ns is None else max(self._until_ns - self._ssd.t_ns, 0)
        log = PowerMeasurementLog(
            generation=self._generation,
            attributes=_WITH_TIME_OF_MAXIMUM | (_ENABLED if self.is_on else 0),
            size_bytes=sizeof(PowerMeasurementLog) + len(bins),
            measurements=len(watts),
            bins=_MOST_BINS,
            minutes_left=-(-left_ns // _MINUTE_NS),
            bin_bytes=sizeof(HistogramBin),
            bin_milliwatts=_BIN_MILLIWATTS,
            most_bins=_MOST_BINS,
            beyond_last_bin=beyond,
            average_power=power(sum(watts) / len(watts)) if watts else 0,
            maximum_power=power(max(watts)) if watts else 0,
            percent_error=self._parameters.percent_error,
        )
        log.maximum_at.milliseconds[:] = (self._maximum_ns // 1_000_000).to_bytes(6, "little")
        return bytes(log) + bins
