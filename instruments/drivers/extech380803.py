"""Extech 380803 and 380801: power analysers at the mains plug, asked by a space.

9600 baud 8N1, DTR set and RTS clear: they power the meter's isolated interface. The answer is
four blocks of five bytes, ``02 xx low high 03``: watts, amps, volts, power factor. The 16 bits
of a value are a decimal number, each field with its lowest bit first (facts from the maker's
protocol as PowerTOP and extech-reader use it):

    bit 0 sign (1 is +)   1 first digit, 0 or 1   2-5, 6-9, 10-13 three digits
    14-15 decimal places

How an overload is coded is not known: digits above nine are ``unreadable``, never a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from pydantic import Field

from instruments.driver_kit.base_settings import (
    NotNegative,
    PolledSettings,
    QuantityLimits,
    SerialSettings,
)
from instruments.driver_kit.batches import batch_of_readings
from instruments.driver_kit.polling_ticks import LONGER, Ticks, dither_share
from instruments.driver_kit.serial_sign import SerialSign
from instruments.drivers import Driver
from instruments.errors import ProtocolError
from instruments.reading import (
    Batch,
    Channel,
    Clock,
    HostClock,
    Identity,
    Quantity,
    Status,
)
from instruments.transports.lines import ByteLine, SerialFormat
from instruments.transports.serial_line import ask_for_reply

FORMAT: Final = SerialFormat(baud=9600, rts=False, dtr=True)
BLOCK_BYTES: Final = 5
REPLY_BYTES: Final = 4 * BLOCK_BYTES
_STX, _ETX = 0x02, 0x03
_ANSWER_S: Final = 1.0
_CYCLE_S: Final = 0.4
"""It measures two and a half times a second."""


@dataclass(frozen=True, slots=True)
class ExtechReply:
    """One decoded answer."""

    watts: float
    amps: float
    volts: float
    power_factor: float


def decode_value(low: int, high: int) -> float:
    """The number in the two bytes of a block. Raises ProtocolError where they are none."""
    bits = high << 8 | low
    digits = [
        bits >> 1 & 1,
        *(_reversed_extech_bits(bits >> place & 0xF, 4) for place in (2, 6, 10)),
    ]
    if max(digits) > 9:
        raise ProtocolError(f"digits {digits}: {low:02x} {high:02x}")
    number = int("".join(map(str, digits))) / 10.0 ** _reversed_extech_bits(bits >> 14, 2)
    return number if bits & 1 else -number


def _reversed_extech_bits(field: int, width: int) -> int:
    return int(f"{field:0{width}b}"[::-1], 2)


def decode(reply: bytes) -> ExtechReply:
    """A decoded answer. Raises ProtocolError where it is none."""
    if not is_reply(reply):
        raise ProtocolError(f"expected four blocks 02 … 03, got {reply[:24].hex(' ')}")
    values = [decode_value(*reply[start + 2 : start + 4]) for start in range(0, REPLY_BYTES, 5)]
    found = ExtechReply(*values)
    if abs(found.power_factor) > 1.0:
        raise ProtocolError(f"a power factor of {found.power_factor:g}")
    return found


def is_reply(data: bytes) -> bool:
    """Whether the 20 bytes are four blocks."""
    return len(data) == REPLY_BYTES and all(
        data[start] == _STX and data[start + 4] == _ETX for start in range(0, REPLY_BYTES, 5)
    )


def find_reply(data: bytes) -> bytes:
    """The first whole answer in ``data``, whatever stands before it; empty: none yet."""
    for start in range(len(data) - REPLY_BYTES + 1):
        if is_reply(data[start : start + REPLY_BYTES]):
            return data[start : start + REPLY_BYTES]
    return b""


class Extech380803Settings(SerialSettings, PolledSettings, QuantityLimits):
    """The port, and the limits of error of each quantity in the ranges that are used."""

    line_format: ClassVar[SerialFormat] = FORMAT

    interval_s: Annotated[float, Field(ge=_CYCLE_S, le=3600)] = 0.5
    power_pct_of_reading: NotNegative
    power_floor_watts: NotNegative
    voltage_pct_of_reading: NotNegative
    voltage_floor_volts: NotNegative
    current_pct_of_reading: NotNegative
    current_floor_amps: NotNegative


class Extech380803:
    """One power analyser. Channels ``power``, ``voltage`` and ``current``."""

    def __init__(
        self,
        name: str,
        settings: Extech380803Settings,
        clock: HostClock,
        line: ByteLine | None = None,
    ) -> None:
        self._name = name
        self._settings = settings
        self._clock = clock
        self._line = line or settings.line(name)
        self._ticks = Ticks(settings.interval_s, dither=settings.dither, least_s=LONGER * _CYCLE_S)
        self.channels = tuple(
            Channel(
                name=quantity.value,
                quantity=quantity,
                clock=Clock.HOST,
                interval_s=settings.interval_s,
                aperture_s=_CYCLE_S,
                accuracy=settings.limits(quantity),
                # What it answers is up to one cycle old.
                time_u_s=_CYCLE_S / 2,
                dither=dither_share(settings.dither, settings.interval_s, _CYCLE_S),
            )
            for quantity in (Quantity.POWER, Quantity.VOLTAGE, Quantity.CURRENT)
        )

    def open(self) -> Identity:
        """Open the port and make sure that something answers like a 380803."""
        self._line.open()
        self._line.discard()
        try:
            decode(self._ask())
        except ProtocolError as error:
            raise ProtocolError(f"{self._name}: {error}; is it an Extech 380803?") from None
        return Identity("Extech", "380803", notes=("it cannot be asked for its identity",))

    def start(self) -> None:
        """Begin to poll; the meter has no settings."""
        self._ticks.restart()

    def read(self) -> Batch:
        """One answer at each tick."""
        if not self._ticks.wait(0.5):
            return Batch()
        self._line.discard()
        # A reading is the mean of the cycle before it is asked for.
        t_ns = self._clock() - round(_CYCLE_S / 2 * 1e9)
        try:
            reply = decode(self._ask())
        except ProtocolError as error:
            channels = self.channels
            return batch_of_readings(
                (c.name, t_ns, Status.UNREADABLE, str(error)) for c in channels
            )
        readings = zip(self.channels, (reply.watts, reply.volts, reply.amps), strict=True)
        return batch_of_readings((channel.name, t_ns, reading, "") for channel, reading in readings)

    def close(self) -> None:
        """Close the port."""
        self._line.close()

    def _ask(self) -> bytes:
        """What comes after a space: a whole answer if there is one. Raises NoAnswer."""
        no_answer = (
            f"{self._name}: no answer within {_ANSWER_S:g} s; is it on, and its isolated "
            "RS-232 cable plugged in?"
        )
        return ask_for_reply(self._line, b" ", find_reply, _ANSWER_S, no_answer)


DRIVER: Final = Driver(
    Extech380803Settings, Extech380803, SerialSign("Extech 380803", FORMAT, b" ", find_reply)
)
