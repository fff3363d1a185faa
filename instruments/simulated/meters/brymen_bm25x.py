"""A simulated Brymen BM257."""

from __future__ import annotations

from typing import Final

from instruments.drivers import brymen_bm25x
from instruments.simulated.meter_kit.lcd_meter import LcdMeter, Symbols, segments_of, with_symbols

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
    frame = bytearray(brymen_bm25x.PLACES)
    frame[0] = brymen_bm25x.FIRST_BYTE
    all_segments = segments_of(digits, brymen_bm25x.SEGMENTS, brymen_bm25x.LETTER_L)
    for i, segments in enumerate(all_segments):
        frame[3 + 2 * i] |= segments & 0x0E
        frame[4 + 2 * i] |= segments >> 4
    return with_symbols(frame, symbols, _SYMBOLS)


class Bm257Meter(LcdMeter):
    """A BM257."""

    counts = brymen_bm25x.COUNTS
    driver = "brymen_bm25x"
    frame_s = len(brymen_bm25x.PLACES) * brymen_bm25x.FORMAT.byte_s

    def encode(self, digits: str, symbols: set[str]) -> bytes:
        """See :class:`LcdMeter`."""
        return brymen_frame(digits, symbols)
