from __future__ import annotations

from typing import Any

import pytest

from instruments.drivers.extech380803 import (
    Extech380803,
    Extech380803Settings,
    decode,
    decode_value,
    find_reply,
)
from instruments.errors import NoAnswer, ProtocolError
from instruments.reading import Status
from tests.protocol.exchange import Clock, ExpectedExchange


def reverse(field: int, width: int) -> int:
    return sum((field >> i & 1) << (width - 1 - i) for i in range(width))


def value(digits: str, decimals: int, sign: str = "+") -> bytes:
    """The two bytes of a number: sign, 1 digit of one bit, three of four, decimal places."""
    bits = (sign == "+") | int(digits[0]) << 1 | reverse(decimals, 2) << 14
    for place, digit in zip((2, 6, 10), digits[1:], strict=True):
        bits |= reverse(int(digit, 16), 4) << place
    return bytes([bits & 0xFF, bits >> 8])


def reply(watts: bytes, amps: bytes, volts: bytes, factor: bytes) -> bytes:
    return b"".join(b"\x02\x00" + part + b"\x03" for part in (watts, amps, volts, factor))


SMALL = reply(value("0614", 1), value("0272", 3), value("1204", 1), value("0098", 2))


def meter(*steps: tuple[bytes, Any]) -> tuple[Extech380803, ExpectedExchange]:
    limits = {
        f"{quantity}_{kind}": 1.0
        for quantity, unit in (("power", "watts"), ("voltage", "volts"), ("current", "amps"))
        for kind in ("pct_of_reading", f"floor_{unit}")
    }
    settings = Extech380803Settings.model_validate({"port": "-", "dither": False, **limits})
    line = ExpectedExchange(*steps)
    return Extech380803("plug", settings, Clock(), line), line


@pytest.mark.parametrize(
    ("digits", "decimals", "sign", "number"),
    [
        ("0000", 0, "+", 0.0),
        ("1999", 0, "+", 1999.0),
        ("1234", 1, "+", 123.4),
        ("1204", 2, "-", -12.04),
        ("0987", 3, "+", 0.987),
    ],
)
def test_numbers(digits: str, decimals: int, sign: str, number: float) -> None:
    assert decode_value(*value(digits, decimals, sign)) == pytest.approx(number)


def test_a_number_bit_by_bit() -> None:
    # +, 1, then 2 = 0100, 3 = 1100, 4 = 0010 with the lowest bit first, one decimal = 10
    bits = 0b10_0010_1100_0100_1_1
    assert decode_value(bits & 0xFF, bits >> 8) == pytest.approx(123.4)


def test_an_answer() -> None:
    found = decode(SMALL)
    assert (found.watts, found.amps, found.volts) == pytest.approx((61.4, 0.272, 120.4))
    assert found.power_factor == pytest.approx(0.98)


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        SMALL[:19],
        SMALL[1:] + b"\x03",
        b"\x03" + SMALL[1:],
        reply(value("0A14", 1), *[value("0001", 0)] * 3),
        reply(*[value("0001", 0)] * 3, value("1100", 3)),
    ],
)
def test_what_is_no_answer(bad: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(bad)


def test_an_answer_after_noise_and_in_pieces() -> None:
    assert find_reply(b"\xfe\x02" + SMALL + b"\x02") == SMALL
    assert find_reply(SMALL[:10]) == b""


def test_a_session() -> None:
    broken = reply(value("0F14", 1), value("0272", 3), value("1204", 1), value("0098", 2))
    instrument, line = meter((b" ", b"\xfe" + SMALL), (b" ", SMALL), (b" ", broken))
    with line:
        instrument.open()
        instrument.start()
        batch = instrument.read()
        found = {block.channel: block.values.tolist() for block in batch.blocks}
        assert found == {
            "power": [pytest.approx(61.4)],
            "voltage": [pytest.approx(120.4)],
            "current": [pytest.approx(0.272)],
        }
        while not (batch := instrument.read()).statuses:
            assert not batch.blocks, "the tick has not come"
    assert {status.status for status in batch.statuses} == {Status.UNREADABLE}
    assert not batch.blocks
    instrument.close()


def test_switched_off_or_another_meter() -> None:
    instrument, line = meter((b" ", None))
    with line, pytest.raises(NoAnswer, match="is it on"):
        instrument.open()
    instrument, line = meter((b" ", b"\x02\x40\x00\x00\xe0\xde\x00\x00\x03"))
    with line, pytest.raises(ProtocolError, match="is it an Extech 380803"):
        instrument.open()
