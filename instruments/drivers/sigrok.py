"""A bridge to ``sigrok-cli`` for meters that only it knows.

Its disadvantages: the output has no times, so a reading's time is its arrival, through a program
and a pipe; values are 32-bit floats, rounded to what the meter shows; nothing can be asked of
the meter. A driver of its own is better where there is one.

``sigrok-cli -d DRIVER:conn=… --continuous -O analog`` prints a line a reading:
``P1: 12.34 V DC AUTO``, with SI prefixes; overload is ``inf``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import Field

from instruments.driver_kit.base_settings import DriverSettings, NotNegative
from instruments.driver_kit.batches import blocks_and_statuses
from instruments.drivers import Driver
from instruments.errors import ProtocolError
from instruments.reading import (
    UNITS,
    Accuracy,
    Batch,
    Block,
    Channel,
    Clock,
    HostClock,
    Identity,
    Quantity,
    Status,
    StatusReading,
)
from instruments.transports.lines import ByteLine
from instruments.transports.process_line import ProcessLine

_FLOAT32_ROUNDING: Final = 2.0**-24
"""Relative rounding of a 32-bit float."""
_LINE: Final = re.compile(r"(?P<channel>[^:]+): (?P<value>\S+) (?P<unit>\S+)(?P<flags>( \S+)*)")
_PREFIXES: Final[Mapping[str, float]] = {
    "p": 1e-12,
    "n": 1e-9,
    "µ": 1e-6,
    "u": 1e-6,
    "m": 1e-3,
    "": 1.0,
    "k": 1e3,
    "M": 1e6,
}
_NOT_PRESENT_VALUE: Final = frozenset({"MAX", "MIN", "AVG", "REL", "RELATIVE"})
_FIRST_READING_S: Final = 1.0

SafeWord = Annotated[str, Field(pattern=r"^[A-Za-z0-9_./:+-]*$")]


class SigrokSettings(DriverSettings):
    """Which driver of sigrok, where the meter is, and what it measures."""

    sigrok_driver: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    """As ``sigrok-cli -L`` lists it: ``brymen-bm86x``."""
    conn: SafeWord = ""
    """``/dev/ttyUSB0``, or a USB VID.PID: what sigrok calls ``conn``."""
    options: Mapping[SafeWord, SafeWord] = {}
    """Further options of the driver: ``serialcomm``, ``modbusaddr`` …"""
    config: Mapping[SafeWord, SafeWord] = {}
    """What sigrok-cli sets before it begins (``-c``): ``samplerate`` …"""
    channel: SafeWord = "P1"
    quantity: Literal["voltage", "current", "power", "temperature"]
    interval_s: Annotated[float, Field(gt=0, le=60, allow_inf_nan=False)] = 0.5
    accuracy_pct_of_reading: NotNegative
    accuracy_floor: NotNegative
    command: Annotated[str, Field(min_length=1)] = "sigrok-cli"

    def arguments(self) -> list[str]:
        """The command line."""
        parts = [self.sigrok_driver]
        if self.conn:
            parts.append(f"conn={self.conn}")
        parts += [f"{key}={value}" for key, value in self.options.items()]
        command = [self.command, "-d", ":".join(parts)]
        if self.config:
            command += ["-c", ":".join(f"{key}={value}" for key, value in self.config.items())]
        return [*command, "-C", self.channel, "--continuous", "-O", "analog"]

    def line(self, name: str) -> ProcessLine:
        """The program's output, not started yet."""
        advice = f"is the meter connected, and is {self.sigrok_driver} its driver?"
        return ProcessLine(name, self.arguments(), "sigrok-cli", advice)


@dataclass(frozen=True, slots=True)
class SigrokLine:
    """One line of the output; ``value`` in ``unit`` without a prefix."""

    channel: str
    value: float
    unit: str
    flags: frozenset[str]


def parse_line(text: str) -> SigrokLine:
    """A parsed line. Raises ProtocolError where it is none."""
    match = _LINE.fullmatch(text.strip())
    if match is None:
        raise ProtocolError(f"no reading: {text[:60]!r}")
    try:
        value = float(match["value"])
    except ValueError:
        raise ProtocolError(f"no number: {text[:60]!r}") from None
    flags = frozenset(match["flags"].split())
    for unit in sorted(UNITS.values(), key=len, reverse=True):
        prefix = match["unit"].removesuffix(unit)
        if match["unit"].endswith(unit) and prefix in _PREFIXES:
            return SigrokLine(match["channel"], value * _PREFIXES[prefix], unit, flags)
    return SigrokLine(match["channel"], value, match["unit"], flags)


def reading_of(line: SigrokLine, quantity: Quantity) -> tuple[float | Status, str]:
    """The reading that a line brings, or why it brings none."""
    if line.unit != UNITS[quantity]:
        return Status.WRONG_FUNCTION, f"measures {line.unit}, not {UNITS[quantity]}"
    if "AC" in line.flags or line.flags & _NOT_PRESENT_VALUE:
        return Status.WRONG_FUNCTION, f"shows {' '.join(sorted(line.flags))}"
    if math.isinf(line.value):
        return Status.OVERLOAD, ""
    if math.isnan(line.value):
        return Status.NO_VALUE, ""
    return (Status.HOLD, "") if "HOLD" in line.flags else (line.value, "")


class Sigrok:
    """One meter behind sigrok-cli. Its channel is the quantity, on the host's clock."""

    def __init__(
        self, name: str, settings: SigrokSettings, clock: HostClock, line: ByteLine | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._line = line or settings.line(name)
        self._first = (b"", 0)
        self._rest = b""
        self._channel = Channel(
            name=settings.quantity,
            quantity=Quantity(settings.quantity),
            clock=Clock.HOST,
            interval_s=settings.interval_s,
            aperture_s=settings.interval_s,
            accuracy=Accuracy(
                settings.accuracy_pct_of_reading / 100 + _FLOAT32_ROUNDING,
                settings.accuracy_floor,
                "the rig (values are 32-bit floats)",
            ),
            time_u_s=settings.interval_s,
        )
        self.channels = (self._channel,)

    def open(self) -> Identity:
        """Start sigrok-cli. Raises SettingRefused where it is not installed."""
        self._line.open()
        notes = ("through sigrok-cli: arrival times, 32-bit floats",)
        return Identity("sigrok", self._settings.sigrok_driver, notes=notes)

    def start(self) -> None:
        """It streams by itself; make sure that it has not given up at once."""
        self._rest = b""
        data = self._line.read_some(_FIRST_READING_S)
        self._first = data, self._clock()

    def read(self) -> Batch:
        """The lines that have come in. The end of sigrok-cli is a ConnectionLost."""
        (data, arrived_ns), self._first = self._first, (b"", 0)
        if not data:
            data = self._line.read_some(0.5)
            arrived_ns = self._clock()
        *lines, self._rest = (self._rest + data).split(b"\n")
        blocks: list[Block] = []
        statuses: list[StatusReading] = []
        half_ns = round(self._settings.interval_s / 2 * 1e9)
        for back, raw in zip(range(len(lines) - 1, -1, -1), lines, strict=True):
            t_ns = arrived_ns - half_ns - 2 * half_ns * back
            try:
                line = parse_line(raw.decode(errors="replace"))
                if line.channel != self._settings.channel:
                    continue
                reading, detail = reading_of(line, self._channel.quantity)
            except ProtocolError as error:
                reading, detail = Status.UNREADABLE, str(error)
            found, new = blocks_and_statuses(self._channel.name, [t_ns], [reading], detail)
            blocks += found
            statuses += new
        return Batch(tuple(blocks), tuple(statuses))

    def close(self) -> None:
        """End sigrok-cli."""
        self._line.close()


DRIVER: Final = Driver(SigrokSettings, Sigrok)
