"""Each family of SCPI meters, simulated with its quirks, through its real driver."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instruments import drivers
from instruments.errors import ConnectionLost, NoAnswer, SettingRefused, WrongInstrument
from instruments.reading import EPOCH_NS, Status
from instruments.simulated.bench import Bench, BenchConfig
from instruments.simulated.meter_kit.config import MeterConfig
from tests.bench.running_meters import (
    CASE_CELSIUS,
    VOLTS_12,
    Running,
    amps,
    compare,
    fails,
    numbers,
    numbers_again,
    read_count,
    read_until,
    reconnect,
    reported,
    running_meters,
    started,
    statuses_until,
)
from tests.bench.test_meters import SEED, offset_bounds

OWN_ACCURACY = {"accuracy_pct_of_reading": 0.05, "accuracy_floor": 5e-3}
FINE = {"accuracy_pct_of_reading": 0.005, "accuracy_floor": 1e-4}
VOLTAGE = {"function": "voltage", "nplc": 1.0}
METERS = {
    meter.name: meter
    for meter in (
        MeterConfig(
            name="stamped",
            kind="dmm6500",
            point="12V.current",
            clock_offset_s=9.1,
            drift_ppm=60.0,
            settings={
                "function": "current",
                "range": 3.0,
                "nplc": 0.5,
                "interval_s": 0.02,
                **FINE,
            },
        ),
        MeterConfig(
            name="small",
            kind="dmm6500",
            point="12V.voltage",
            memory=50,
            settings={**VOLTAGE, "range": 100.0, "interval_s": 0.03, **FINE},
        ),
        MeterConfig(
            name="hp",
            kind="34401a",
            point="12V.voltage",
            settings={**VOLTAGE, "model": "34401A", "range": 100.0, "interval_s": 0.1},
        ),
        MeterConfig(
            name="keithley",
            kind="keithley2000",
            point="12V.voltage",
            settings={**VOLTAGE, "model": "2000", "range": 100.0, "interval_s": 0.05, **FINE},
        ),
        MeterConfig(
            name="rigol",
            kind="dm3058",
            point="12V.voltage",
            settings={
                "model": "DM3058",
                "function": "voltage",
                "range": 20.0,
                "interval_s": 0.1,
                **OWN_ACCURACY,
            },
        ),
        MeterConfig(
            name="owon",
            kind="xdm1041",
            point="12V.voltage",
            settings={
                "model": "XDM1041",
                "function": "voltage",
                "range": 50.0,
                "rate": "fast",
                "refresh_s": 0.15,
                "interval_s": 0.2,
                **OWN_ACCURACY,
            },
        ),
        MeterConfig(
            name="thermistor",
            kind="dmm6500_temperature",
            point="case",
            settings={
                "model": "DMM6500",
                "sensor": "thermistor",
                "sensor_type": "10000",
                "interval_s": 0.05,
                "accuracy_pct_of_reading": 0.0,
                "accuracy_floor": 0.1,
            },
        ),
        MeterConfig(
            name="psu",
            kind="dp832",
            point="12V",
            settings={"model": "DP832", "output": 2, "interval_s": 0.25, "refresh_s": 0.2},
        ),
    )
}
POLLED = ["hp", "keithley", "rigol", "owon"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_meters(tmp_path_factory.mktemp("bench"), METERS.values(), SEED) as meters:
        yield meters


@pytest.fixture
def create(running: Running) -> Iterator[Any]:
    yield running.create
    running.close()


def test_stamps_of_a_dmm6500_map_to_the_host(create: Any) -> None:
    instrument = started(create("stamped"))
    (channel,) = instrument.channels
    read_count(instrument, 40)  # the delay is tuned here
    batches = read_count(instrument, 150)
    t_ns, values = numbers(batches)
    assert not reported(batches)
    steps = np.diff(t_ns)
    assert np.all(np.abs(steps - channel.interval_s * 1e9) < 0.02 * channel.interval_s * 1e9)
    pairs = [pair for batch in batches for pair in batch.clock_pairs]
    slope = 1 + METERS["stamped"].drift_ppm * 1e-6
    low, high = offset_bounds(pairs, channel, slope)
    assert low <= high + 1e5, "no clock fits all pairs"
    host_ns = t_ns / slope + (low + high) / 2
    half_ns = (high - low) / 2 + channel.time_u_s * 1e9 + channel.aperture_s * 0.25e9
    compare(channel, values, amps(host_ns), half_ns, 1e-9)


def test_a_dmm6500_that_was_stopped_says_nothing_of_its_clock(create: Any) -> None:
    instrument = started(create("stamped"))
    (channel,) = instrument.channels
    batches = read_count(instrument, 40)
    instrument._scpi.send("ABOR")
    batches += read_until(instrument, lambda read: len(read) > 5 and bool(read[-1].blocks))
    batches += read_count(instrument, 40)
    pairs = [pair for batch in batches for pair in batch.clock_pairs]
    slope = 1 + METERS["stamped"].drift_ppm * 1e-6
    low, high = offset_bounds(pairs, channel, slope)
    assert low <= high + 1e5, "no clock fits all pairs"


def test_a_buffer_of_a_dmm6500_wraps_without_a_loss(create: Any) -> None:
    instrument = started(create("small"))
    read_count(instrument, 30)
    batches = read_count(instrument, 130)
    t_ns, values = numbers(batches)
    assert len(values) > 2 * 50, "it wrapped more than once"
    assert np.all(np.diff(t_ns) > 0)
    lost = [status.count for status in reported(batches) if status.status is Status.LOST]
    assert len(values) + sum(lost) == pytest.approx(np.ptp(t_ns) / 0.03e9 + 1, abs=1 + len(lost))
    compare(instrument.channels[0], values, np.full(len(values), VOLTS_12), 0, 0)


def test_a_buffer_that_nobody_read_is_an_overflow_with_a_count(create: Any) -> None:
    instrument = started(create("small"))
    before, _ = numbers(read_count(instrument, 40))
    time.sleep(3.0)
    batch = instrument.read()
    found = {status.status: status for status in batch.statuses}
    assert set(found) == {Status.LOST, Status.MEMORY_OVERFLOW}
    after, _ = numbers([batch])
    gap = (after[0] - before[-1]) / 0.03e9 - 1
    assert found[Status.LOST].count == pytest.approx(gap, abs=1)
    numbers_again(instrument)


def test_the_dead_mans_switch_is_armed_again_in_time(create: Any) -> None:
    instrument = started(create("small", dead_man_s=10.0))
    batches = read_until(
        instrument,
        lambda read: any(b.blocks for b in read) and np.ptp(numbers(read)[0]) > 6e9,
    )
    assert {status.status for status in reported(batches)} <= {Status.LOST, Status.MEMORY_OVERFLOW}
    assert len(np.unique(numbers(batches)[0] // EPOCH_NS)) == 1, "the buffer was not cleared"


@pytest.mark.parametrize("name", POLLED)
def test_polled_and_free_running_meters(create: Any, name: str) -> None:
    instrument = started(create(name))
    (channel,) = instrument.channels
    batches = read_count(instrument, 5)
    t_ns, values = numbers(batches)
    assert np.all(np.diff(t_ns) > 0)
    display = 2e-5 * (channel.range or 0)  # the last digit and its noise
    assert np.all(np.abs(values - VOLTS_12) <= channel.accuracy.limit(12) + 5 * display)
    assert not reported(batches)


@pytest.mark.parametrize("name", [*POLLED, "psu", "stamped"])
def test_faults(create: Any, running: Running, name: str) -> None:
    instrument = started(create(name))
    for fault, status in (("overload", Status.OVERLOAD), ("nan", Status.NO_VALUE)):
        with running.having(name, fault):
            statuses_until(instrument, status)
    numbers_again(instrument)
    running.inject(name, "disconnect", 0.5)
    fails(instrument, (ConnectionLost, NoAnswer))
    reconnect(instrument)
    numbers_again(instrument)
    instrument.close()
    with running.having(name, "identity"), pytest.raises(WrongInstrument, match="ANOTHER-1"):
        instrument.open()


@pytest.mark.parametrize("name", [*POLLED, "stamped"])
def test_a_range_that_somebody_moved(create: Any, running: Running, name: str) -> None:
    instrument = started(create(name))
    numbers_again(instrument)
    running.inject(name, "moved")
    statuses_until(instrument, Status.RANGE_CHANGED)
    numbers_again(instrument)


@pytest.mark.parametrize("name", ["hp", "rigol"])
def test_an_answer_after_the_deadline_is_not_taken_for_the_next(
    create: Any, running: Running, name: str
) -> None:
    instrument = started(create(name))
    with running.having(name, "late"):
        fails(instrument, NoAnswer)
    reconnect(instrument)
    _, values = numbers(read_count(instrument, 3))
    assert np.all(np.abs(values - VOLTS_12) < 0.1)


def test_a_stuck_meter(create: Any, running: Running) -> None:
    instrument = started(create("keithley", nplc=0.1, interval_s=0.02))
    read_count(instrument, 60)
    with running.having("keithley", "stuck"):
        statuses_until(instrument, Status.STUCK)


def test_auto_range_on_request(create: Any) -> None:
    instrument = started(create("keithley", autorange=True, range=1000.0))
    batches = read_count(instrument, 10)
    changes = reported(batches)
    assert [status.status for status in changes] == [Status.RANGE_CHANGED], "one event a change"
    assert changes[0].detail == "range 100, was 1000"
    assert numbers(batches)[1] == pytest.approx(VOLTS_12, abs=0.1)


def test_a_keithley_2000_that_measures_by_itself_is_stopped_first(create: Any) -> None:
    instrument = create("keithley")
    instrument.open()
    instrument._scpi.send("INIT:CONT ON")
    instrument.start()
    numbers_again(instrument)


def test_a_supply_and_its_switch(create: Any) -> None:
    instrument = started(create("psu", power_cycle=True))
    volts, current = instrument.channels
    batches = read_count(instrument, 3)
    _, shown = numbers(batches, "voltage")
    assert np.all(np.abs(shown - VOLTS_12) <= volts.accuracy.limit(12) + 1e-3)
    assert np.all(numbers(batches, "current")[1] > 0.5 - current.accuracy.limit(1))
    instrument.switch(on=False)
    instrument.switch(on=True)
    numbers_again(instrument)
    with pytest.raises(SettingRefused, match="power_cycle = true"):
        started(create("psu")).switch(on=False)


def test_a_thermistor_at_a_multimeter(create: Any, running: Running) -> None:
    instrument = started(create("thermistor"))
    (channel,) = instrument.channels
    batches = read_count(instrument, 5)
    assert not reported(batches)
    assert np.all(np.abs(numbers(batches)[1] - CASE_CELSIUS) < channel.accuracy.limit(40.0))
    with running.having("thermistor", "open_sensor"):
        statuses_until(instrument, Status.OPEN_SENSOR)
    running.inject("thermistor", "moved")
    statuses_until(instrument, Status.WRONG_FUNCTION)
    numbers_again(instrument)


def test_a_long_integration_with_its_auto_zero_is_no_late_answer(create: Any) -> None:
    instrument = started(create("thermistor", nplc=10.0, interval_s=0.5))
    batches = read_count(instrument, 2)
    assert not reported(batches)
    pairs = [pair for batch in batches for pair in batch.clock_pairs]
    assert pairs, "when it was within that time is not known"


def test_a_bench_of_other_meters(tmp_path: Path) -> None:
    meters = (METERS["psu"], METERS["stamped"].model_copy(update={"point": "3V3.current"}))
    volts = METERS["owon"].model_copy(update={"point": "3V3.voltage"})
    config = BenchConfig(seed=3, meters=(*meters, volts))
    with Bench(tmp_path / "bench", config) as bench:
        rig = tomllib.loads(bench.rig.read_text())
        assert rig["rails"]["12V"]["current"] == "psu.current"
        assert rig["instruments"]["owon"]["resource"].startswith("ASRL")
        for name, entry in rig["instruments"].items():
            instrument = drivers.create(name, entry.pop("driver"), entry, time.monotonic_ns)
            try:
                started(instrument)
                numbers_again(instrument)
            finally:
                instrument.close()
