from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from instruments.drivers.scpi_thermometer import ScpiThermometer, ScpiThermometerSettings
from instruments.errors import SettingRefused, WrongInstrument
from instruments.reading import Quantity, Status
from tests.protocol.exchange import Clock, ExpectedExchange

Step = tuple[str, str | bytes | None]
BEGIN: list[Step] = [("ABOR", None), ("*RST", None), ("*CLS", None), ("*OPC?", "1")]
END: list[Step] = [
    ("SENS:TEMP:NPLC 1", None),
    ("*OPC?", "1"),
    ("SYST:ERR?", '0,"No error"'),
    ("FUNC?", '"TEMP"'),
    ("SENS:TEMP:NPLC?", "+1.0E+00"),
]
THERMISTOR = ('SENS:FUNC "TEMP"', "SENS:TEMP:TRAN THER", "SENS:TEMP:THER 10000")


def start(*commands: str, unit: str = "SENS:TEMP:UNIT CELS") -> list[Step]:
    return [*BEGIN, *((command, None) for command in (*(commands or THERMISTOR), unit)), *END]


def settings(**changes: Any) -> ScpiThermometerSettings:
    values: dict[str, Any] = {
        "resource": "TCPIP0::meter::5025::SOCKET",
        "model": "DMM6500",
        "sensor": "thermistor",
        "sensor_type": "10000",
        "accuracy_pct_of_reading": 0.0,
        "accuracy_floor": 0.3,
        "interval_s": 0.03,
        "dither": False,
    }
    return ScpiThermometerSettings.model_validate(values | changes)


def meter(line: ExpectedExchange, clock: Clock | None = None, **changes: Any) -> ScpiThermometer:
    return ScpiThermometer("t", settings(**changes), clock or Clock(step_ns=1000), line)


def test_a_whole_session() -> None:
    with ExpectedExchange(
        ("*IDN?", "KEITHLEY INSTRUMENTS,MODEL DMM6500,04340543,1.7.12b"),
        *start(),
        ("READ?", "3.842512E+01"),
        ("ABOR", None),
        ("TRIG:CONT REST", None),
        ("logout", None),
    ) as line:
        instrument = meter(line)
        assert instrument.open().serial == "04340543"
        instrument.start()
        (block,) = instrument.read().blocks
        instrument.close()
    assert (block.channel, block.values.tolist()) == ("temperature", [38.42512])
    (channel,) = instrument.channels
    assert (channel.quantity, channel.unit, channel.aperture_s) == (
        Quantity.TEMPERATURE, "°C", 0.02,
    )  # fmt: skip
    assert channel.accuracy.limit(40.0) == 0.3


TRUEVOLT = "UNIT:TEMP C"


@pytest.mark.parametrize(
    ("changes", "commands", "unit"),
    [
        (
            {"sensor": "rtd", "sensor_type": "PT100"},
            ('SENS:FUNC "TEMP"', "SENS:TEMP:TRAN RTD", "SENS:TEMP:RTD:TWO PT100"),
            "SENS:TEMP:UNIT CELS",
        ),
        (
            {"sensor": "rtd_4wire", "sensor_type": "PT100", "model": "DAQ6510"},
            ('SENS:FUNC "TEMP"', "SENS:TEMP:TRAN FRTD", "SENS:TEMP:RTD:FOUR PT100"),
            "SENS:TEMP:UNIT CELS",
        ),
        (
            {"sensor": "thermocouple", "sensor_type": "K", "reference_celsius": 23.5},
            (
                'SENS:FUNC "TEMP"',
                "SENS:TEMP:TRAN TC",
                "SENS:TEMP:TC:TYPE K",
                "SENS:TEMP:TC:RJUN:RSEL SIM",
                "SENS:TEMP:TC:RJUN:SIM 23.5",
            ),
            "SENS:TEMP:UNIT CELS",
        ),
        (
            {"model": "34461A", "sensor": "rtd_4wire", "sensor_type": "PT1000"},
            ("CONF:TEMP FRTD,85", "TEMP:TRAN:FRTD:RES 1000"),
            TRUEVOLT,
        ),
        ({"model": "34460A", "sensor_type": "5000"}, ("CONF:TEMP THER,5000",), TRUEVOLT),
        (
            {"model": "34465A", "sensor": "thermocouple", "sensor_type": "K"},
            ("CONF:TEMP TC,K", "TEMP:TRAN:TC:RJUN:TYPE INT"),
            TRUEVOLT,
        ),
    ],
)
def test_each_sensor(changes: dict[str, Any], commands: tuple[str, ...], unit: str) -> None:
    """Syntax of the Truevolts: the maker's Command Quick Reference; of the Keithleys: see the
    driver."""
    with ExpectedExchange(*start(*commands, unit=unit)) as line:
        meter(line, **changes).start()


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("9.9E+37", Status.OPEN_SENSOR),
        ("+9.90000000E+37", Status.OPEN_SENSOR),
        ("9.91E+37", Status.NO_VALUE),
        ("?!", Status.UNREADABLE),
        (b"\xff\n", Status.UNREADABLE),
    ],
)
def test_what_is_no_temperature_is_a_status(answer: str | bytes, status: Status) -> None:
    with ExpectedExchange(*start(), ("READ?", answer)) as line:
        instrument = meter(line)
        instrument.start()
        batch = instrument.read()
    assert not batch.blocks
    assert [s.status for s in batch.statuses] == [status]


def test_another_function_at_night_and_a_refused_sensor() -> None:
    with ExpectedExchange(*start(), ("READ?", "1.2E-3"), ("FUNC?", '"VOLT:DC"'), *start()) as line:
        clock = Clock()
        instrument = meter(line, clock)
        instrument.start()
        clock.now_ns += 3_000_000_000
        assert [s.status for s in instrument.read().statuses] == [Status.WRONG_FUNCTION]
    error: Step = ("SYST:ERR?", '-224,"Illegal parameter value"')
    steps = start()
    line = ExpectedExchange(*steps[:-3], error, ("SYST:ERR?", '0,"No error"'))
    with line, pytest.raises(SettingRefused, match="-224"):
        meter(line).start()
    line = ExpectedExchange(("*IDN?", "KEITHLEY INSTRUMENTS,MODEL DMM7510,1,1"))
    with line, pytest.raises(WrongInstrument, match="expected a DMM6500"):
        meter(line).open()


def test_a_late_answer_has_no_time() -> None:
    with ExpectedExchange(*start(), ("READ?", "3.8E+01")) as line:
        instrument = meter(line, Clock(step_ns=200_000_000))
        instrument.start()
        instrument._panel.changed = lambda _now: None  # type: ignore[method-assign]
        (status,) = instrument.read().statuses
    assert status.status is Status.UNREADABLE and "late" in status.detail


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sensor_type": "PT100"}, "has 2252, 5000, 10000 for this sensor"),
        ({"model": "34461A", "sensor": "thermocouple", "sensor_type": "K"}, "a 34461A takes rtd"),
        ({"sensor": "thermistor_4wire"}, "a DMM6500 takes rtd"),
        ({"sensor": "thermocouple", "sensor_type": "K"}, "set reference_celsius"),
        ({"reference_celsius": 20}, "only for a thermocouple"),
        ({"model": "34461A", "sensor_type": "5000", "nplc": 2.0}, "must be one of 0.02"),
        ({"nplc": 12.0, "mains_hz": 50, "interval_s": 0.2}, "interval_s must be more"),
        ({"model": "34461A", "sensor_type": "5000", "nplc": 100.0}, "must be at most 20 here"),
    ],
)
def test_settings_that_cannot_work(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        settings(**changes)
