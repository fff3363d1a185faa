"""A PowerSensor3 at its full rate on a pseudo terminal: no frame lost, and all faults told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from instruments import drivers
from instruments.drivers.powersensor3 import EPOCH_NS
from instruments.errors import ConnectionLost, InstrumentError
from instruments.instrument import Instrument
from instruments.reading import Batch, Status
from instruments.simulated.bench import MetersProcess
from instruments.simulated.faults import inject
from instruments.simulated.meters import MeterConfig, MetersConfig
from instruments.simulated.power_sensor import FIRST_LEVEL, sensor_scale
from instruments.simulated.trace import TraceWriter

SETTINGS: dict[str, Any] = {
    "pairs": [0, 1, 2, 3],
    "voltage_pct_of_reading": 0.5,
    "voltage_floor_volts": 0.02,
    "current_pct_of_reading": 1.0,
    "current_floor_amps": 0.05,
}
PPM = 80.0


@dataclass(frozen=True)
class Running:
    directory: Path
    port: str

    def inject(self, fault: str, seconds: float) -> None:
        inject(self.directory, "ps", fault, seconds)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    TraceWriter(tmp_path / "trace").append(time.monotonic_ns(), *[0.0] * 8, 0, 0, 0, 0, 0)
    config = MeterConfig(
        name="ps",
        kind="powersensor3",
        point="frame_numbers",
        settings=SETTINGS,
        clock_offset_s=5.0,
        drift_ppm=PPM,
    )
    meters = MetersProcess(tmp_path, MetersConfig(meters=(config,)))
    yield Running(tmp_path, meters.addresses["ps"]["port"])
    meters.stop()


@pytest.fixture
def sensor(running: Running) -> Iterator[Instrument]:
    settings = SETTINGS | {"port": running.port}
    instrument = drivers.create("ps", "powersensor3", settings, time.monotonic_ns)
    yield instrument
    instrument.close()


def read_for(instrument: Instrument, seconds: float) -> list[Batch]:
    end = time.monotonic() + seconds
    batches = []
    while time.monotonic() < end:
        batches.append(instrument.read())
    return batches


def numbers_of_frames(batches: list[Batch]) -> NDArray[np.int64]:
    """The numbers that the test pattern put into the first two sensors."""
    found = []
    for channel, sensor in (("current_0", 0), ("voltage_0", 1)):
        blocks = [b.values for batch in batches for b in batch.blocks if b.channel == channel]
        vref, sensitivity = sensor_scale(sensor)
        volts = np.concatenate(blocks) * sensitivity + vref
        found.append(np.rint(volts * 1023 / 3.3).astype(np.int64) - FIRST_LEVEL)
    return found[0] + 1000 * found[1]


def statuses_until(instrument: Instrument, wanted: Status) -> None:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if any(status.status is wanted for status in instrument.read().statuses):
            return
    raise AssertionError(f"no {wanted}")


def test_every_frame_of_eight_sensors_once_and_in_order(sensor: Instrument) -> None:
    sensor.open()
    sensor.start()
    batches = read_for(sensor, 4.0)
    number = numbers_of_frames(batches)
    assert len(number) > 40_000
    assert set(np.diff(number) % 1_000_000) == {1}, "none is missing, none comes twice"
    assert not any(batch.statuses for batch in batches)
    counts = {
        channel.name: sum(
            len(b) for batch in batches for b in batch.blocks if b.channel == channel.name
        )
        for channel in sensor.channels
    }
    assert len(counts) == 8
    assert set(counts.values()) == {len(number)}
    t_ns = np.concatenate([b.t_ns for x in batches for b in x.blocks if b.channel == "voltage_3"])
    assert set(np.diff(t_ns)) == {50_000}


def test_its_clock_is_told(sensor: Instrument) -> None:
    sensor.open()
    sensor.start()
    pairs = [pair for batch in read_for(sensor, 3.0) for pair in batch.clock_pairs]
    assert {pair.channel for pair in pairs} == {channel.name for channel in sensor.channels}
    one = [pair for pair in pairs if pair.channel == "current_0"]
    assert 4 <= len(one) <= 9
    elapsed = one[-1].device_ns - one[0].device_ns
    assert elapsed == pytest.approx((one[-1].host_ns - one[0].host_ns) * (1 + PPM * 1e-6), rel=0.01)


def test_faults(sensor: Instrument, running: Running) -> None:
    sensor.open()
    sensor.start()
    read_for(sensor, 0.2)
    running.inject("overload", 0.3)
    statuses_until(sensor, Status.OVERLOAD)
    running.inject("lost_bytes", 0.3)
    statuses_until(sensor, Status.LOST)
    read_for(sensor, 0.5)
    running.inject("nonsense", 0.3)
    read_for(sensor, 0.6)
    running.inject("silent", 0.3)
    statuses_until(sensor, Status.LOST)
    after = [b for batch in read_for(sensor, 0.3) for b in batch.blocks]
    assert min(int(b.t_ns[0]) for b in after) > EPOCH_NS, "a pause begins an epoch"

    running.inject("disconnect", 0.5)
    with pytest.raises(ConnectionLost):
        read_for(sensor, 3.0)
    sensor.close()
    end = time.monotonic() + 5
    while True:
        try:
            sensor.open()
            sensor.start()
            break
        except InstrumentError:
            assert time.monotonic() < end
            sensor.close()
            time.sleep(0.1)
    again = [b for batch in read_for(sensor, 0.3) for b in batch.blocks]
    assert int(again[0].t_ns[0]) // EPOCH_NS > int(after[-1].t_ns[0]) // EPOCH_NS


def test_a_stream_that_a_dead_host_left_on_is_stopped_first(
    sensor: Instrument, running: Running
) -> None:
    sensor.open()
    sensor.start()
    read_for(sensor, 0.1)
    sensor._line.close()  # type: ignore[attr-defined]  # as after kill -9: no T
    settings = SETTINGS | {"port": running.port}
    again = drivers.create("ps", "powersensor3", settings, time.monotonic_ns)
    assert again.open().firmware == "F411-1.5.0"
    again.start()
    assert any(batch.blocks for batch in read_for(again, 0.3))
    again.close()
