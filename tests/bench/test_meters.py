"""The drivers against simulated meters on real sockets and serial lines."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instruments import drivers
from instruments.errors import (
    ConnectionLost,
    NoAnswer,
    ProtocolError,
    SettingRefused,
    WrongInstrument,
)
from instruments.reading import EPOCH_NS, Channel, ClockPair, Status
from instruments.simulated.bench import DEFAULT_METERS, Bench, MetersProcess, configure
from instruments.simulated.meter_kit.config import MeterConfig, MetersConfig
from instruments.simulated.meter_kit.parts import true_shunt_ohm
from tests.bench.running_meters import (
    CASE_CELSIUS,
    VOLTS_3V3,
    VOLTS_12,
    Running,
    amps,
    compare,
    fails,
    numbers,
    numbers_again,
    read_count,
    reconnect,
    reported,
    running_meters,
    started,
    statuses_until,
)

SEED = 7

EXTRA_METERS = (
    MeterConfig(
        name="small",
        kind="truevolt",
        point="12V.voltage",
        memory=40,
        settings={
            "model": "34465A",
            "function": "voltage",
            "range": 100.0,
            "nplc": 0.2,
            "interval_s": 0.01,
        },
    ),
    MeterConfig(
        name="free",
        kind="truevolt",
        point="3V3.current",
        drift_ppm=-40.0,
        settings={
            "model": "34461A",
            "function": "current",
            "range": 1.0,
            "nplc": 0.2,
            "interval_s": 0.0053,
        },
    ),
)
ON_TERMINALS = tuple(
    MeterConfig(
        name=f"terminals_{range_:g}",
        kind="truevolt",
        point="12V.current",
        settings={
            "model": "34465A",
            "function": "current",
            "range": range_,
            "nplc": 1.0,
            "interval_s": 0.021,
        },
    )
    for range_ in (3.0, 10.0)
)
METERS = {meter.name: meter for meter in (*DEFAULT_METERS, *EXTRA_METERS, *ON_TERMINALS)}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_meters(tmp_path_factory.mktemp("bench"), METERS.values(), SEED) as meters:
        yield meters


@pytest.fixture
def create(running: Running) -> Iterator[Any]:
    yield running.create
    running.close()


def offset_bounds(pairs: list[ClockPair], channel: Channel, slope: float) -> tuple[float, float]:
    """What the pairs leave of (host at device time 0), for a clock ``slope`` as fast."""
    tick_ns = channel.clock_tick_s * 1e9
    low = max(p.host_ns - p.round_trip_ns - (p.device_ns + tick_ns) / slope for p in pairs)
    high = min(p.host_ns - p.device_ns / slope for p in pairs)
    return low, high


def test_10_a_of_a_truevolt_are_read_on_their_terminals(create: Any) -> None:
    ten = started(create("terminals_10"))
    batches = read_count(ten, 20)
    assert not reported(batches)
    assert len(numbers(batches)[1]) >= 20


def test_a_meter_that_is_moved_to_its_10_a_terminals(create: Any, running: Running) -> None:
    instrument = started(create("terminals_3"))
    running.inject("terminals_3", "moved")
    (status,) = [s for b in statuses_until(instrument, Status.RANGE_CHANGED) for s in b.statuses]
    assert "range 10, not 3" in status.detail


@pytest.mark.parametrize("name", ["i12", "i33"])
def test_streamed_current_and_its_clock(create: Any, name: str) -> None:
    factor = true_shunt_ohm(METERS[name], SEED) or 0.25
    instrument = started(create(name))
    (channel,) = instrument.channels
    batches = read_count(instrument, round(3.0 / channel.interval_s))
    t_ns, values = numbers(batches)
    assert not reported(batches)
    assert np.all(np.diff(t_ns) == channel.interval_s * 1e9), "every reading, once"
    pairs = [pair for batch in batches for pair in batch.clock_pairs]
    slope = 1 + METERS[name].drift_ppm * 1e-6
    low, high = offset_bounds(pairs, channel, slope)
    assert low <= high + 1e5, "no clock fits all pairs"
    host_ns = t_ns / slope + (low + high) / 2
    # the mean over a window is the middle of it, but for a corner of the triangle
    half_ns = (high - low) / 2 + 1e6 + channel.aperture_s * 0.25e9
    compare(channel, values, amps(host_ns) * factor, half_ns, factor * 1e-9)


def test_the_shunt_is_within_its_tolerance() -> None:
    shunts = {true_shunt_ohm(METERS["i12"], seed) for seed in range(50)}
    assert len(shunts) == 50
    assert all(shunt is not None and abs(shunt / 0.05 - 1) < 0.001 for shunt in shunts)


def test_polled_voltage(create: Any) -> None:
    instrument = started(create("v12"))
    (channel,) = instrument.channels
    t_ns, values = numbers(read_count(instrument, 4))
    compare(channel, values, np.full(len(values), VOLTS_12), 0, 0)
    assert np.all(np.diff(t_ns) > 0)


def test_a_free_running_model_measures_its_interval(create: Any) -> None:
    instrument = started(create("free"))
    (channel,) = instrument.channels
    batches = read_count(instrument, round(2.0 / channel.interval_s))
    t_ns, values = numbers(batches)
    pairs = [pair for batch in batches for pair in batch.clock_pairs]

    def room(slope: float) -> float:
        low, high = offset_bounds(pairs, channel, slope)
        return high - low

    slope = max((1 + share * 1e-4 for share in range(-1100, 1101)), key=room)
    low, high = offset_bounds(pairs, channel, slope)
    assert low <= high + 1e5, "no clock fits all pairs"
    host_ns = t_ns / slope + (low + high) / 2
    half_ns = (high - low) / 2 + 15e6
    compare(channel, values, amps(host_ns) / 4, half_ns, 0.25e-9)
    instrument.close()
    with pytest.raises(SettingRefused, match=r"no sample timer .* set interval_s = 0\.00"):
        started(create("free", interval_s=0.02))


def test_memory_that_was_not_emptied(create: Any, running: Running) -> None:
    instrument = started(create("small"))
    (channel,) = instrument.channels
    batches = read_count(instrument, 5)
    time.sleep(0.8)
    batch = instrument.read()
    assert [status.status for status in batch.statuses] == [Status.MEMORY_OVERFLOW]
    epoch = 0
    for each in [*batches, batch, *read_count(instrument, 20)]:
        epoch += sum(status.status is Status.MEMORY_OVERFLOW for status in each.statuses)
        for block in each.blocks:
            assert set((block.t_ns // EPOCH_NS).tolist()) == {epoch}
            compare(channel, block.values, np.full(len(block), VOLTS_12), 0, 0)
        assert {pair.device_ns // EPOCH_NS for pair in each.clock_pairs} <= {epoch}
    running.inject("small", "memory_overflow")
    statuses_until(instrument, Status.MEMORY_OVERFLOW)
    numbers_again(instrument)


def test_it_samples_on_when_a_client_died(create: Any) -> None:
    instrument = started(create("small"))
    numbers_again(instrument)
    instrument._scpi._line.close()  # no ABOR, as after kill -9
    time.sleep(0.6)
    again = started(create("small"))
    numbers_again(again)


@pytest.mark.parametrize("name", ["small", "v12"])
def test_faults_of_scpi_meters(create: Any, running: Running, name: str) -> None:
    instrument = started(create(name))
    numbers_again(instrument)
    for fault, status in (("overload", Status.OVERLOAD), ("nan", Status.NO_VALUE)):
        with running.having(name, fault):
            statuses_until(instrument, status)
    numbers_again(instrument)

    running.inject(name, "disconnect", 0.5)
    fails(instrument, ConnectionLost)
    reconnect(instrument)
    numbers_again(instrument)

    with running.having(name, "silent"):
        fails(instrument, NoAnswer)
    reconnect(instrument)
    numbers_again(instrument)

    with running.having(name, "nonsense"), suppress(ProtocolError):
        statuses_until(instrument, Status.UNREADABLE)
    reconnect(instrument)
    numbers_again(instrument)
    instrument.close()

    with running.having(name, "identity"), pytest.raises(WrongInstrument, match="ANOTHER-1"):
        instrument.open()


def test_ut61e(create: Any, running: Running) -> None:
    instrument = started(create("v33"))
    (channel,) = instrument.channels
    t_ns, values = numbers(read_count(instrument, 3))
    compare(channel, values, np.full(len(values), VOLTS_3V3), 0, 0)
    assert np.all(np.diff(t_ns) > 0)
    for fault, status in (
        ("overload", Status.OVERLOAD),
        ("hold", Status.HOLD),
        ("wrong_function", Status.WRONG_FUNCTION),
        ("low_battery", Status.LOW_BATTERY),
        ("nan", Status.UNREADABLE),
        ("twice", Status.DUPLICATE),
    ):
        with running.having("v33", fault):
            statuses_until(instrument, status)
    running.inject("v33", "disconnect", 0.3)
    fails(instrument, ConnectionLost)
    reconnect(instrument)
    numbers_again(instrument)


def test_k204(create: Any, running: Running) -> None:
    instrument = started(create("thermocouple", interval_s=0.1))
    _, values = numbers(read_count(instrument, 3))
    assert np.all(np.abs(values - CASE_CELSIUS) <= instrument.channels[0].accuracy.limit(40))
    with running.having("thermocouple", "open_sensor"):
        statuses_until(instrument, Status.OPEN_SENSOR)
    numbers_again(instrument)
    with running.having("thermocouple", "silent"):
        fails(instrument, NoAnswer)
    reconnect(instrument)
    numbers_again(instrument)


def test_a_fault_it_cannot_have(running: Running) -> None:
    with pytest.raises(ValueError, match="v33 cannot have identity; it can: disconnect"):
        running.inject("v33", "identity")


def test_the_whole_bench(tmp_path: Path) -> None:
    with Bench(tmp_path / "bench", configure(seed=3, i12={"drift_ppm": 20.0})) as bench:
        rig = tomllib.loads(bench.rig.read_text())
        assert rig["rails"]["12V"]["current"]["channel"] == "i12.voltage"
        for name, entry in rig["instruments"].items():
            instrument = drivers.create(name, entry.pop("driver"), entry, time.monotonic_ns)
            try:
                started(instrument)
                numbers_again(instrument)
            finally:
                instrument.close()
        processes = [bench.drive.process, bench.meters.process]  # type: ignore[union-attr]
    for process in processes:
        assert process.poll() is not None
    assert not (tmp_path / "bench" / "drive.sock").exists()


def test_the_meters_end_with_their_parent(running: Running, tmp_path: Path) -> None:
    (tmp_path / "trace").symlink_to(running.directory / "trace")
    meters = MetersProcess(tmp_path, MetersConfig(meters=()))
    assert meters.process.stdin is not None
    meters.process.stdin.close()
    assert meters.process.wait(30) == 0
    meters.stop()
