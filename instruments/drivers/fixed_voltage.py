"""A voltage that nobody measures: the supply's nominal volts, and how far off they may be.

For a rail whose current has a meter and whose voltage has none. Its readings are the volts that the
rig says; the tolerance is their limit of error, so that it goes into the uncertainty of every watt.
"""

from __future__ import annotations

import time
from typing import Annotated, Final

import numpy as np
from pydantic import Field

from instruments.driver_kit.base_settings import DriverSettings, Positive
from instruments.drivers import Driver
from instruments.reading import (
    Accuracy,
    Batch,
    Block,
    Channel,
    Clock,
    HostClock,
    Identity,
    Quantity,
)

SOURCE: Final = "not measured: the tolerance that the rig says"
_VOLTAGE: Final = "voltage"
_TIME_U_S: Final = 0.001
"""It does not change, so its time hardly matters."""
_LONGEST_WAIT_S: Final = 0.5
"""Of one ``read``: see :class:`~instruments.instrument.Instrument`."""
_NS_PER_S: Final = 1_000_000_000


class FixedVoltageSettings(DriverSettings):
    """The volts, and their limits."""

    volts: Positive
    tolerance_pct: Annotated[float, Field(gt=0, le=50)]
    """Limits of the supply's volts at the drive under any load, from its data sheet."""
    interval_s: Annotated[float, Field(ge=0.05, le=10)] = 0.5
    """Seconds between two readings."""


class FixedVoltage:
    """One channel, ``voltage``, that always has the same value, on the host's clock."""

    def __init__(self, name: str, settings: FixedVoltageSettings, clock: HostClock) -> None:
        self._settings = settings
        self._clock = clock
        self._interval_ns = round(settings.interval_s * _NS_PER_S)
        self._next_ns = 0
        accuracy = Accuracy(settings.tolerance_pct / 100, 0.0, SOURCE)
        self.channels = (
            Channel(
                name=_VOLTAGE,
                quantity=Quantity.VOLTAGE,
                clock=Clock.HOST,
                interval_s=settings.interval_s,
                aperture_s=settings.interval_s,
                accuracy=accuracy,
                time_u_s=_TIME_U_S,
            ),
        )

    def open(self) -> Identity:
        """There is nothing to open."""
        volts, pct = self._settings.volts, self._settings.tolerance_pct
        return Identity("", f"{volts:g} V ±{pct:g} %, not measured")

    def start(self) -> None:
        """Its readings begin now."""
        self._next_ns = self._clock()

    def read(self) -> Batch:
        """The readings up to now: none is missing, however late this is called."""
        due_s = (self._next_ns - self._clock()) / _NS_PER_S
        time.sleep(min(max(due_s, 0.0), _LONGEST_WAIT_S))
        t_ns = np.arange(self._next_ns, self._clock() + 1, self._interval_ns, dtype=np.int64)
        if not len(t_ns):
            return Batch()
        self._next_ns = int(t_ns[-1]) + self._interval_ns
        return Batch((Block(_VOLTAGE, t_ns, np.full(len(t_ns), self._settings.volts)),))

    def close(self) -> None:
        """There is nothing to close."""


DRIVER: Final = Driver(FixedVoltageSettings, FixedVoltage)
