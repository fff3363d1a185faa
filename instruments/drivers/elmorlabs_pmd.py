"""ElmorLabs PMD2 and PMD-USB: boards between a power supply and a mainboard, on a serial port.

A PMD2 has the rails of the 24-pin connector, a PMD-USB only 12 V connectors. One question is
answered with all rails at once; the answer has no time, so the time is the host's
(:mod:`instruments.drivers.elmorlabs_pmd_frames` has the bytes and their sources).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, ValidationInfo, field_validator

from instruments.driver_kit.base_settings import (
    NotNegative,
    PolledSettings,
    QuantityLimits,
    SerialSettings,
)
from instruments.driver_kit.batches import batch_of_readings
from instruments.driver_kit.polling_ticks import Ticks, dither_share
from instruments.driver_kit.serial_sign import SerialSign
from instruments.drivers import Driver
from instruments.drivers.elmorlabs_pmd_frames import (
    CONFIG_BYTES,
    MAKER,
    MODELS,
    NAME_BEGIN,
    READ_CONFIG,
    READ_ID,
    WELCOME,
    RailValues,
    parse_id,
    parse_pmd2,
    parse_pmd_offsets,
    parse_pmd_usb,
)
from instruments.errors import ProtocolError, WrongInstrument
from instruments.reading import (
    Batch,
    Channel,
    Clock,
    ClockPair,
    HostClock,
    Identity,
    Quantity,
    Status,
)
from instruments.transports.lines import ByteLine, SerialFormat
from instruments.transports.serial_line import ask_for_reply

FORMAT: Final = SerialFormat(baud=115200)
_ANSWER_S: Final = 1.0
"""A board answers in milliseconds; a host that is busy may read it late."""
_QUIET_S: Final = 0.1
_LEAST_INTERVAL_S: Final = 0.02
_WIRE_U_S: Final = 0.005
"""Half of the time that a question and its answer usually take, with USB between."""
_SHORTEST_AVERAGE_S: Final = 263e-6
"""The shortest of the averages that a PMD2 can be set to (the maker's program); the longest is 135
ms. Which one is set cannot be read in the same way from all firmware."""


class ElmorlabsPmdSettings(SerialSettings, PolledSettings, QuantityLimits):
    """Which board, which of its rails, and limits of error, as the maker publishes none."""

    line_format: ClassVar[SerialFormat] = FORMAT

    model: Literal["PMD2", "PMD-USB"]
    rails: Annotated[tuple[str, ...], Field(min_length=1)]
    serial: Annotated[str, Field(pattern=r"^([0-9a-f]{24})?$")] = ""
    """The number that a PMD2 answers; empty: any."""
    interval_s: Annotated[float, Field(ge=_LEAST_INTERVAL_S, le=3600)] = 0.05
    averaged_s: Annotated[float, Field(ge=_SHORTEST_AVERAGE_S, le=1)] = _SHORTEST_AVERAGE_S
    voltage_pct_of_reading: NotNegative
    voltage_floor_volts: NotNegative
    current_pct_of_reading: NotNegative
    current_floor_amps: NotNegative

    @field_validator("rails")
    @classmethod
    def _has_rails(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        model = MODELS.get(info.data.get("model", ""))
        unknown = [rail for rail in value if model is not None and rail not in model.rails]
        if model is not None and unknown:
            raise ValueError(f"no {', '.join(unknown)}; it has {', '.join(model.rails)}")
        if len(set(value)) != len(value):
            raise ValueError("must name each rail once")
        return value


class ElmorlabsPmd:
    """One board. Channels ``voltage_atx_12v`` and ``current_atx_12v`` … of each rail."""

    def __init__(
        self,
        name: str,
        settings: ElmorlabsPmdSettings,
        clock: HostClock,
        line: ByteLine | None = None,
    ) -> None:
        self._name = name
        self._settings = settings
        self._clock = clock
        self._line = line or settings.line(name)
        self._model = MODELS[settings.model]
        self._places = [self._model.rails.index(rail) for rail in settings.rails]
        self._offsets: tuple[int, ...] = ()
        self._ticks = Ticks(settings.interval_s, dither=settings.dither)
        self.channels = tuple(
            self._channel(rail, quantity)
            for rail in settings.rails
            for quantity in (Quantity.VOLTAGE, Quantity.CURRENT)
        )

    def _channel(self, rail: str, quantity: Quantity) -> Channel:
        settings = self._settings
        return Channel(
            name=f"{quantity.value}_{rail}",
            quantity=quantity,
            clock=Clock.HOST,
            interval_s=settings.interval_s,
            aperture_s=settings.averaged_s,
            accuracy=settings.limits(quantity),
            time_u_s=_WIRE_U_S + settings.averaged_s / 2,
            dither=dither_share(settings.dither, settings.interval_s, settings.averaged_s),
        )

    def open(self) -> Identity:
        """Ask for its name, identity and firmware, and see that its answer is as long as known."""
        settings, model = self._settings, self._model
        self._line.open()
        self._line.discard(_QUIET_S)  # it may greet whoever opens the port
        greeting = self._answer(WELCOME)
        name = greeting.rstrip(b"\0").decode("ascii", errors="replace")
        if name != f"ElmorLabs {settings.model}":
            raise WrongInstrument(
                f"{self._name}: expected an ElmorLabs {settings.model}, this is {name[:40]!r}; "
                "does another program use it, or has one left it sending? Unplug it and plug it in"
            )
        maker, product, firmware = self._parsed_id()
        if (maker, product) != (MAKER, model.product):
            raise WrongInstrument(
                f"{self._name}: a {settings.model} has the identity {MAKER:02x} {model.product:02x}"
                f", this one {maker:02x} {product:02x}"
            )
        self._offsets = self._read_offsets(firmware) if settings.model == "PMD-USB" else ()
        serial = self._answer(b"\x02").hex() if settings.model == "PMD2" else ""
        if settings.serial and serial != settings.serial:
            raise WrongInstrument(
                f"{self._name}: the rig says serial {settings.serial}, this one is {serial}"
            )
        answer = self._answer(model.question)
        if len(answer) != model.answer_bytes:
            raise WrongInstrument(
                f"{self._name}: firmware {firmware} answers with {len(answer)} bytes of values "
                f"instead of {model.answer_bytes}: how they are laid out is not known here"
            )
        return Identity("ElmorLabs", settings.model, serial, f"{firmware}")

    def start(self) -> None:
        """Begin to poll; nothing is set at the board."""
        self._ticks.restart()

    def read(self) -> Batch:
        """One answer at each tick, with all rails."""
        if not self._ticks.wait(0.5):
            return Batch()
        self._line.discard()
        model = self._model
        asked_ns = self._clock()
        answer = ask_for_reply(
            self._line,
            model.question,
            lambda data: data if len(data) >= model.answer_bytes else b"",
            _ANSWER_S,
            f"{self._name}: no answer within {_ANSWER_S:g} s; is it still on?",
        )
        answered_ns = self._clock()
        averaged_ns = self._settings.averaged_s * 1e9
        t_ns = round((asked_ns + answered_ns - averaged_ns) / 2)
        try:
            rails = self._parsed(answer)
        except ProtocolError as error:
            return batch_of_readings(
                (channel.name, t_ns, Status.UNREADABLE, str(error)) for channel in self.channels
            )
        values = [
            value for place in self._places for value in (rails[place].volts, rails[place].amps)
        ]
        batch = batch_of_readings(
            (channel.name, t_ns, value, "")
            for channel, value in zip(self.channels, values, strict=True)
        )
        late_ns = answered_ns - asked_ns
        if late_ns / 2 <= _WIRE_U_S * 1e9:
            return batch
        pairs = tuple(ClockPair(one.name, t_ns, answered_ns, late_ns) for one in self.channels)
        return Batch(batch.blocks, batch.statuses, pairs)

    def close(self) -> None:
        """Close the port."""
        self._line.close()

    def _parsed(self, answer: bytes) -> tuple[RailValues, ...]:
        if self._settings.model == "PMD2":
            return parse_pmd2(answer)
        return parse_pmd_usb(answer, self._offsets)

    def _parsed_id(self) -> tuple[int, int, int]:
        try:
            return parse_id(self._answer(READ_ID))
        except ProtocolError as error:
            raise ProtocolError(f"{self._name}: {error}") from None

    def _read_offsets(self, firmware: int) -> tuple[int, ...]:
        """The calibration offsets that the board keeps, which its own program adds, too."""
        wanted = next(size for below, size in CONFIG_BYTES if firmware < below)
        config = self._answer(READ_CONFIG)
        if len(config) != wanted:
            raise WrongInstrument(
                f"{self._name}: firmware {firmware} answers with {len(config)} bytes of "
                f"configuration instead of {wanted}: its calibration is not known here"
            )
        return parse_pmd_offsets(config)

    def _answer(self, question: bytes) -> bytes:
        """All that comes after a question, until nothing comes. Raises NoAnswer."""
        self._line.discard()
        no_answer = (
            f"{self._name}: no answer to its commands within {_ANSWER_S:g} s; is it an "
            f"ElmorLabs {self._settings.model}, at 115200 baud?"
        )
        data = ask_for_reply(self._line, question, bytes, _ANSWER_S, no_answer)
        while len(data) < 4096 and (more := self._line.read_some(_QUIET_S)):
            data += more
        return data


DRIVER: Final = Driver(
    ElmorlabsPmdSettings,
    ElmorlabsPmd,
    SerialSign("ElmorLabs PMD", FORMAT, WELCOME, lambda data: NAME_BEGIN + b"PMD" in data),
)
