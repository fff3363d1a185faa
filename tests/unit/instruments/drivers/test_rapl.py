"""RAPL's counters over files as powercap's are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from instruments.drivers.rapl import EnergyReading, Rapl, RaplSettings, watts_between
from instruments.errors import ConnectionLost, SettingRefused
from instruments.reading import Batch, Quantity, Status

RANGE_UJ = 262_143_328_850
ZONES: Mapping[str, tuple[str, int]] = {
    "intel-rapl:0": ("package-0", RANGE_UJ),
    "intel-rapl:0:0": ("core", RANGE_UJ),
    "intel-rapl:0:1": ("dram", 65_712_999_613),
    "intel-rapl:1": ("psys", RANGE_UJ),
    "intel-rapl-mmio:0": ("package-0", RANGE_UJ),
}


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    """Flat, as the class directory of the kernel is."""
    for zone, (name, range_uj) in ZONES.items():
        (tmp_path / zone).mkdir()
        (tmp_path / zone / "name").write_text(f"{name}\n")
        (tmp_path / zone / "max_energy_range_uj").write_text(f"{range_uj}\n")
        (tmp_path / zone / "energy_uj").write_text("1000000\n")
    return tmp_path


class Clock:
    def __init__(self) -> None:
        self.ns = 10**9

    def __call__(self) -> int:
        return self.ns


def counters(directory: Path, clock: Clock, **changes: Any) -> Rapl:
    values = {"directory": str(directory), "interval_s": 0.1} | changes
    instrument = Rapl("cpu", RaplSettings.model_validate(values), clock)
    instrument.open()
    instrument.start()
    return instrument


def next_batch(instrument: Rapl) -> Batch:
    instrument._ticks.restart()  # now, whatever the time is
    return instrument.read()


def values(batch: Batch) -> dict[str, list[float]]:
    return {block.channel: block.values.tolist() for block in batch.blocks}


def test_zones_by_name_and_mean_watts_between_two_readings(powercap: Path) -> None:
    clock = Clock()
    zones = ["package_0", "package_0_dram", "psys"]
    instrument = counters(powercap, clock, zones=zones)
    assert [channel.name for channel in instrument.channels] == zones
    assert {channel.quantity for channel in instrument.channels} == {Quantity.POWER}
    assert values(next_batch(instrument)) == {}
    clock.ns += 2 * 10**9
    for zone, joules in (("intel-rapl:0", 90), ("intel-rapl:0:1", 7), ("intel-rapl:1", 130)):
        (powercap / zone / "energy_uj").write_text(f"{1_000_000 + joules * 10**6}\n")
    batch = next_batch(instrument)
    assert values(batch) == {"package_0": [45.0], "package_0_dram": [3.5], "psys": [65.0]}
    assert {int(block.t_ns[0]) for block in batch.blocks} == {2 * 10**9}
    instrument.close()


def test_a_counter_that_began_again_is_followed(powercap: Path) -> None:
    clock = Clock()
    energy = powercap / "intel-rapl:0" / "energy_uj"
    energy.write_text(f"{RANGE_UJ - 20 * 10**6}\n")
    instrument = counters(powercap, clock)
    next_batch(instrument)
    clock.ns += 10**9
    energy.write_text(f"{30 * 10**6}\n")
    assert values(next_batch(instrument)) == {"package_0": [pytest.approx(50.0)]}


def test_the_sum_of_all_readings_is_the_energy_over_many_turns(powercap: Path) -> None:
    clock = Clock()
    instrument = counters(powercap, clock, zones=["package_0_dram"])
    energy, range_uj = powercap / "intel-rapl:0:1" / "energy_uj", ZONES["intel-rapl:0:1"][1]
    total_uj = joules = 0.0
    next_batch(instrument)
    for number in range(200):
        step_uj = (800 + number) * 10**6
        total_uj += step_uj
        clock.ns += 10**9
        energy.write_text(f"{round(1_000_000 + total_uj) % range_uj}\n")
        joules += values(next_batch(instrument))["package_0_dram"][0]
    assert total_uj > 2 * range_uj
    assert joules == pytest.approx(total_uj * 1e-6)


def test_a_counter_that_was_reset_is_no_reading() -> None:
    before = EnergyReading(0, 0.5 * RANGE_UJ, RANGE_UJ)
    after = EnergyReading(10**9, 10.0, RANGE_UJ)
    assert watts_between(before, after) is Status.UNREADABLE


def test_after_a_long_pause_there_is_no_reading(powercap: Path) -> None:
    clock = Clock()
    instrument = counters(powercap, clock)
    next_batch(instrument)
    clock.ns += 3600 * 10**9
    assert next_batch(instrument) == Batch()
    clock.ns += 10**9
    assert values(next_batch(instrument)) == {"package_0": [0.0]}


@pytest.mark.parametrize("text", ["", "twelve\n", "1e5\n"])
def test_what_is_no_number_is_unreadable(powercap: Path, text: str) -> None:
    clock = Clock()
    instrument = counters(powercap, clock)
    next_batch(instrument)
    (powercap / "intel-rapl:0" / "energy_uj").write_text(text)
    (status,) = next_batch(instrument).statuses
    assert status.status is Status.UNREADABLE


def test_missing_zones_and_files_are_named(powercap: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingRefused, match="no zone package_1; there are: package_0, "):
        counters(powercap, Clock(), zones=["package_1"])
    (powercap / "intel-rapl:0" / "energy_uj").write_text("\n")
    with pytest.raises(SettingRefused, match="only root"):
        counters(powercap, Clock())
    with pytest.raises(ConnectionLost, match="no intel-rapl zone"):
        counters(tmp_path / "none", Clock())


def test_a_zone_that_vanished_is_a_lost_instrument(powercap: Path) -> None:
    instrument = counters(powercap, Clock())
    (powercap / "intel-rapl:0" / "energy_uj").unlink()
    with pytest.raises(ConnectionLost, match="vanished"):
        next_batch(instrument)


def test_no_accuracy_is_claimed_but_that_of_the_rig(powercap: Path) -> None:
    assert counters(powercap, Clock()).channels[0].accuracy.source == ""
    stated = counters(powercap, Clock(), accuracy_pct_of_reading=5, accuracy_floor=1)
    assert stated.channels[0].accuracy.limit(100) == pytest.approx(6.0)
