"""UNI-T UT61E and other meters with the Cyrustek ES51922: they push 14-byte frames.

The frame (Cyrustek ES51922 data sheet; 19200 baud, 7 data bits, odd parity), all bytes 0x30-0x3F,
flags in their low four bits, bit 3 first:

    0 range   1-5 digits   6 function   7 judge, sign, battery low, overload
    8 max, min, relative, range mode   9 underload, peak max, peak min, 0
    10 DC, AC, auto, Hz   11 0, VBAR, hold, low-pass   12 CR   13 LF

The function comes with every frame, so a switch turned at night is a status, not a wrong value.
A frame is sent when its conversion is over: its time is the arrival of its last byte less the
14 bytes on the wire and half a conversion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field, ValidationInfo, field_validator

from instruments.drivers import specifications
from instruments.drivers.settings import AccuracySettings, DcFunction, Positive
from instruments.drivers.sorting import sort_readings
from instruments.errors import ProtocolError
from instruments.reading import (
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
from instruments.transports import ByteLine, SerialFormat, SerialLine

FRAME_BYTES: Final = 14
FORMAT: Final = SerialFormat(baud=19200, data_bits=7, parity="O", rts=False, dtr=True)
INTERVAL_S: Final = 0.5
"""Two conversions a second."""
_TIME_U_S: Final = 0.1
"""Where in its half second it integrates is not documented; USB adapters add up to 16 ms."""
_CR_LF: Final = b"\r\n"

_VOLTS = (1e-4, 1e-3, 1e-2, 1e-1, 1e-5)
_MICROAMPS = (1e-8, 1e-7)
_MILLIAMPS = (1e-6, 1e-5)
_AMPS = (1e-3,)
_MANUAL_AMPS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_OHMS = (1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3, 1e4)
_HERTZ = (1e-2, 1e-1, 1.0, 1.0, 1e1, 1e2, 1e3, 1e4)
_FARADS = (1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5)
_FUNCTIONS: Mapping[int, tuple[str, str, tuple[float, ...]]] = {
    0x3B: ("voltage", "V", _VOLTS),
    0x3D: ("current", "A", _MICROAMPS),
    0x3F: ("current", "A", _MILLIAMPS),
    0x30: ("current", "A", _AMPS),
    0x39: ("current", "A", _MANUAL_AMPS),
    0x33: ("resistance", "Ω", _OHMS),
    0x35: ("continuity", "Ω", _OHMS),
    0x31: ("diode", "V", (1e-4,)),
    0x32: ("frequency", "Hz", _HERTZ),
    0x36: ("capacitance", "F", _FARADS),
    0x34: ("temperature", "°C", (1e-1,)),
    0x3E: ("adapter", "", (1.0,) * 8),
}
"""Function byte: what it measures, unit, value of the last digit for each range."""

_COUNTS: Final = 22_000


@dataclass(frozen=True, slots=True)
class Frame:
    """One decoded frame. ``value`` is in ``unit``; it means nothing with ``overload``."""

    function: str
    unit: str
    value: float
    full_scale: float
    dc: bool
    ac: bool
    auto_range: bool
    overload: bool
    hold: bool
    low_battery: bool
    relative: bool
    extreme: bool
    """Maximum, minimum or peak instead of the present value."""


def decode(frame: bytes) -> Frame:
    """What a frame says. Raises ProtocolError where it is none."""
    if len(frame) != FRAME_BYTES or frame[12:] != _CR_LF:
        raise ProtocolError(f"expected 14 bytes that end with CR LF, got {frame[:20]!r}")
    if any(byte >> 4 != 3 for byte in frame[:12]):
        raise ProtocolError(f"bytes outside 0x30-0x3F: {frame!r}")
    status, option1, option2, option3, option4 = (byte & 0x0F for byte in frame[7:12])
    if frame[6] not in _FUNCTIONS:
        raise ProtocolError(f"unknown function byte 0x{frame[6]:02x}")
    function, unit, steps = _FUNCTIONS[frame[6]]
    if option3 & 1 and function in ("voltage", "current"):
        function, unit, steps = "frequency", "Hz", _HERTZ
    if function == "frequency" and status & 8:
        function, unit, steps = "duty cycle", "%", (0.1,) * 8
    overload = bool(status & 1 or option2 & 8)
    range_index = frame[0] & 0x0F
    if range_index >= len(steps):
        raise ProtocolError(f"{function} has no range {range_index}")
    digits = frame[1:6]
    if not digits.isdigit() and not overload:
        raise ProtocolError(f"digits {digits!r}")
    count = 0 if overload else int(digits)
    full_scale = _full_scale(function, steps[range_index])
    return Frame(
        function=function,
        unit=unit,
        value=(-count if status & 4 else count) * steps[range_index],
        full_scale=full_scale,
        dc=bool(option3 & 8),
        ac=bool(option3 & 4),
        auto_range=bool(option3 & 2),
        overload=overload,
        hold=bool(option4 & 2),
        low_battery=bool(status & 2),
        relative=bool(option1 & 2),
        extreme=bool(option1 & 12 or option2 & 6),
    )


def _full_scale(function: str, step: float) -> float:
    """Full scale of a range: 22,000 counts, but 1000 V and 10 A have 10,000."""
    short = (function, step) in (("voltage", 0.1), ("current", 1e-3))
    return (10_000 if short else _COUNTS) * step


def split_frames(data: bytes) -> tuple[list[bytes], bytes]:
    """Lines with their CR LF (whole or broken), and the rest that is not finished.

    A rest longer than a frame is noise and dropped.
    """
    *lines, rest = data.split(_CR_LF)
    return [line + _CR_LF for line in lines if line], rest[-(FRAME_BYTES - 1) :]


class Es51922Settings(AccuracySettings):
    """The serial port and what the switch must stand at."""

    port: Annotated[str, Field(min_length=1)]
    """``/dev/ttyUSB0``, better ``/dev/serial/by-id/…``."""
    function: DcFunction
    range: Positive
    """Full scale in V or A of the range it is used in; readings of a larger one are refused."""

    @field_validator("range")
    @classmethod
    def _has_range(cls, value: float, info: ValidationInfo) -> float:
        if "function" in info.data:
            ranges = specifications.allowed_ranges("UT61E", info.data["function"])
            if value not in ranges:
                raise ValueError(f"must be one of {', '.join(f'{r:g}' for r in ranges)}")
        return value

    @property
    def ranges(self) -> tuple[float, ...]:
        """The ranges of this function, ascending."""
        return specifications.allowed_ranges("UT61E", self.function)


def accuracy_of(settings: Es51922Settings) -> Accuracy:
    """The rig's limits of error, or those of the UT61E's manual."""
    limits = settings.own_accuracy or specifications.accuracy(
        "UT61E", settings.function, settings.range
    )
    assert limits is not None
    return limits


def judge(frame: Frame, settings: Es51922Settings) -> tuple[float | Status, str]:
    """The reading a frame brings under these settings, or why it brings none."""
    if frame.function != settings.function or not frame.dc:
        kind = "AC" if frame.ac else "DC" if frame.dc else ""
        shown = f"{kind} {frame.function}".strip()
        return Status.WRONG_FUNCTION, f"measures {shown}, not DC {settings.function}"
    if frame.overload:
        return Status.OVERLOAD, ""
    if frame.full_scale > settings.range * 1.01:
        detail = f"range {frame.full_scale:g} {frame.unit}, not {settings.range:g}"
        return Status.WRONG_FUNCTION, detail
    if frame.relative or frame.extreme:
        return Status.WRONG_FUNCTION, "shows a relative, maximum, minimum or peak value"
    if frame.hold:
        return Status.HOLD, ""
    return frame.value, ""


class Es51922:
    """One meter. Its channel is ``voltage`` or ``current``, on the host's clock."""

    def __init__(
        self,
        name: str,
        settings: Es51922Settings,
        clock: HostClock,
        line: ByteLine | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._line = line or SerialLine(name, settings.port, FORMAT)
        self._rest = b""
        self._in_step = False
        self._low_battery = False
        self._full_scale: float | None = None
        self._delay_ns = round((FRAME_BYTES * FORMAT.byte_s + INTERVAL_S / 2) * 1e9)
        self._channel = Channel(
            name=settings.function,
            quantity=Quantity(settings.function),
            clock=Clock.HOST,
            interval_s=INTERVAL_S,
            aperture_s=INTERVAL_S,
            accuracy=accuracy_of(settings),
            range=settings.range,
            time_u_s=_TIME_U_S,
        )

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The one channel."""
        return (self._channel,)

    def open(self) -> Identity:
        """Open the port. The meter cannot be asked who it is."""
        self._line.open()
        return Identity("UNI-T", "UT61E (ES51922)", notes=("it cannot be asked for its identity",))

    def start(self) -> None:
        """Forget what was sent before; the meter pushes by itself."""
        self._line.discard()
        self._rest = b""
        self._in_step = False
        self._low_battery = False
        self._full_scale = None

    def read(self) -> Batch:
        """The frames that have come in."""
        data = self._line.read_some(0.5)
        if not data:
            return Batch()
        arrived_ns = self._clock()
        lines, self._rest = split_frames(self._rest + data)
        if lines and not self._in_step:
            self._in_step = True
            if len(lines[0]) < FRAME_BYTES:  # we came in the middle of it
                del lines[0]
        blocks: list[Block] = []
        statuses: list[StatusReading] = []
        for back, line in zip(range(len(lines) - 1, -1, -1), lines, strict=True):
            t_ns = arrived_ns - self._delay_ns - round(back * INTERVAL_S * 1e9)
            found, said = self._judged(line, t_ns)
            blocks += found
            statuses += said
        return Batch(tuple(blocks), tuple(statuses))

    def close(self) -> None:
        """Let go of the port."""
        self._line.close()

    def _judged(
        self, line: bytes, t_ns: int
    ) -> tuple[tuple[Block, ...], tuple[StatusReading, ...]]:
        name = self._channel.name
        try:
            frame = decode(line)
        except ProtocolError as error:
            return sort_readings(name, [t_ns], [Status.UNREADABLE], str(error))
        reading, detail = judge(frame, self._settings)
        blocks, statuses = sort_readings(name, [t_ns], [reading], detail)
        if frame.low_battery and blocks and not self._low_battery:
            # No reading is lost: none is counted, and the value, which is later, ends the span.
            self._low_battery = True
            detail = "change its battery"
            statuses += (StatusReading(name, t_ns - 1, Status.LOW_BATTERY, detail, count=0),)
        if blocks:
            before, self._full_scale = self._full_scale, frame.full_scale
            if before not in (None, frame.full_scale):
                detail = f"now {frame.full_scale:g} {frame.unit}"
                told = StatusReading(name, t_ns - 1, Status.RANGE_CHANGED, detail, count=0)
                statuses += (told,)
        return blocks, statuses
