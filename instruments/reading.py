"""What an instrument yields: channels, described once, and blocks of readings.

A reading is a time and a value. Everything else about it (unit, range, integration time,
accuracy, which clock stamped it) is given once, in its ``Channel``. A reading that is not
a number is a ``StatusReading``, never a value.

The time of a reading is always **the middle of its integration window**.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

HostClock = Callable[[], int]
"""Nanoseconds of the host's clock; monotonic (``time.monotonic_ns`` or a run's timebase)."""


EPOCH_NS: Final = 10**15
"""The k-th epoch of a device clock begins at k times this (1e6 s): see :class:`ClockPair`."""


class Quantity(StrEnum):
    """What a channel measures."""

    VOLTAGE = "voltage"
    CURRENT = "current"
    POWER = "power"
    ENERGY = "energy"
    TEMPERATURE = "temperature"


UNITS: dict[Quantity, str] = {
    Quantity.VOLTAGE: "V",
    Quantity.CURRENT: "A",
    Quantity.POWER: "W",
    Quantity.ENERGY: "Wh",
    Quantity.TEMPERATURE: "°C",
}


class Clock(StrEnum):
    """The clock that stamped the readings of a channel."""

    HOST = "host"
    DEVICE = "device"


class Status(StrEnum):
    """Why a reading is not a number, or what happened to the series of readings."""

    OVERLOAD = "overload"
    NO_VALUE = "no_value"
    HOLD = "hold"
    WRONG_FUNCTION = "wrong_function"
    LOW_BATTERY = "low_battery"
    OPEN_SENSOR = "open_sensor"
    MEMORY_OVERFLOW = "memory_overflow"
    UNREADABLE = "unreadable"
    RANGE_CHANGED = "range_changed"
    STUCK = "stuck"
    DUPLICATE = "duplicate"
    LOST = "lost"
    MARKER = "marker"


BESIDE_VALUES = frozenset(
    {
        Status.LOW_BATTERY,
        Status.RANGE_CHANGED,
        Status.STUCK,
        Status.DUPLICATE,
        Status.LOST,
        Status.MARKER,
    }
)
"""Statuses about the series of readings: the values around them stay valid."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Limits of error of a reading: ±(``of_reading`` · abs(reading) + ``floor``).

    ``of_reading`` is a fraction (50e-6 = 0.005 %), ``floor`` is in the channel's unit (the
    "% of range" part times the range, plus the counts). ``source`` is where they are published.
    """

    of_reading: float
    floor: float
    source: str

    def limit(self, value: float) -> float:
        """Largest error of a reading of ``value``, in the channel's unit."""
        return self.of_reading * abs(value) + self.floor


NO_STATED_ACCURACY: Final = Accuracy(0.0, 0.0, "")
"""Of what measures without limits of error that anybody states: no uncertainty follows from it."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One quantity of one instrument, described once.

    ``interval_s`` is the nominal time between readings and ``aperture_s`` the integration time
    of one. ``clock_tick_s`` is the resolution of a device clock as the host samples it (0 for a
    host clock): see ``ClockPair``. ``time_u_s`` is the half-width of the uncertainty of a
    reading's time that remains when its clock is mapped perfectly (conversion latency, a USB
    adapter's latency timer, half the resolution of the device's own stamps: a driver centres
    those). ``mains_hz`` is the mains frequency that the integration time was chosen for; 0 where
    it is not known. ``dither`` is the share of ``interval_s`` from which the moment of each reading
    is drawn at random: 0 for regular readings, 1 where two may be up to two intervals apart.
    """

    name: str
    quantity: Quantity
    clock: Clock
    interval_s: float
    aperture_s: float
    accuracy: Accuracy
    range: float | None = None
    clock_tick_s: float = 0.0
    time_u_s: float = 0.0
    mains_hz: float = 0.0
    dither: float = 0.0

    @property
    def unit(self) -> str:
        """The unit of its values, as printed."""
        return UNITS[self.quantity]


@dataclass(frozen=True, slots=True)
class Block:
    """Readings of one channel: ``t_ns`` int64 (middle of each window), ``values`` float64.

    ``t_ns`` is on the clock that the channel names: the host's, or raw device time.
    """

    channel: str
    t_ns: NDArray[np.int64]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class StatusReading:
    """``count`` readings with one status instead of a value, on the clock of their channel."""

    channel: str
    t_ns: int
    status: Status
    detail: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class ClockPair:
    """One sample of a device clock.

    At some moment between ``host_ns - round_trip_ns`` and ``host_ns`` (host clock) the device
    clock stood between ``device_ns`` and ``device_ns`` + the channel's ``clock_tick_s``. A
    device that only sends has ``round_trip_ns`` = 0: then only the later bound is known.

    A device clock begins anew when the device is started again (reconnected, memory overflow):
    a new *epoch*. The k-th epoch of an instrument begins at k times 1e6 s (1e15 ns), so
    ``device_ns // EPOCH_NS`` tells epochs apart, for pairs and for readings; each epoch is mapped
    with its own pairs alone. A driver counts epochs from 0. A process that resumes a run adds the
    number of epochs that the run already has. Device time that goes backwards is a new epoch too.

    For a channel on the host's clock a pair marks an answer that came later than the channel's
    ``time_u_s`` allows for: the time of the reading ``device_ns`` is known to ± half of
    ``round_trip_ns``.
    """

    channel: str
    device_ns: int
    host_ns: int
    round_trip_ns: int


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of one call of ``read``; any part may be empty."""

    blocks: tuple[Block, ...] = ()
    statuses: tuple[StatusReading, ...] = ()
    clock_pairs: tuple[ClockPair, ...] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity that an instrument gives: maker, model, serial number, firmware."""

    maker: str
    model: str
    serial: str = ""
    firmware: str = ""
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return " ".join(part for part in (self.maker, self.model, self.serial) if part)
