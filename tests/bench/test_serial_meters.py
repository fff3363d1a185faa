"""The drivers of serial meters against simulated ones on pseudo terminals, with their quirks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from instruments import drivers
from instruments.errors import ConnectionLost, InstrumentError
from instruments.instrument import Instrument
from instruments.reading import Status
from instruments.simulated.bench import MetersProcess
from instruments.simulated.meters import MeterConfig, MetersConfig
from tests.bench.test_meters import VOLTS_12, Running, TraceThread

DRIVER = {
    "vc820": "fs9721",
    "bm257": "brymen_bm25x",
    "extech380803": "extech380803",
    "powersensor3": "powersensor3",
}
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
    directory = tmp_path_factory.mktemp("bench")
    trace = TraceThread(directory / "trace")
    time.sleep(0.01)
    trace.advance()
    trace.start()
    meters = MetersProcess(directory, MetersConfig(seed=3, meters=METERS))
    yield Running(directory, meters.addresses)
    meters.stop()
    trace.over.set()
    trace.join()


@pytest.fixture
def create(running: Running) -> Iterator[Any]:
    made: list[Instrument] = []

    def make(name: str, **changes: Any) -> Instrument:
        config = next(meter for meter in METERS if meter.name == name)
        settings = {**config.settings, **running.addresses[name], **changes}
        made.append(drivers.create(name, DRIVER[config.kind], settings, time.monotonic_ns))
        made[-1].open()
        made[-1].start()
        return made[-1]

    yield make
    for instrument in made:
        instrument.close()


def values_for(instrument: Instrument, seconds: float) -> dict[str, list[float]]:
    end = time.monotonic() + seconds
    found: dict[str, list[float]] = {}
    while time.monotonic() < end:
        for block in instrument.read().blocks:
            found.setdefault(block.channel, []).extend(block.values.tolist())
    return found


def until(instrument: Instrument, wanted: Status | None, seconds: float = 5.0) -> None:
    """Read until a status, or with None until a number."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        batch = instrument.read()
        if wanted is None and batch.blocks:
            return
        if any(status.status is wanted for status in batch.statuses):
            return
    raise AssertionError(f"no {wanted or 'number'} within {seconds} s")


def reconnect(instrument: Instrument, seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while True:
        instrument.close()
        try:
            instrument.open()
            instrument.start()
            return
        except InstrumentError:
            assert time.monotonic() < end
            time.sleep(0.1)


@pytest.mark.parametrize("name", ["vc", "bm"])
def test_volts_on_a_display(create: Any, name: str) -> None:
    instrument = create(name)
    (channel,) = instrument.channels
    found = values_for(instrument, 2.0)["voltage"]
    assert len(found) > 3
    assert np.abs(np.array(found) - VOLTS_12).max() <= channel.accuracy.limit(VOLTS_12)


def test_watts_at_the_plug(create: Any) -> None:
    found = values_for(create("plug"), 3.0)
    assert set(found) == {"power", "voltage", "current"}
    assert np.array(found["voltage"]) == pytest.approx(VOLTS_12, abs=0.3)
    assert np.array(found["power"]) == pytest.approx(VOLTS_12 * 1.0, abs=VOLTS_12 * 0.75)


def test_both_rails_on_a_power_sensor(create: Any) -> None:
    instrument = create("ps")
    found = values_for(instrument, 4.0)
    assert set(found) == {"current_0", "voltage_0", "current_1", "voltage_1"}
    limits = {channel.name: channel.accuracy for channel in instrument.channels}
    for channel, true in (("voltage_0", 12.05), ("voltage_1", 3.302)):
        assert abs(np.mean(found[channel]) - true) <= limits[channel].limit(true)
    # whole periods of the triangle between 0.5 and 1.5 A
    amps = np.array(found["current_0"])
    assert abs(amps[: len(amps) // 2 * 2].mean() - 1.0) < 0.05
    assert amps.min() == pytest.approx(0.5, abs=0.06)
    assert amps.max() == pytest.approx(1.5, abs=0.06)


@pytest.mark.parametrize("name", ["vc", "bm"])
def test_faults_of_displays(create: Any, running: Running, name: str) -> None:
    instrument = create(name)
    until(instrument, None)
    for fault, status in (
        ("overload", Status.OVERLOAD),
        ("nan", Status.UNREADABLE),
        ("hold", Status.HOLD),
        ("wrong_function", Status.WRONG_FUNCTION),
        ("other_range", Status.WRONG_FUNCTION),
        ("nonsense", Status.UNREADABLE),
        ("twice", Status.DUPLICATE),
    ):
        running.inject(name, fault, 0.8)
        until(instrument, status)
        until(instrument, None)
    if name == "vc":
        running.inject(name, "low_battery", 0.8)
        until(instrument, Status.LOW_BATTERY)
    running.inject(name, "disconnect", 0.5)
    with pytest.raises(ConnectionLost):
        values_for(instrument, 5.0)
    reconnect(instrument)
    until(instrument, None)


def test_faults_at_the_plug(create: Any, running: Running) -> None:
    instrument = create("plug")
    running.inject("plug", "nan", 1.2)
    until(instrument, Status.UNREADABLE)
    until(instrument, None)
    running.inject("plug", "silent", 1.5)
    with pytest.raises(InstrumentError):
        values_for(instrument, 5.0)
    reconnect(instrument)
    until(instrument, None)
