"""A simulated WT310E on a socket, through its driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from instruments.errors import ConnectionLost, NoAnswer, WrongInstrument
from instruments.reading import Status
from instruments.simulated.meter_kit.config import MeterConfig
from tests.bench.running_meters import (
    VOLTS_12,
    Running,
    amps,
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

LIMITS = {
    "voltage_pct_of_reading": 0.1,
    "voltage_floor_volts": 0.03,
    "current_pct_of_reading": 0.1,
    "current_floor_amps": 0.004,
    "energy_pct_of_reading": 0.2,
    "energy_floor_wh": 1e-5,
}
WT = MeterConfig(
    name="wt",
    kind="wt310e",
    point="12V",
    drift_ppm=80.0,
    settings={
        "model": "WT310E",
        "coupling": "dc",
        "voltage_range": 15.0,
        "current_range": 2.0,
        "update_s": 0.1,
        "quantities": ["power", "voltage", "current"],
        **LIMITS,
    },
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_meters(tmp_path_factory.mktemp("bench"), [WT], seed=4) as meters:
        yield meters


@pytest.fixture
def create(running: Running) -> Iterator[Any]:
    yield running.create
    running.close()


def test_each_update_is_read_once_and_agrees_with_the_truth(create: Any) -> None:
    instrument = started(create("wt"))
    batches = read_count(instrument, 25)
    power, volts, current = instrument.channels
    t_ns, watts = numbers(batches, "power")
    lost = sum(status.count for status in reported(batches) if status.channel == "power")
    assert {status.status for status in reported(batches)} <= {Status.LOST}
    assert len(watts) + lost == pytest.approx(np.ptp(t_ns) / 0.1e9 + 1, abs=1.5)
    assert np.all(np.abs(numbers(batches, "voltage")[1] - VOLTS_12) < volts.accuracy.limit(12.0))
    unknown_ns = {p.device_ns: p.round_trip_ns for b in batches for p in b.clock_pairs}
    time_u_s = [max(power.time_u_s, unknown_ns.get(t, 0) * 0.5e-9) for t in t_ns.tolist()]
    # the mean over a window of a triangle of 1 A/s, whose tip may lie in it
    excess = np.abs(numbers(batches, "current")[1] - amps(t_ns)) - current.accuracy.limit(1.5)
    assert np.all(excess < np.array(time_u_s) + 0.1 / 4)
    excess = np.abs(watts - VOLTS_12 * amps(t_ns)) - power.accuracy.limit(18.0)
    assert np.all(excess < VOLTS_12 * (np.array(time_u_s) + 0.1 / 4))


def test_watt_hours_are_the_sum_of_the_watts(create: Any) -> None:
    instrument = started(create("wt", integrate=True))

    def long_enough(read: list[Any]) -> bool:
        return any(b.blocks for b in read) and np.ptp(numbers(read, "energy")[0]) > 2e9

    batches = read_until(instrument, long_enough)
    t_ns, energy = numbers(batches, "energy")
    assert np.all(np.diff(energy) > 0)
    mean_watts = (energy[-1] - energy[0]) * 3600 / (np.ptp(t_ns) * 1e-9)
    assert mean_watts == pytest.approx(VOLTS_12 * 1.0, rel=0.1)
    instrument._scpi.send(":INTEG:STOP")
    (stopped,) = {s.detail for s in statuses_until(instrument, Status.NO_VALUE)[-1].statuses}
    assert stopped == "integration: STOP"


def test_faults(create: Any, running: Running) -> None:
    instrument = started(create("wt"))
    for fault, status in (("overload", Status.OVERLOAD), ("nan", Status.NO_VALUE)):
        with running.having("wt", fault):
            statuses_until(instrument, status)
    numbers_again(instrument)
    running.inject("wt", "moved")
    statuses_until(instrument, Status.RANGE_CHANGED)
    numbers_again(instrument)
    running.inject("wt", "disconnect", 0.5)
    fails(instrument, (ConnectionLost, NoAnswer))
    reconnect(instrument)
    numbers_again(instrument)
    instrument.close()
    with running.having("wt", "identity"), pytest.raises(WrongInstrument, match="ANOTHER-1"):
        instrument.open()


def test_a_range_that_is_too_small_is_an_overload(create: Any) -> None:
    instrument = started(create("wt", current_range=0.2, quantities=["current", "power"]))
    batches = statuses_until(instrument, Status.OVERLOAD)
    assert {s.channel for s in batches[-1].statuses} == {"current", "power"}
