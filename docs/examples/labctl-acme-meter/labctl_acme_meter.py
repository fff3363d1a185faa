"""A driver for the Acme 42, a multimeter that does not exist.

It is made for reading: it sends a line four times a second over a serial port (9600 8N1),
``DCV +12.0340 V`` or ``DCV OL``, and answers ``?`` with its name, ``ACME 42 SN0001``.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import Field

from instruments.driver_kit.base_settings import DriverSettings
from instruments.driver_kit.batches import batch_of_readings
from instruments.driver_kit.serial_sign import SerialSign
from instruments.drivers import Driver
from instruments.errors import NoAnswer, ProtocolError, WrongInstrument
from instruments.reading import (
    Accuracy,
    Batch,
    Channel,
    Clock,
    HostClock,
    Identity,
    Quantity,
    Status,
)
from instruments.transports.lines import ByteLine, SerialFormat
from instruments.transports.serial_line import SerialLine

INTERVAL_S: Final = 0.25
CONVERSION_S: Final = 0.2
FORMAT: Final = SerialFormat(baud=9600)
_LINE = re.compile(r"(DCV|ACV) (OL|[+-]\d+\.\d+ V)")
_IDENTITY = re.compile(r"ACME 42 (\S+)")


class AcmeSettings(DriverSettings):
    """DC volts on the 20 V range."""

    port: Annotated[str, Field(min_length=1)]
    """Serial port, best ``/dev/serial/by-id/…``."""


def parse_line(text: str) -> float | Status:
    """Volts, or why there are none. Raises ProtocolError where the line is not the meter's."""
    match = _LINE.fullmatch(text.strip())
    if match is None:
        raise ProtocolError(f"expected a line of an Acme 42, got {text[:40]!r}")
    if match[1] != "DCV":
        return Status.WRONG_FUNCTION
    return Status.OVERLOAD if match[2] == "OL" else float(match[2].removesuffix(" V"))


def find_identity(data: bytes) -> str:
    """Its name among the bytes so far; empty: not yet. ``labctl instruments PORT`` asks for it."""
    match = _IDENTITY.search(data.decode("ascii", errors="replace"))
    return match[0] if match else ""


class Acme42:
    """One Acme 42. Its channel is ``voltage``, on the host's clock."""

    def __init__(
        self, name: str, settings: AcmeSettings, clock: HostClock, line: ByteLine | None = None
    ) -> None:
        self._name = name
        self._clock = clock
        self._line = line or SerialLine(name, settings.port, FORMAT)
        self._buffer = b""
        self._channel = Channel(
            name="voltage",
            quantity=Quantity.VOLTAGE,
            clock=Clock.HOST,
            interval_s=INTERVAL_S,
            aperture_s=CONVERSION_S,
            accuracy=Accuracy(0.05e-2, 2e-3, "Acme 42 manual, 1 year"),
            range=20.0,
            time_u_s=0.01,
        )

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The one channel: known before the meter is there."""
        return (self._channel,)

    def open(self) -> Identity:
        """Connect and make sure that it is an Acme 42."""
        self._line.open()
        self._line.discard(0.0)
        self._buffer = b""
        self._line.write(b"?")
        heard: list[str] = []
        for _ in range(4):
            for line, _ in self._lines():
                match = _IDENTITY.fullmatch(line)
                if match is not None:
                    return Identity("Acme", "42", match[1])
                heard.append(line)
        if heard:
            raise WrongInstrument(f"{self._name}: no Acme 42, it says {heard[0][:40]!r}")
        raise NoAnswer(f"{self._name}: silent; is the meter switched on?")

    def start(self) -> None:
        """Nothing to set up: it sends by itself."""

    def read(self) -> Batch:
        """The lines that have come in; waits at most half a second."""
        readings: list[tuple[str, int, float | Status, str]] = []
        for line, came_ns in self._lines():
            # The line took its time on the wire, and the conversion ended before that.
            on_the_wire_s = (len(line) + 2) * FORMAT.byte_s
            t_ns = came_ns - round((on_the_wire_s + CONVERSION_S / 2) * 1e9)
            try:
                readings.append(("voltage", t_ns, parse_line(line), ""))
            except ProtocolError as error:
                readings.append(("voltage", t_ns, Status.UNREADABLE, str(error)))
        return batch_of_readings(readings)

    def close(self) -> None:
        """Let go of the port; the meter has no remote mode to leave."""
        self._line.close()

    def _lines(self) -> list[tuple[str, int]]:
        """Whole lines with the host time at which their end came in."""
        self._buffer += self._line.read_some(0.5)
        now_ns = self._clock()
        *whole, self._buffer = self._buffer.split(b"\n")
        return [(line.decode("ascii", errors="replace").strip(), now_ns) for line in whole]


DRIVER = Driver(AcmeSettings, Acme42, SerialSign("Acme 42", FORMAT, b"?", find_identity))
"""What the entry point leads to."""
