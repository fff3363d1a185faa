from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from pydantic import ValidationError

from instruments.drivers import truevolt
from instruments.drivers.truevolt import Truevolt, TruevoltSettings, parse_readings
from instruments.errors import (
    NoAnswer,
    ProtocolError,
    SettingRefused,
    WrongInstrument,
)
from instruments.reading import EPOCH_NS, Status
from instruments.reading import Clock as ClockKind
from tests.protocol.exchange import Clock, ExpectedExchange

POLL = "DATA:POIN?;:STAT:QUES:COND?"
IDN = ("*IDN?", "Keysight Technologies,34465A,MY54500000,A.02.14-02.40-02.14-00.49-02-01")
NO_ERROR = ("SYST:ERR?", '+0,"No error"')
COMMANDS: list[tuple[str, str | None]] = [
    ("ABOR", None),
    ("*RST", None),
    ("*CLS", None),
    ("*OPC?", "1"),
    ("CONF:VOLT:DC 0.1", None),
    ("VOLT:DC:NPLC 0.2", None),
    ("VOLT:DC:ZERO:AUTO ONCE", None),
    ("TRIG:SOUR IMM", None),
    ("TRIG:DEL 0", None),
    ("SAMP:SOUR TIM", None),
    ("SAMP:TIM 0.01", None),
    ("SAMP:COUN 1000000000", None),
    ("TRIG:COUN 1", None),
    ("*OPC?", "1"),
]
CHECKS: list[tuple[str, str | None]] = [
    NO_ERROR,
    ("FUNC?", '"VOLT"'),
    ("VOLT:DC:RANG?", "+1.00000000E-01"),
    ("VOLT:DC:NPLC?", "+2.00000000E-01"),
    ("SAMP:TIM? MIN", "+4.40000000E-03"),
    ("SAMP:TIM?", "+1.00000000E-02"),
    ("INIT", None),
]
START = COMMANDS + CHECKS


def settings(**changes: Any) -> TruevoltSettings:
    values: dict[str, Any] = {
        "resource": "TCPIP0::meter::5025::SOCKET",
        "model": "34465A",
        "function": "voltage",
        "range": 0.1,
        "nplc": 0.2,
        "interval_s": 0.01,
    }
    return TruevoltSettings.model_validate(values | changes)


def block(text: str) -> str:
    length = str(len(text))
    return f"#{len(length)}{length}{text}"


def meter(line: ExpectedExchange, clock: Clock | None = None, **changes: Any) -> Truevolt:
    return Truevolt("i12", settings(**changes), clock or Clock(), line)


def test_a_whole_session() -> None:
    values = "+4.00000000E-02,-4.10000000E-02,+9.90000000E+37"
    with ExpectedExchange(
        IDN,
        *START,
        (POLL, "+3;+0"),
        ("R? 3", block(values)),
        (POLL, "+0;+0"),
        ("ABOR", None),
        ("SYST:LOC", None),
    ) as line:
        instrument = meter(line, Clock(step_ns=1000))
        (channel,) = instrument.channels
        assert channel.clock is ClockKind.DEVICE
        assert (channel.name, channel.unit, channel.range) == ("voltage", "V", 0.1)
        assert channel.aperture_s == pytest.approx(0.004)
        identity = instrument.open()
        assert (identity.model, identity.serial) == ("34465A", "MY54500000")
        instrument.start()
        batch = instrument.read()
        (readings,) = batch.blocks
        assert readings.values.tolist() == [0.04, -0.041]
        assert readings.t_ns.tolist() == [2_000_000, 12_000_000]
        (status,) = batch.statuses
        assert (status.status, status.t_ns, status.count) == (Status.OVERLOAD, 22_000_000, 1)
        (pair,) = batch.clock_pairs
        # three windows are over: 2 intervals and an aperture since the first began
        assert pair.device_ns == 24_000_000
        assert pair.round_trip_ns == 1000
        (pair,) = instrument.read().clock_pairs
        assert pair.device_ns == 24_000_000
        instrument.close()
        assert line.closed == 1


def test_the_interval_that_the_meter_really_has_counts() -> None:
    checks = [*CHECKS]
    checks[5] = ("SAMP:TIM?", "+1.00010000E-02")
    with ExpectedExchange(
        *COMMANDS, *checks, (POLL, "+2;+0"), ("R? 2", block("+1.0E-02,+1.0E-02"))
    ) as line:
        instrument = meter(line)
        instrument.start()
        assert instrument.read().blocks[0].t_ns.tolist() == [2_000_000, 12_001_000]


def test_an_overflow_is_a_status_and_a_new_epoch() -> None:
    with ExpectedExchange(
        *START,
        (POLL, "+2;+0"),
        ("R? 2", block("+1.0E-02,+1.0E-02")),
        (POLL, "+50000;+16384"),
        ("ABOR", None),
        ("INIT", None),
        NO_ERROR,
        (POLL, "+1;+0"),
        ("R? 1", block("+2.0E-02")),
    ) as line:
        instrument = meter(line)
        instrument.start()
        instrument.read()
        batch = instrument.read()
        assert not batch.blocks and not batch.clock_pairs
        assert [s.status for s in batch.statuses] == [Status.MEMORY_OVERFLOW]
        batch = instrument.read()
        assert batch.blocks[0].t_ns.tolist() == [EPOCH_NS + 2_000_000]
        assert batch.clock_pairs[0].device_ns == EPOCH_NS + 4_000_000


def test_each_start_is_an_epoch() -> None:
    with ExpectedExchange(*START, *START, (POLL, "+1;+0"), ("R? 1", block("+2.0E-02"))) as line:
        instrument = meter(line)
        instrument.start()
        instrument.start()
        assert instrument.read().blocks[0].t_ns.tolist() == [EPOCH_NS + 2_000_000]


def test_a_block_cut_short_loses_the_count() -> None:
    with ExpectedExchange(
        *START,
        (POLL, "+2;+0"),
        ("R? 2", "#231+1.00000000E-02,+1.0000"),
        ("ABOR", None),
        ("INIT", None),
        NO_ERROR,
    ) as line:
        instrument = meter(line)
        instrument.start()
        (status,) = instrument.read().statuses
        assert status.status is Status.UNREADABLE
        assert "cut short" in status.detail


def test_a_stale_answer_is_passed_over() -> None:
    with ExpectedExchange(*START, (POLL, "+1.0E-02"), (POLL, "+0;+0")) as line:
        instrument = meter(line)
        instrument.start()
        assert instrument.read() is not None
    with ExpectedExchange(*START, (POLL, "+1.0E-02"), (POLL, "what?")) as line:
        instrument = meter(line)
        instrument.start()
        with pytest.raises(ProtocolError, match="i12"):
            instrument.read()


def test_another_instrument_is_refused() -> None:
    line = ExpectedExchange(("*IDN?", "Rigol,DM3068,1,2"))
    with line, pytest.raises(WrongInstrument, match="expected a 34465A, found Rigol DM3068"):
        meter(line).open()
    line = ExpectedExchange(IDN)
    with line, pytest.raises(WrongInstrument, match="serial number MY1"):
        meter(line, serial="MY1").open()


def test_a_stale_reading_in_place_of_the_identity() -> None:
    with ExpectedExchange(("*IDN?", "+1.0E-02,+1.0E-02"), IDN) as line:
        assert meter(line).open().model == "34465A"


@pytest.mark.parametrize(
    ("index", "answer", "message"),
    [
        (0, '-222,"Data out of range"', "-222 Data out of range"),
        (1, '"CURR"', "front panel"),
        (2, "+1.00000000E+00", "the range is 1 after setting 0.1"),
        (3, "+1.00000000E+01", "NPLC is 10"),
        (4, "+2.00000000E-02", "at least 0.02"),
        (5, "+1.00000000E+00", "the sample interval is 1"),
    ],
)
def test_a_setting_that_did_not_take(index: int, answer: str, message: str) -> None:
    steps: list[tuple[str, str | None]] = [*CHECKS[:index], (CHECKS[index][0], answer)]
    if index == 0:
        steps.append(NO_ERROR)
    line = ExpectedExchange(*COMMANDS, *steps)
    with line, pytest.raises(SettingRefused, match=message):
        meter(line).start()


def test_no_answer_and_a_dead_line() -> None:
    with ExpectedExchange(*START, (POLL, NoAnswer("nothing"))) as line:
        instrument = meter(line)
        instrument.start()
        with pytest.raises(NoAnswer, match="STAT:QUES"):
            instrument.read()
        line.gone = True
        instrument.close()
        assert line.closed == 1


def test_readings_of_a_block() -> None:
    assert parse_readings(b"#10\n") == []
    assert parse_readings(b"#219+1.0E-02,+9.91E37,x7\n"[:23] + b"\n") == [
        0.01,
        Status.NO_VALUE,
        Status.UNREADABLE,
    ]


def test_settings_name_every_mistake() -> None:
    with pytest.raises(ValidationError) as caught:
        settings(range=0.5, nplc=3, colour="red")
    assert {error["loc"][0] for error in caught.value.errors()} == {"range", "nplc", "colour"}
    with pytest.raises(ValidationError, match=r"at least the integration time, 0\.2 s"):
        settings(nplc=10, interval_s=0.1)
    with pytest.raises(ValidationError, match="belong together"):
        settings(accuracy_floor=1e-6)


def test_own_accuracy_replaces_the_manual() -> None:
    limits = meter(ExpectedExchange(), accuracy_pct_of_reading=0.001, accuracy_floor=2e-6)
    assert limits.channels[0].accuracy.limit(0.1) == pytest.approx(3e-6)


@pytest.mark.parametrize(
    "moved",
    [
        [("FUNC?", '"CURR"')],
        [("FUNC?", '"VOLT"'), ("VOLT:DC:RANG?", "+1.00000000E+01")],
    ],
)
def test_a_front_panel_moved_at_night(moved: list[tuple[str, str | None]]) -> None:
    one = ("R? 1", block("+1.0E-02"))
    with ExpectedExchange(
        *START,
        *((POLL, "+1;+0"), one),
        *((POLL, "+1;+0"), *CHECKS[1:3], one),
        *((POLL, "+7;+0"), *moved),
        *START,
        *((POLL, "+1;+0"), one),
    ) as line:
        clock = Clock()
        instrument = meter(line, clock)
        instrument.start()
        assert instrument.read().blocks
        clock.now_ns += 3_000_000_000
        assert instrument.read().blocks
        clock.now_ns += 3_000_000_000
        batch = instrument.read()
        assert not batch.blocks and not batch.clock_pairs
        (status,) = batch.statuses
        wanted = Status.RANGE_CHANGED if len(moved) == 2 else Status.WRONG_FUNCTION
        assert (status.status, status.t_ns) == (wanted, 20_000_000)
        assert "front panel" in status.detail
        assert instrument.read().blocks[0].t_ns.tolist() == [EPOCH_NS + 2_000_000]


def test_an_agilent_34410a_is_triggered_again_when_its_samples_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = dataclasses.replace(truevolt.MODELS["34410A"], samples=3)
    monkeypatch.setattr(truevolt, "MODELS", {**truevolt.MODELS, "34410A": model})
    start = [
        ("SAMP:COUN 3", None) if command.startswith("SAMP:COUN") else (command, answer)
        for command, answer in START
    ]
    with ExpectedExchange(
        ("*IDN?", "Agilent Technologies,34410A,MY1,2.35-2.35-0.09-46-09"),
        *start,
        (POLL, "+3;+0"),
        ("R? 3", block("+1.0E-02,+2.0E-02,+3.0E-02")),
        (POLL, "+0;+0"),
        ("ABOR", None),
        ("INIT", None),
        NO_ERROR,
        (POLL, "+1;+0"),
        ("R? 1", block("+2.0E-02")),
    ) as line:
        clock = Clock()
        limits = {"accuracy_pct_of_reading": 0.005, "accuracy_floor": 4e-6}
        instrument = meter(line, clock, model="34410A", **limits)
        instrument.open()
        instrument.start()
        clock.now_ns += 30_000_000
        batch = instrument.read()
        assert len(batch.blocks[0]) == 3
        assert not batch.clock_pairs, "it stopped: the count says nothing of its clock"
        clock.now_ns += 220_000_000
        (lost,) = instrument.read().statuses
        assert (lost.status, lost.count) == (Status.LOST, 22)
        assert instrument.read().blocks[0].t_ns.tolist() == [EPOCH_NS + 2_000_000]


def test_the_accuracy_of_an_agilent_must_be_given() -> None:
    with pytest.raises(ValidationError, match="accuracy of a 34411A"):
        settings(model="34411A")
