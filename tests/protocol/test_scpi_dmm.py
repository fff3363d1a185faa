from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from instruments.drivers.scpi_dmm import ScpiDmm, ScpiDmmSettings, accuracy_of
from instruments.drivers.truevolt import TruevoltSettings
from instruments.errors import NoAnswer, ProtocolError, SettingRefused, WrongInstrument
from instruments.reading import Status
from tests.protocol.exchange import Clock, ExpectedExchange

Step = tuple[str, str | None]
AUTO_ZERO = {
    "SDM3045X": [],
    "SDM3055": [],
    "SDM3065X": ["VOLT:DC:AZ OFF"],
    "34401A": ["ZERO:AUTO ONCE"],
    "34410A": ["VOLT:DC:ZERO:AUTO ONCE"],
    "34411A": ["VOLT:DC:ZERO:AUTO ONCE"],
    "34460A": ["VOLT:DC:ZERO:AUTO ONCE"],
    "34461A": ["VOLT:DC:ZERO:AUTO ONCE"],
    "34465A": ["VOLT:DC:ZERO:AUTO ONCE"],
    "34470A": ["VOLT:DC:ZERO:AUTO ONCE"],
    "2000": ["SYST:AZER:STAT OFF"],
    "2015": ["SYST:AZER:STAT OFF"],
    "8845A": ["ZERO:AUTO ONCE"],
    "8846A": ["ZERO:AUTO ONCE"],
    "generic": [],
}
KEITHLEYS = ("2000", "2015")
NO_TABLE = ("SDM3045X", "34410A", "34411A", "2000", "generic")
RANGE = {"SDM3045X": 60.0, "SDM3055": 20.0, "SDM3065X": 20.0}


def settings(model: str = "SDM3065X", **changes: Any) -> ScpiDmmSettings:
    values: dict[str, Any] = {
        "resource": "TCPIP0::meter::5025::SOCKET",
        "model": model,
        "function": "voltage",
        "range": RANGE.get(model, 10.0),
        "nplc": 1.0,
        "interval_s": 0.03,
    }
    if model in NO_TABLE:
        values |= {"accuracy_pct_of_reading": 0.02, "accuracy_floor": 4e-3}
    return ScpiDmmSettings.model_validate(values | changes)


KEITHLEY_2000 = (
    "FORM:ELEM READ",
    "FUNC 'VOLT:DC'",
    "VOLT:DC:RANG 10",
    "VOLT:DC:NPLC 1",
    "VOLT:DC:AVER:STAT OFF",
    "TRIG:COUN 1",
    "SAMP:COUN 1",
)


def start(model: str = "SDM3065X", range_: str = "20") -> list[Step]:
    hp: tuple[str, ...] = (f"CONF:VOLT:DC {range_}", "VOLT:DC:NPLC 1")
    if model == "generic":
        hp = ("CONF:VOLT:DC", f"VOLT:DC:RANG {range_}", "VOLT:DC:NPLC 1")
    return [
        ("*RST", None),
        ("*CLS", None),
        ("*OPC?", "1"),
        *((command, None) for command in (KEITHLEY_2000 if model in KEITHLEYS else hp)),
        *((command, None) for command in AUTO_ZERO[model]),
        ("TRIG:SOUR IMM", None),
        ("*OPC?", "1"),
        ("SYST:ERR?", '0,"No error"'),
        ("FUNC?", '"VOLT"'),
        ("VOLT:DC:RANG?", f"{range_}V"),
        ("VOLT:DC:NPLC?", "1"),
    ]


def meter(line: ExpectedExchange, clock: Clock | None = None, **changes: Any) -> ScpiDmm:
    return ScpiDmm("v12", settings(**changes), clock or Clock(), line)


def last_words(model: str) -> list[Step]:
    """On LAN. ABOR is in no list of commands of a 34401A, whose SYST:LOC is for RS-232."""
    local = [] if model in ("34401A", *KEITHLEYS) else ["SYST:LOC"]
    abort = [] if model in ("34401A", "8845A", "8846A", "generic") else ["ABOR"]
    panel = ["INIT:CONT ON"] if model in KEITHLEYS else []  # else its panel stays idle after *RST
    return [(command, None) for command in abort + panel + local]


@pytest.mark.parametrize("model", list(AUTO_ZERO))
def test_a_whole_session_of_each_model(model: str) -> None:
    range_ = f"{RANGE.get(model, 10.0):g}"
    remote: list[Step] = [("SYST:REM", None)] if model.startswith("88") else []
    with ExpectedExchange(
        *remote,
        ("*IDN?", f"Maker,{model},123,1.0"),
        *start(model, range_),
        ("READ?", "+1.20340000E+01"),
        *last_words(model),
    ) as line:
        instrument = meter(line, Clock(now_ns=0, step_ns=1000), model=model)
        assert instrument.open().model == model
        instrument.start()
        (readings,) = instrument.read().blocks
        assert readings.values.tolist() == [12.034]
        assert readings.t_ns.tolist() == [2500]  # the middle of 2000 and 3000
        instrument.close()


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("+9.90000000E+37", Status.OVERLOAD),
        ("-9.90000000E+37", Status.OVERLOAD),
        ("+9.91000000E+37", Status.NO_VALUE),
        ("Siglent,SDM3065X,1,1", Status.UNREADABLE),
        (b"\xff\xfe\n", Status.UNREADABLE),
        ("", Status.UNREADABLE),
    ],
)
def test_what_is_no_number_is_a_status(answer: str | bytes, status: Status) -> None:
    with ExpectedExchange(*start(), ("READ?", answer)) as line:
        instrument = meter(line)
        instrument.start()
        batch = instrument.read()
        assert not batch.blocks
        assert [s.status for s in batch.statuses] == [status]


def test_a_comma_for_the_point() -> None:
    with ExpectedExchange(*start(), ("READ?", "+1,2034E+01")) as line:
        instrument = meter(line)
        instrument.start()
        assert instrument.read().blocks[0].values.tolist() == [12.034]


def test_a_late_answer_has_no_known_time() -> None:
    with ExpectedExchange(*start(), ("READ?", "+1.2E+01")) as line:
        instrument = meter(line, Clock(step_ns=500_000_000))
        instrument.start()
        (status,) = instrument.read().statuses
        assert status.status is Status.UNREADABLE and "late" in status.detail


def test_an_answer_somewhat_late_says_how_much_is_unknown_about_its_time() -> None:
    """60 ms more than the integration: the reading lies within 30 ms of the middle."""
    with ExpectedExchange(*start(), ("READ?", "+1.2E+01")) as line:
        instrument = meter(line, Clock(step_ns=80_000_000))
        instrument.start()
        batch = instrument.read()
        (pair,) = batch.clock_pairs
        assert pair.device_ns == batch.blocks[0].t_ns[0] == pair.host_ns - 40_000_000
        assert pair.round_trip_ns == 60_000_000 > 2e9 * instrument.channels[0].time_u_s


def test_no_answer_says_what_to_do() -> None:
    with ExpectedExchange(*start(), ("READ?", NoAnswer("v12: nothing"))) as line:
        instrument = meter(line)
        instrument.start()
        with pytest.raises(NoAnswer, match="READ"):
            instrument.read()


def test_the_panel_is_given_back_after_an_error_too() -> None:
    steps = [*start(), ("READ?", NoAnswer("v12: nothing")), *last_words("SDM3065X")]
    with ExpectedExchange(*steps) as line:
        instrument = meter(line)
        instrument.start()
        with pytest.raises(NoAnswer):
            instrument.read()
        line.discard = None  # type: ignore[assignment,method-assign]  # waits: close has no time
        instrument.close()
        assert line.closed == 1
    with ExpectedExchange() as line:
        line.gone = True
        instrument = meter(line)
        instrument.close()
        assert line.closed == 1


def test_a_refused_range() -> None:
    steps = start()
    steps[-2] = ("VOLT:DC:RANG?", "200V")
    with ExpectedExchange(*steps[:-1]) as line, pytest.raises(SettingRefused, match="range is 200"):
        meter(line).start()


def test_settings_of_unknown_accuracy_and_of_long_integration() -> None:
    with pytest.raises(ValidationError, match="accuracy_pct_of_reading and accuracy_floor"):
        settings("generic", accuracy_pct_of_reading=None, accuracy_floor=None)
    with pytest.raises(ValidationError, match="at most 20"):
        settings(nplc=100.0, interval_s=5.0)
    with pytest.raises(ValidationError, match=r"must be one of 0\.2, 2, 20, 200, 1000"):
        settings(range=10.0)


def test_what_auto_zero_off_adds_is_the_same_in_both_drivers() -> None:
    polled = accuracy_of(settings("34461A", range=0.1))
    shared = {"resource": "TCPIP::x::INSTR", "function": "voltage", "nplc": 1.0, "interval_s": 0.1}
    streamed = TruevoltSettings.model_validate({**shared, "model": "34461A", "range": 0.1})
    assert polled == streamed.limits_without_auto_zero()
    assert polled.floor == pytest.approx(3.5e-6 + 0.2e-6 + 5e-6)
    assert polled.source.endswith("auto-zero off")
    assert "limits of a 34401A" in accuracy_of(settings("SDM3065X")).source
    assert accuracy_of(settings("SDM3055")).floor == pytest.approx(0.004e-2 * 20)
    assert accuracy_of(settings(accuracy_pct_of_reading=0.1, accuracy_floor=1e-6)).floor == 1e-6


PANEL: list[Step] = [("FUNC?", '"VOLT"'), ("VOLT:DC:RANG?", "20V")]


@pytest.mark.parametrize(
    ("moved", "detail"),
    [
        ([("FUNC?", '"CURR"')], "measures CURR, not DC voltage"),
        ([("FUNC?", '"VOLT:AC"')], "measures VOLT:AC"),
        ([PANEL[0], ("VOLT:DC:RANG?", "2V")], "range 2, not 20"),
    ],
)
def test_a_front_panel_moved_at_night(moved: list[Step], detail: str) -> None:
    value: Step = ("READ?", "+1.2E+01")
    wrong: Step = ("READ?", "+1.0E-03")
    with ExpectedExchange(
        *start(), value, value, *(value, *PANEL), wrong, *moved, *start(), value
    ) as line:
        clock = Clock()
        instrument = meter(line, clock)
        instrument.start()
        assert instrument.read().blocks
        assert instrument.read().blocks, "not asked yet"
        clock.now_ns += 3_000_000_000
        assert instrument.read().blocks, "all is well"
        clock.now_ns += 3_000_000_000
        batch = instrument.read()
        assert not batch.blocks
        (status,) = batch.statuses
        wanted = Status.RANGE_CHANGED if "range" in detail else Status.WRONG_FUNCTION
        assert status.status is wanted and detail in status.detail
        assert instrument.read().blocks[0].values.tolist() == [12.0]


@pytest.mark.parametrize("answer", ["+1.2E+01", "?!", b"\xff\n"])
def test_a_stale_answer_is_no_moved_panel(answer: str | bytes) -> None:
    value = ("READ?", "+1.2E+01")
    with ExpectedExchange(*start(), value, value, ("FUNC?", answer)) as line:
        clock = Clock()
        instrument = meter(line, clock)
        instrument.start()
        instrument.read()
        clock.now_ns += 3_000_000_000
        assert instrument.read().blocks


@pytest.mark.parametrize("answer", ['"VOLT"', "+1.2", "0,No error", b"\x00\xff+1.2E+01\n", "+1.2E"])
def test_half_answers_noise_and_the_answer_to_the_query_before(answer: str | bytes) -> None:
    readable = answer == "+1.2"  # half of +1.2034E+01 looks whole: the line feed made it so
    with ExpectedExchange(*start(), ("READ?", answer), ("READ?", "+1.2E+01")) as line:
        instrument = meter(line)
        instrument.start()
        batch = instrument.read()
        assert bool(batch.blocks) is readable
        if not readable:
            assert [s.status for s in batch.statuses] == [Status.UNREADABLE]
        assert instrument.read().blocks[0].values.tolist() == [12.0]


def test_another_maker_is_refused_and_generic_takes_any() -> None:
    identity = ("*IDN?", "GWInstek,GDM8351,1,1")
    with ExpectedExchange(identity) as line, pytest.raises(WrongInstrument, match="SDM3065X"):
        meter(line).open()
    with ExpectedExchange(identity) as line:
        assert meter(line, model="generic", range=10.0).open().model == "GDM8351"


def test_the_telnet_port_of_a_meter_is_distinguished_from_a_wrong_meter() -> None:
    prompted = ("*IDN?", ">>Siglent Technologies,SDM3065X,SDM36,3.01")
    with ExpectedExchange(prompted) as line, pytest.raises(ProtocolError, match="5025"):
        meter(line).open()


def test_a_meter_that_echoes_is_distinguished_from_a_wrong_one() -> None:
    """A Fluke in terminal mode sends back what it is sent, and a prompt."""
    echo = ("*IDN?", "*IDN?")
    changes = {"resource": "ASRL/dev/ttyS0::INSTR", "baud": 9600}
    with ExpectedExchange(("\x03", "1>"), ("SYST:REM", None), echo, echo) as line:
        instrument = meter(line, model="8845A", range=10.0, **changes)
        with pytest.raises(ProtocolError, match="COMPUTER instead of TERMINAL"):
            instrument.open()


@pytest.mark.parametrize(
    ("model", "identity", "clear"),
    [
        ("34401A", "HEWLETT-PACKARD,34401A,0,11-5-2", None),
        ("8846A", "FLUKE, 8846A, 9440016, 08/02/10-11:53", None),
        ("2000", "KEITHLEY INSTRUMENTS INC.,MODEL 2000,1308393,A20  /A02", "DCL"),
        ("SDM3055", "Siglent Technologies,SDM3055,SDM35GBQ4R0653,1.01.01.20R2", None),
    ],
)
def test_a_meter_on_rs232_is_cleared_and_put_in_remote_first(
    model: str, identity: str, clear: str | None
) -> None:
    """Source of the identities: instrument drivers on GitHub that print them."""
    control_c: list[Step] = [] if model == "SDM3055" else [("\x03", clear)]
    stop = [step for step in last_words(model) if step[0] != "SYST:LOC"]
    with ExpectedExchange(
        *control_c, ("SYST:REM", None), ("*IDN?", identity), *stop, ("SYST:LOC", None)
    ) as line:
        changes = {"resource": "ASRL/dev/ttyS0::INSTR", "baud": 9600}
        instrument = meter(line, model=model, range=RANGE.get(model, 10.0), **changes)
        instrument.open()
        instrument.close()


@pytest.mark.parametrize("model", ["34401A", "2000", "8846A"])
def test_on_gpib_the_bus_does_remote_and_local(model: str) -> None:
    stop = [step for step in last_words(model) if step[0] != "SYST:LOC"]
    with ExpectedExchange(("*IDN?", f"Maker,{model},0,1"), *stop) as line:
        instrument = meter(line, model=model, range=10.0, resource="GPIB0::22::INSTR")
        instrument.open()
        instrument.close()


def test_auto_range_only_on_request_and_each_change_is_reported_once() -> None:
    def reading(value: str, range_: str) -> list[Step]:
        return [("READ?", value), ("VOLT:DC:RANG?", range_)]

    with ExpectedExchange(
        *start(),
        ("VOLT:DC:RANG:AUTO ON", None),
        *reading("+1.2E+01", "20V"),
        *reading("+1.2E+00", "2V"),
        *reading("+1.3E+00", "2V"),
        *reading("+1.2E+01", "20V"),
        *reading("+5.0E+01", "200V"),
        *reading("+5.1E+01", "200V"),
    ) as line:
        instrument = meter(line, autorange=True)
        instrument.start()
        batches = [instrument.read() for _ in range(6)]
        assert [bool(batch.blocks) for batch in batches] == [True, False, True, False, False, False]
        reported = [status for batch in batches for status in batch.statuses]
        assert {status.status for status in reported} == {Status.RANGE_CHANGED}
        assert reported[0].detail == "range 2, was 20"
        assert "above 20 its limits are not known" in reported[-1].detail


def test_an_auto_range_is_no_moved_panel_but_another_function_is() -> None:
    value: list[Step] = [("READ?", "+1.2E+00"), ("VOLT:DC:RANG?", "20V")]
    with ExpectedExchange(
        *start(),
        ("VOLT:DC:RANG:AUTO ON", None),
        *value,
        ("READ?", "+1.2E+00"),
        ("FUNC?", '"VOLT"'),
        ("VOLT:DC:RANG?", "20V"),
    ) as line:
        clock = Clock()
        instrument = meter(line, clock, autorange=True)
        instrument.start()
        instrument.read()
        clock.now_ns += 3_000_000_000
        assert instrument.read().blocks


def test_a_stuck_reading_is_reported_beside_the_value() -> None:
    noisy = [("READ?", f"+1.2{i % 10}E+01") for i in range(40)]
    stuck = [("READ?", "+1.25E+01")] * 12
    with ExpectedExchange(*start(), *noisy, *stuck) as line:
        instrument = meter(line, interval_s=0.021)
        instrument._ticks.wait = lambda _at_most: True  # type: ignore[method-assign]
        instrument.start()
        batches = [instrument.read() for _ in range(52)]
        assert all(batch.blocks for batch in batches)
        assert not batches[45].statuses
        assert [s.status for s in batches[-1].statuses] == [Status.STUCK]
