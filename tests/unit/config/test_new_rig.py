"""The text of a new rig."""

from __future__ import annotations

import tomllib

import pytest

from instruments.identify import FoundInstrument
from labctl.config.new_rig import NewDrive, NewRail, has_functions, rig_text
from labctl.config.rig import parse_rig


def rail(name: str, port: int, nominal_volts: float = 12.0) -> NewRail:
    amps = FoundInstrument(f"/dev/ttyUSB{port}", "UT61E", "es51922")
    return NewRail(name, nominal_volts, amps)


@pytest.mark.parametrize(
    ("names", "meters"),
    [
        (("12V", "3V3"), {"v12", "i12", "v33", "i33"}),
        (("12V", "main"), {"v12", "i12", "v_main", "i_main"}),
        (("left_12V", "right_12V"), {"v_left_12V", "i_left_12V", "v_right_12V", "i_right_12V"}),
        (("12V", "1V2", "5V"), {"v_12V", "i_12V", "v_1V2", "i_1V2", "v5", "i5"}),
    ],
)
def test_each_rail_has_meters_of_its_own_whatever_the_rails_are_called(
    names: tuple[str, ...], meters: set[str]
) -> None:
    drive = NewDrive("/nowhere/scratch", "libaio", size_bytes=1 << 20)
    text = rig_text("mine", "local", drive, [rail(name, n) for n, name in enumerate(names)])
    assert set(tomllib.loads(text)["instruments"]) == meters
    assert set(parse_rig(text, "mine.toml").file.rails) == set(names)


def test_a_meter_behind_sigrok_lacks_only_its_limits_of_error() -> None:
    settings = {"sigrok_driver": "uni-t-ut61b-ser", "conn": "/dev/serial/by-id/usb-x"}
    amps = FoundInstrument("/dev/ttyUSB0", "FS9922", "sigrok", settings=settings)
    shunt = NewRail("12V", 12.0, amps, shunt_ohm=0.05)
    text = rig_text("mine", "local", NewDrive("/nowhere/scratch"), [shunt])
    meter = tomllib.loads(text)["instruments"]["i12"]
    assert meter == {"driver": "sigrok", "quantity": "voltage"} | settings
    assert "# accuracy_pct_of_reading = ?  # from its manual" in text
    assert "# accuracy_floor = ?  # from its manual" in text
    assert has_functions(amps)


def test_the_range_is_one_of_the_chip_that_was_heard() -> None:
    amps = FoundInstrument("/dev/ttyUSB0", "ES51986", "es51922", settings={"chip": "es51986"})
    text = rig_text("mine", "local", NewDrive("/nowhere/x"), [NewRail("12V", 12.0, amps, amps)])
    text += rig_text("mine", "local", NewDrive("/nowhere/x"), [NewRail("12V", 12.0, amps)])
    assert 'chip = "es51986"' in text and "range = 10 " in text
    assert "must be one of" not in text
    volts = NewRail("12V", 12.0, rail("12V", 1).amps, amps)
    assert "range = 60 " in rig_text("mine", "local", NewDrive("/nowhere/x"), [volts])
