"""The clock of a simulated meter: off by seconds, and drifting."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MeterClock:
    """Runs ``drift_ppm`` faster than CLOCK_MONOTONIC, from ``offset_s`` at ``begin_ns``."""

    offset_s: float = 0.0
    drift_ppm: float = 0.0
    begin_ns: int = field(default_factory=time.monotonic_ns)

    def from_host(self, host_ns: int) -> float:
        """The meter's time at ``host_ns``, in ns."""
        elapsed = (host_ns - self.begin_ns) * (1 + self.drift_ppm * 1e-6)
        return elapsed + self.offset_s * 1e9

    def to_host(self, meter_ns: float) -> int:
        """The host's time in ns at the meter's time ``meter_ns``."""
        elapsed = (meter_ns - self.offset_s * 1e9) / (1 + self.drift_ppm * 1e-6)
        return self.begin_ns + round(elapsed)

    def now(self) -> float:
        """The meter's present time, in ns."""
        return self.from_host(time.monotonic_ns())
