"""The drivers of serial meters against simulated ones on pseudo terminals, with their quirks."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instruments.errors import ConnectionLost, InstrumentError, WrongInstrument
from instruments.reading import Status
from instruments.simulated.meter_kit.config import MeterConfig
from tests.bench.running_meters import (
    PERIOD_S,
    VOLTS_12,
    Running,
    amps,
    fails,
    numbers,
    numbers_again,
    read_count,
    reconnect,
    running_meters,
    started,
    statuses_until,
)

VOLTS = {"function": "voltage", "accuracy_pct_of_reading": 0.5, "accuracy_floor": 0.02}
METERS = (
    MeterConfig(name="vc", kind="vc820", point="12V.voltage", settings=VOLTS | {"range": 40.0}),
    MeterConfig(name="bm", kind="bm257", point="12V.voltage", settings=VOLTS | {"range": 60.0}),
    MeterConfig(
        name="plug",
        kind="extech380803",
        point="12V",
        settings={
            f"{quantity}_{kind}": 0.2
            for quantity, unit in (("power", "watts"), ("voltage", "volts"), ("current", "amps"))
            for kind in ("pct_of_reading", f"floor_{unit}")
        },
    ),
    MeterConfig(
        name="chip",
        kind="ina226",
        point="12V",
        settings={"model": "ina226", "shunt_ohm": 0.02, "shunt_tolerance_pct": 1.0},
    ),
    MeterConfig(
        name="fine",
        kind="ina228",
        point="12V",
        settings={
            "model": "ina228",
            "shunt_ohm": 0.015,
            "shunt_tolerance_pct": 0.5,
            "current_from": "energy",
            "interval_s": 0.2,
            "voltage_pct_of_reading": 0.1,
            "voltage_floor_volts": 0.005,
            "current_pct_of_reading": 0.05,
            "current_floor_amps": 0.0005,
        },
    ),
    MeterConfig(
        name="ps",
        kind="powersensor3",
        point="rails",
        settings={
            "pairs": [0, 1],
            "average": 100,
            "voltage_pct_of_reading": 0.5,
            "voltage_floor_volts": 0.02,
            "current_pct_of_reading": 1.0,
            "current_floor_amps": 0.03,
        },
    ),
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Their files are in memory where there is some: a chip shows no old number because a disk
    is busy."""
    memory, folder = Path("/dev/shm"), tmp_path_factory.mktemp("bench")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else folder) as files,
        running_meters(Path(files), METERS, seed=3) as meters,
    ):
        yield meters


@pytest.fixture
def create(running: Running) -> Iterator[Any]:
    yield running.create
    running.close()


@pytest.mark.parametrize("name", ["vc", "bm"])
def test_volts_on_a_display(create: Any, name: str) -> None:
    instrument = started(create(name))
    (channel,) = instrument.channels
    _, found = numbers(read_count(instrument, 4))
    assert np.abs(found - VOLTS_12).max() <= channel.accuracy.limit(VOLTS_12)


def test_watts_at_the_plug(create: Any) -> None:
    batches = read_count(started(create("plug")), 5)
    found = {name: numbers(batches, name)[1] for name in ("power", "voltage", "current")}
    assert found["voltage"] == pytest.approx(VOLTS_12, abs=0.3)
    assert found["power"] == pytest.approx(VOLTS_12 * 1.0, abs=VOLTS_12 * 0.75)
    assert found["current"] == pytest.approx(1.0, abs=0.75)


def test_both_rails_on_a_power_sensor(create: Any) -> None:
    instrument = started(create("ps"))
    batches = read_count(instrument, 820)
    limits = {channel.name: channel.accuracy for channel in instrument.channels}
    assert set(limits) == {"current_0", "voltage_0", "current_1", "voltage_1"}
    for channel, true in (("voltage_0", 12.05), ("voltage_1", 3.302)):
        assert abs(np.mean(numbers(batches, channel)[1]) - true) <= limits[channel].limit(true)
    t_ns, shown = numbers(batches, "current_0")
    # the meter's clock began at any moment; a busy host may lose some readings, whose time is lost
    whole = int(np.argmax(np.append(np.diff(t_ns) > 7e6, True))) + 1
    off = [
        np.abs(shown[:whole] - amps(t_ns[:whole] + begin_ns)).max()
        for begin_ns in np.arange(0, PERIOD_S * 1e9, 2e6)
    ]
    assert whole >= 100 and min(off) < 0.06


@pytest.mark.parametrize("name", ["vc", "bm"])
def test_faults_of_displays(create: Any, running: Running, name: str) -> None:
    instrument = started(create(name))
    numbers_again(instrument)
    for fault, status in (
        ("overload", Status.OVERLOAD),
        ("nan", Status.UNREADABLE),
        ("hold", Status.HOLD),
        ("wrong_function", Status.WRONG_FUNCTION),
        ("other_range", Status.WRONG_FUNCTION),
        ("nonsense", Status.UNREADABLE),
    ):
        with running.having(name, fault):
            statuses_until(instrument, status)
        numbers_again(instrument)
    with running.having(name, "low_battery"):
        statuses_until(instrument, Status.LOW_BATTERY)
    running.inject(name, "disconnect", 0.5)
    fails(instrument, ConnectionLost)
    reconnect(instrument)
    numbers_again(instrument)


@pytest.mark.parametrize("name", ["vc", "bm"])
def test_frames_that_are_sent_twice(create: Any, running: Running, name: str) -> None:
    """From the begin: it is said once a minute, and a busy machine may read one a moment before."""
    with running.having(name, "twice"):
        instrument = started(create(name))
        statuses_until(instrument, Status.DUPLICATE)
    numbers_again(instrument)


def test_faults_at_the_plug(create: Any, running: Running) -> None:
    instrument = started(create("plug"))
    with running.having("plug", "nan"):
        statuses_until(instrument, Status.UNREADABLE)
    numbers_again(instrument)
    with running.having("plug", "silent"):
        fails(instrument, InstrumentError)
    reconnect(instrument)
    numbers_again(instrument)


def test_volts_and_amps_that_the_kernel_reads(create: Any) -> None:
    instrument = started(create("chip"))
    batches = read_count(instrument, 60)
    volts, current = instrument.channels
    assert np.all(np.abs(numbers(batches, "voltage")[1] - VOLTS_12) <= volts.accuracy.limit(12))
    shown = numbers(batches, "current")[1]
    assert 0.5 - current.accuracy.limit(0.5) <= shown.min()
    assert shown.max() <= 1.5 + current.accuracy.limit(1.5)
    assert len(set(shown.tolist())) > 10, "it follows the drive"


@contextlib.contextmanager
def longest_pause(register: Path) -> Iterator[list[float]]:
    """For how many seconds at most a register was not written: a busy machine delays a simulated
    chip, which no real one is."""
    over, longest_s = threading.Event(), [0.0]

    def watch() -> None:
        last_ns = register.stat().st_mtime_ns
        while not over.wait(0.005):
            now_ns = register.stat().st_mtime_ns
            longest_s[0] = max(longest_s[0], (now_ns - last_ns) * 1e-9)
            last_ns = now_ns

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield longest_s
    finally:
        over.set()
        watcher.join()


def test_joules_that_the_chip_counts(create: Any, running: Running) -> None:
    """Each reading's amps are the mean over the time since the one before: none is left out."""
    instrument = started(create("fine"))
    (register,) = running.directory.rglob("energy1_input")
    with longest_pause(register) as pause_s:
        t_ns, shown = numbers(read_count(instrument, 25), "current")
    limits = instrument.channels[1].accuracy
    # The readings lie one after the other, and each covers the time around its middle.
    edges_ns = np.concatenate([[t_ns[0] - 1e8], (t_ns[1:] + t_ns[:-1]) / 2, [t_ns[-1] + 1e8]])
    fine = np.linspace(edges_ns[0], edges_ns[-1], 20_001)
    true = float(np.mean(amps(fine)))
    mean = float(np.average(shown, weights=np.diff(edges_ns)))
    seconds = (edges_ns[-1] - edges_ns[0]) * 1e-9
    # at both ends whole groups of cycles, or what the simulated chip was late with its register,
    # or this host with a reading
    late_s = float(np.diff(t_ns).max()) * 1e-9 - instrument.channels[1].interval_s
    at_the_edges = 1.5 * max(0.02, late_s, *pause_s) / seconds
    assert abs(mean - true) <= limits.limit(true) + at_the_edges


def test_faults_of_a_chip_that_counts(create: Any, running: Running) -> None:
    instrument = started(create("fine"))
    read_count(instrument, 3)
    with running.having("fine", "overload"):
        statuses_until(instrument, Status.OVERLOAD)
    with running.having("fine", "disconnect"):
        fails(instrument, ConnectionLost)
    reconnect(instrument)
    read_count(instrument, 3)


def test_faults_of_a_chip(create: Any, running: Running) -> None:
    instrument = started(create("chip"))
    numbers_again(instrument)
    for fault, status in (("overload", Status.OVERLOAD), ("nan", Status.UNREADABLE)):
        with running.having("chip", fault):
            statuses_until(instrument, status)
        numbers_again(instrument)
    with running.having("chip", "disconnect"):
        fails(instrument, ConnectionLost)
    reconnect(instrument)
    numbers_again(instrument)
    instrument.close()
    with running.having("chip", "identity"), pytest.raises(WrongInstrument, match="ina219"):
        until_refused(instrument)


def until_refused(instrument: Any) -> None:
    """The chip changes at its next conversion."""
    for _ in range(300):
        instrument.open()
        time.sleep(0.1)
