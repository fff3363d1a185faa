"""A simulated DAQ6510 that scans two rails, through its driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from instruments.reading import EPOCH_NS, Status
from instruments.simulated.meter_kit.config import MeterConfig
from tests.bench.running_meters import (
    VOLTS_3V3,
    VOLTS_12,
    Running,
    amps,
    numbers,
    numbers_again,
    read_count,
    read_until,
    reported,
    running_meters,
    started,
    statuses_until,
)
from tests.bench.test_meters import offset_bounds


def entry(number: int, function: str, range_: float) -> dict[str, Any]:
    limits = {"accuracy_pct_of_reading": 0.01, "accuracy_floor": 1e-4}
    return {"number": number, "function": function, "range": range_, **limits}


DAQ = MeterConfig(
    name="daq",
    kind="daq6510",
    point="rails",
    clock_offset_s=5.0,
    drift_ppm=70.0,
    settings={
        "interval_s": 0.15,
        "inputs": {
            "v12": entry(101, "voltage", 100.0),
            "i12": entry(102, "current", 3.0),
            "v33": entry(103, "voltage", 10.0),
            "i33": entry(104, "current", 3.0),
        },
    },
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_meters(tmp_path_factory.mktemp("bench"), [DAQ], seed=2) as meters:
        yield meters


@pytest.fixture
def create(running: Running) -> Iterator[Any]:
    yield running.create
    running.close()


def test_each_channel_has_the_time_at_which_it_was_measured(create: Any) -> None:
    instrument = started(create("daq"))
    batches = read_count(instrument, 30)
    assert not reported(batches)
    times = {channel.name: numbers(batches, channel.name)[0] for channel in instrument.channels}
    shortest = min(map(len, times.values()))
    apart_ms = (times["i12"][:shortest] - times["v12"][:shortest]) * 1e-6
    assert apart_ms == pytest.approx(24.0, abs=0.1), "20 ms of integration and a relay"
    assert np.abs(numbers(batches, "v12")[1] - VOLTS_12).max() < 2e-3
    assert np.abs(numbers(batches, "v33")[1] - VOLTS_3V3).max() < 1e-3
    channel = next(one for one in instrument.channels if one.name == "i12")
    pairs = [p for batch in batches for p in batch.clock_pairs if p.channel == "i12"]
    slope = 1 + DAQ.drift_ppm * 1e-6
    low, high = offset_bounds(pairs, channel, slope)
    assert low <= high + 1e5, "no clock fits all pairs"
    t_ns, shown = numbers(batches, "i12")
    unknown_s = (high - low) / 2 * 1e-9 + channel.time_u_s + channel.aperture_s
    off = np.abs(shown - amps(t_ns / slope + (low + high) / 2))
    assert off.max() < unknown_s + 1e-3, "1 A/s"


def test_it_is_started_again_in_time(create: Any) -> None:
    instrument = started(create("daq"))
    read_count(instrument, 3)
    instrument._armed_ns -= 3_000_000_000_000  # half of dead_man_s is over

    def two_epochs(read: list[Any]) -> bool:
        found = [b for batch in read for b in batch.blocks]
        return len({int(t) // EPOCH_NS for b in found for t in b.t_ns}) > 1

    batches = read_until(instrument, two_epochs)
    lost = [status for status in reported(batches) if status.status is Status.LOST]
    assert {status.channel for status in lost} == {"v12", "i12", "v33", "i33"}
    assert "started again" in lost[0].detail


def test_faults(create: Any, running: Running) -> None:
    instrument = started(create("daq"))
    for fault, status in (("overload", Status.OVERLOAD), ("nan", Status.NO_VALUE)):
        with running.having("daq", fault):
            statuses_until(instrument, status)
    numbers_again(instrument)
    instrument._scpi.send("ABOR")  # as by a finger at the panel: it is started again
    statuses_until(instrument, Status.LOST)
    numbers_again(instrument)


def test_a_scan_that_was_stopped_says_nothing_of_the_clock(create: Any) -> None:
    instrument = started(create("daq"))
    channel = instrument.channels[0]
    batches = read_count(instrument, 20)
    instrument._scpi.send("ABOR")
    batches += read_until(instrument, lambda read: bool(reported(read)))
    pairs = [
        pair
        for batch in batches
        for pair in batch.clock_pairs
        if pair.channel == channel.name and pair.device_ns < EPOCH_NS
    ]
    low, high = offset_bounds(pairs, channel, 1 + DAQ.drift_ppm * 1e-6)
    assert low <= high + 1e5, "no clock fits all pairs"
