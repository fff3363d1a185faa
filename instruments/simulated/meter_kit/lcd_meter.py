"""A simulated meter that sends the segments of its display (VC820, BM257)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.handheld_meter import PushingMeter

_RANGES: Final = ((1e-4, ("m", "p3")), (1e-3, ("p1",)), (1e-2, ("p2",)), (1e-1, ("p3",)))
"""The ranges of volts and amps: value of a count, and the symbols that the display shows then."""
_UNITS: Final = {"voltage": "V", "current": "A"}
_OVERLOAD: Final = " 0L "
_NO_DIGITS: Final = "????"

Symbols = Mapping[str, tuple[int, int]]
"""Symbols of a display: the byte of the frame and the bit in it."""


def segments_of(digits: str, digit_segments: bytes, letter_l: int) -> list[int]:
    """The segments that show ``digits``; ``?`` is a pattern that is no digit."""
    segments = {str(digit): bits for digit, bits in enumerate(digit_segments)}
    segments |= {"L": letter_l, " ": 0x00, "?": 0x02}
    return [segments[character] for character in digits]


def with_symbols(frame: bytearray, symbols: set[str], places: Symbols) -> bytes:
    """``frame`` with the bits of those ``symbols`` that the display has."""
    for symbol in symbols & places.keys():
        place, bit = places[symbol]
        frame[place] |= bit
    return bytes(frame)


class LcdMeter(PushingMeter):
    """A meter that sends the segments of its display."""

    possible_faults = PushingMeter.possible_faults | {Fault.OTHER_RANGE}
    counts: ClassVar[int]
    """The display ends below this count."""

    def encode(self, digits: str, symbols: set[str]) -> bytes:
        """The frame of a display with four ``digits`` and ``symbols``."""
        raise NotImplementedError

    def frame(self, value: float) -> bytes:
        """The segments of the finest range that holds ``value``."""
        digits, symbols = self._displayed(value)
        if self.faults.has(Fault.OVERLOAD):
            digits = _OVERLOAD
        if self.faults.has(Fault.NAN):
            digits = _NO_DIGITS
        if self.faults.has(Fault.WRONG_FUNCTION):
            symbols = {"Ω", "AUTO"}
        if self.faults.has(Fault.HOLD):
            symbols |= {"HOLD"}
        if self.faults.has(Fault.LOW_BATTERY):
            symbols |= {"BAT"}
        return self.encode(digits, symbols)

    def _displayed(self, value: float) -> tuple[str, set[str]]:
        """Digits and symbols of ``value``; with OTHER_RANGE only the coarsest range is there."""
        shown = {_UNITS[self._function], "DC", "AUTO"}
        for count_value, symbols in _RANGES[-1:] if self.faults.has(Fault.OTHER_RANGE) else _RANGES:
            count = round(abs(value) / count_value)
            if count < self.counts:
                sign = {"-"} if value < 0 and count else set()
                return f"{count:04d}", {*symbols, *sign, *shown}
        return _OVERLOAD, shown
