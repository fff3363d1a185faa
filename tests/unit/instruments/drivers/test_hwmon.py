from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from instruments.driver_kit import hwmon_files
from instruments.drivers.hwmon import Hwmon, HwmonSettings, sensor_name
from instruments.errors import ConnectionLost, SettingRefused, WrongInstrument
from instruments.reading import Status


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
    assert sensor_name("Sensor 1\n") == "sensor_1"
    assert sensor_name("Tctl/Tdie") == "tctl_tdie"
