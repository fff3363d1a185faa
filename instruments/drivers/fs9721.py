"""Meters with the Fortune FS9721: Voltcraft VC820/VC840, UNI-T UT60A/E, TekPower TP4000ZC …

They push 14-byte frames, 2400 baud 8N1, one-way; the optical cable wants DTR set and RTS clear.
The high half of byte i is i + 1, the low half are segments of the display, bit 3 first (chip's
data sheet; the tables of libsigrok and of perfec.to/posts/ut60e agree):

    0 AC, DC, AUTO, RS232   1-8 four digits, two bytes each: segments, and bit 3 of the first
    byte is the minus sign, the point after the first, second, third digit   9 µ, n, k, diode
    10 m, %, M, beep   11 F, Ω, relative, hold   12 A, V, Hz, battery low   13 the maker's own

The maker's own symbols differ: °C or °F, without a unit beside it; MAX and MIN in the VA40B, bits
0 and 3. But a UT60A and a TP4000ZC send bit 3 with all but a temperature (frames of the one in
docs/protocols of QtDMM; notes of M. Mason and R. Garner on the other), and meters with Bluetooth
bit 0 with volts (frames in the tests of fs9721-utils). So only a change of the two tells MAX or
MIN.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Final

from pydantic import Field

from instruments.driver_kit.serial_display import (
    Display,
    LcdMeterSettings,
    MeterFamily,
    SerialDisplayMeter,
    bytes_in_place,
    displayed_count,
    full_scale_of,
    split_frames,
)
from instruments.drivers import Driver
from instruments.errors import ProtocolError
from instruments.transports.lines import SerialFormat

PLACES: Final = bytes(range(0x10, 0xF0, 0x10))
FORMAT: Final = SerialFormat(baud=2400, rts=False, dtr=True)
COUNTS: Final = 4_000
INTERVAL_S: Final = 0.33
"""Three or four frames a second."""
SEGMENTS: Final = bytes.fromhex("7d 05 5b 1f 27 3e 7e 15 7f 3f")
"""Of the digits from 0 to 9."""
LETTER_L: Final = 0x68
_PREFIXES: Final = (("n", 1e-9), ("µ", 1e-6), ("m", 1e-3), ("k", 1e3), ("M", 1e6))
_FUNCTIONS: Final = {
    "V": "voltage",
    "A": "current",
    "Ω": "resistance",
    "Hz": "frequency",
    "F": "capacitance",
    "%": "duty cycle",
}


def decode(frame: bytes) -> Display:
    """The display of a frame. Raises ProtocolError where it is no frame."""
    if len(frame) != len(PLACES) or not bytes_in_place(frame, PLACES):
        raise ProtocolError(f"expected 14 bytes numbered 1 to 14, got {frame[:20].hex(' ')}")
    low = [byte & 0x0F for byte in frame]
    if not low[0] & 1:
        raise ProtocolError("its RS232 symbol is off")
    prefixes = _symbols_shown(
        {"µ": low[9] & 8, "n": low[9] & 4, "k": low[9] & 2, "m": low[10] & 8, "M": low[10] & 2}
    )
    units = _symbols_shown(
        {
            "F": low[11] & 8,
            "Ω": low[11] & 4,
            "A": low[12] & 8,
            "V": low[12] & 4,
            "Hz": low[12] & 2,
            "%": low[10] & 4,
        }
    )
    if len(prefixes) > 1 or len(units) > 1 or low[0] & 0b1100 == 0b1100:
        raise ProtocolError(f"symbols that exclude each other: {frame.hex(' ')}")
    unit = units[0] if units else ""
    function = _FUNCTIONS.get(unit, "nothing known")
    if low[9] & 1:
        function = "diode"
    elif low[10] & 1:
        function = "continuity"
    digit = dict(_PREFIXES)[prefixes[0]] if prefixes else 1.0
    for place, share in ((3, 1e-3), (5, 1e-2), (7, 1e-1)):
        if low[place] & 8:
            digit *= share
    segments = [(low[1 + 2 * i] & 7) << 4 | low[2 + 2 * i] for i in range(4)]
    count = displayed_count(segments, SEGMENTS, LETTER_L)
    sign = -1 if low[1] & 8 else 1
    return Display(
        function=function,
        unit=unit,
        value=None if count is None else sign * count * digit,
        full_scale=full_scale_of(unit, digit * COUNTS),
        dc=bool(low[0] & 4),
        ac=bool(low[0] & 8),
        auto_range=bool(low[0] & 2),
        hold=bool(low[11] & 1),
        relative=bool(low[11] & 2),
        low_battery=bool(low[12] & 1),
        maker_symbols=low[13] & 0b1001,
    )


def _symbols_shown(symbols: dict[str, int]) -> list[str]:
    return [name for name, on in symbols.items() if on]


class Fs9721Settings(LcdMeterSettings):
    """A meter of the FS9721 family."""

    line_format: ClassVar[SerialFormat] = FORMAT

    interval_s: float = Field(INTERVAL_S, gt=0, le=10, allow_inf_nan=False)


class Fs9721(SerialDisplayMeter):
    """One meter of the FS9721 family."""

    family: ClassVar[MeterFamily] = MeterFamily(
        "Fortune", "FS9721", len(PLACES), partial(split_frames, places=PLACES), decode
    )


DRIVER: Final = Driver(Fs9721Settings, Fs9721, Fs9721.sign("FS9721 family", FORMAT))
