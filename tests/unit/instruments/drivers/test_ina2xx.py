from __future__ import annotations

import fnmatch
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from instruments.drivers.ina2xx import Ina2xx, Ina2xxSettings
from instruments.errors import ConnectionLost, SettingRefused, WrongInstrument
from instruments.reading import Batch, Status
from instruments.transports.host_files import (
    HostFiles,
    LocalFiles,
    parse_printed_files,
    print_files_script,
)

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


def monitor(directory: Path | None, files: HostFiles | None = None, **changes: Any) -> Ina2xx:
    values = {
        "model": "ina226",
        "directory": str(directory or ""),
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


class Remote:
    """The files of a host that is not this one."""

    def __init__(self, there: dict[str, str]) -> None:
        self.there = there

    def open(self) -> None:
        """Nothing to connect."""

    def texts(self, patterns: Sequence[str]) -> dict[str, str | None]:
        return {
            path: text
            for path, text in self.there.items()
            if any(fnmatch.fnmatch(path, pattern) for pattern in patterns)
        }

    def close(self) -> None:
        """Nothing was connected."""


def test_the_files_may_be_another_hosts_and_the_device_has_a_bus_and_an_address() -> None:
    chips = {
        f"/sys/bus/i2c/devices/{device}/hwmon/{hwmon}/{name}": text + "\n"
        for device, hwmon, amps in (("1-0040", "hwmon2", "250"), ("1-0041", "hwmon1", "990"))
        for name, text in (
            ("name", "ina226"),
            ("in0_input", "1"),
            ("in1_input", "3301"),
            ("curr1_input", amps),
            ("shunt_resistor", "10000"),
        )
    }
    for device, amps in (("i2c-1-0x40", 0.25), ("i2c-1-0x41", 0.99)):
        instrument = monitor(None, files=Remote(chips), device=device)
        assert values(started(instrument).read()) == {"voltage": [3.301], "current": [amps]}


def test_a_number_of_hwmon_is_no_name_and_a_device_is_told_once() -> None:
    with pytest.raises(ValidationError, match=r"another chip after the next boot.*i2c-1-0x40"):
        monitor(Path("/sys/class/hwmon/hwmon3"))
    with pytest.raises(ValidationError, match="only one of both"):
        monitor(Path("/sys/bus"), device="i2c-1-0x40")
    for wrong in ("1-0040", "i2c-1-40", "i2c-1-0x4", "i2c-1-0x40/../.."):
        with pytest.raises(ValidationError, match="device"):
            monitor(None, device=wrong)


# What drivers/hwmon/ina238.c registers: neither shunt_resistor nor update_interval. 1.213 A through
# 10 mΩ at 12.048 V.
FAMILY_FILES = {
    "in0_input": "12",
    "in1_input": "12048",
    "curr1_input": "1213",
    "power1_input": "14614000",
    "temp1_input": "31250",
}


@pytest.fixture
def ina228(tmp_path: Path) -> Path:
    """As Linux 6.18 shows an INA228 that a device tree describes."""
    directory = tmp_path / "hwmon4"
    node = directory / "device" / "of_node"
    node.mkdir(parents=True)
    files = FAMILY_FILES | {"name": "ina228", "energy1_input": "1000000"}
    for name, text in files.items():
        (directory / name).write_text(text + "\n")
    (node / "shunt-resistor").write_bytes((10_000).to_bytes(4, "big"))
    (node / "ti,shunt-gain").write_bytes((4).to_bytes(4, "big"))
    return directory


@pytest.mark.parametrize("model", ["ina228", "ina237", "ina238"])
def test_the_chips_without_a_shunt_resistor(ina228: Path, model: str) -> None:
    (ina228 / "name").write_text(f"{model}\n")
    instrument = started(monitor(ina228, model=model, **LIMITS))
    assert values(instrument.read()) == {"voltage": [12.048], "current": [1.213]}
    assert all(one.aperture_s == pytest.approx(0.050496) for one in instrument.channels)
    # The rig's limits, half a step of the converter, and what older kernels cut off.
    assert instrument.channels[0].accuracy.floor == pytest.approx(0.01 + 3.125e-3 / 2 + 1e-3)
    assert instrument.channels[1].accuracy.floor == pytest.approx(0.002 + 1e-3 + 1e-3)


@pytest.mark.parametrize("micro_ohm", [2_500, 15_000, 200_000, 2_560])
def test_the_shunt_of_the_device_tree(ina228: Path, micro_ohm: int) -> None:
    """15 and 200 mΩ have bytes that are no text."""
    node = ina228 / "device" / "of_node"
    (node / "shunt-resistor").write_bytes(micro_ohm.to_bytes(4, "big"))
    with pytest.raises(SettingRefused, match=r"device tree says .*the rig 10000 µΩ"):
        started(monitor(ina228, model="ina228", **LIMITS))
    started(monitor(ina228, model="ina228", shunt_ohm=micro_ohm * 1e-6, **LIMITS))
    scaled = monitor(ina228, model="ina228", kernel_shunt_ohm=micro_ohm * 1e-6, **LIMITS)
    (ina228 / "in0_input").write_text(f"{round(1.213 * micro_ohm * 1e-3)}\n")
    if micro_ohm < 100_000:  # else the converter is at its end
        assert values(started(scaled).read())["current"] == [
            pytest.approx(1.213 * micro_ohm / 10_000)
        ]


def test_the_cell_of_a_device_tree_comes_whole_from_another_host(ina228: Path) -> None:
    """Through the same shell code as over ssh; a byte that is a line feed makes it unknown."""
    for micro_ohm, known in ((10_000, True), (15_000, True), (2_560, False)):
        cell = ina228 / "device" / "of_node" / "shunt-resistor"
        cell.write_bytes(micro_ohm.to_bytes(4, "big"))
        script = print_files_script([str(cell)], "mark")
        done = subprocess.run(["sh", "-c", script], capture_output=True, check=True)
        text = parse_printed_files(done.stdout, "mark")[str(cell)]
        expected = micro_ohm.to_bytes(4, "big").decode("utf-8", "replace")
        assert (text == expected) is known
        assert known or not (text or "").startswith("\0")


def test_a_kernel_that_reckons_with_another_shunt_is_seen_by_its_volts(ina228: Path) -> None:
    """The kernel's default was 10 mΩ once and is 2.5 mΩ now: four times the amps."""
    (ina228 / "device" / "of_node" / "shunt-resistor").unlink()
    (ina228 / "curr1_input").write_text("4852\n")
    instrument = started(monitor(ina228, model="ina228", **LIMITS))
    statuses = [status for _ in range(12) for status in instrument.read().statuses]
    assert [status.status for status in statuses] == [Status.WRONG_FUNCTION] * 3
    assert "another shunt than 0.01 Ω; set kernel_shunt_ohm" in statuses[0].detail
    mended = started(monitor(ina228, model="ina228", kernel_shunt_ohm=0.0025, **LIMITS))
    read = [values(mended.read()) for _ in range(12)]
    assert all(one["current"] == [pytest.approx(1.213)] for one in read)


def test_a_load_that_changes_between_two_files_is_no_wrong_shunt(ina228: Path) -> None:
    instrument = started(monitor(ina228, model="ina228", **LIMITS))
    for number in range(40):
        (ina228 / "in0_input").write_text("1\n" if number % 3 else "12\n")
        assert not instrument.read().statuses


def test_the_small_range_of_the_shunt(ina228: Path) -> None:
    (ina228 / "device" / "of_node" / "ti,shunt-gain").write_bytes((1).to_bytes(4, "big"))
    (ina228 / "in0_input").write_text("41\n")
    instrument = started(monitor(ina228, model="ina228", **LIMITS))
    assert [one.status for one in instrument.read().statuses] == [Status.OVERLOAD]


ENERGY = {"model": "ina228", "current_from": "energy", "interval_s": 0.1, **LIMITS}


def test_amps_from_the_energy_register_give_its_joules(ina228: Path) -> None:
    times = iter(range(0, 10**12, 50_000_000))  # asked and answered: each read takes 50 ms
    instrument = Ina2xx(
        "r12",
        Ina2xxSettings.model_validate(
            {"directory": str(ina228), "shunt_ohm": 0.01, "shunt_tolerance_pct": 1.0} | ENERGY
        ),
        lambda: next(times),
        LocalFiles(),
    )
    started(instrument)
    joules, volts_times_amps = 0.0, 0.0
    for number, step_uj in enumerate((0, 1_204_800, 240_960, 2_409_600)):
        joules += step_uj * 1e-6
        (ina228 / "energy1_input").write_text(f"{1_000_000 + round(joules * 1e6)}\n")
        read = values(instrument.read())
        assert read["voltage"] == [12.048]
        assert ("current" in read) is bool(number), "the first one only begins to count"
        volts_times_amps += 12.048 * read.get("current", [0.0])[0] * 0.1
    assert volts_times_amps == pytest.approx(joules, rel=1e-9)
    current = instrument.channels[1]
    assert current.aperture_s == current.interval_s == 0.1 and current.dither == 0.0
    assert current.accuracy.of_reading == pytest.approx(0.02)


def test_an_energy_register_that_is_reset_or_not_there(ina228: Path) -> None:
    instrument = started(monitor(ina228, **ENERGY))
    instrument.read()
    (ina228 / "energy1_input").write_text("16\n")
    (status,) = instrument.read().statuses
    assert (status.status, status.detail) == (Status.UNREADABLE, "the energy register began anew")
    (ina228 / "energy1_input").write_text("1204816\n")
    assert values(instrument.read())["current"][0] > 0
    (ina228 / "energy1_input").unlink()
    with pytest.raises(SettingRefused, match=r'no energy1_input.*current_from = "register"'):
        started(monitor(ina228, **ENERGY))
    with pytest.raises(ValidationError, match="only an ina228 counts energy"):
        monitor(ina228, **(ENERGY | {"model": "ina238"}))
    with pytest.raises(ValidationError, match=r"interval_s must be 0.1 or more"):
        monitor(ina228, **(ENERGY | {"interval_s": 0.05}))
