from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from instruments.drivers.supply import Supply, SupplySettings
from instruments.errors import SettingRefused, WrongInstrument
from instruments.reading import Status
from tests.protocol.exchange import Clock, ExpectedExchange

Step = tuple[str, str | bytes | Exception | None]
NO_ERROR: Step = ("SYST:ERR?", '0,"No error"')
MEASURE: dict[str, list[Step]] = {
    "DP832": [(":MEAS:ALL? CH2", "12.0104,0.5120,6.149")],
    "E36312A": [("MEAS:VOLT? (@2)", "+1.20104000E+01"), ("MEAS:CURR? (@2)", "+5.12000000E-01")],
    "generic": [("MEAS:VOLT?", "12.0104"), ("MEAS:CURR?", "0.512")],
}
SWITCH = {
    "DP832": (":OUTP CH2,{}", ":OUTP? CH2", {"ON": "ON", "OFF": "OFF"}),
    "E36312A": ("OUTP {},(@2)", "OUTP? (@2)", {"ON": "1", "OFF": "0"}),
    "generic": ("OUTP {}", "OUTP?", {"ON": "1", "OFF": "0"}),
}
LIMITS = {
    "voltage_pct_of_reading": 0.1,
    "voltage_floor_volts": 5e-3,
    "current_pct_of_reading": 0.2,
    "current_floor_amps": 10e-3,
}


def supply(
    line: ExpectedExchange, model: str = "DP832", clock: Clock | None = None, **changes: Any
) -> Supply:
    values: dict[str, Any] = {
        "resource": "TCPIP0::supply::5555::SOCKET",
        "model": model,
        "output": 1 if model == "generic" else 2,
        "dither": False,
        **({} if model == "DP832" else LIMITS),
        **changes,
    }
    return Supply("psu", SupplySettings.model_validate(values), clock or Clock(), line)


@pytest.mark.parametrize("model", list(MEASURE))
def test_a_session_never_touches_the_output(model: str) -> None:
    with ExpectedExchange(
        ("*IDN?", f"Maker,{model},1,1"),
        ("*CLS", None),
        *MEASURE[model],
        NO_ERROR,
        *MEASURE[model],
        ("SYST:LOC", None),
    ) as line:
        instrument = supply(line, model)
        instrument.open()
        instrument.start()
        batch = instrument.read()
        values = {block.channel: block.values.tolist() for block in batch.blocks}
        assert values == {"voltage": [12.0104], "current": [0.512]}
        instrument.close()
    assert [channel.name for channel in instrument.channels] == ["voltage", "current"]


def test_limits_of_the_manual() -> None:
    volts, amps = supply(ExpectedExchange()).channels
    assert volts.accuracy.limit(12.0) == pytest.approx(16e-3)
    assert amps.accuracy.limit(1.0) == pytest.approx(6.5e-3)


def test_a_sister_model_is_refused() -> None:
    line = ExpectedExchange(("*IDN?", "RIGOL TECHNOLOGIES,DP832A,DP8A1,00.01.16"))
    with line, pytest.raises(WrongInstrument, match=r"expected a DP832, found .*DP832A"):
        supply(line).open()


@pytest.mark.parametrize("answer", ["", "12.01", "x,y,z", b"\xff\n"])
def test_nonsense_is_a_status_of_both_channels(answer: str | bytes) -> None:
    with ExpectedExchange(
        ("*CLS", None), *MEASURE["DP832"], NO_ERROR, (":MEAS:ALL? CH2", answer)
    ) as line:
        instrument = supply(line)
        instrument.start()
        batch = instrument.read()
        assert not batch.blocks
        assert [(s.channel, s.status) for s in batch.statuses] == [
            ("voltage", Status.UNREADABLE),
            ("current", Status.UNREADABLE),
        ]


def test_a_late_answer_has_no_known_time() -> None:
    with ExpectedExchange(("*CLS", None), *MEASURE["DP832"], NO_ERROR, *MEASURE["DP832"]) as line:
        instrument = supply(line, clock=Clock(step_ns=700_000_000))
        instrument.start()
        batch = instrument.read()
        assert not batch.blocks and len(batch.statuses) == 2


@pytest.mark.parametrize("model", list(SWITCH))
def test_switching_the_output_off_and_on(model: str) -> None:
    command, query, states = SWITCH[model]
    with ExpectedExchange(
        (command.format("OFF"), None),
        (query, states["OFF"]),
        (command.format("ON"), None),
        (query, states["OFF"]),
        (query, states["ON"]),
    ) as line:
        instrument = supply(line, model, power_cycle=True)
        instrument.switch(on=False)
        instrument.switch(on=True)


def test_the_output_is_not_switched_unless_the_rig_allows_it() -> None:
    with ExpectedExchange() as line, pytest.raises(SettingRefused, match="power_cycle = true"):
        supply(line).switch(on=False)


def test_settings() -> None:
    line = ExpectedExchange()
    with pytest.raises(ValidationError, match="voltage_pct_of_reading"):
        supply(line, "E36312A", voltage_floor_volts=None)
    for half in LIMITS:  # never the other half by the manual
        values = {"resource": "TCPIP0::supply::5555::SOCKET", "model": "DP832", half: 0.1}
        with pytest.raises(ValidationError, match="belong together"):
            SupplySettings.model_validate(values)
    with pytest.raises(ValidationError, match="a generic has 1"):
        supply(line, "generic", output=2)
    with pytest.raises(ValidationError, match="more than refresh_s"):
        supply(line, interval_s=0.1)


def test_the_floors_of_rigs_before_their_keys_had_units() -> None:
    before = {key.removesuffix("_volts").removesuffix("_amps"): v for key, v in LIMITS.items()}
    values = {"resource": "TCPIP0::supply::5555::SOCKET", "model": "E36312A"}
    now = SupplySettings.model_validate(values | LIMITS)
    assert SupplySettings.model_validate(values | before) == now
    with pytest.raises(ValidationError, match="set voltage_pct_of_reading and voltage_floor_volts"):
        SupplySettings.model_validate(values)
