"""The answers of ElmorLabs PMD2 and PMD-USB, decoded; no I/O.

Facts from the maker's published programs: PMD2-Python (18 February 2025), PMDLogger and
pmd-usb-serial-interface-fast (12 September 2023). All numbers are little-endian. The answers have
neither a beginning nor a checksum: their length, and values that can be, are all that tells them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from instruments.errors import ProtocolError

WELCOME: Final = b"\x00"
READ_ID: Final = b"\x01"
MAKER: Final = 0xEE
NAME_BEGIN: Final = b"ElmorLabs "


@dataclass(frozen=True, slots=True)
class Model:
    """What is known of a model."""

    product: int
    rails: tuple[str, ...]
    """In the order of the answer."""
    question: bytes
    """What it answers with the values of all rails."""
    answer_bytes: int


@dataclass(frozen=True, slots=True)
class RailValues:
    """Volts and amps of a rail."""

    volts: float
    amps: float


MODELS: Final = {
    "PMD2": Model(
        0x15,
        (
            "atx_12v", "atx_5v", "atx_5vsb", "atx_3v3", "hpwr",
            "eps1", "eps2", "pcie1", "pcie2", "pcie3",
        ),
        b"\x04",
        122,
    ),
    "PMD-USB": Model(0x0A, ("pcie1", "pcie2", "eps1", "eps2"), b"\x06", 16),
}  # fmt: skip
READ_CONFIG: Final = b"\x04"
"""Of a PMD-USB; to a PMD2 the same byte asks for values."""
CONFIG_BYTES: Final = ((6, 26), (256, 34))
"""Firmware below the first number answers with so many bytes: version 6 added eight gains."""
_OFFSETS: Final = struct.Struct("<8b")
_OFFSETS_AT: Final = 4
_ADC: Final = struct.Struct("<8h")
_ADC_SHIFT: Final = 4
"""Twelve bits, left in sixteen."""
_STEP_VOLTS: Final = 0.007568
_STEP_AMPS: Final = 0.0488
_PMD2_RAIL: Final = struct.Struct("<hii")
_PMD2_RAILS_AT: Final = 4
_MOST_VOLTS: Final = 17.0
_MOST_AMPS: Final = 110.0
"""Beyond what a connector carries, and what 12 bits of a PMD-USB can say: ±15.5 V, ±100 A."""


def parse_id(answer: bytes) -> tuple[int, int, int]:
    """Maker, product and firmware. Raises ProtocolError."""
    if len(answer) != 3:
        raise ProtocolError(f"expected three bytes of identity, got {answer[:24].hex(' ')}")
    return answer[0], answer[1], answer[2]


def parse_pmd_offsets(config: bytes) -> tuple[int, ...]:
    """The calibration offsets of a PMD-USB's eight inputs, in steps."""
    return tuple(_OFFSETS.unpack_from(config, _OFFSETS_AT))


def parse_pmd2(answer: bytes) -> tuple[RailValues, ...]:
    """The rails of a PMD2: mV and mA. Raises ProtocolError."""
    _of_length(answer, MODELS["PMD2"].answer_bytes)
    rails = MODELS["PMD2"].rails
    places = range(_PMD2_RAILS_AT, _PMD2_RAILS_AT + _PMD2_RAIL.size * len(rails), _PMD2_RAIL.size)
    found = [_PMD2_RAIL.unpack_from(answer, place) for place in places]
    return _possible_pmd_rails(tuple(RailValues(mv / 1000, ma / 1000) for mv, ma, _ in found))


def parse_pmd_usb(answer: bytes, offsets: tuple[int, ...]) -> tuple[RailValues, ...]:
    """The rails of a PMD-USB: steps of its converter, volts and amps in turn.

    Raises ProtocolError.
    """
    _of_length(answer, MODELS["PMD-USB"].answer_bytes)
    if any(byte & 0x0F for byte in answer[::2]):
        raise ProtocolError(f"steps that are not 12 bits: {answer.hex(' ')}")
    steps = [
        (word >> _ADC_SHIFT) + offset
        for word, offset in zip(_ADC.unpack(answer), offsets, strict=True)
    ]
    return _possible_pmd_rails(
        tuple(
            RailValues(volts * _STEP_VOLTS, amps * _STEP_AMPS)
            for volts, amps in zip(steps[::2], steps[1::2], strict=True)
        )
    )


def _of_length(answer: bytes, wanted: int) -> None:
    if len(answer) != wanted:
        raise ProtocolError(f"expected {wanted} bytes, got {len(answer)}")


def _possible_pmd_rails(rails: tuple[RailValues, ...]) -> tuple[RailValues, ...]:
    for rail in rails:
        if abs(rail.volts) > _MOST_VOLTS or abs(rail.amps) > _MOST_AMPS:
            raise ProtocolError(f"{rail.volts:g} V and {rail.amps:g} A cannot be")
    return rails
