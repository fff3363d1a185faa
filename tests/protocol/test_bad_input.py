"""What no meter should send and some line does: it is a status, never a value, and goes by."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instruments import drivers
from instruments.errors import InstrumentError
from instruments.instrument import Instrument
from instruments.reading import Batch, Status
from instruments.simulated.meters.es51922 import ut61e_frame
from instruments.simulated.meters.extech380803 import extech_reply
from instruments.simulated.meters.k204 import k204_reply
from tests.protocol import test_dmm6500, test_lcd_meters, test_supply, test_truevolt
from tests.protocol.exchange import Clock, ExpectedExchange
from tests.unit.instruments.drivers.test_drivers_table import SETTINGS

DISPLAY = ("V", "DC", "AUTO", "p2")
FRAME = {
    "es51922": ut61e_frame("voltage", 3.302),
    "fs9721": test_lcd_meters.fs9721_frame("0330", *DISPLAY),
    "brymen_bm25x": test_lcd_meters.brymen_frame("0330", *DISPLAY),
}
ANSWER = {
    "k204": k204_reply([38.4, None, 20.0, None]),
    "extech380803": extech_reply(61.4, 0.272, 230.1, 0.98),
}
FUNCTION: dict[str, dict[str, Any]] = {
    "brymen_bm25x": {"function": "voltage", "range": 60.0},
    "k204": {"interval_s": 1e-6},
}


def meter(driver: str, line: ExpectedExchange) -> Instrument:
    changes = SETTINGS[driver] | FUNCTION.get(driver, {})
    clock = Clock(step_ns=1_000_000_000)
    return drivers.create("it", driver, changes, clock, line)


def pushing(driver: str, *arriving: bytes) -> list[Batch]:
    line = ExpectedExchange()
    instrument = meter(driver, line)
    instrument.open()
    instrument.start()
    line._unread = list(arriving)
    return [instrument.read() for _ in arriving]


def values(batches: list[Batch]) -> list[float]:
    return [v for batch in batches for block in batch.blocks for v in block.values.tolist()]


def with_odd_parity(data: bytes) -> bytes:
    """Seven bits and odd parity, as a line that is set to eight bits sees them."""
    return bytes(byte | (byte.bit_count() % 2 == 0) << 7 for byte in data)


def test_seven_bits_with_parity_on_a_line_with_eight_make_no_value() -> None:
    good = FRAME["es51922"]
    batches = pushing("es51922", good, with_odd_parity(good) * 3, good)
    assert values(batches[:1]) == pytest.approx([3.302])
    assert values(batches[1:2]) == []
    assert values(batches[2:])[-1:] in ([], pytest.approx([3.302]))


@pytest.mark.parametrize("driver", list(FRAME))
@given(noise=st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_noise_is_outlived(driver: str, noise: list[bytes]) -> None:
    good = FRAME[driver]
    batches = pushing(driver, *noise, b"\r\n", good, good)
    assert values(batches)[-1] == pytest.approx(3.302, abs=3e-3)


@pytest.mark.parametrize("driver", list(FRAME))
@given(cut=st.integers(1, 12), at=st.integers(0, 12))
@settings(max_examples=40, deadline=None)
def test_a_frame_that_lost_bytes_makes_no_value(driver: str, cut: int, at: int) -> None:
    good = FRAME[driver]
    at = min(at, len(good) - 1)
    broken = good[:at] + good[at + cut :]
    found = values(pushing(driver, good, broken, good, good))
    assert set(found) == {found[0]}, "only the value that was sent"


@pytest.mark.parametrize("driver", list(ANSWER))
@given(noise=st.binary(max_size=60))
@settings(max_examples=40, deadline=None)
def test_an_answer_after_noise_is_found(driver: str, noise: bytes) -> None:
    question = {"k204": b"A", "extech380803": b" "}[driver]
    line = ExpectedExchange((question, noise + ANSWER[driver]))
    instrument = meter(driver, line)
    instrument.start()
    try:
        batch = instrument.read()
    except InstrumentError as error:  # it may look like an answer of its own, and is none
        pytest.fail(str(error))
    if batch.blocks:
        assert values([batch])[0] == pytest.approx({"k204": 38.4, "extech380803": 61.4}[driver])
    else:
        assert {status.status for status in batch.statuses} <= {
            Status.UNREADABLE,
            Status.OPEN_SENSOR,
            Status.WRONG_FUNCTION,
            Status.HOLD,
        }


def test_commas_for_points_between_the_values_of_a_supply() -> None:
    with ExpectedExchange(
        ("*CLS", None),
        *test_supply.MEASURE["DP832"],
        test_supply.NO_ERROR,
        (":MEAS:ALL? CH2", "12,0104,0,5120,6,149"),
    ) as line:
        instrument = test_supply.supply(line)
        instrument.start()
        batch = instrument.read()
    assert not batch.blocks
    assert {status.status for status in batch.statuses} == {Status.UNREADABLE}


def test_commas_for_points_in_the_memory_of_a_truevolt() -> None:
    with ExpectedExchange(
        *test_truevolt.START,
        (test_truevolt.POLL, "+2;+0"),
        ("R? 2", test_truevolt.block("+1,0E-02,+1,0E-02")),
        ("ABOR", None),
        ("INIT", None),
        test_truevolt.NO_ERROR,
    ) as line:
        instrument = test_truevolt.meter(line)
        instrument.start()
        batch = instrument.read()
    assert not batch.blocks
    assert [status.status for status in batch.statuses] == [Status.UNREADABLE]


@pytest.mark.parametrize("answer", [b"#0+1.0E-02", b"#9000000020+1.0E-02\n", b"#912\n", b"#\n"])
def test_blocks_cut_short_in_the_memory_of_a_truevolt(answer: bytes) -> None:
    with ExpectedExchange(
        *test_truevolt.START,
        (test_truevolt.POLL, "+2;+0"),
        ("R? 2", answer),
        ("ABOR", None),
        ("INIT", None),
        test_truevolt.NO_ERROR,
    ) as line:
        instrument = test_truevolt.meter(line)
        instrument.start()
        assert not instrument.read().blocks


def test_commas_for_points_in_the_buffer_of_a_dmm6500() -> None:
    with ExpectedExchange(
        *test_dmm6500.START,
        (test_dmm6500.POLL, "1;1"),
        test_dmm6500.data(1, 1, "1,203E+01", "0,000000000"),
        (test_dmm6500.POLL, "1;1"),
        test_dmm6500.data(1, 1, "1.203E+01", "0.000000000"),
    ) as line:
        instrument = test_dmm6500.meter(line, Clock(step_ns=1000))
        instrument.start()
        assert not instrument.read().blocks
        assert values([instrument.read()]) == [12.03], "nothing is lost: it was asked for again"
