"""Sensors of the drive's host, over a real sshd."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from instruments import drivers
from instruments.errors import ConnectionLost, NoAnswer, SettingRefused
from instruments.reading import Status
from labctl.config.rig import parse_rig
from tests.ssh.sshd import HOST, Sshd
from tests.unit.config.test_rig import RIG


@pytest.fixture
def chip(tmp_path: Path) -> Path:
    directory = tmp_path / "hwmon3"
    directory.mkdir()
    for name, text in (
        ("name", "nvme"),
        ("temp1_input", "41850"),
        ("temp1_label", "Composite"),
        ("temp2_input", "-1500"),
        ("temp2_label", "Sensor 1"),
    ):
        (directory / name).write_text(text + "\n")
    return directory


def test_the_rigs_sensors_are_read_on_the_rigs_host(sshd: Sshd, chip: Path) -> None:
    text = RIG.replace("/sys/class/hwmon/hwmon0", f"{chip.parent}/hwmon*")
    text = text.replace('sensors = ["composite"]', 'sensors = ["composite", "sensor_1"]')
    text = text.replace("[instruments.drive_temp]", "[instruments.drive_temp]\ninterval_s = 0.01")
    rig = parse_rig(f'host = "{HOST}"\n' + text, "rig.toml")
    sensors = rig.create_instruments(time.monotonic_ns)["drive_temp"]
    identity = sensors.open()
    assert identity.model == "nvme"
    assert identity.notes == (f"{HOST}:{chip}",)
    sensors.start()
    before_ns = time.monotonic_ns()
    blocks = {block.channel: block for block in sensors.read().blocks}
    assert {name: block.values.tolist() for name, block in blocks.items()} == {
        "composite": [41.85],
        "sensor_1": [-1.5],
    }
    assert before_ns < blocks["composite"].t_ns[0] < time.monotonic_ns()
    (chip / "temp2_input").write_text("warm\n")
    assert [status.status for status in sensors.read().statuses] == [Status.UNREADABLE]
    (chip / "temp1_input").unlink()
    with pytest.raises(ConnectionLost, match="vanished"):
        sensors.read()
    sensors.close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_cut_connection_is_a_lost_instrument_that_comes_back(
    sshd: Sshd, chip: Path, how: signal.Signals
) -> None:
    text = RIG.replace("/sys/class/hwmon/hwmon0", str(chip))
    rig = parse_rig(f'host = "{HOST}"\n' + text, "rig.toml")
    sensors = rig.create_instruments(time.monotonic_ns)["drive_temp"]
    sensors.open()
    sensors.start()
    assert sensors.read().blocks
    sshd.signal_sessions(how)
    with pytest.raises((ConnectionLost, NoAnswer), match=f"drive_temp.*{HOST}"):
        for _ in range(10):
            sensors.read()
    sensors.close()
    assert sensors.open().model == "nvme"
    sensors.close()
    sshd.stop()
    with pytest.raises(ConnectionLost, match="is sshd running there"):
        sensors.open()
    sensors.close()


def test_an_ina228_of_another_host(sshd: Sshd, tmp_path: Path) -> None:
    """Its device tree, its joules, and a kernel that reckons with another shunt."""
    chip = tmp_path / "hwmon7"
    node = chip / "device" / "of_node"
    node.mkdir(parents=True)
    for name, text in (
        ("name", "ina228"),
        ("in0_input", "18"),
        ("in1_input", "12000"),
        ("curr1_input", "1200"),
        ("energy1_input", "5000000"),
    ):
        (chip / name).write_text(text + "\n")
    (node / "shunt-resistor").write_bytes((15_000).to_bytes(4, "big"))
    settings = {
        "host": HOST,
        "model": "ina228",
        "directory": f"{tmp_path}/hwmon*",
        "shunt_ohm": 0.015,
        "shunt_tolerance_pct": 0.5,
        "current_from": "energy",
        "voltage_pct_of_reading": 0.1,
        "voltage_floor_volts": 0.005,
        "current_pct_of_reading": 0.05,
        "current_floor_amps": 0.0005,
    }
    monitor = drivers.create("r12", "ina2xx", settings, time.monotonic_ns)
    assert monitor.open().notes == (f"{HOST}:{chip}",)
    monitor.start()
    before = monitor.read().blocks
    (chip / "energy1_input").write_text("8000000\n")
    volts, amps = monitor.read().blocks
    assert [block.channel for block in before] == ["voltage"]
    assert volts.values.tolist() == [12.0]
    assert 0 < amps.values[0] < 3.0 / 12.0 / 0.01, "3 J in the time since, which is 0.1 s or more"
    monitor.close()
    other = drivers.create("r12", "ina2xx", settings | {"shunt_ohm": 0.01}, time.monotonic_ns)
    other.open()
    with pytest.raises(SettingRefused, match="the device tree says another shunt"):
        other.start()
    other.close()
