from __future__ import annotations

from typing import Any

import pytest

from instruments.drivers.k204 import K204, K204Settings, decode
from instruments.errors import NoAnswer, ProtocolError
from instruments.reading import Status
from tests.protocol.exchange import Clock, ExpectedExchange


def reply(flags: int = 0x80, overload: int = 0x0E, whole: int = 0) -> bytes:
    data = bytearray(45)
    data[0], data[1], data[44] = 0x02, flags, 0x03
    data[7:15] = bytes.fromhex("00ef ff38 0000 012c")  # 23.9, -20.0, 0, 30.0
    data[39], data[43] = overload, whole
    return bytes(data)


def meter(*steps: tuple[bytes, Any], **changes: Any) -> tuple[K204, ExpectedExchange]:
    line = ExpectedExchange(*steps)
    settings = K204Settings.model_validate({"port": "/dev/ttyUSB1", "interval_s": 0.01} | changes)
    return K204("thermocouple", settings, Clock(), line), line


def test_decoding() -> None:
    assert decode(reply()).celsius == (23.9, None, None, None)
    assert decode(reply(overload=0)).celsius == (23.9, -20.0, 0.0, 30.0)
    assert decode(reply(overload=0, whole=0b1001)).celsius == (239.0, -20.0, 0.0, 300.0)
    assert decode(reply(flags=0, overload=0)).celsius[3] == pytest.approx((30 - 32) / 1.8)
    assert decode(reply(flags=0xA0)).hold
    assert decode(reply(flags=0xC0)).low_battery
    assert decode(reply(flags=0x90)).relative
    assert decode(reply(flags=0x82)).extreme


@pytest.mark.parametrize("bad", [b"", reply()[:44], reply()[1:] + b"\x03", reply()[:44] + b"\x00"])
def test_what_is_no_reply(bad: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(bad)


def test_a_session_with_an_open_sensor() -> None:
    instrument, line = meter((b"A", reply()), (b"A", b"\x55" + reply()), sensors=["t1", "t2"])
    with line:
        assert [channel.name for channel in instrument.channels] == ["t1", "t2"]
        assert instrument.open().model == "309 / K204"
        instrument.start()
        batch = instrument.read()
        (block,) = batch.blocks
        assert (block.channel, block.values.tolist()) == ("t1", [23.9])
        (status,) = batch.statuses
        assert (status.channel, status.status) == ("t2", Status.OPEN_SENSOR)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (reply(flags=0xA0), Status.HOLD),
        (reply(flags=0x90), Status.WRONG_FUNCTION),
        (reply()[:30], Status.UNREADABLE),
    ],
)
def test_what_is_no_reading_is_a_status(answer: bytes, status: Status) -> None:
    instrument, line = meter((b"A", answer))
    with line:
        instrument.start()
        batch = instrument.read()
        assert not batch.blocks
        assert [s.status for s in batch.statuses] == [status]


def test_a_low_battery_is_reported_once() -> None:
    instrument, line = meter((b"A", reply(flags=0xC0)), (b"A", reply(flags=0xC0)))
    with line:
        instrument.start()
        assert [s.status for s in instrument.read().statuses] == [Status.LOW_BATTERY]
        assert not instrument.read().statuses


def test_switched_off() -> None:
    instrument, line = meter((b"A", None))
    with line, pytest.raises(NoAnswer, match="auto power off"):
        instrument.open()
    instrument, line = meter((b"A", b"\x02" + bytes(44)))
    with line, pytest.raises(ProtocolError, match="is it a Center 309"):
        instrument.open()
