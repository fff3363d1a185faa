"""A simulated Voltcraft VC820: the frames of its FS9721 chip."""

from __future__ import annotations

from typing import Final

from instruments.simulated.meter_kit.lcd_meter import LcdMeter, Symbols, segments_of, with_symbols

_SIZE: Final = 14
_SEGMENTS: Final = bytes((0x7D, 0x05, 0x5B, 0x1F, 0x27, 0x3E, 0x7E, 0x15, 0x7F, 0x3F))
"""Of the digits from 0 to 9: the chip's data sheet."""
_LETTER_L: Final = 0x68
_BYTE_S: Final = 10 / 2400

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
    frame = bytearray(16 * (place + 1) for place in range(_SIZE))
    for i, segments in enumerate(segments_of(digits, _SEGMENTS, _LETTER_L)):
        frame[1 + 2 * i] |= segments >> 4
        frame[2 + 2 * i] |= segments & 0x0F
    return with_symbols(frame, symbols | {"RS232"}, _SYMBOLS)


class Vc820Meter(LcdMeter):
    """A VC820."""

    counts = 4000
    model = "VC820"
    conversion_s = 0.33
    frame_s = _SIZE * _BYTE_S

    def encode(self, digits: str, symbols: set[str]) -> bytes:
        """See :class:`LcdMeter`."""
        return fs9721_frame(digits, symbols)
