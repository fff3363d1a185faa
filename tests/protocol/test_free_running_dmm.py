from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from instruments.drivers import free_running_dmm
from instruments.drivers.free_running_dmm import (
    FreeRunningDmm,
    FreeRunningDmmSettings,
    owon_literal,
)
from instruments.errors import NoAnswer, SettingRefused, WrongInstrument
from instruments.reading import Status
from tests.protocol.exchange import Clock, ExpectedExchange

Step = tuple[str, str | bytes | Exception | None]
RIGOL_CHECKS: list[Step] = [
    (":FUNC?", "DCV"),
    (":MEAS:VOLT:DC:RANG?", "2"),
    (":RATE:VOLT:DC?", "M"),
]
RIGOL: list[Step] = [
    ("CMDSET RIGOL", None),
    (":FUNC:VOLT:DC", None),
    (":MEAS:VOLT:DC 2", None),
    (":RATE:VOLT:DC M", None),
    (":TRIG:SOUR AUTO", None),
    *RIGOL_CHECKS,
]
OWON_CHECKS: list[Step] = [("FUNC?", '"VOLT"'), ("RANGE?", "50 V"), ("RATE?", "F")]
OWON: list[Step] = [("CONF:VOLT:DC 50", None), ("RATE F", None), *OWON_CHECKS]
SETTINGS: dict[str, dict[str, Any]] = {
    "DM3058": {
        "resource": "USB0::0x1AB1::0x09C4::DM3O1::INSTR",
        "range": 20.0,
        "interval_s": 0.1,
    },
    "DM3068": {"resource": "GPIB0::7::INSTR", "range": 20.0, "interval_s": 0.1},
    "XDM1041": {
        "resource": "ASRL/dev/ttyUSB0::INSTR",
        "range": 50.0,
        "interval_s": 0.5,
        "rate": "fast",
        "refresh_s": 0.25,
    },
}
START = {"DM3058": RIGOL, "DM3068": RIGOL, "XDM1041": OWON}
READ = {"DM3058": ":MEAS:VOLT:DC?", "DM3068": ":MEAS:VOLT:DC?", "XDM1041": "MEAS1?"}


def meter(
    line: ExpectedExchange, model: str, clock: Clock | None = None, **changes: Any
) -> FreeRunningDmm:
    values = {
        "model": model,
        "function": "voltage",
        "dither": False,
        "accuracy_pct_of_reading": 0.05,
        "accuracy_floor": 1e-3,
        **SETTINGS[model],
        **changes,
    }
    settings = FreeRunningDmmSettings.model_validate(values)
    return FreeRunningDmm("v12", settings, clock or Clock(), line)


def test_a_session_of_a_rigol() -> None:
    with ExpectedExchange(
        ("*IDN?", "Rigol Technologies,DM3058,DM3A020080808,01.01"),
        *RIGOL,
        (":MEAS:VOLT:DC?", "1.203400e+01"),
    ) as line:
        instrument = meter(line, "DM3058", Clock(now_ns=0, step_ns=10_000_000))
        assert instrument.open().model == "DM3058"
        instrument.start()
        (readings,) = instrument.read().blocks
        assert readings.values.tolist() == [12.034]
        # asked at 20 ms, answered at 30 ms; half of 50 ms to its end, half an aperture more
        assert readings.t_ns.tolist() == [25_000_000 - 50_000_000]
        instrument.close()
    (channel,) = instrument.channels
    assert channel.aperture_s == 0.05 and channel.time_u_s > 0.025


def test_a_dm3058e_says_that_it_is_one_and_a_serial_line_ends_with_both() -> None:
    identity = "Rigol Technologies,DM3058E,DM3R000000000,00.00.00.00.00.00\n"
    with ExpectedExchange((b"*IDN?\r\n", identity.encode())) as line:
        changes = {"resource": "ASRL/dev/ttyUSB0::INSTR", "range": 20.0, "interval_s": 0.1}
        values = {"accuracy_pct_of_reading": 0.05, "accuracy_floor": 1e-3, "function": "voltage"}
        settings = FreeRunningDmmSettings.model_validate({"model": "DM3058E", **values, **changes})
        assert FreeRunningDmm("v12", settings, Clock(), line).open().model == "DM3058E"


@pytest.mark.parametrize(
    ("range_", "literal"),
    [(5e-4, "500E-6"), (5e-3, "5E-3"), (0.05, "50E-3"), (0.5, "500E-3"), (5.0, "5"), (1e3, "1000")],
)
def test_an_owon_is_sent_a_range_as_its_list_of_commands_writes_it(
    range_: float, literal: str
) -> None:
    assert owon_literal(range_) == literal


def test_a_session_of_an_owon() -> None:
    with ExpectedExchange(
        ("*IDN?", "OWON,XDM1041,23120418,V4.1.0,3"),
        *OWON,
        ("MEAS1?", b"1.203400E+01\r\n"),
        ("MEAS1?", b"1E+9\r\n"),
        ("SYST:LOC", None),
    ) as line:
        instrument = meter(line, "XDM1041")
        instrument.open()
        instrument.start()
        assert instrument.read().blocks[0].values.tolist() == [12.034]
        assert [s.status for s in instrument.read().statuses] == [Status.OVERLOAD]
        instrument.close()


@pytest.mark.parametrize("model", list(SETTINGS))
def test_another_instrument_is_refused(model: str) -> None:
    line = ExpectedExchange(("*IDN?", "Siglent Technologies,SDM3055,1,1"))
    with line, pytest.raises(WrongInstrument, match=f"expected a {model}, found .*the model"):
        meter(line, model).open()


def test_a_meter_that_needs_time_to_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_running_dmm, "_ASK_AGAIN_S", 0.0)
    late: list[Step] = [
        (":FUNC?", NoAnswer("nothing")),
        (":FUNC?", "DCI"),
        (":FUNC?", "DCV"),
        (":MEAS:VOLT:DC:RANG?", "4"),
    ]
    with ExpectedExchange(*RIGOL[:5], *late, *RIGOL_CHECKS) as line:
        meter(line, "DM3058").start()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([(":FUNC?", "2WR")], "measures 2WR, not DC voltage"),
        ([RIGOL_CHECKS[0], (":MEAS:VOLT:DC:RANG?", "0")], r"range 0\.2, not 20"),
        ([*RIGOL_CHECKS[:2], (":RATE:VOLT:DC?", "S")], "rate S, not medium"),
        ([RIGOL_CHECKS[0], (":MEAS:VOLT:DC:RANG?", "9")], "number of a range"),
    ],
)
def test_a_setting_that_did_not_take(
    wrong: list[Step], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_running_dmm, "_SETTLE_S", 0.0)
    line = ExpectedExchange(*RIGOL[:5], *wrong)
    with line, pytest.raises(SettingRefused, match=message):
        meter(line, "DM3058").start()


@pytest.mark.parametrize("model", list(SETTINGS))
@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("9.9E37", Status.OVERLOAD),
        ("-9.90000000E+37", Status.OVERLOAD),
        ("9.91E37", Status.NO_VALUE),
        ("1.2.3", Status.UNREADABLE),
        (b"\xff\x00\n", Status.UNREADABLE),
        ("DCV", Status.UNREADABLE),
    ],
)
def test_what_is_no_number_is_a_status(model: str, answer: str | bytes, status: Status) -> None:
    with ExpectedExchange(*START[model], (READ[model], answer)) as line:
        instrument = meter(line, model)
        instrument.start()
        batch = instrument.read()
        assert not batch.blocks
        assert [s.status for s in batch.statuses] == [status]


def test_a_comma_for_the_point() -> None:
    # :SYSTem:FORMat:DECImal COMMA changes what a DM3058 sends
    with ExpectedExchange(*RIGOL, (":MEAS:VOLT:DC?", "1,203400e+01")) as line:
        instrument = meter(line, "DM3058")
        instrument.start()
        assert instrument.read().blocks[0].values.tolist() == [12.034]


@pytest.mark.parametrize(
    ("moved", "status"),
    [
        ([("FUNC?", '"CURR"')], Status.WRONG_FUNCTION),
        ([OWON_CHECKS[0], ("RANGE?", "500 mV")], Status.RANGE_CHANGED),
        ([*OWON_CHECKS[:2], ("RATE?", "S")], Status.RANGE_CHANGED),
    ],
)
def test_a_front_panel_moved_at_night(moved: list[Step], status: Status) -> None:
    value: Step = ("MEAS1?", "1.2E+01")
    with ExpectedExchange(*OWON, value, *OWON_CHECKS, value, *moved, *OWON) as line:
        clock = Clock()
        instrument = meter(line, "XDM1041", clock)
        instrument.start()
        clock.now_ns += 3_000_000_000
        assert instrument.read().blocks
        clock.now_ns += 3_000_000_000
        batch = instrument.read()
        assert not batch.blocks
        assert [s.status for s in batch.statuses] == [status]
        assert "front panel" in batch.statuses[0].detail


def test_a_stale_answer_is_no_moved_panel() -> None:
    with ExpectedExchange(*OWON, ("MEAS1?", "1.2E+01"), ("FUNC?", "1.2E+01")) as line:
        clock = Clock()
        instrument = meter(line, "XDM1041", clock)
        instrument.start()
        clock.now_ns += 3_000_000_000
        assert instrument.read().blocks


@pytest.mark.parametrize("answer", ["500 uA", "500 µA".encode(), "500 μA".encode("gbk")])
def test_the_mu_of_a_range(answer: str | bytes) -> None:
    """source: the tests of a web page for an XDM1041, where RANGE? has an omega in GBK."""
    answered = answer if isinstance(answer, str) else answer + b"\r\n"
    with ExpectedExchange(
        ("CONF:CURR:DC 500E-6", None),
        ("RATE F", None),
        ("FUNC?", '"CURR"'),
        ("RANGE?", answered),
        ("RATE?", "F"),
    ) as line:
        meter(line, "XDM1041", function="current", range=500e-6).start()


def test_a_meter_that_says_ok_to_each_command() -> None:
    """source: the tests of a web page for an XDM1041 with V4.3.0, which pass over such lines."""
    acknowledged: list[Step] = [(command, "OK") for command, _ in OWON[:2]]
    function, range_, rate = OWON_CHECKS
    until_function = [function, function, function, range_]
    with ExpectedExchange(
        *acknowledged, *until_function, function, range_, rate, ("MEAS1?", "-1.424190E-04")
    ) as line:
        instrument = meter(line, "XDM1041")
        instrument.start()
        assert instrument.read().blocks[0].values.tolist() == [-0.000142419]


def test_a_stuck_reading_is_reported_beside_the_value() -> None:
    noisy = [f"1.2{i % 7}E+01" for i in range(40)]
    stuck = ["1.25E+01"] * 12
    readings: list[Step] = [("MEAS1?", text) for text in [*noisy, *stuck]]
    with ExpectedExchange(*OWON, *readings) as line:
        instrument = meter(line, "XDM1041", interval_s=0.0011, refresh_s=0.001)
        instrument.start()
        batches = [instrument.read() for _ in readings]
        assert all(batch.blocks for batch in batches)
        reported = [[s.status for s in batch.statuses] for batch in batches]
        assert reported[0] == [] and reported[-1] == [Status.STUCK]


def test_settings() -> None:
    line = ExpectedExchange()
    with pytest.raises(ValidationError, match=r"0\.05, 0\.5, 5, 50, 500, 1000"):
        meter(line, "XDM1041", range=20.0)
    with pytest.raises(ValidationError, match="set refresh_s"):
        meter(line, "XDM1041", refresh_s=None)
    with pytest.raises(ValidationError, match="each one is read twice"):
        meter(line, "DM3058", interval_s=0.05)
    with pytest.raises(ValidationError, match="accuracy_floor"):
        meter(line, "DM3058", accuracy_pct_of_reading=None, accuracy_floor=None)
    limits = meter(line, "DM3068", accuracy_pct_of_reading=None, accuracy_floor=None)
    assert limits.channels[0].accuracy.limit(20.0) == pytest.approx(900e-6)


def test_a_dm3068_has_other_rates_than_a_dm3058() -> None:
    """Source: LabLink's driver of the two, after their Programming Guides."""
    refreshes = {
        (model, rate): meter(ExpectedExchange(), model, rate=rate, interval_s=1.0).channels[0]
        for model, rate in (("DM3058", "slow"), ("DM3058", "medium"), ("DM3068", "medium"))
    }
    assert [channel.aperture_s for channel in refreshes.values()] == [0.4, 0.05, 0.004]
    with pytest.raises(ValidationError, match="must be one of medium, fast: a DM3068 integrates"):
        meter(ExpectedExchange(), "DM3068", rate="slow", interval_s=3.0)
