from __future__ import annotations

import fnmatch
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from instruments.drivers.ina2xx import Ina2xx, Ina2xxSettings
from instruments.errors import ConnectionLost, SettingRefused, WrongInstrument
from instruments.reading import Batch, Status
from instruments.transports.host_files import HostFiles, LocalFiles

LIMITS = {
    "voltage_pct_of_reading": 0.5,
    "voltage_floor_volts": 0.01,
    "current_pct_of_reading": 0.5,
    "current_floor_amps": 0.002,
}


@pytest.fixture
def chip(tmp_path: Path) -> Path:
    directory = tmp_path / "hwmon5"
    directory.mkdir()
    for name, text in (
        ("name", "ina226"),
        ("in0_input", "12"),
        ("in1_input", "12048"),
        ("curr1_input", "1213"),
        ("power1_input", "14600000"),
        ("shunt_resistor", "10000"),
        ("update_interval", "35"),
    ):
        (directory / name).write_text(text + "\n")
    return directory


def monitor(directory: Path, files: HostFiles | None = None, **changes: Any) -> Ina2xx:
    values = {
        "model": "ina226",
        "directory": str(directory),
        "shunt_ohm": 0.01,
        "shunt_tolerance_pct": 1.0,
        "interval_s": 0.001,
    } | changes
    return Ina2xx(
        "r12", Ina2xxSettings.model_validate(values), time.monotonic_ns, files or LocalFiles()
    )


def started(instrument: Ina2xx) -> Ina2xx:
    instrument.open()
    instrument.start()
    return instrument


def values(batch: Batch) -> dict[str, list[float]]:
    return {block.channel: block.values.tolist() for block in batch.blocks}


def test_volts_and_amps(chip: Path) -> None:
    instrument = monitor(chip)
    assert instrument.open().model == "ina226"
    instrument.start()
    assert values(instrument.read()) == {"voltage": [12.048], "current": [1.213]}
    instrument.close()


def test_limits_of_an_ina226(chip: Path) -> None:
    voltage, current = monitor(chip).channels
    assert voltage.accuracy.limit(12.0) == pytest.approx(12e-3 + 7.5e-3 + 0.5e-3)
    assert current.accuracy.limit(1.0) == pytest.approx(0.001 + 0.01 + 10e-6 / 0.01 + 0.5e-3)


def test_other_chips_need_limits(chip: Path) -> None:
    with pytest.raises(ValidationError, match="only an ina226 may be without them"):
        monitor(chip, model="ina219")
    with pytest.raises(ValidationError, match="belong together"):
        monitor(chip, voltage_pct_of_reading=1.0)
    (chip / "name").write_text("ina219\n")
    (chip / "update_interval").unlink()
    instrument = started(monitor(chip, model="ina219", **LIMITS))
    assert values(instrument.read())["voltage"] == [12.048]
    assert instrument.channels[1].accuracy.of_reading == pytest.approx(0.015)


def test_another_chip_shunt_or_averaging(chip: Path) -> None:
    with pytest.raises(WrongInstrument, match="is an ina226, the rig says ina238"):
        started(monitor(chip, model="ina238", **LIMITS))
    with pytest.raises(SettingRefused, match=r"reckons 0.01 Ω.*write 2000 to .*shunt_resistor"):
        started(monitor(chip, shunt_ohm=0.002))
    with pytest.raises(SettingRefused, match=r"averages over 0.035 s.*write 140"):
        started(monitor(chip, update_interval_s=0.14))
    started(monitor(chip, update_interval_s=0.035))
    (chip / "shunt_resistor").unlink()
    with pytest.raises(SettingRefused, match="gives no shunt"):
        started(monitor(chip))


def test_overload_nonsense_and_a_chip_that_goes(chip: Path) -> None:
    instrument = started(monitor(chip))
    (chip / "in0_input").write_text("82\n")
    batch = instrument.read()
    assert [(s.channel, s.status) for s in batch.statuses] == [("current", Status.OVERLOAD)]
    assert values(batch) == {"voltage": [12.048]}
    (chip / "in0_input").write_text("-3\n")
    (chip / "in1_input").write_text("\n")
    batch = instrument.read()
    assert [(s.channel, s.status) for s in batch.statuses] == [("voltage", Status.UNREADABLE)]
    assert values(batch) == {"current": [1.213]}
    (chip / "curr1_input").unlink()
    with pytest.raises(ConnectionLost, match="vanished"):
        instrument.read()


def test_the_files_may_be_another_hosts() -> None:
    there = {
        "/sys/class/hwmon/hwmon2/name": "ina226\n",
        "/sys/class/hwmon/hwmon2/in0_input": "1\n",
        "/sys/class/hwmon/hwmon2/in1_input": "3301\n",
        "/sys/class/hwmon/hwmon2/curr1_input": "250\n",
        "/sys/class/hwmon/hwmon2/shunt_resistor": "10000\n",
    }

    class Remote:
        """The files of a host that is not this one."""

        def open(self) -> None:
            """Nothing to connect."""

        def texts(self, patterns: Sequence[str]) -> dict[str, str | None]:
            return {
                path: text
                for path, text in there.items()
                if any(fnmatch.fnmatch(path, pattern) for pattern in patterns)
            }

        def close(self) -> None:
            """Nothing was connected."""

    instrument = monitor(Path("/sys/class/hwmon/hwmon2"), files=Remote())
    assert values(started(instrument).read()) == {"voltage": [3.301], "current": [0.25]}
