"""Simulated meters that push their display's segments: VC820, BM257."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from instruments.drivers import brymen_bm25x, fs9721
from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meter_kit.serial_meter import PushingMeter

_POINTS: Final = ((1e-4, ("m", "p3")), (1e-3, ("p1",)), (1e-2, ("p2",)), (1e-1, ("p3",)))
"""The ranges for volts and amps: value of a count, and how the display writes it."""
_UNIT: Final = {"voltage": "V", "current": "A"}
_OVERLOAD: Final = " 0L "
_NO_DIGITS: Final = "????"

Symbols = Mapping[str, tuple[int, int]]

_FS9721_SYMBOLS: Final[Symbols] = {
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
_BRYMEN_SYMBOLS: Final[Symbols] = {
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


def fs9721_frame(digits: str, symbols: set[str]) -> bytes:
    """The frame of a display with four digits and these symbols."""
    data = bytearray(fs9721.PLACES)
    for i, segments in enumerate(_segments(digits, fs9721.SEGMENTS, fs9721.LETTER_L)):
        data[1 + 2 * i] |= segments >> 4
        data[2 + 2 * i] |= segments & 0x0F
    return _with(data, symbols | {"RS232"}, _FS9721_SYMBOLS)


def brymen_frame(digits: str, symbols: set[str]) -> bytes:
    """The frame of a display with four digits and these symbols."""
    data = bytearray(brymen_bm25x.PLACES)
    data[0] = brymen_bm25x.FIRST_BYTE
    for i, segments in enumerate(_segments(digits, brymen_bm25x.SEGMENTS, brymen_bm25x.LETTER_L)):
        data[3 + 2 * i] |= segments & 0x0E
        data[4 + 2 * i] |= segments >> 4
    return _with(data, symbols, _BRYMEN_SYMBOLS)


def _segments(digits: str, known: Mapping[int, int], letter_l: int) -> list[int]:
    by_digit = {str(digit): segments for segments, digit in known.items()}
    by_digit |= {"L": letter_l, " ": 0x00, "?": 0x02}
    return [by_digit[character] for character in digits]


def _with(data: bytearray, symbols: set[str], places: Symbols) -> bytes:
    for symbol in symbols & places.keys():
        place, bit = places[symbol]
        data[place] |= bit
    return bytes(data)


def displayed(function: str, value: float, counts: int, at_least: int = 0) -> tuple[str, set[str]]:
    """Digits and symbols of a value in the finest range that holds it, from ``at_least`` on."""
    for digit, symbols in _POINTS[at_least:]:
        count = round(abs(value) / digit)
        if count < counts:
            sign = {"-"} if value < 0 and count else set()
            return f"{count:04d}", {*symbols, *sign, _UNIT[function], "DC", "AUTO"}
    return _OVERLOAD, {_UNIT[function], "DC", "AUTO"}


@dataclass(frozen=True, slots=True)
class Sender:
    """How the simulated meter of a family makes its frames."""

    counts: int
    frame: Callable[[str, set[str]], bytes]


VC820: Final = Sender(fs9721.COUNTS, fs9721_frame)
BM257: Final = Sender(brymen_bm25x.COUNTS, brymen_frame)


class LcdMeter(PushingMeter):
    """A meter that sends the segments of its display."""

    possible_faults = PushingMeter.possible_faults | {Fault.OTHER_RANGE}
    sender: ClassVar[Sender]

    def frame(self, value: float) -> bytes:
        """The segments of the finest range that holds ``value``."""
        at_least = len(_POINTS) - 1 if self.faults.has(Fault.OTHER_RANGE) else 0
        digits, symbols = displayed(self.function, value, self.sender.counts, at_least)
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
        return self.sender.frame(digits, symbols)


class Vc820Meter(LcdMeter):
    """A VC820."""

    sender = VC820
    frame_s = len(fs9721.PLACES) * fs9721.FORMAT.byte_s


class Bm257Meter(LcdMeter):
    """A BM257."""

    sender = BM257
    frame_s = len(brymen_bm25x.PLACES) * brymen_bm25x.FORMAT.byte_s
