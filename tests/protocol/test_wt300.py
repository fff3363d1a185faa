from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from instruments.drivers.wt300 import Wt300, Wt300Settings, parse_rate, peak_over
from instruments.errors import ProtocolError, SettingRefused, WrongInstrument
from instruments.reading import Quantity, Status
from tests.protocol.exchange import Clock, ExpectedExchange

Step = tuple[str, str | bytes | Exception | None]
NO_ERROR: Step = (":STAT:ERR?", '0,"No error"')
OPEN: list[Step] = [
    (":COMM:REM ON", None),
    (":COMM:HEAD OFF", None),
    ("*IDN?", "YOKOGAWA,WT310E,C3TC12345E,F1.04"),
]
CHECKS: list[Step] = [
    (":INP:MODE?", "DC"),
    (":INP:VOLT:RANG?", "15.0E+00"),
    (":INP:CURR:RANG?", "2.0E+00"),
    (":RATE?", "250MS"),
]
LIMITS = {
    "voltage_pct_of_reading": 0.1,
    "voltage_floor_volts": 0.03,
    "current_pct_of_reading": 0.1,
    "current_floor_amps": 0.004,
}
ENERGY = {"integrate": True, "energy_pct_of_reading": 0.2, "energy_floor_wh": 0.001}
UPDATED: Step = (":STAT:EESR?", "1")
NOT_YET: Step = (":STAT:EESR?", "0")


def start(items: tuple[str, ...] = ("P", "U", "I"), *extra: Step) -> list[Step]:
    return [
        (":INTEG:STOP", None),
        (":INTEG:RES", None),
        ("*RST", None),
        ("*CLS", None),
        ("*OPC?", "1"),
        (":COMM:HEAD OFF", None),
        (":STAT:QMES ON", None),
        (":INP:MODE DC", None),
        (":INP:VOLT:RANG 15", None),
        (":INP:CURR:RANG 2", None),
        (":RATE 250MS", None),
        (":NUM:FORM ASC", None),
        (f":NUM:NORM:NUM {len(items)}", None),
        *((f":NUM:NORM:ITEM{n} {item},1", None) for n, item in enumerate(items, 1)),
        (":STAT:FILT1 FALL", None),
        *extra,
        ("*OPC?", "1"),
        NO_ERROR,
        *CHECKS,
    ]


def settings(**changes: Any) -> Wt300Settings:
    values: dict[str, Any] = {
        "resource": "TCPIP0::wt::inst0::INSTR",
        "model": "WT310E",
        "coupling": "dc",
        "voltage_range": 15.0,
        "current_range": 2.0,
        "quantities": ["power", "voltage", "current"],
        **LIMITS,
    }
    return Wt300Settings.model_validate(values | changes)


def meter(line: ExpectedExchange, clock: Clock | None = None, **changes: Any) -> Wt300:
    return Wt300("wt", settings(**changes), clock or Clock(step_ns=1_000_000), line)


def _at(clock: Clock, ask: Any) -> Any:
    def asked(*arguments: Any) -> str:
        clock.now_ns += 20_000_000
        answer: str = ask(*arguments)
        return answer

    return asked


def test_a_whole_session() -> None:
    query = ":NUM:NORM:VAL?;:STAT:COND?;:STAT:EESR?"
    with ExpectedExchange(
        *OPEN,
        *start(),
        NOT_YET,
        NOT_YET,
        UPDATED,
        (query, "6.1320E+00,12.010E+00,0.5106E+00;0;0"),
        (":COMM:REM OFF", None),
    ) as line:
        instrument = meter(line)
        assert instrument.open().serial == "C3TC12345E"
        instrument.start()
        batch = instrument.read()
        instrument.close()
    assert {b.channel: b.values.tolist() for b in batch.blocks} == {
        "power": [6.132],
        "voltage": [12.01],
        "current": [0.5106],
    }
    power, volts, _ = instrument.channels
    assert (power.range, power.unit, power.interval_s, power.aperture_s) == (30.0, "W", 0.25, 0.25)
    assert power.accuracy.limit(6.0) == pytest.approx(0.006 + 0.06)
    assert power.accuracy.source == "Yokogawa IM WT310E-02EN, page 7-7, 12 months"
    assert volts.accuracy.source == "the rig"


def test_the_end_of_a_window_is_between_two_questions() -> None:
    with ExpectedExchange(
        *start(("P",)),
        NOT_YET,
        NOT_YET,
        UPDATED,
        (":NUM:NORM:VAL?;:STAT:COND?;:STAT:EESR?", "6.0E+00;0;0"),
    ) as line:
        clock = Clock(0)
        instrument = meter(line, clock, quantities=["power"])
        instrument.start()
        instrument._scpi.ask = _at(clock, instrument._scpi.ask)  # type: ignore[method-assign]
        (block,) = instrument.read().blocks
    # asked at 20 ms (not yet), and answered at 40 ms (it is over): 30 ms, less 10 ms of computing
    # and half an update; the second question was sent 20 ms after the first
    assert abs(block.t_ns[0] - (30e6 - 10e6 - 125e6)) <= 10e6


@pytest.mark.parametrize(
    ("values", "condition", "statuses"),
    [
        ("INF,12.0E+00,INF", 1 << 6, {"power": Status.OVERLOAD, "current": Status.OVERLOAD}),
        ("NAN,NAN,NAN", 0, dict.fromkeys(("power", "voltage", "current"), Status.NO_VALUE)),
        (
            "6.0E+00,12.0E+00,0.5E+00",
            1 << 8,
            {"power": Status.OVERLOAD, "current": Status.OVERLOAD},
        ),
        (
            "6.0E+00,12.0E+00,0.5E+00",
            1 << 7,
            {"power": Status.OVERLOAD, "voltage": Status.OVERLOAD},
        ),
        ("6.0E+00,12.0E+00,0.5E+00", 1 << 11 | 1, {}),
        ("6.0E+00,12.0E+00", 0, dict.fromkeys(("power", "voltage", "current"), Status.UNREADABLE)),
        ("?!", 0, dict.fromkeys(("power", "voltage", "current"), Status.UNREADABLE)),
    ],
)
def test_what_is_no_number_is_a_status(
    values: str, condition: int, statuses: dict[str, Status]
) -> None:
    """The bits: IM WT310E-17EN, page 7-5; another element's do not count."""
    answer = f"{values};{condition};0"
    with ExpectedExchange(
        *start(), NOT_YET, UPDATED, (":NUM:NORM:VAL?;:STAT:COND?;:STAT:EESR?", answer)
    ) as line:
        instrument = meter(line)
        instrument.start()
        batch = instrument.read()
    assert {status.channel: status.status for status in batch.statuses} == statuses
    assert len(batch.blocks) == 3 - len(statuses)


def test_peaks_of_each_element() -> None:
    assert peak_over(1 << 10, 2) == {Quantity.VOLTAGE, Quantity.POWER}
    assert peak_over(1 << 14, 3) == {Quantity.CURRENT, Quantity.POWER}
    assert peak_over(1 << 7 | 1 << 8, 2) == set()


def test_updates_that_nobody_asked_for_are_lost_with_a_count() -> None:
    value: Step = (":NUM:NORM:VAL?;:STAT:COND?;:STAT:EESR?", "6.0E+00;0;0")
    with ExpectedExchange(*start(("P",)), NOT_YET, UPDATED, value, UPDATED, value) as line:
        clock = Clock(0)
        instrument = meter(line, clock, quantities=["power"])
        instrument._panel.changed = lambda _now: None  # type: ignore[method-assign]
        instrument.start()
        clock.now_ns = 20_000_000
        instrument.read()
        clock.now_ns = 1_020_000_000
        instrument._asked_ns = 1_000_000_000
        batch = instrument.read()
    (lost,) = batch.statuses
    assert (lost.status, lost.count) == (Status.LOST, 3)
    assert batch.blocks


def test_numbers_that_may_be_of_either_of_two_updates_are_read_again() -> None:
    """A busy host asks for the numbers so late that the next update is over, or ends meanwhile."""
    query = ":NUM:NORM:VAL?;:STAT:COND?;:STAT:EESR?"
    steps = (NOT_YET, UPDATED, (query, "6.0E+00;0;1"), (query, "7.0E+00;0;0"))
    with ExpectedExchange(*start(("P",)), *steps) as line:
        clock = Clock(0)
        instrument = meter(line, clock, quantities=["power"])
        instrument._panel.changed = lambda _now: None  # type: ignore[method-assign]
        instrument.start()
        instrument._scpi.ask = _at(clock, instrument._scpi.ask)  # type: ignore[method-assign]
        batch = instrument.read()
    (block,), (pair,) = batch.blocks, batch.clock_pairs
    assert block.values.tolist() == [7.0]
    # that update ended after the first question (sent at 0 ms), before the first numbers (40 ms)
    ended_ns = block.t_ns[0] + 10e6 + 125e6 - 4e6
    assert abs(ended_ns - 20e6) <= 5e6 and pair.round_trip_ns == 40_000_000


def test_an_update_whose_end_could_not_be_read_is_missing_once() -> None:
    value: Step = (":NUM:NORM:VAL?;:STAT:COND?;:STAT:EESR?", "6.0E+00;0;0")
    garbled: Step = (":STAT:EESR?", "1x")
    steps = (NOT_YET, UPDATED, value, garbled, UPDATED, value, UPDATED, value)
    with ExpectedExchange(*start(("P",)), *steps) as line:
        clock = Clock(0)
        instrument = meter(line, clock, quantities=["power"])
        instrument._panel.changed = lambda _now: None  # type: ignore[method-assign]
        instrument.start()
        found = []
        for milliseconds in (20, 270, 520, 1270):
            clock.now_ns = milliseconds * 1_000_000
            instrument._asked_ns = clock.now_ns - 20_000_000
            found += [(status.status, status.count) for status in instrument.read().statuses]
    assert found == [(Status.UNREADABLE, 1), (Status.LOST, 2)]


def test_watt_hours_and_what_becomes_of_the_integration() -> None:
    query = ":NUM:NORM:VAL?;:STAT:COND?;:INTEG:STAT?;:STAT:EESR?"
    integrate: list[Step] = [(":INTEG:MODE NORM", None), (":INTEG:TIM 0,0,0", None)]
    with ExpectedExchange(
        *start(("P", "WH"), *integrate),
        (":INTEG:STAR", None),
        NO_ERROR,
        NOT_YET,
        UPDATED,
        (query, "6.0E+00,1.23456E+00;2;STAR;0"),
        UPDATED,
        (query, "6.0E+00,1.23456E+00;0;STOP;0"),
    ) as line:
        clock = Clock(0)
        instrument = meter(line, clock, quantities=["power"], **ENERGY)
        instrument.start()
        clock.now_ns = 20_000_000
        power, energy = instrument.read().blocks
        assert (energy.channel, energy.values.tolist()) == ("energy", [1.23456])
        assert energy.t_ns[0] > power.t_ns[0], "watt-hours are of the end of the window"
        clock.now_ns = 270_000_000
        batch = instrument.read()
        (status,) = batch.statuses
        assert (status.status, status.detail) == (Status.NO_VALUE, "integration: STOP")
    assert instrument.channels[-1].unit == "Wh"


@pytest.mark.parametrize(
    ("index", "answer", "status"),
    [
        (0, "RMS", Status.WRONG_FUNCTION),
        (1, "150.0E+00", Status.RANGE_CHANGED),
        (2, "1.0E+00", Status.RANGE_CHANGED),  # what it does by itself when it protects its input
        (3, "1S", Status.RANGE_CHANGED),
    ],
)
def test_settings_that_somebody_changed(index: int, answer: str, status: Status) -> None:
    moved = [*CHECKS[:index], (CHECKS[index][0], answer)]
    with ExpectedExchange(
        *start(("P",)), NOT_YET, UPDATED, *moved, *start(("P",)), NOT_YET
    ) as line:
        clock = Clock(0)
        instrument = meter(line, clock, quantities=["power"])
        instrument.start()
        clock.now_ns = 3_000_000_000
        assert [s.status for s in instrument.read().statuses] == [status]
    line = ExpectedExchange(*start(("P",))[:-4], *moved)
    with line, pytest.raises(SettingRefused, match="after it was set"):
        meter(line, quantities=["power"]).start()


def test_a_refused_setting_and_another_instrument() -> None:
    steps = start()
    error: Step = (":STAT:ERR?", '131,"Invalid suffix"')
    line = ExpectedExchange(*steps[:-5], error, NO_ERROR)
    with line, pytest.raises(SettingRefused, match="131 Invalid suffix"):
        meter(line).start()
    line = ExpectedExchange(*OPEN[:2], ("*IDN?", "YOKOGAWA,WT310,1,F1.04"))
    with line, pytest.raises(WrongInstrument, match="expected a WT310E"):
        meter(line).open()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"voltage_range": 20.0}, "must be one of 15, 30"),
        ({"current_range": 3.0}, "must be one of 0.005"),
        ({"model": "WT310EH", "current_range": 0.5}, "must be one of 1, 2"),
        ({"element": 2}, "a WT310E has 1"),
        ({"update_s": 0.2}, "must be one of 0.1, 0.25"),
        ({"voltage_floor_volts": None}, "voltage_pct_of_reading and voltage_floor_volts"),
        ({"power_floor_watts": 0.1}, "power_pct_of_reading and power_floor_watts belong together"),
        ({"integrate": True}, "energy_pct_of_reading and energy_floor_wh"),
        ({"quantities": ["power", "power"]}, "at most once"),
        ({"quantities": []}, "at least 1"),
    ],
)
def test_settings_that_cannot_work(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        settings(**changes)


def test_update_intervals_as_they_may_be_answered() -> None:
    assert [parse_rate(text) for text in ("250MS", "1S", "500.0E-03", "2")] == [0.25, 1, 0.5, 2]
    for garbled in ("AUTO", "0.2.5S", "."):
        with pytest.raises(ProtocolError):
            parse_rate(garbled)


def test_accuracy_of_watts_on_ac_and_of_large_currents() -> None:
    """IM WT310-02EN and IM WT310E-02EN, page 7-7: at 230 V and 100 W on 300 V times 1 A."""
    for model, coupling, limit in (
        ("WT310E", "ac", 0.1 + 0.15),
        ("WT310", "ac", 0.1 + 0.3),
        ("WT310E", "dc", 0.1 + 0.6),
        ("WT310EH", "dc", 0.3 + 0.6),
    ):
        made = settings(model=model, coupling=coupling, voltage_range=300.0, current_range=1.0)
        accuracy = made.limits(Quantity.POWER)
        assert accuracy is not None and accuracy.limit(100.0) == pytest.approx(limit)
