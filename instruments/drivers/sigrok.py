"""A bridge to ``sigrok-cli`` for meters that only it knows.

Its disadvantages: the output has no times, so a reading's time is its arrival, through a program
and a pipe; values are 32-bit floats, rounded to what the meter shows; nothing can be asked of
the meter. A driver of its own is better where there is one.

``sigrok-cli -d DRIVER:conn=… --continuous -O analog`` prints a line a reading:
``P1: 12.34 V DC AUTO``, with SI prefixes; overload is ``inf``. The range is not printed, but the
last digit shows it. Some parsers of libsigrok 0.5.2 print fewer digits than the meter shows (Metex
in mV and mA) or shift the point (ES51986 on its 10 A range): the last digit shows that, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from instruments.driver_kit.base_settings import DriverSettings, NotNegative
from instruments.driver_kit.batches import blocks_and_statuses
from instruments.driver_kit.repeated_frames import RepeatedFrames
from instruments.drivers import Driver
from instruments.drivers.sigrok_signs import SIGNS
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
_LINE: Final = re.compile(r"(?P<channel>[^:]+): (?P<value>\S+) (?P<unit>\S*)(?P<flags>( \S+)*)")
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
_PRESENT_DC: Final = frozenset({"DC", "AUTO", "HOLD", "4-WIRE"})
"""The flags beside a present value on DC: with AC, RMS, DIODE, MAX, MIN, AVG, REL … it is not one.
Some meters send no DC (UT71)."""
_FIRST_READING_S: Final = 4.0
"""sigrok-cli waits 3 s for a first frame that it knows."""
_DIGIT_TOLERANCE: Final = 1.01

SafeWord = Annotated[str, Field(pattern=r"^[A-Za-z0-9_./:+-]*$")]


def _without_colon(value: str) -> str:
    if ":" in value:
        raise ValueError(
            "sigrok-cli parts a driver's options at colons: name a port by its path in "
            "/dev/serial/by-id, a USB device as VID.PID"
        )
    return value


PartOfDriver = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_./:+=-]*$"), AfterValidator(_without_colon)
]
"""A value behind ``-d``: ``2400/8n1/rts=0/dtr=1``, ``hid/cp2110/raw=/dev/hidraw0``."""


class SigrokSettings(DriverSettings):
    """Which driver of sigrok, where the meter is, and what it measures."""

    sigrok_driver: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    """As ``sigrok-cli -L`` lists it: ``brymen-bm86x``."""
    conn: PartOfDriver = ""
    """``/dev/ttyUSB0``, or a USB VID.PID: what sigrok calls ``conn``."""
    options: Mapping[SafeWord, PartOfDriver] = {}
    """Further options of the driver: ``serialcomm``, ``modbusaddr`` …"""
    config: Mapping[SafeWord, SafeWord] = {}
    """What sigrok-cli sets before it begins (``-c``): ``samplerate`` …"""
    channel: SafeWord = "P1"
    quantity: Literal["voltage", "current", "power", "temperature"]
    interval_s: Annotated[float, Field(gt=0, le=60, allow_inf_nan=False)] = 0.5
    accuracy_pct_of_reading: NotNegative
    accuracy_floor: NotNegative
    """The counts of the manual times the value of a count, in the largest range it is used in."""
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
        advice = (
            f"does the meter send, on this cable, and are these the frames of {self.sigrok_driver}?"
        )
        return ProcessLine(name, self.arguments(), "sigrok-cli", advice)


@dataclass(frozen=True, slots=True)
class SigrokLine:
    """One line of the output; ``value`` in ``unit`` without a prefix."""

    channel: str
    value: float
    last_digit: float
    """What one count of the last printed digit is, in ``unit``; 0 where there are no digits."""
    unit: str
    flags: frozenset[str]


def parse_line(text: str) -> SigrokLine:
    """A parsed line. Raises ProtocolError where it is none."""
    match = _LINE.fullmatch(text.rstrip("\r\n"))
    if match is None:
        raise ProtocolError(f"no reading: {text[:60]!r}")
    try:
        value = float(match["value"])
    except ValueError:
        raise ProtocolError(f"no number: {text[:60]!r}") from None
    last_digit = 10.0 ** -len(match["value"].partition(".")[2]) if math.isfinite(value) else 0.0
    unit, factor = _without_prefix(match["unit"])
    flags = frozenset(match["flags"].split())
    return SigrokLine(match["channel"], value * factor, last_digit * factor, unit, flags)


def _without_prefix(printed: str) -> tuple[str, float]:
    """The unit and the factor of its prefix; a unit that no quantity has is left as it is."""
    for unit in sorted(UNITS.values(), key=len, reverse=True):
        prefix = printed.removesuffix(unit)
        if printed.endswith(unit) and prefix in _PREFIXES:
            return unit, _PREFIXES[prefix]
    return printed, 1.0


def reading_of(line: SigrokLine, settings: SigrokSettings) -> tuple[float | Status, str]:
    """The reading that a line brings under these settings, or why it brings none."""
    unit = UNITS[Quantity(settings.quantity)]
    if line.unit != unit:
        measured = f"measures {line.unit}" if line.unit else "measures something without a unit"
        return Status.WRONG_FUNCTION, f"{measured}, not {unit}"
    if line.flags - _PRESENT_DC:
        return Status.WRONG_FUNCTION, f"shows {' '.join(sorted(line.flags))}"
    if math.isinf(line.value):
        return Status.OVERLOAD, ""
    if math.isnan(line.value):
        return Status.NO_VALUE, ""
    if line.last_digit > settings.accuracy_floor * _DIGIT_TOLERANCE:
        return Status.WRONG_FUNCTION, (
            f"its last digit is {line.last_digit:.3g} {unit}, more than accuracy_floor "
            f"{settings.accuracy_floor:g}: a larger range, or digits that sigrok does not print"
        )
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
        self._last_digit = 0.0
        self._half_ns = round(settings.interval_s / 2 * 1e9)
        self._lines = RepeatedFrames(settings.quantity, settings.interval_s, self._half_ns)
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
        self._last_digit = 0.0
        self._lines.restart()
        data = self._line.read_some(_FIRST_READING_S)
        self._first = data, self._clock()

    def read(self) -> Batch:
        """The lines that have come in. The end of sigrok-cli is a ConnectionLost."""
        (data, arrived_ns), self._first = self._first, (b"", 0)
        if not data:
            data = self._line.read_some(0.5)
            arrived_ns = self._clock()
        *lines, self._rest = (self._rest + data).split(b"\n")
        channel = self._settings.channel.encode() + b":"
        lines, repeated = self._lines.taken_once(
            [line for line in lines if line.startswith(channel) or b":" not in line], arrived_ns
        )
        blocks: list[Block] = []
        statuses: list[StatusReading] = list(repeated)
        for back, raw in zip(range(len(lines) - 1, -1, -1), lines, strict=True):
            t_ns = arrived_ns - self._half_ns - 2 * self._half_ns * back
            try:
                line = parse_line(raw.decode(errors="replace"))
                reading, detail = reading_of(line, self._settings)
                if not isinstance(reading, Status):
                    statuses += self._range_changes(line, t_ns)
            except ProtocolError as error:
                reading, detail = Status.UNREADABLE, str(error)
            found, new = blocks_and_statuses(self._channel.name, [t_ns], [reading], detail)
            blocks += found
            statuses += new
        return Batch(tuple(blocks), tuple(statuses))

    def _range_changes(self, line: SigrokLine, t_ns: int) -> list[StatusReading]:
        """A status beside a value whose last digit is another than that of the value before."""
        before, self._last_digit = self._last_digit, line.last_digit
        if not before or math.isclose(before, line.last_digit):
            return []
        detail = f"the last digit is now {line.last_digit:.3g} {line.unit}"
        return [StatusReading(self._channel.name, t_ns - 1, Status.RANGE_CHANGED, detail, 0)]

    def close(self) -> None:
        """End sigrok-cli."""
        self._line.close()


DRIVER: Final = Driver(SigrokSettings, Sigrok, SIGNS)
