"""UNI-T UT61E, UT803 and other meters with a Cyrustek ES51922, ES51932 or ES51986.

They push frames at 19200 baud, 7 data bits, odd parity. That of an ES51922 (its data sheet) has 14
bytes 0x30-0x3F, flags in their low four bits, bit 3 first:

    0 range   1-5 digits   6 function   7 judge, sign, battery low, overload
    8 max, min, relative, range mode   9 underload, peak max, peak min, 0
    10 DC, AC, auto, Hz   11 0, VBAR, hold, low-pass   12 CR   13 LF

The function comes with every frame. An ES51932 (Victor and RuoShui 86E) sends the same but for
byte 11, which is hold, VBAR and two bits of its low-pass (libsigrok's es519xx; the frame that
rusty_meter's issue 16 has of an 86E has both set).

An ES51986 sends each frame twice, of 11 bytes (the logs of H. Haftmann's UT803 and UT60G):

    0 range   1-4 digits   5 function   6 °C, sign, battery low, overload   7 hold, max, min, 0
    8 DC, AC, auto, 0   9 CR   10 LF
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from instruments.driver_kit import specifications
from instruments.driver_kit.base_settings import (
    AccuracySettings,
    DriverSettings,
    require_one_of,
)
from instruments.driver_kit.serial_display import (
    Display,
    MeterFamily,
    SerialDisplayMeter,
    SerialDisplaySettings,
    full_scale_of,
)
from instruments.driver_kit.serial_sign import SerialSign
from instruments.drivers import Driver
from instruments.errors import ProtocolError
from instruments.reading import Accuracy
from instruments.transports.lines import SerialFormat

FRAME_BYTES: Final = 14
FORMAT: Final = SerialFormat(baud=19200, data_bits=7, parity="O", rts=False, dtr=True)
INTERVAL_S: Final = 0.5
"""Two conversions a second."""
_TIME_U_OF_INTERVAL: Final = 0.2
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
_HOLD: Final = 0b0010
_HOLD_ES51932: Final = 0b1000

_ES51986_BYTES: Final = 11
_ES51986_COUNTS: Final = 6_000
_ES51986_FUNCTIONS: Mapping[int, tuple[str, str, tuple[float, ...]]] = {
    0x3B: ("voltage", "V", (1e-3, 1e-2, 1e-1, 1.0, 1e-4)),
    0x3D: ("current", "A", (1e-7, 1e-6)),
    0x3F: ("current", "A", (1e-5, 1e-4)),
    0x39: ("current", "A", (1e-2,)),
    0x33: ("resistance", "Ω", (1e-1, 1.0, 1e1, 1e2, 1e3, 1e4)),
    0x35: ("continuity", "Ω", (1e-1,)),
    0x31: ("diode", "V", (1e-3,)),
    0x32: ("frequency", "Hz", (1.0, 1e1, 1e2, 1e3, 1e4)),
    0x36: ("capacitance", "F", (1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6)),
    0x34: ("temperature", "°C", (1.0,)),
    0x3E: ("hFE", "", (1.0,)),
}
_ES51986_RANGES: Mapping[str, tuple[float, ...]] = {
    "voltage": (0.6, 6.0, 60.0, 600.0, 1000.0),
    "current": (600e-6, 6e-3, 0.06, 0.6, 10.0),
}
_ES51986_TWICE: Final = re.compile(rb"(?:^|\n)([0-4]\d{4}[;=9?][0-?][02468:<>][8:]\r\n)\1")
"""A frame of volts or amps on DC, and the same again."""


def decode(frame: bytes, hold_bit: int = _HOLD) -> Display:
    """The display of a frame. Raises ProtocolError where it is no frame."""
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
    step = steps[range_index]
    sign = -1 if status & 4 else 1
    return Display(
        function=function,
        unit=unit,
        value=None if overload else sign * int(digits) * step,
        full_scale=_full_scale(function, step),
        dc=bool(option3 & 8),
        ac=bool(option3 & 4),
        auto_range=bool(option3 & 2),
        hold=bool(option4 & hold_bit),
        low_battery=bool(status & 2),
        relative=bool(option1 & 2),
        extreme=bool(option1 & 12 or option2 & 6),
    )


def decode_es51986(frame: bytes) -> Display:
    """The display of a frame of an ES51986. Raises ProtocolError where it is no frame."""
    if len(frame) != _ES51986_BYTES or frame[9:] != _CR_LF:
        raise ProtocolError(f"expected 11 bytes that end with CR LF, got {frame[:20]!r}")
    if any(byte >> 4 != 3 for byte in frame[:9]):
        raise ProtocolError(f"bytes outside 0x30-0x3F: {frame!r}")
    if frame[5] not in _ES51986_FUNCTIONS:
        raise ProtocolError(f"unknown function byte 0x{frame[5]:02x}")
    function, unit, steps = _ES51986_FUNCTIONS[frame[5]]
    range_index, status, symbols, coupling = (frame[place] & 0x0F for place in (0, 6, 7, 8))
    if range_index >= len(steps):
        raise ProtocolError(f"{function} has no range {range_index}")
    overload = bool(status & 1)
    digits = frame[1:5]
    if not digits.isdigit() and not overload:
        raise ProtocolError(f"digits {digits!r}")
    step = steps[range_index]
    sign = -1 if status & 4 else 1
    return Display(
        function=function,
        unit=unit,
        value=None if overload else sign * int(digits) * step,
        full_scale=full_scale_of(unit, _ES51986_COUNTS * step),
        dc=bool(coupling & 8),
        ac=bool(coupling & 4),
        auto_range=bool(coupling & 2),
        hold=bool(symbols & 8),
        low_battery=bool(status & 2),
        extreme=bool(symbols & 6),
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


class _ChipSettings(DriverSettings):
    """The last of the bases, so that the chip is known when the range is checked."""

    chip: Literal["es51922", "es51932", "es51986"] = "es51922"


class Es51922Settings(SerialDisplaySettings, AccuracySettings, _ChipSettings):
    """The serial port and what the switch must stand at."""

    line_format: ClassVar[SerialFormat] = FORMAT

    interval_s: float = Field(INTERVAL_S, gt=0, le=10, allow_inf_nan=False)

    @field_validator("range")
    @classmethod
    def _has_range(cls, value: float, info: ValidationInfo) -> float:
        if {"chip", "function"} <= info.data.keys():
            require_one_of(value, _ranges(info.data["chip"], info.data["function"]))
        return value

    @model_validator(mode="after")
    def _limits_are_known(self) -> Self:
        if self.chip != "es51922" and self.rig_accuracy is None:
            raise ValueError(
                "the built-in limits are a UT61E's: set accuracy_pct_of_reading and "
                "accuracy_floor from the manual of your meter"
            )
        return self

    @property
    def ranges(self) -> tuple[float, ...]:
        """The ranges of this function, ascending."""
        return _ranges(self.chip, self.function)

    def limits(self) -> Accuracy:
        """The rig's limits of error, or those of the UT61E's manual."""
        known = specifications.accuracy("UT61E", self.function, self.range)
        limits = self.rig_accuracy or known
        assert limits is not None
        return limits


def _ranges(chip: str, function: str) -> tuple[float, ...]:
    if chip == "es51986":
        return _ES51986_RANGES[function]
    return specifications.allowed_ranges("UT61E", function)


class Es51922(SerialDisplayMeter):
    """One meter of the ES51922 family."""

    family: ClassVar[MeterFamily] = MeterFamily(
        "UNI-T",
        "UT61E (ES51922)",
        FRAME_BYTES,
        split_frames,
        decode,
        _TIME_U_OF_INTERVAL,
    )

    @classmethod
    def family_for(cls, settings: SerialDisplaySettings) -> MeterFamily:
        """That of the chip."""
        assert isinstance(settings, Es51922Settings)
        if settings.chip == "es51922":
            return cls.family
        if settings.chip == "es51986":
            return _ES51986
        decode_it = partial(decode, hold_bit=_HOLD_ES51932)
        return replace(cls.family, maker="Cyrustek", model="ES51932", decode=decode_it)


_ES51986: Final = MeterFamily("Cyrustek", "ES51986", _ES51986_BYTES, split_frames, decode_es51986)

DRIVER: Final = Driver(
    Es51922Settings,
    Es51922,
    (
        Es51922.sign("UNI-T UT61E (ES51922)", FORMAT),
        SerialSign(
            "frames of an ES51986 (UNI-T UT803, UT60G); compare a reading with its display",
            FORMAT,
            b"",
            _ES51986_TWICE.search,
            {"chip": "es51986"},
        ),
    ),
)
