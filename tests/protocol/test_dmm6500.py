from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from instruments.drivers.dmm6500 import Dmm6500, Dmm6500Settings
from instruments.drivers.dmm6500_buffer import new_indices, parse_filled, parse_stamped
from instruments.errors import NoAnswer, ProtocolError, SettingRefused, WrongInstrument
from instruments.reading import EPOCH_NS, Batch, Status
from tests.protocol.exchange import Clock, ExpectedExchange

Step = tuple[str, str | Exception | None]
IDN = ("*IDN?", "KEITHLEY INSTRUMENTS,MODEL DMM6500,04340543,1.0.01b")
NO_ERROR = ("SYST:ERR?", '0,"No error;0;0 0"')
POLL = 'TRAC:ACT:STAR? "defbuffer1";:TRAC:ACT:END? "defbuffer1"'
ARM: list[Step] = [("INIT", None), NO_ERROR]


def loop(delay: str, count: int, measure: str = "MDIG") -> list[Step]:
    return [
        ('TRIG:LOAD "Empty"', None),
        (f"TRIG:BLOC:DEL:CONS 1,{delay}", None),
        (f'TRIG:BLOC:{measure} 2,"defbuffer1"', None),
        (f"TRIG:BLOC:BRAN:COUN 3,{count},1", None),
    ]


COMMANDS: list[Step] = [
    ("ABOR", None),
    ("*RST", None),
    ("*CLS", None),
    ("*OPC?", "1"),
    ('SENS:FUNC "VOLT:DC"', None),
    ("SENS:VOLT:DC:RANG 10", None),
    ("SENS:VOLT:DC:NPLC 1", None),
    ("SENS:VOLT:DC:AZER OFF", None),
    ("SENS:AZER:ONCE", None),
    ("FORM:DATA ASC", None),
    ("FORM:ASC:PREC 16", None),
    ('TRAC:FILL:MODE CONT,"defbuffer1"', None),
    ('TRAC:CLE "defbuffer1"', None),
    ("*OPC?", "1"),
]
CHECKS: list[Step] = [
    NO_ERROR,
    ("FUNC?", '"VOLT:DC"'),
    ("VOLT:DC:RANG?", "10"),
    ("VOLT:DC:NPLC?", "1"),
    ("SYST:LFR?", "50"),
    ('TRAC:POIN? "defbuffer1"', "100"),
]
START = [*COMMANDS, *CHECKS, *loop("0.08", 6000), *ARM]


def settings(**changes: Any) -> Dmm6500Settings:
    values: dict[str, Any] = {
        "resource": "TCPIP0::meter::5025::SOCKET",
        "function": "voltage",
        "range": 10.0,
        "nplc": 1.0,
        "interval_s": 0.1,
    }
    return Dmm6500Settings.model_validate(values | changes)


def meter(line: ExpectedExchange, clock: Clock | None = None, **changes: Any) -> Dmm6500:
    return Dmm6500("v12", settings(**changes), clock or Clock(), line)


def data(first: int, last: int, *values: str) -> Step:
    return f'TRAC:DATA? {first},{last},"defbuffer1",READ,REL', ",".join(values)


def times(batch: Batch) -> list[int]:
    return [t for block in batch.blocks for t in block.t_ns.tolist()]


def test_a_whole_session() -> None:
    with ExpectedExchange(
        IDN,
        ("*LANG?", "SCPI"),
        *START,
        (POLL, "0;0"),
        (POLL, "1;3"),
        data(1, 3, "1.203E+01", "0.000000000", "9.9E+37", "0.100000250", "1.204E+01", "0.2000005"),
        (POLL, "1;3"),
        (POLL, "1;4"),
        data(4, 4, "1.205E+01", "0.30000075"),
        ("ABOR", None),
        ("TRIG:CONT REST", None),
        ("logout", None),
    ) as line:
        instrument = meter(line, Clock(step_ns=1000))
        assert instrument.open().serial == "04340543"
        instrument.start()
        assert instrument.read() == Batch()
        batch = instrument.read()
        assert times(batch) == [0, 200_000_500]
        assert batch.blocks[0].values.tolist() == [12.03, 12.04]
        assert [(s.status, s.t_ns) for s in batch.statuses] == [(Status.OVERLOAD, 100_000_250)]
        (pair,) = batch.clock_pairs
        assert (pair.device_ns, pair.round_trip_ns) == (200_000_500, 1000)
        batch = instrument.read()
        assert not batch.blocks and batch.clock_pairs[0].device_ns == 200_000_500
        assert times(instrument.read()) == [300_000_750]
        instrument.close()
        assert line.closed == 1
    (channel,) = instrument.channels
    assert channel.accuracy.source.startswith("Keithley SPEC-DMM6500 Rev. A")
    assert channel.clock_tick_s == pytest.approx(0.12)


@pytest.mark.parametrize("language", ["TSP", "SCPI2000", "SCPI34401"])
def test_another_command_set_says_how_to_change_it(language: str) -> None:
    line = ExpectedExchange(IDN, ("*LANG?", language))
    with line, pytest.raises(WrongInstrument, match=rf"speaks {language}, .*\*LANG SCPI"):
        meter(line).open()


def test_another_instrument_is_refused() -> None:
    line = ExpectedExchange(("*IDN?", "KEITHLEY INSTRUMENTS,MODEL DAQ6510,1,1"))
    with line, pytest.raises(WrongInstrument, match="expected a DMM6500, found"):
        meter(line).open()


def values_from(index: int, seconds: list[float]) -> Step:
    fields = [field for s in seconds for field in ("1.2E+01", f"{s:.9f}")]
    return data(index, index + len(seconds) - 1, *fields)


def test_the_index_wraps() -> None:
    first = [0.1 * i for i in range(99)]
    with ExpectedExchange(
        *START,
        (POLL, "1;99"),
        values_from(1, first),
        (POLL, "3;2"),
        values_from(100, [9.9]),
        values_from(1, [10.0, 10.1]),
    ) as line:
        instrument = meter(line)
        instrument.start()
        assert len(times(instrument.read())) == 99
        batch = instrument.read()
        assert times(batch) == [9_900_000_000, 10_000_000_000, 10_100_000_000]
        assert not batch.statuses


def test_stamps_that_start_again_are_a_new_epoch() -> None:
    with ExpectedExchange(
        *START,
        (POLL, "1;2"),
        values_from(1, [0.0, 0.1]),
        (POLL, "1;4"),
        values_from(3, [0.0, 0.1]),
    ) as line:
        instrument = meter(line)
        instrument.start()
        instrument.read()
        batch = instrument.read()
        assert times(batch) == [EPOCH_NS, EPOCH_NS + 100_000_000]
        assert batch.clock_pairs[0].device_ns == EPOCH_NS + 100_000_000


def test_a_buffer_that_was_not_read_in_time_is_counted() -> None:
    with ExpectedExchange(
        *START,
        (POLL, "1;20"),
        values_from(1, [0.1 * i for i in range(20)]),
        (POLL, "51;50"),
        values_from(51, [12.0 + 0.1 * i for i in range(50)]),
        values_from(1, [17.0 + 0.1 * i for i in range(50)]),
    ) as line:
        clock = Clock()
        instrument = meter(line, clock)
        instrument._panel.changed = lambda _now: None  # type: ignore[method-assign]
        instrument.start()
        instrument.read()
        clock.now_ns += 20_000_000_000
        batch = instrument.read()
        assert len(times(batch)) == 100
        lost, overflow = batch.statuses
        assert (lost.status, lost.count) == (Status.LOST, 100)
        assert overflow.status is Status.MEMORY_OVERFLOW


def test_readings_that_are_still_there_after_a_long_pause_are_not_delivered_twice() -> None:
    """All of the buffer is read, for some of it may be overwritten; its oldest were read before."""
    with ExpectedExchange(
        *START,
        (POLL, "1;100"),
        values_from(1, [0.1 * i for i in range(100)]),
        (POLL, "94;93"),
        values_from(94, [9.3 + 0.1 * i for i in range(7)]),
        values_from(1, [10.0 + 0.1 * i for i in range(93)]),
    ) as line:
        clock = Clock()
        instrument = meter(line, clock)
        instrument._panel.changed = lambda _now: None  # type: ignore[method-assign]
        instrument.start()
        assert len(times(instrument.read())) == 100
        clock.now_ns += 9_300_000_000
        batch = instrument.read()
        assert times(batch) == [round((10.0 + 0.1 * i) * 1e9) for i in range(93)]
        assert {status.status for status in batch.statuses} == {Status.MEMORY_OVERFLOW}


def test_the_dead_man_is_armed_again_and_the_gap_is_counted() -> None:
    with ExpectedExchange(
        *START,
        (POLL, "1;10"),
        values_from(1, [0.1 * i for i in range(10)]),
        ("ABOR", None),
        *ARM,
        (POLL, "1;12"),
        values_from(11, [1.0, 1.4]),
    ) as line:
        clock = Clock()
        instrument = meter(line, clock)
        instrument._panel.changed = lambda _now: None  # type: ignore[method-assign]
        instrument.start()
        clock.now_ns += 301_000_000_000
        assert instrument.read().blocks
        clock.now_ns += 1_000_000_000
        (lost,) = instrument.read().statuses
        assert (lost.status, lost.count, lost.t_ns) == (Status.LOST, 3, 1_000_000_000)


def test_a_buffer_that_wraps_between_two_answers_was_not_cleared() -> None:
    """It is asked for its first and its last reading, and measures the 101st between these."""
    with ExpectedExchange(
        *START,
        (POLL, "1;100"),
        values_from(1, [0.1 * i for i in range(100)]),
        (POLL, "1;1"),
        (POLL, "2;1"),
        values_from(1, [10.0]),
    ) as line:
        clock = Clock()
        instrument = meter(line, clock)
        instrument._panel.changed = lambda _now: None  # type: ignore[method-assign]
        instrument.start()
        instrument.read()
        clock.now_ns += 100_000_000
        batch = instrument.read()
        assert times(batch) == [10_000_000_000] and not batch.statuses


def test_a_buffer_that_somebody_cleared_is_a_loss_and_a_new_epoch() -> None:
    with ExpectedExchange(
        *START,
        (POLL, "1;20"),
        values_from(1, [0.1 * i for i in range(20)]),
        (POLL, "1;4"),
        (POLL, "1;4"),
        values_from(1, [0.0, 0.1, 0.2, 0.3]),
    ) as line:
        clock = Clock()
        instrument = meter(line, clock)
        instrument.start()
        instrument.read()
        clock.now_ns += 1_000_000_000
        batch = instrument.read()
        (lost,) = batch.statuses
        assert (lost.status, lost.count, lost.t_ns) == (Status.LOST, 6, 2_000_000_000)
        assert times(batch)[0] == EPOCH_NS


def test_a_dmm7510_has_another_word_for_the_block_that_measures() -> None:
    accuracy = {"accuracy_pct_of_reading": 0.01, "accuracy_floor": 1e-4}
    steps = [*COMMANDS, *CHECKS, *loop("0.08", 6000, "MEAS"), *ARM]
    with ExpectedExchange(*steps) as line:
        meter(line, model="DMM7510", **accuracy).start()


def test_a_meter_that_stopped_by_itself_is_started_again() -> None:
    with ExpectedExchange(
        *START,
        (POLL, "1;1"),
        values_from(1, [0.0]),
        (POLL, "1;1"),
        ("TRIG:STAT?", "RUNNING;RUNNING;2"),
        (POLL, "1;1"),
        ("TRIG:STAT?", "IDLE;IDLE;3"),
        ("ABOR", None),
        *ARM,
    ) as line:
        clock = Clock()
        instrument = meter(line, clock)
        instrument._panel.changed = lambda _now: None  # type: ignore[method-assign]
        instrument.start()
        instrument.read()
        for _ in range(2):
            clock.now_ns += 1_500_000_000
            instrument.read()


def test_the_delay_is_tuned_to_the_interval() -> None:
    late = [0.102 * i for i in range(10)]
    with ExpectedExchange(
        *START,
        (POLL, "1;10"),
        values_from(1, late),
        ("ABOR", None),
        *loop("0.078", 6000),
        *ARM,
    ) as line:
        instrument = meter(line)
        instrument.start()
        assert not instrument.read().statuses


def test_an_interval_that_is_too_short_is_refused() -> None:
    with ExpectedExchange(
        *COMMANDS,
        *CHECKS,
        *loop("0", 30_000),
        *ARM,
        (POLL, "1;10"),
        values_from(1, [0.025 * i for i in range(10)]),
    ) as line:
        instrument = meter(line, interval_s=0.02)
        instrument.start()
        with pytest.raises(SettingRefused, match=r"takes 0\.025 s a reading"):
            instrument.read()


@pytest.mark.parametrize("garbled", ["1.2E+01,0.0,1.2", "?!", "1.2E+01,x", "1.2E+01,1E36"])
def test_a_half_answer_loses_nothing(garbled: str) -> None:
    query, answer = values_from(1, [0.0])
    with ExpectedExchange(
        *START, (POLL, "1;1"), (query, garbled), (POLL, "1;1"), (query, answer)
    ) as line:
        instrument = meter(line)
        instrument.start()
        assert instrument.read() == Batch()
        assert times(instrument.read()) == [0]


@pytest.mark.parametrize("nonsense", ["?!", b"\xff\xfe\n"])
def test_a_meter_that_keeps_answering_nonsense_is_given_up(nonsense: str | bytes) -> None:
    query, _ = values_from(1, [0.0])
    polls = [step for _ in range(3) for step in ((POLL, "1;1"), (query, nonsense))]
    with ExpectedExchange(*START, *polls) as line:
        instrument = meter(line)
        instrument.start()
        instrument.read()
        instrument.read()
        with pytest.raises(ProtocolError, match=r"^v12: (?!v12)"):
            instrument.read()


def test_the_answer_to_the_query_before() -> None:
    with ExpectedExchange(*START, (POLL, "1.2E+01,0.1"), (POLL, "0;0")) as line:
        instrument = meter(line)
        instrument.start()
        assert instrument.read() == Batch()


def test_no_answer_says_what_was_asked() -> None:
    query, _ = values_from(1, [0.0])
    with ExpectedExchange(*START, (POLL, "1;1"), (query, NoAnswer("v12: nothing"))) as line:
        instrument = meter(line)
        instrument.start()
        with pytest.raises(NoAnswer, match="1 readings were asked for"):
            instrument.read()


@pytest.mark.parametrize(
    ("moved", "status"),
    [
        ([("FUNC?", '"CURR:DC"')], Status.WRONG_FUNCTION),
        ([("FUNC?", '"VOLT:DC"'), ("VOLT:DC:RANG?", "100")], Status.RANGE_CHANGED),
    ],
)
def test_a_front_panel_moved_at_night(moved: list[Step], status: Status) -> None:
    with ExpectedExchange(*START, (POLL, "0;0"), (POLL, "1;1"), *moved, *START) as line:
        clock = Clock()
        instrument = meter(line, clock)
        instrument.start()
        instrument.read()
        clock.now_ns += 3_000_000_000
        assert [s.status for s in instrument.read().statuses] == [status]


@pytest.mark.parametrize(
    ("index", "answer", "message"),
    [
        (0, '-222,"Parameter data out of range;1;2026"', "-222"),
        (1, '"CURR:DC"', "front panel"),
        (2, "100", "the range is 100"),
        (3, "10", "NPLC is 10"),
        (4, "60", "mains_hz"),
    ],
)
def test_a_setting_that_did_not_take(index: int, answer: str, message: str) -> None:
    steps = [*CHECKS[:index], (CHECKS[index][0], answer)]
    if index == 0:
        steps.append(NO_ERROR)
    line = ExpectedExchange(*COMMANDS, *steps)
    with line, pytest.raises(SettingRefused, match=message):
        meter(line).start()


def test_what_is_new_in_the_buffer() -> None:
    assert new_indices(0, 0, 0, 100) == []
    assert new_indices(0, 1, 5, 100) == [(1, 5)]
    assert new_indices(5, 1, 5, 100) == []
    assert new_indices(98, 3, 2, 100) == [(99, 100), (1, 2)]
    assert new_indices(100, 3, 2, 100) == [(1, 2)]
    assert new_indices(40, 1, 2, 100) == [(1, 2)], "somebody cleared it"


def test_what_the_buffer_answers() -> None:
    assert parse_filled("1;+12\n") == (1, 12)
    assert parse_stamped("9.91E37,0.5,-1,1", 2) == [(Status.NO_VALUE, 0.5), (-1.0, 1.0)]
    assert parse_stamped("OL,0.5", 1) == [(Status.UNREADABLE, 0.5)]
    for text in ("", "12", "1;", "1;2;3", "-1;2"):
        with pytest.raises(ProtocolError):
            parse_filled(text)
    for text in ("", "1", "1,2,3", "1,9.9E37", "1,1E36", "1,-1", "1,2,3,4"):
        with pytest.raises(ProtocolError):
            parse_stamped(text, 1)


def test_settings() -> None:
    with pytest.raises(ValidationError, match="accuracy_pct_of_reading"):
        settings(function="current", range=1.0)
    with pytest.raises(ValidationError, match="at least the integration time"):
        settings(interval_s=0.01)
    with pytest.raises(ValidationError, match=r"0\.0005 to 12"):
        settings(nplc=20.0)
    with pytest.raises(ValidationError, match="four times interval_s"):
        settings(interval_s=60.0, dead_man_s=200.0)
    with pytest.raises(ValidationError, match="baud: only for serial"):
        settings(baud=9600)
