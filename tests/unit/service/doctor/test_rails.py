"""What ``labctl doctor`` says of rails whose meters read these values."""

from __future__ import annotations

import pytest

from labctl.capture.meters.listening import ChannelReadings, Listening
from labctl.config.rig import Rig, parse_rig
from labctl.service.doctor.checks import Check, Level
from labctl.service.doctor.rails import check_rails
from tests.unit.config.test_rig import RIG


def reading(rig: Rig, values: dict[str, list[float]]) -> dict[str, ChannelReadings]:
    found = Listening(rig).readings
    for name, read in values.items():
        found[name].values += read
    return found


def checks(text: str, volts: float, sensed: float) -> dict[str, Check]:
    rig = parse_rig(text, "rig.toml")
    values = {"v12.voltage": [volts] * 4, "i12.voltage": [sensed, sensed, sensed * 1.01]}
    return {check.subject: check for check in check_rails(rig, reading(rig, values))}


def test_a_rail_says_volts_amps_and_watts_with_u() -> None:
    found = checks(RIG, 12.05, 0.0135)
    assert found["12V"].level is Level.OK
    assert found["12V"].text.startswith("12.050 V, 0.2709 A, 3.264 W ± 0.0")
    assert "+0.4 % of 12 V" in found["12V"].text
    assert found["power"].level is Level.OK and "drives idle at" in found["power"].text


@pytest.mark.parametrize("shunt", ["50", "0.00005"])
def test_a_shunt_that_is_a_thousand_times_off_is_seen(shunt: str) -> None:
    found = checks(RIG.replace("shunt_ohm = 0.05", f"shunt_ohm = {shunt}"), 12.05, 0.0135)
    assert found["power"].level is Level.WARNING
    assert "50 mΩ are 0.05" in found["power"].todo


def test_a_drive_that_is_off_or_whose_leads_are_swapped_is_seen() -> None:
    assert checks(RIG, 12.05, 0.0)["power"].level is Level.WARNING
    assert checks(RIG, 12.05, -0.0135)["power"].level is Level.WARNING


def test_a_fixed_voltage_is_reported_as_not_measured_and_its_tolerance_is_in_u() -> None:
    text = RIG[: RIG.index("[instruments.v12]")] + (
        '[instruments.v12]\ndriver = "fixed_voltage"\nvolts = 12\ntolerance_pct = 5\n'
    )
    text += RIG[RIG.index("[instruments.i12]") :]
    found = checks(text, 12.0, 0.0135)["12V"].text
    assert "volts not measured" in found
    watts, u = (float(word.split()[0]) for word in found.split(", ")[2].split("± "))
    assert u == pytest.approx(2 * 0.05 / 3**0.5 * watts, rel=0.1)


def test_without_readings_there_are_no_watts() -> None:
    rig = parse_rig(RIG, "rig.toml")
    (check,) = check_rails(rig, reading(rig, {"i12.voltage": [0.01]}))
    assert check.level is Level.TROUBLE and "v12.voltage gave no reading" in check.text
