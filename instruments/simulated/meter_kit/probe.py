"""The point that a simulated meter is connected to, and the meter's own errors."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from instruments.simulated.drive.state_ring import StateReader

_STATE_WAIT_S = 1.0


class Probe:
    """A point of the drive: ``12V.voltage``, ``3V3.current``, ``composite``, ``case``.

    Through a shunt, a current is seen as the volts across ``shunt_ohm`` (its true value). The
    leads add ``added`` to whatever is there: a thermal voltage, for one.
    """

    def __init__(
        self, state: StateReader, point: str, shunt_ohm: float | None = None, added: float = 0.0
    ) -> None:
        self._state = state
        self._factor = shunt_ohm or 1.0
        self._added = added
        rail, _, quantity = point.partition(".")
        self._is_temperature = point in ("composite", "case")
        if self._is_temperature:
            self._field = f"celsius_{point}"
        else:
            self._field = {"voltage": "volt_seconds_", "current": "coulombs_"}[quantity] + rail

    async def means(
        self, begin_ns: NDArray[np.int64], end_ns: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """True means over windows of host time (temperatures: values at their ends).

        Waits until the drive has written that far, without holding up other meters.
        """
        deadline = time.monotonic() + _STATE_WAIT_S
        while int(self._state.latest()["t_ns"]) < int(end_ns[-1]) and time.monotonic() < deadline:
            await asyncio.sleep(0.0005)
        if self._is_temperature:
            return self._state.at(self._field, end_ns)
        return self._state.means(self._field, begin_ns, end_ns) * self._factor + self._added


@dataclass(frozen=True, slots=True)
class Errors:
    """A meter's own deviations: constant gain and offset, and noise (standard deviation)."""

    gain: float
    offset: float
    noise: float

    def apply(
        self, true: NDArray[np.float64], rng: np.random.Generator, resolution: float
    ) -> NDArray[np.float64]:
        """The values that the meter shows for ``true`` ones."""
        shown = true * (1 + self.gain) + self.offset
        if self.noise:
            shown = shown + rng.normal(0.0, self.noise, len(true))
        return np.round(shown / resolution) * resolution
