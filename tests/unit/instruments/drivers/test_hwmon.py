from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from instruments.driver_kit import hwmon_files
from instruments.drivers.hwmon import Hwmon, HwmonSettings, hwmon_sensor_name
from instruments.errors import ConnectionLost, SettingRefused, WrongInstrument
from instruments.reading import Quantity, Status


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
        ("temp3_input", "30000"),
    ):
        (directory / name).write_text(text + "\n")
    return directory


def sensors(directory: Path | str, **changes: Any) -> Hwmon:
    values = {"directory": str(directory), "interval_s": 0.001} | changes
    return Hwmon("drive_temp", HwmonSettings.model_validate(values), time.monotonic_ns)


def test_sensors_by_label(chip: Path) -> None:
    instrument = sensors(chip, sensors=["composite", "sensor_1", "temp3"])
    assert instrument.open().model == "nvme"
    instrument.start()
    values = {block.channel: block.values.tolist() for block in instrument.read().blocks}
    assert values == {"composite": [41.85], "sensor_1": [-1.5], "temp3": [30.0]}
    instrument.close()


def test_a_pattern_and_a_chip_name(chip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sensors(chip.parent / "hwmon*").open().model == "nvme"
    monkeypatch.setattr(hwmon_files, "CLASS_DIRECTORY", chip.parent)
    assert sensors("nvme").open().model == "nvme"
    with pytest.raises(ConnectionLost, match="drivetemp"):
        sensors("drivetemp").open()
    other = chip.parent / "hwmon4"
    other.mkdir()
    (other / "name").write_text("nvme\n")
    with pytest.raises(WrongInstrument, match="means several"):
        sensors("nvme").open()


def test_a_missing_sensor_names_those_there(chip: Path) -> None:
    instrument = sensors(chip, sensors=["sensor_9"])
    instrument.open()
    with pytest.raises(SettingRefused, match="there are: composite, sensor_1, temp3"):
        instrument.start()


def test_a_vanished_file_and_nonsense(chip: Path) -> None:
    instrument = sensors(chip)
    instrument.open()
    instrument.start()
    (chip / "temp1_input").write_text("hot\n")
    assert [s.status for s in instrument.read().statuses] == [Status.UNREADABLE]
    for nothing in ("-273150", "65261850"):  # 0 and 65535 K
        (chip / "temp1_input").write_text(f"{nothing}\n")
        assert [s.status for s in instrument.read().statuses] == [Status.NO_VALUE]
    (chip / "temp1_input").unlink()
    with pytest.raises(ConnectionLost, match="vanished"):
        instrument.read()


def test_sensor_names() -> None:
    assert hwmon_sensor_name("Sensor 1\n") == "sensor_1"
    assert hwmon_sensor_name("Tctl/Tdie") == "tctl_tdie"


@pytest.fixture
def power_meter(tmp_path: Path) -> Path:
    """An ACPI power meter, and a chip beside it whose input has a label."""
    directory = tmp_path / "hwmon5"
    directory.mkdir()
    for name, text in (
        ("name", "power_meter"),
        ("power1_average", "212000000"),
        ("power1_average_interval", "1000"),
        ("power1_input", "1"),
        ("power2_input", "48500000"),
        ("power2_label", "CPU socket"),
        ("temp1_input", "41000"),
    ):
        (directory / name).write_text(text + "\n")
    return directory


def test_watts_are_averages_or_else_inputs(power_meter: Path) -> None:
    instrument = sensors(
        power_meter, quantity="power", sensors=["power1", "cpu_socket"], averaged_s=1.0
    )
    assert {channel.quantity for channel in instrument.channels} == {Quantity.POWER}
    assert {channel.aperture_s for channel in instrument.channels} == {1.0}
    assert {channel.accuracy.source for channel in instrument.channels} == {""}
    assert instrument.open().model == "power_meter"
    instrument.start()
    before_ns = time.monotonic_ns()
    batch = instrument.read()
    assert {b.channel: b.values.tolist() for b in batch.blocks} == {
        "power1": [212.0],
        "cpu_socket": [48.5],
    }
    assert abs(int(batch.blocks[0].t_ns[0]) - (before_ns - 500_000_000)) < 400_000_000


def test_watts_that_cannot_be_are_none(power_meter: Path) -> None:
    (power_meter / "power1_average").write_text("-5\n")
    instrument = sensors(power_meter, quantity="power", sensors=["power1"])
    instrument.open()
    instrument.start()
    (status,) = instrument.read().statuses
    assert status.status is Status.NO_VALUE


@pytest.mark.parametrize(
    "keys", [{"quantity": "power", "limit_kelvin": 2}, {"averaged_s": 1}, {"accuracy_floor": 1}]
)
def test_keys_of_the_other_quantity_are_mistakes(chip: Path, keys: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"not for a|belong together"):
        sensors(chip, **keys)
