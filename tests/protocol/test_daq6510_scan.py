from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from instruments.drivers.daq6510_scan import Daq6510Scan, Daq6510ScanSettings, parse_scanned
from instruments.errors import ProtocolError, SettingRefused, WrongInstrument
from instruments.reading import EPOCH_NS, Batch, Status
from tests.protocol.exchange import Clock, ExpectedExchange

Step = tuple[str, str | None]
NO_ERROR: Step = ("SYST:ERR?", '0,"No error;0;0 0"')
POLL = 'TRAC:ACT:STAR? "defbuffer1";:TRAC:ACT:END? "defbuffer1"'
LIMITS = {"accuracy_pct_of_reading": 0.01, "accuracy_floor": 1e-3}
INPUTS = {
    "v12": {"number": 101, "function": "voltage", "range": 100.0, **LIMITS},
    "i12": {"number": 122, "function": "current", "range": 3.0, **LIMITS},
}
BEGIN: list[Step] = [('TRAC:CLE "defbuffer1"', None), ("INIT", None), NO_ERROR]
CHECKS: list[Step] = [
    NO_ERROR,
    ("FUNC? (@101)", '"VOLT:DC"'),
    ("VOLT:DC:RANG? (@101)", "100"),
    ("VOLT:DC:NPLC? (@101)", "1"),
    ("FUNC? (@122)", '"CURR:DC"'),
    ("CURR:DC:RANG? (@122)", "3"),
    ("CURR:DC:NPLC? (@122)", "1"),
    ("ROUT:SCAN:INT?", "0.2"),
    ("SYST:LFR?", "50"),
    ('TRAC:POIN? "defbuffer1"', "100000"),
]
COMMANDS: list[Step] = [
    ("ABOR", None),
    ("*RST", None),
    ("*CLS", None),
    ("*OPC?", "1"),
    ('FUNC "VOLT:DC",(@101)', None),
    ("VOLT:DC:RANG 100,(@101)", None),
    ("VOLT:DC:NPLC 1,(@101)", None),
    ("VOLT:DC:AZER OFF,(@101)", None),
    ('FUNC "CURR:DC",(@122)', None),
    ("CURR:DC:RANG 3,(@122)", None),
    ("CURR:DC:NPLC 1,(@122)", None),
    ("CURR:DC:AZER OFF,(@122)", None),
    ("AZER:ONCE", None),
    ("FORM:DATA ASC", None),
    ("FORM:ASC:PREC 16", None),
    ('TRAC:FILL:MODE CONT,"defbuffer1"', None),
    ("ROUT:SCAN:CRE (@101,122)", None),
    ("ROUT:SCAN:COUN:SCAN 18000", None),
    ("ROUT:SCAN:INT 0.2", None),
    ("*OPC?", "1"),
]
START = [*COMMANDS, *CHECKS, *BEGIN]


def settings(**changes: Any) -> Daq6510ScanSettings:
    values = {"resource": "TCPIP0::daq::5025::SOCKET", "interval_s": 0.2, "inputs": INPUTS}
    return Daq6510ScanSettings.model_validate(values | changes)


def meter(line: ExpectedExchange, clock: Clock | None = None) -> Daq6510Scan:
    return Daq6510Scan("daq", settings(), clock or Clock(step_ns=1000), line)


def data(first: int, last: int, answer: str) -> Step:
    return f'TRAC:DATA? {first},{last},"defbuffer1",READ,REL,CHAN', answer


def test_a_whole_session() -> None:
    with ExpectedExchange(
        ("*IDN?", "KEITHLEY INSTRUMENTS,MODEL DAQ6510,04480963,1.0.04b"),
        *START,
        (POLL, "1;3"),
        data(1, 3, "12.01,0,101,9.9E+37,0.024,122,12.02,0.2,101"),
        (POLL, "1;4"),
        data(4, 4, "5.0E-01,0.824,122"),
        ("ABOR", None),
        ("ROUT:OPEN:ALL", None),
        ("logout", None),
    ) as line:
        instrument = meter(line)
        instrument.open()
        instrument.start()
        batch = instrument.read()
        (volts,) = batch.blocks
        assert (volts.channel, volts.values.tolist()) == ("v12", [12.01, 12.02])
        assert volts.t_ns.tolist() == [0, 200_000_000]
        (over,) = batch.statuses
        assert (over.channel, over.status, over.t_ns) == ("i12", Status.OVERLOAD, 24_000_000)
        assert {(p.channel, p.device_ns) for p in batch.clock_pairs} == {
            ("v12", 200_000_000),
            ("i12", 200_000_000),
        }, "one clock"
        instrument._next_poll_ns = 0
        batch = instrument.read()
        (lost,) = batch.statuses
        assert (lost.channel, lost.status, lost.count) == ("i12", Status.LOST, 3)
        assert batch.blocks[0].t_ns.tolist() == [824_000_000]
        instrument.close()


def test_it_is_started_again_with_nothing_unread() -> None:
    with ExpectedExchange(
        *START,
        (POLL, "1;1"),
        data(1, 1, "12.01,0,101"),
        ("ABOR", None),
        (POLL, "1;2"),
        data(2, 2, "0.5,0.024,122"),
        *BEGIN,
        (POLL, "1;1"),
        data(1, 1, "12.02,0,101"),
    ) as line:
        clock = Clock()
        instrument = meter(line, clock)
        instrument.start()
        clock.now_ns += 1_801_000_000_000
        batch = instrument.read()
        assert [block.channel for block in batch.blocks] == ["v12", "i12"]
        assert {status.status for status in batch.statuses} == {Status.LOST}
        instrument._next_poll_ns = 0
        assert instrument.read().blocks[0].t_ns.tolist() == [EPOCH_NS]


@pytest.mark.parametrize("garbled", ["12.01,0", "?!", "12.01,x,101", "12.01,0,101,1"])
def test_a_half_answer_loses_nothing(garbled: str) -> None:
    query, answer = data(1, 1, "12.01,0,101")
    with ExpectedExchange(
        *START, (POLL, "1;1"), (query, garbled), (POLL, "1;1"), (query, answer)
    ) as line:
        instrument = meter(line)
        instrument.start()
        assert {s.status for s in instrument.read().statuses} == {Status.UNREADABLE}
        instrument._next_poll_ns = 0
        assert instrument.read().blocks[0].values.tolist() == [12.01]


@pytest.mark.parametrize(
    ("index", "answer", "message"),
    [
        (0, '-222,"Parameter data out of range;1;2026"', "-222"),
        (1, '"CURR:DC"', "101 measures CURR:DC"),
        (5, "1", "the range of 122 is 1"),
        (7, "0.5", "the interval of the scan"),
        (8, "60", "mains_hz"),
    ],
)
def test_a_setting_that_did_not_take(index: int, answer: str, message: str) -> None:
    steps = [*CHECKS[:index], (CHECKS[index][0], answer), *([NO_ERROR] if index == 0 else [])]
    line = ExpectedExchange(*COMMANDS, *steps)
    with line, pytest.raises(SettingRefused, match=message):
        meter(line).start()


def test_what_came_before_a_half_answer_is_delivered() -> None:
    whole = ",".join(f"12.0,{number * 0.2:g},101" for number in range(500))
    rest = ",".join(f"12.0,{number * 0.2:g},101" for number in (500, 501))
    with ExpectedExchange(
        *START,
        (POLL, "1;502"),
        data(1, 500, whole),
        data(501, 502, "12.0,100"),
        (POLL, "1;502"),
        data(501, 502, rest),
    ) as line:
        instrument = meter(line)
        instrument.start()
        first = instrument.read()
        instrument._next_poll_ns = 0
        second = instrument.read()
    assert [len(batch.blocks[0]) for batch in (first, second)] == [500, 2]
    assert {status.status for status in first.statuses} == {Status.UNREADABLE}
    assert first.clock_pairs == (), "there are newer ones in the buffer"
    assert second.statuses == ()


def test_somebody_clears_the_buffer() -> None:
    with ExpectedExchange(
        *START,
        (POLL, "1;4"),
        data(1, 4, "12.01,0,101,0.5,0.024,122,12.01,0.2,101,0.5,0.224,122"),
        (POLL, "1;2"),
        (POLL, "1;2"),
        data(1, 2, "12.02,0,101,0.6,0.024,122"),
        (POLL, "0;0"),
        (POLL, "0;0"),
        (POLL, "1;1"),
        (POLL, "1;1"),
        data(1, 1, "12.02,0,101"),
    ) as line:
        clock = Clock()
        instrument = meter(line, clock)
        instrument.start()
        instrument.read()
        clock.now_ns += 1_000_000_000
        again = instrument.read()
        clock.now_ns += 400_000_000
        empty = instrument.read()
        clock.now_ns += 200_000_000
        third = instrument.read()
    assert [block.t_ns.tolist() for block in again.blocks] == [[EPOCH_NS], [EPOCH_NS + 24_000_000]]
    lost = {(one.channel, one.t_ns, one.status, one.count) for one in again.statuses}
    assert lost == {
        ("v12", 200_000_000, Status.LOST, 4),
        ("i12", 224_000_000, Status.LOST, 4),
    }, "five scans in a second, of which one is there"
    assert {pair.device_ns for pair in again.clock_pairs} == {EPOCH_NS + 24_000_000}
    assert empty == Batch()
    assert {(one.channel, one.count) for one in third.statuses} == {("v12", 2), ("i12", 2)}
    assert third.blocks[0].t_ns.tolist() == [2 * EPOCH_NS]


def test_another_instrument_is_refused() -> None:
    line = ExpectedExchange(("*IDN?", "KEITHLEY INSTRUMENTS,MODEL DMM6500,1,1"))
    with line, pytest.raises(WrongInstrument, match="expected a DAQ6510"):
        meter(line).open()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"interval_s": 0.05}, "at least 0.06"),
        ({"inputs": {"a": INPUTS["v12"], "b": INPUTS["v12"]}}, "each channel of the card once"),
        ({"inputs": {"a": {**INPUTS["v12"], "range": 20.0}}}, "must be one of 0.1"),
        ({"inputs": {"a.b": INPUTS["v12"]}}, "pattern"),
        ({"inputs": {}}, "at least 1"),
        ({"interval_s": 10.0, "dead_man_s": 60.0}, "ten times interval_s"),
    ],
)
def test_settings_that_cannot_work(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        settings(**changes)


def test_what_the_buffer_answers() -> None:
    assert parse_scanned("OL,0.5,101", 1) == [(101, Status.UNREADABLE, 0.5)]
    with pytest.raises(ProtocolError):
        parse_scanned("1,2,3,4", 1)
