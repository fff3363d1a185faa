"""A simulated Voltcraft VC820: the frames of its FS9721 chip."""

from __future__ import annotations

from typing import Final

from instruments.drivers import fs9721
from instruments.simulated.meter_kit.lcd_meter import LcdMeter, Symbols, segments_of, with_symbols

_SYMBOLS: Final[Symbols] = {
    "DC": (0, 4),
    "AUTO": (0, 2),
    "RS232": (0, 1),
    "-": (1, 8),
    "p1": (3, 8),
    "p2": (5, 8),
    "p3": (7, 8),
    "m": (10, 8),
    "Ω": (11, 4),
    "HOLD": (11, 1),
    "A": (12, 8),
    "V": (12, 4),
    "BAT": (12, 1),
}


def fs9721_frame(digits: str, symbols: set[str]) -> bytes:
    """The frame of a display with four ``digits`` and ``symbols``."""
    frame = bytearray(fs9721.PLACES)
    for i, segments in enumerate(segments_of(digits, fs9721.SEGMENTS, fs9721.LETTER_L)):
        frame[1 + 2 * i] |= segments >> 4
        frame[2 + 2 * i] |= segments & 0x0F
    return with_symbols(frame, symbols | {"RS232"}, _SYMBOLS)


class Vc820Meter(LcdMeter):
    """A VC820."""

    counts = fs9721.COUNTS
    driver = "fs9721"
    frame_s = len(fs9721.PLACES) * fs9721.FORMAT.byte_s

    def encode(self, digits: str, symbols: set[str]) -> bytes:
        """See :class:`LcdMeter`."""
        return fs9721_frame(digits, symbols)
