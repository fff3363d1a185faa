from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instruments.driver_kit.scpi import (
    ScpiSession,
    parse_block,
    parse_error,
    parse_identity,
    parse_quantity,
    parse_reading,
)
from instruments.errors import NoAnswer, ProtocolError, WrongInstrument
from instruments.reading import Status
from tests.protocol.exchange import ExpectedExchange


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("+1.23456789E-03", 1.23456789e-3),
        ("-4.98748741E-01\r\n", -0.498748741),
        ("0", 0.0),
        (".5", 0.5),
        ("12,5", 12.5),
        ("-1,25E+01", -12.5),
        ("9.9E37", Status.OVERLOAD),
        ("-9.90000000E+37", Status.OVERLOAD),
        ("+9.91000000E+37", Status.NO_VALUE),
        ("1E400", Status.OVERLOAD),
        ("+1.00000000E+09", Status.OVERLOAD),
        ("INF", Status.OVERLOAD),
        ("-INF", Status.OVERLOAD),
        ("NAN", Status.NO_VALUE),
    ],
)
def test_readings(text: str, expected: float | Status) -> None:
    assert parse_reading(text) == expected


@pytest.mark.parametrize("text", ["", "OL", "1.2.3", "1,2,3", "12 34", "+1.0E-02,+1.0E-02", "0x10"])
def test_what_is_no_reading(text: str) -> None:
    with pytest.raises(ProtocolError, match="expected a number"):
        parse_reading(text)


@pytest.mark.parametrize("text", ["120518.2", "+1.20503E+08", "-87010770"])
def test_more_than_any_meter_can_read_lost_its_point(text: str) -> None:
    with pytest.raises(ProtocolError, match="no meter can read"):
        parse_reading(text)


@given(st.floats(-1e4, 1e4))
def test_every_number_survives(value: float) -> None:
    assert parse_reading(f"{value:+.8E}") == pytest.approx(value, rel=1e-8)


@given(st.text(max_size=40))
def test_any_text_is_a_reading_or_a_protocol_error(text: str) -> None:
    with contextlib.suppress(ProtocolError):
        assert isinstance(parse_reading(text), float | Status)


@pytest.mark.parametrize(
    ("text", "value"),
    [("+2.00000000E+01", 20), ("20V", 20), ("200mV", 0.2), ("200uA", 2e-4), ('"1"', 1), ("3A", 3)],
)
def test_quantities(text: str, value: float) -> None:
    assert parse_quantity(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "AUTO", "..", "V", "1E400", "-1E400V"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ProtocolError):
        parse_quantity(text)


def test_blocks() -> None:
    # The example of the Truevolt guide, R?
    content = b"-4.98748741E-01,-4.35163427E-01,-7.41859188E-01"
    assert parse_block(b"#247" + content + b"\n") == content
    assert parse_block(b"#15hello\r\n") == b"hello"
    assert parse_block(b"#0hello\n") == b"hello"
    assert parse_block(b"#9000000002hi") == b"hi"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"#",
        b"1.0",
        b"#247-4.9874\n",
        b"#2\n",
        b"#9123",
        b"#9000000005hi\n",
        b"#0",
        b"#0hello",
        b"#12hello\n",
        b"#x2hi",
    ],
)
def test_broken_blocks(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_block(data)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_block_or_a_protocol_error(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        parse_block(data)


def test_identities() -> None:
    identity = parse_identity("HEWLETT-PACKARD,34401A,0,11-5-2\n")
    assert (identity.maker, identity.model, identity.firmware) == (
        "HEWLETT-PACKARD",
        "34401A",
        "11-5-2",
    )
    assert parse_identity("FLUKE,8845A").serial == ""
    for bad in ("", "+1.0E-02,+1.0E-02", "hello", ",,,"):
        with pytest.raises(ProtocolError):
            parse_identity(bad)


def test_errors() -> None:
    assert parse_error('-113,"Undefined header"') == (-113, "Undefined header")
    assert parse_error('+0,"No error"') == (0, "No error")
    with pytest.raises(ProtocolError):
        parse_error("No error")


def session(line: ExpectedExchange) -> ScpiSession:
    return ScpiSession("v12", line, 1.0)


class LateLine(ExpectedExchange):
    """An answer comes only after somebody has given up on it."""

    def __init__(self, *steps: tuple[str, str | None], late: str) -> None:
        super().__init__(*steps)
        self._late: str | None = late

    def read_line(self, timeout_s: float) -> bytes:
        if self._late is not None:
            self._unread.append(f"{self._late}\n".encode())
            self._late = None
            raise NoAnswer("v12: nothing within 1 s")
        return super().read_line(timeout_s)


def test_a_late_answer_is_not_taken_for_that_to_the_next_query() -> None:
    with LateLine(("READ?", None), ("FUNC?", '"VOLT"'), late="+1.2E+01") as line:
        scpi = session(line)
        with pytest.raises(NoAnswer, match="READ"):
            scpi.ask("READ?")
        assert scpi.ask("FUNC?") == '"VOLT"'


@pytest.mark.parametrize(
    ("wanted", "answer"),
    [
        ("DMM6500", "KEITHLEY INSTRUMENTS,MODEL DMM6500,1,1"),
        ("2000", "KEITHLEY INSTRUMENTS INC.,MODEL 2000,1,A20 /A02"),
        ("SDM3065X", "Siglent Technologies,SDM3065X-SC,1,1"),
        ("34401A", "HEWLETT-PACKARD,34401A,0,11-5-2"),
        ("", "Anybody,ANYTHING"),
    ],
)
def test_the_model_in_an_identity(wanted: str, answer: str) -> None:
    with ExpectedExchange(("*IDN?", answer)) as line:
        session(line).expect_identity(wanted)


@pytest.mark.parametrize(
    ("wanted", "answer"),
    [
        ("DP832", "RIGOL TECHNOLOGIES,DP832A,1,1"),
        ("34401A", "Keysight Technologies,34461A,1,1"),
        ("2000", "ACME,MODEL 12000,1,1"),
    ],
)
def test_another_model_is_refused(wanted: str, answer: str) -> None:
    with ExpectedExchange(("*IDN?", answer)) as line, pytest.raises(WrongInstrument, match="rig"):
        session(line).expect_identity(wanted)
