"""What ``labctl check`` says of a word that is nearly right, and of a form that is wrong."""

from __future__ import annotations

import pytest

from labctl.config.plan import parse_plan
from labctl.config.rig import parse_rig
from labctl.errors import ConfigurationError
from labctl.toml_reading import pattern_in_words
from tests.unit.config.test_rig import RIG, mistakes


@pytest.mark.parametrize(
    ("old", "new", "key", "message"),
    [
        ("shunt_ohm =", "shunt_ohms =", "rails.12V.current.shunt_ohms", "is 'shunt_ohm' meant?"),
        ('voltage = "v12', 'shunt_ohm = 0.01\nvoltage = "v12', "rails.12V.shunt_ohm",
         "is 'current.shunt_ohm' meant?"),
        ("function =", "functions =", "instruments.v12.functions", "is 'function' meant?"),
        ("[temperatures]", "[temperature]", "temperature", "is 'temperatures' meant?"),
        ('engine = "libaio"', 'engine = "iouring"', "drive.engine", "is 'io_uring' meant?"),
        ('driver = "truevolt"', 'driver = "truvolt"', "instruments.i12.driver",
         "is 'truevolt' meant?"),
        ('driver = "truevolt"', 'driver = "34465A"', "instruments.i12.driver",
         "'truevolt' reads a 34465A"),
        ('driver = "truevolt"', 'driver = "keysight"', "instruments.i12.driver",
         "'truevolt' reads a 34465A"),
        ('driver = "truevolt"', 'driver = "dmm6500"', "instruments.i12.driver",
         "does not read a 34465A, 'truevolt' does"),
        ("nominal_volts", "colour = 1\nnominal_volts", "rails.12V.colour",
         "there are: nominal_volts, tolerance_pct"),
    ],
)  # fmt: skip
def test_the_word_that_was_meant_is_named(old: str, new: str, key: str, message: str) -> None:
    assert message in mistakes(RIG.replace(old, new, 1))[key]


def test_a_key_of_a_plan_leads_to_the_one_that_was_meant() -> None:
    text = 'name = "p"\n[[sweeps]]\npattern = "randread"\nqueue_depths = [1]\nduration_s = 1\n'
    with pytest.raises(ConfigurationError, match=r"sweeps\[0\].queue_depths.*is 'queue_depth'"):
        parse_plan(text, "p.toml")


def test_a_resource_is_checked_only_where_pyvisa_py_opens_it() -> None:
    alias = RIG.replace("TCPIP0::127.0.0.1::5026::SOCKET", "DMM1")
    assert "is no VISA resource" in mistakes(alias)["instruments.i12.resource"]
    parse_rig(alias.replace('"DMM1"', '"DMM1"\nvisa_library = ""'), "rig.toml")
    empty = alias.replace('"DMM1"', '""\nvisa_library = ""')
    assert "instruments.i12.resource" in mistakes(empty)


TWO_RAILS = RIG.replace(
    "[temperatures]",
    '[rails.5V]\nnominal_volts = 5\nvoltage = "v5.voltage"\ncurrent = "i5.current"\n[temperatures]',
)
METER = '[instruments.{}]\ndriver = "es51922"\nport = "{}"\nfunction = "{}"\nrange = {}\n'
V5, I5 = METER.format("v5", "/dev/ttyX0", "voltage", 22), METER.format(
    "i5", "/dev/ttyX1", "current", 10
)  # fmt: skip


def test_two_meters_are_at_two_ports() -> None:
    assert parse_rig(TWO_RAILS + V5 + I5, "rig.toml")
    found = mistakes(TWO_RAILS + V5 + I5.replace("ttyX1", "ttyX0"))
    assert "is that of instruments.v5, too" in found["instruments.i5.port"]
    same = RIG.replace("TCPIP0::127.0.0.1::5026::SOCKET", "tcpip::127.0.0.1::5025::SOCKET")
    assert "is that of instruments.v12, too" in mistakes(same)["instruments.i12.resource"]


def test_a_meter_behind_sigrok_has_a_port_of_its_own() -> None:
    sigrok = (
        '[instruments.i5]\ndriver = "sigrok"\nsigrok_driver = "uni-t-ut61b-ser"\nconn = "{}"\n'
        'quantity = "current"\naccuracy_pct_of_reading = 1\naccuracy_floor = 0.03\n'
    )
    assert parse_rig(TWO_RAILS + V5 + sigrok.format("/dev/ttyX1"), "rig.toml")
    found = mistakes(TWO_RAILS + V5 + sigrok.format("/dev/ttyX0"))
    assert "is that of instruments.v5, too" in found["instruments.i5.conn"]
    untold = mistakes(TWO_RAILS + V5 + sigrok.format("/dev/ttyX1").partition("accuracy")[0])
    assert {"instruments.i5.accuracy_pct_of_reading", "instruments.i5.accuracy_floor"} <= set(
        untold
    )


def test_two_outputs_of_a_supply_are_two_meters() -> None:
    output = (
        '[instruments.out{0}]\ndriver = "supply"\nresource = "TCPIP0::h::5025::SOCKET"\n'
        'model = "DP832"\noutput = {0}\ninterval_s = 2\n'
    )
    assert parse_rig(RIG + output.format(1) + output.format(2), "rig.toml")
    found = mistakes(RIG + output.format(1) + output.format(1).replace("out1", "out3"))
    assert "too" in found["instruments.out3.resource"]


def test_one_chip_is_not_read_twice() -> None:
    chip = (
        '[instruments.{}]\ndriver = "ina2xx"\n{}\n'
        'model = "ina226"\nshunt_ohm = 0.01\nshunt_tolerance_pct = 1\n'
    )
    devices = "/sys/bus/i2c/devices"
    one = chip.format("a", f'directory = "{devices}/1-0040/hwmon/hwmon*"')
    two = chip.format("b", f'directory = "{devices}/1-0040/hwmon/hwmon*/"')
    assert "instruments.a reads" in mistakes(RIG + one + two)["instruments.b.directory"]
    assert parse_rig(RIG + one + two.replace("0040", "0041"), "rig.toml")
    one, two = (chip.format(name, 'device = "i2c-1-0x40"') for name in "ab")
    assert "instruments.a reads" in mistakes(RIG + one + two)["instruments.b.device"]
    assert parse_rig(RIG + one + two.replace("0x40", "0x41"), "rig.toml")
    sensors = chip.splitlines()[0].format("c", "") + (
        '\ndriver = "hwmon"\ndirectory = "/sys/class/hwmon/hwmon0"\nsensors = ["sensor_1"]\n'
    )
    assert parse_rig(RIG + sensors, "rig.toml")  # other sensors of the chip that RIG reads


def test_two_rails_share_a_voltage_only_where_both_say_so() -> None:
    shared = (TWO_RAILS + I5).replace('voltage = "v5.voltage"', 'voltage = "v12.voltage"')
    assert "voltage_is_shared = true in both" in mistakes(shared)["rails.5V.voltage"]
    one = shared.replace("nominal_volts = 5\n", "nominal_volts = 5\nvoltage_is_shared = true\n")
    assert "rails.5V.voltage" in mistakes(one)
    both = one.replace("nominal_volts = 12.0\n", "nominal_volts = 12.0\nvoltage_is_shared = true\n")
    assert parse_rig(both, "rig.toml")


def test_no_current_counts_twice() -> None:
    twice = (TWO_RAILS + V5 + I5).replace('current = "i5.current"', 'current = "i12.voltage"')
    assert "would count twice" in mistakes(twice)["rails.5V.current"]
    itself = RIG.replace('channel = "i12.voltage"', 'channel = "v12.voltage"')
    assert "gives the rail's volts, too" in mistakes(itself)["rails.12V.current"]


def test_no_message_has_a_regular_expression() -> None:
    text = RIG.replace('"bench"', '"my bench"', 1).replace('"v12.voltage"', '"v12"')
    found = mistakes(text + "x = 1\n")
    assert "must be made of letters, digits" in found["name"]
    assert "instrument.channel" in found["rails.12V.voltage"]
    assert not any("^" in one or "[A-Z" in one for one in found.values())


def test_a_pattern_is_described() -> None:
    assert pattern_in_words(r"^[a-z_]*$") == "must be made of lower-case letters, _"
    assert pattern_in_words(r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$") == (
        "must be made of letters, digits, _ -, and begin with one of letters, digits; "
        "at most 64 characters"
    )
