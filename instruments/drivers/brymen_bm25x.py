"""Brymen BM25x (BM251s … BM257s): 15-byte frames with the segments of the display.

9600 baud 8N1, the cable wants RTS and DTR set; it pushes by itself. Byte 0 is 02, the high half
of byte i is i, the low half are segments (facts from the maker's protocol as bm257s and brylog read
it, which agree with libsigrok's table):

    1 AUTO, DC, AC, relative (bit 3 first)   2 beep, battery low, low impedance, bar's minus
    3-10 four digits: bits 3-1 of the first byte and all of the second; bit 0 of the first is the
    minus sign, then the points before the second, third and fourth digit   11 hold, dBm, M, k
    12 crest, Ω, Hz, n   13 MAX, F, µ, m   14 MIN, V, A, bar's scale

MAX and MIN together are the recording mode, in which it shows the present value.
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

PLACES: Final = bytes(range(0x00, 0xF0, 0x10))
FORMAT: Final = SerialFormat(baud=9600, rts=True, dtr=True)
COUNTS: Final = 6_000
INTERVAL_S: Final = 0.2
FIRST_BYTE: Final = 0x02
SEGMENTS: Final = bytes.fromhex("be a0 da f8 e4 7c 7e a8 fe fc")
"""Of the digits from 0 to 9."""
LETTER_L: Final = 0x16
_TEMPERATURE: Final = {0x1E: "°C", 0x4E: "°F"}


def decode(frame: bytes) -> Display:
    """The display of a frame. Raises ProtocolError where it is no frame."""
    if len(frame) != len(PLACES) or not bytes_in_place(frame, PLACES) or frame[0] != FIRST_BYTE:
        raise ProtocolError(f"expected 02 and 14 numbered bytes, got {frame[:20].hex(' ')}")
    low = [byte & 0x0F for byte in frame]
    units = [
        named
        for on, named in (
            (low[14] & 4, ("voltage", "V")),
            (low[14] & 2, ("current", "A")),
            (low[12] & 4, ("resistance", "Ω")),
            (low[13] & 4, ("capacitance", "F")),
            (low[12] & 2, ("frequency", "Hz")),
        )
        if on
    ]
    prefixes = [
        factor
        for on, factor in (
            (low[11] & 2, 1e6),
            (low[11] & 1, 1e3),
            (low[13] & 1, 1e-3),
            (low[13] & 2, 1e-6),
            (low[12] & 1, 1e-9),
        )
        if on
    ]
    if len(units) > 1 or len(prefixes) > 1:
        raise ProtocolError(f"symbols that exclude each other: {frame.hex(' ')}")
    function, unit = units[0] if units else ("nothing known", "")
    if low[11] & 4:
        function, unit = "level", "dBm"
    segments = [(low[4 + 2 * i] << 4 | low[3 + 2 * i]) & 0xFE for i in range(4)]
    points = [place for place in (5, 7, 9) if low[place] & 1]
    if len(points) > 1:
        raise ProtocolError(f"two decimal points: {frame.hex(' ')}")
    decimals = (11 - points[0]) // 2 if points else 0
    if segments[3] in _TEMPERATURE:
        function, unit = "temperature", _TEMPERATURE[segments.pop()]
        decimals = max(decimals - 1, 0)
    digit = (prefixes[0] if prefixes else 1.0) * 10.0**-decimals
    count = displayed_count(segments, SEGMENTS, LETTER_L)
    sign = -1 if low[3] & 1 else 1
    return Display(
        function=function,
        unit=unit,
        value=None if count is None else sign * count * digit,
        full_scale=full_scale_of(unit, digit * COUNTS),
        dc=bool(low[1] & 4),
        ac=bool(low[1] & 2),
        auto_range=bool(low[1] & 8),
        hold=bool(low[11] & 8),
        relative=bool(low[1] & 1),
        extreme=bool(low[12] & 8) or bool(low[13] & 8) != bool(low[14] & 8),
        low_battery=bool(low[2] & 4),
    )


class BrymenBm25xSettings(LcdMeterSettings):
    """A Brymen BM25x."""

    line_format: ClassVar[SerialFormat] = FORMAT

    interval_s: float = Field(INTERVAL_S, gt=0, le=10, allow_inf_nan=False)


class BrymenBm25x(SerialDisplayMeter):
    """One BM25x."""

    family: ClassVar[MeterFamily] = MeterFamily(
        "Brymen", "BM25x", len(PLACES), partial(split_frames, places=PLACES), decode
    )


DRIVER: Final = Driver(BrymenBm25xSettings, BrymenBm25x, BrymenBm25x.sign("Brymen BM25x", FORMAT))
