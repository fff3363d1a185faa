"""A PowerSensor3 at its full rate on a pseudo terminal: no frame lost, and all faults reported."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from instruments.errors import ConnectionLost
from instruments.instrument import Instrument
from instruments.reading import EPOCH_NS, Batch, Status
from instruments.simulated.meter_kit.config import MeterConfig
from instruments.simulated.meters.powersensor3 import FIRST_LEVEL, sensor_scale
from tests.bench.running_meters import (
    Running,
    fails,
    numbers,
    numbers_again,
    read_count,
    read_until,
    reconnect,
    running_meters,
    started,
    statuses_until,
)

SETTINGS: dict[str, Any] = {
    "pairs": [0, 1, 2, 3],
    "voltage_pct_of_reading": 0.5,
    "voltage_floor_volts": 0.02,
    "current_pct_of_reading": 1.0,
    "current_floor_amps": 0.05,
}
PPM = 80.0


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    config = MeterConfig(
        name="ps",
        kind="powersensor3",
        point="frame_numbers",
        settings=SETTINGS,
        clock_offset_s=5.0,
        drift_ppm=PPM,
    )
    with running_meters(tmp_path, [config], seed=1) as meters:
        yield meters


@pytest.fixture
def sensor(running: Running) -> Instrument:
    instrument: Instrument = started(running.create("ps"))
    return instrument


def numbers_of_frames(batches: list[Batch]) -> NDArray[np.int64]:
    """The numbers that the test pattern put into the first two sensors."""
    found = []
    for channel, sensor in (("current_0", 0), ("voltage_0", 1)):
        blocks = [b.values for batch in batches for b in batch.blocks if b.channel == channel]
        vref, sensitivity = sensor_scale(sensor)
        volts = np.concatenate(blocks) * sensitivity + vref
        found.append(np.rint(volts * 1023 / 3.3).astype(np.int64) - FIRST_LEVEL)
    return found[0] + 1000 * found[1]


def test_every_frame_of_eight_sensors_once_and_in_order(sensor: Instrument) -> None:
    batches = read_count(sensor, 80_000)
    number = numbers_of_frames(batches)
    assert set(np.diff(number) % 1_000_000) == {1}, "none is missing, none comes twice"
    assert not any(batch.statuses for batch in batches)
    counts = {channel.name: len(numbers(batches, channel.name)[0]) for channel in sensor.channels}
    assert len(counts) == 8
    assert set(counts.values()) == {len(number)}
    assert set(np.diff(numbers(batches, "voltage_3")[0])) == {50_000}


def test_its_clock_is_reported(sensor: Instrument) -> None:
    batches = read_until(sensor, lambda read: sum(bool(b.clock_pairs) for b in read) >= 5)
    pairs = [pair for batch in batches for pair in batch.clock_pairs]
    assert {pair.channel for pair in pairs} == {channel.name for channel in sensor.channels}
    one = [pair for pair in pairs if pair.channel == "current_0"]
    assert len(one) == 5
    assert all(a.device_ns < b.device_ns and a.host_ns < b.host_ns for a, b in pairwise(one))
    assert {pair.round_trip_ns for pair in one} == {0}, "it cannot be asked"
    newest_ns = int(numbers(batches, "current_0")[0][-1])
    assert one[-1].device_ns <= newest_ns + 100_000


def test_faults(sensor: Instrument, running: Running) -> None:
    numbers_again(sensor)
    with running.having("ps", "overload"):
        statuses_until(sensor, Status.OVERLOAD)
    with running.having("ps", "lost_bytes"):
        statuses_until(sensor, Status.LOST)
    numbers_again(sensor)
    with running.having("ps", "nonsense"):
        read_until(sensor, lambda read: not read[-1].blocks if read else False)
    running.inject("ps", "silent", 0.5)
    statuses_until(sensor, Status.LOST)
    after = numbers(numbers_again(sensor), "current_0")[0]
    assert int(after[0]) > EPOCH_NS, "a pause begins an epoch"

    running.inject("ps", "disconnect", 0.5)
    fails(sensor, ConnectionLost)
    reconnect(sensor)
    again = numbers(numbers_again(sensor), "current_0")[0]
    assert int(again[0]) // EPOCH_NS > int(after[-1]) // EPOCH_NS


def test_a_stream_that_a_dead_host_left_on_is_stopped_first(
    sensor: Instrument, running: Running
) -> None:
    numbers_again(sensor)
    sensor._line.close()  # type: ignore[attr-defined]  # as after kill -9: no T
    again = running.create("ps")
    assert again.open().firmware == "F411-1.5.0"
    again.start()
    numbers_again(again)
