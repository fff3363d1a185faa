"""Center 309 and Voltcraft K204: a logger for four type K thermocouples.

9600 baud 8N1; ``A`` asks for the present values (maker's protocol sheet "309"). The reply has 45
bytes, counted from 0:

    0 STX (02)   1 flags: recording, mode (2 bits: normal, max, min, max-min), T1-T2, relative,
    hold, battery low, Celsius   7-14 four big-endian values   39 overload of each channel
    43 resolution of each channel: 0 tenths, 1 whole degrees   44 ETX (03)

An open thermocouple shows as overload. A reading is up to one measuring cycle old, which the
sheet does not give: ``time_u_s`` says one second, little against the time constant of a probe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, field_validator

from instruments.driver_kit.base_settings import (
    AccuracySettings,
    NotNegative,
    PolledSettings,
    Positive,
    SerialSettings,
)
from instruments.driver_kit.batches import batch_of_readings
from instruments.driver_kit.polling_ticks import Ticks, dither_share
from instruments.driver_kit.serial_sign import SerialSign
from instruments.drivers import Driver
from instruments.errors import ProtocolError
from instruments.reading import (
    Accuracy,
    Batch,
    Channel,
    Clock,
    HostClock,
    Identity,
    Quantity,
    Status,
    StatusReading,
)
from instruments.transports.lines import ByteLine, SerialFormat
from instruments.transports.serial_line import ask_for_reply

REPLY_BYTES: Final = 45
FORMAT: Final = SerialFormat(baud=9600)
SENSORS: Final = ("t1", "t2", "t3", "t4")
_STX, _ETX = 0x02, 0x03
_ANSWER_S: Final = 1.0
_MEASURING_CYCLE_S: Final = 1.0
_OF_READING: Final = 0.002
_FLOOR_KELVIN: Final = 1.0
"""±(0.2 % + 1 K) from -200 to 200 °C: Voltcraft Thermologger 309 manual."""

Sensor = Literal["t1", "t2", "t3", "t4"]


@dataclass(frozen=True, slots=True)
class K204Reply:
    """One decoded reply; ``celsius`` is None for an open sensor."""

    celsius: tuple[float | None, ...]
    hold: bool
    low_battery: bool
    relative: bool
    extreme: bool
    """Maximum or minimum mode."""


def decode(reply: bytes) -> K204Reply:
    """A decoded reply. Raises ProtocolError where it is none."""
    if len(reply) != REPLY_BYTES or reply[0] != _STX or reply[44] != _ETX:
        raise ProtocolError(f"expected 45 bytes from 02 to 03, got {len(reply)}: {reply[:8]!r}…")
    flags = reply[1]
    celsius: list[float | None] = []
    for i in range(len(SENSORS)):
        count = int.from_bytes(reply[7 + 2 * i : 9 + 2 * i], "big", signed=True)
        degrees = float(count) if reply[43] >> i & 1 else count / 10
        if not flags & 0x80:
            degrees = (degrees - 32) / 1.8
        celsius.append(None if reply[39] >> i & 1 else degrees)
    return K204Reply(
        celsius=tuple(celsius),
        hold=bool(flags & 0x20),
        low_battery=bool(flags & 0x40),
        relative=bool(flags & 0x10),
        extreme=bool(flags & 0x06),
    )


def find_reply(data: bytes) -> bytes:
    """The first bytes that are framed as a reply, whatever stands before them; empty: none yet."""
    for start in range(len(data) - REPLY_BYTES + 1):
        if data[start] == _STX and data[start + REPLY_BYTES - 1] == _ETX:
            return data[start : start + REPLY_BYTES]
    return b""


class K204Settings(SerialSettings, AccuracySettings, PolledSettings):
    """The serial port and which inputs have a thermocouple."""

    line_format: ClassVar[SerialFormat] = FORMAT

    sensors: Annotated[tuple[Sensor, ...], Field(min_length=1)] = ("t1",)
    interval_s: Positive = 1.0
    probe_limit_kelvin: NotNegative = 2.2
    """Limit of error of the thermocouple itself: 2.2 K for the probe that comes with it."""

    @field_validator("sensors")
    @classmethod
    def _each_once(cls, value: tuple[Sensor, ...]) -> tuple[Sensor, ...]:
        if len(set(value)) != len(value):
            raise ValueError("must name each sensor once")
        return value


def accuracy_of(settings: K204Settings) -> Accuracy:
    """Logger and probe together, up to 200 °C."""
    return settings.rig_accuracy or Accuracy(
        _OF_READING,
        _FLOOR_KELVIN + settings.probe_limit_kelvin,
        "Voltcraft Thermologger 309 manual, and the probe's limit",
    )


class K204:
    """One logger. Its channels are ``t1`` … ``t4``, those named in the settings."""

    def __init__(
        self, name: str, settings: K204Settings, clock: HostClock, line: ByteLine | None = None
    ) -> None:
        self._name = name
        self._settings = settings
        self._clock = clock
        self._line = line or settings.line(name)
        self._ticks = Ticks(settings.interval_s, dither=settings.dither)
        self._low_battery = False
        self.channels = tuple(
            Channel(
                name=sensor,
                quantity=Quantity.TEMPERATURE,
                clock=Clock.HOST,
                interval_s=settings.interval_s,
                aperture_s=0.0,
                accuracy=accuracy_of(settings),
                time_u_s=_MEASURING_CYCLE_S,
                dither=dither_share(settings.dither, settings.interval_s, 0.0),
            )
            for sensor in settings.sensors
        )

    def open(self) -> Identity:
        """Open the port and make sure that something answers like a K204."""
        self._line.open()
        self._line.discard()
        reply = self._ask()
        try:
            decode(reply)
        except ProtocolError as error:
            raise ProtocolError(f"{self._name}: {error}; is it a Center 309 or K204?") from None
        return Identity("Center", "309 / K204", notes=("it cannot be asked for its identity",))

    def start(self) -> None:
        """Begin to poll; the meter has no settings."""
        self._low_battery = False
        self._ticks.restart()

    def read(self) -> Batch:
        """One reply at each tick."""
        if not self._ticks.wait(0.5):
            return Batch()
        self._line.discard()
        t_ns = self._clock()
        answer = self._ask()
        try:
            reply = decode(answer)
        except ProtocolError as error:
            sensors = self._settings.sensors
            return batch_of_readings(
                (sensor, t_ns, Status.UNREADABLE, str(error)) for sensor in sensors
            )
        batch = batch_of_readings(
            (sensor, t_ns, *self._sensor_reading(reply, sensor))
            for sensor in self._settings.sensors
        )
        if reply.low_battery and not self._low_battery:
            first = self.channels[0].name
            low_battery = StatusReading(first, t_ns, Status.LOW_BATTERY, "change its battery")
            batch = Batch(batch.blocks, (*batch.statuses, low_battery))
        self._low_battery = reply.low_battery
        return batch

    def close(self) -> None:
        """Close the port."""
        self._line.close()

    def _ask(self) -> bytes:
        """What comes after ``A``: a whole reply if there is one. Raises NoAnswer."""
        no_answer = (
            f"{self._name}: no answer within {_ANSWER_S:g} s; is it on (auto power off?) and "
            "its cable plugged in?"
        )
        return ask_for_reply(self._line, b"A", find_reply, _ANSWER_S, no_answer)

    @staticmethod
    def _sensor_reading(reply: K204Reply, sensor: Sensor) -> tuple[float | Status, str]:
        if reply.relative or reply.extreme:
            return Status.WRONG_FUNCTION, "shows a relative, maximum or minimum value"
        celsius = reply.celsius[SENSORS.index(sensor)]
        if celsius is None:
            return Status.OPEN_SENSOR, "no thermocouple, or out of range"
        return (Status.HOLD, "") if reply.hold else (celsius, "")


DRIVER: Final = Driver(
    K204Settings, K204, SerialSign("Center 309 / Voltcraft K204", FORMAT, b"A", find_reply)
)
