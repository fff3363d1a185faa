"""A simulated Brymen BM257."""

from __future__ import annotations

from typing import Final

from instruments.simulated.meter_kit.lcd_meter import LcdMeter, Symbols, segments_of, with_symbols

_SIZE: Final = 15
_FIRST_BYTE: Final = 0x02
_SEGMENTS: Final = bytes((0xBE, 0xA0, 0xDA, 0xF8, 0xE4, 0x7C, 0x7E, 0xA8, 0xFE, 0xFC))
"""Of the digits from 0 to 9: the maker's protocol."""
_LETTER_L: Final = 0x16
_BYTE_S: Final = 10 / 9600

_SYMBOLS: Final[Symbols] = {
    "AUTO": (1, 8),
    "DC": (1, 4),
    "BAT": (2, 4),
    "-": (3, 1),
    "p1": (5, 1),
    "p2": (7, 1),
    "p3": (9, 1),
    "HOLD": (11, 8),
    "Ω": (12, 4),
    "m": (13, 1),
    "V": (14, 4),
    "A": (14, 2),
}


def brymen_frame(digits: str, symbols: set[str]) -> bytes:
    """The frame of a display with four ``digits`` and ``symbols``."""
    frame = bytearray(16 * place for place in range(_SIZE))
    frame[0] = _FIRST_BYTE
    all_segments = segments_of(digits, _SEGMENTS, _LETTER_L)
    for i, segments in enumerate(all_segments):
        frame[3 + 2 * i] |= segments & 0x0E
        frame[4 + 2 * i] |= segments >> 4
    return with_symbols(frame, symbols, _SYMBOLS)


class Bm257Meter(LcdMeter):
    """A BM257."""

    counts = 6000
    model = "BM257"
    conversion_s = 0.2
    frame_s = _SIZE * _BYTE_S

    def encode(self, digits: str, symbols: set[str]) -> bytes:
        """See :class:`LcdMeter`."""
        return brymen_frame(digits, symbols)
