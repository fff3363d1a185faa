from __future__ import annotations

import pytest

from labctl.config.plan import load_plan
from labctl.config.rig import parse_rig
from labctl.errors import ConfigurationError

RIG = """
name = "bench"
[drive]
target = "/dev/nvme9n9"
engine = "libaio"
[rails.12V]
nominal_volts = 12.0
voltage = "v12.voltage"
current = { channel = "i12.voltage", shunt_ohm = 0.05, shunt_tolerance_pct = 0.1 }
[temperatures]
composite = "drive_temp.composite"
[instruments.v12]
driver = "scpi_dmm"
resource = "TCPIP0::127.0.0.1::5025::SOCKET"
model = "34401A"
function = "voltage"
range = 100
nplc = 1
interval_s = 0.1
[instruments.i12]
driver = "truevolt"
resource = "TCPIP0::127.0.0.1::5026::SOCKET"
model = "34465A"
function = "voltage"
range = 0.1
nplc = 0.2
interval_s = 0.01
required = "always"
[instruments.drive_temp]
driver = "hwmon"
directory = "/sys/class/hwmon/hwmon0"
sensors = ["composite"]
"""


def mistakes(text: str) -> dict[str, str]:
    with pytest.raises(ConfigurationError) as caught:
        parse_rig(text, "rig.toml")
    assert all(item.file == "rig.toml" for item in caught.value.mistakes)
    return {item.key: str(item) for item in caught.value.mistakes}


def test_a_rig_knows_its_rails_channels_and_how_badly_a_meter_is_needed() -> None:
    rig = parse_rig(RIG, "rig.toml")
    (rail,) = rig.rail_infos()
    assert (rail.name, rail.voltage, rail.current) == ("12V", "v12.voltage", "i12.voltage")
    assert (rail.shunt_ohm, rail.shunt_tolerance_pct) == (0.05, 0.1)
    assert rig.file.instruments["i12"].required == "always"
    assert rig.file.instruments["v12"].required == "at_start"
    assert rig.channels["drive_temp"][0].name == "composite"


def test_every_mistake_comes_at_once_wherever_it_is() -> None:
    text = (
        RIG.replace('engine = "libaio"', 'engine = "fast"')
        .replace("nominal_volts = 12.0", 'nominal_volts = "a lot"\ncolour = "red"')
        .replace('driver = "scpi_dmm"', 'driver = "abacus"')
        .replace("nplc = 0.2", "nplc = -1")
    )
    found = mistakes(text)
    assert {"drive.engine", "rails.12V.nominal_volts", "rails.12V.colour"} <= set(found)
    assert "instruments.v12.driver" in found
    assert "instruments.i12.nplc" in found
    assert "'fast'" in found["drive.engine"] and "libaio" in found["drive.engine"]
    assert "'scpi_dmm' reads a 34401A" in found["instruments.v12.driver"]


def test_a_rail_must_name_channels_that_exist_and_measure_the_right_thing() -> None:
    found = mistakes(RIG.replace('"v12.voltage"', '"v13.voltage"'))
    assert "no such channel" in found["rails.12V.voltage"]
    assert "v12.voltage" in found["rails.12V.voltage"]
    no_shunt = '"i12.voltage"\n'
    shunt = '{ channel = "i12.voltage", shunt_ohm = 0.05, shunt_tolerance_pct = 0.1 }\n'
    found = mistakes(RIG.replace(shunt, no_shunt))
    assert "measures voltage, must be current" in found["rails.12V.current"]
    found = mistakes(RIG.replace('"drive_temp.composite"', '"v12.voltage"'))
    assert "must be temperature" in found["temperatures.composite"]


@pytest.mark.parametrize("nonsense", ["inf", "nan", "-inf"])
def test_infinite_quantities_are_mistakes(nonsense: str) -> None:
    text = RIG.replace("shunt_ohm = 0.05", f"shunt_ohm = {nonsense}")
    assert any("shunt_ohm" in key for key in mistakes(text))


def test_broken_toml_and_empty_files_are_mistakes_not_crashes() -> None:
    assert "TOML" in mistakes("name = ")
    assert {"name", "drive", "rails", "instruments"} <= set(mistakes(""))
    assert "instruments" in mistakes("instruments = 3")


def test_a_sync_engine_with_queue_depth_8_is_refused_with_the_reason() -> None:
    rig = parse_rig(RIG.replace("libaio", "psync"), "rig.toml")
    plan, _ = load_plan("demo")
    (mistake,) = rig.mistakes_with(plan.expand(), "demo")
    assert mistake.key == "drive.engine"
    assert "synchronous" in mistake.allowed and "2, 4, 8" in mistake.allowed
    assert parse_rig(RIG, "rig.toml").mistakes_with(plan.expand(), "demo") == []


@pytest.mark.parametrize("name", ["u", "12V_u", "min", "std_12V", "unthrottled"])
def test_a_rail_has_no_name_that_means_another_number(name: str) -> None:
    found = mistakes(RIG.replace("[rails.12V]", f"[rails.{name}]"))
    assert "another number" in found[f"rails.{name}"]


@pytest.mark.parametrize("name", ["main", "umbilical", "minus12V"])
def test_a_rail_may_begin_like_one(name: str) -> None:
    assert parse_rig(RIG.replace("[rails.12V]", f"[rails.{name}]"), "rig.toml").file.rails


@pytest.mark.parametrize("value", ['"yes"', "1", '"true"'])
def test_writing_is_allowed_by_the_word_true_alone(value: str) -> None:
    found = mistakes(RIG.replace("[rails.12V]", f"destructive = {value}\n[rails.12V]"))
    assert "boolean" in found["drive.destructive"]


def test_fio_is_no_name_for_an_instrument() -> None:
    found = mistakes(RIG.replace("[instruments.drive_temp]", "[instruments.fio]"))
    assert "instruments.fio" in found


@pytest.mark.parametrize("host", ["user@box", "box-3.lab", "ssh://me@10.0.0.7:2222", "u@[fe80::1]"])
def test_the_drive_may_be_behind_ssh_and_its_sensors_with_it(host: str) -> None:
    rig = parse_rig(f'host = "{host}"\n' + RIG, "rig.toml")
    assert rig.file.host == host
    assert parse_rig(RIG, "rig.toml").file.host == "local"


@pytest.mark.parametrize("host", ["-oProxyCommand=evil", "two words", "", "a;b", "$(x)"])
def test_a_host_is_one_destination_and_never_an_option(host: str) -> None:
    assert "host" in mistakes(f'host = "{host}"\n' + RIG)


@pytest.mark.parametrize(
    ("sensor", "own"),
    [
        ('composite = "drive_temp.composite"', ("composite",)),
        ('x = { channel = "drive_temp.composite", of = "other" }', ()),
        ('near_drive = "nvme_case.temp1"', ()),
        ('case = { channel = "nvme_case.temp1", of = "drive" }', ("case",)),
        ('x = "kernel.sensor_1"', ("x",)),
    ],
)
def test_a_sensor_is_the_drives_own_as_the_rig_or_its_source_says(
    sensor: str, own: tuple[str, ...]
) -> None:
    hwmon = 'driver = "hwmon"\nsensors = ["{}"]\ndirectory = "{}"\n'
    text = RIG.replace('composite = "drive_temp.composite"', sensor)
    text += f"[instruments.nvme_case]\n{hwmon.format('temp1', 'max6675')}"
    text += f"[instruments.kernel]\n{hwmon.format('sensor_1', 'nvme')}"
    assert parse_rig(text, "rig.toml").own_sensors() == own
