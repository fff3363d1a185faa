"""The drivers against simulated meters on real sockets and serial lines.

The drive is a trace that a thread writes: steady volts, and a current that rises and falls so
steeply that a wrong time would show in the value.
"""

from __future__ import annotations

import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from instruments import drivers
from instruments.drivers.truevolt import EPOCH_NS
from instruments.errors import (
    ConnectionLost,
    InstrumentError,
    NoAnswer,
    ProtocolError,
    SettingRefused,
    WrongInstrument,
)
from instruments.instrument import Instrument
from instruments.reading import Batch, Channel, ClockPair, Status
from instruments.simulated.bench import DEFAULT_METERS, Bench, MetersProcess, configure
from instruments.simulated.faults import inject
from instruments.simulated.meters import MeterConfig, MetersConfig, true_shunt_ohm
from instruments.simulated.trace import TraceWriter

VOLTS_12, VOLTS_3V3 = 12.05, 3.302
CASE_CELSIUS = 38.4
PERIOD_S = 2.0
SEED = 7
DRIVER = {"truevolt": "truevolt", "sdm3065x": "scpi_dmm", "ut61e": "es51922", "k204": "k204"}

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
METERS = {meter.name: meter for meter in (*DEFAULT_METERS, *EXTRA_METERS)}


def amps(t_ns: NDArray[np.float64] | float) -> Any:
    """A triangle between 0.5 and 1.5 A: 1 A/s."""
    phase = np.asarray(t_ns) * 1e-9 / PERIOD_S % 1.0
    return 0.5 + 2 * np.abs(phase - 0.5)


class TraceThread(threading.Thread):
    """Writes ticks of 1 ms as the drive would."""

    def __init__(self, path: Path) -> None:
        super().__init__(name="trace", daemon=True)
        self._writer = TraceWriter(path)
        self._t_ns = time.monotonic_ns()
        self._sums = np.zeros(6)
        self.over = threading.Event()
        self.advance()

    def advance(self) -> None:
        now_ns = time.monotonic_ns()
        while self._t_ns + 1_000_000 <= now_ns:
            self._t_ns += 1_000_000
            current = float(amps(self._t_ns - 500_000))
            tick = [VOLTS_12, VOLTS_3V3, current, current / 4, VOLTS_12 * current, 0.0]
            self._sums += np.array(tick) * 1e-3
            self._writer.append(self._t_ns, *self._sums.tolist(), 41.0, CASE_CELSIUS, 0, 0, 0, 0, 0)

    def run(self) -> None:
        while not self.over.wait(0.001):
            self.advance()


@dataclass(frozen=True)
class Running:
    directory: Path
    addresses: dict[str, dict[str, str]]

    def inject(self, meter: str, fault: str, seconds: float = 1.0) -> None:
        inject(self.directory, meter, fault, seconds)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("bench")
    trace = TraceThread(directory / "trace")
    time.sleep(0.01)
    trace.advance()
    trace.start()
    config = MetersConfig(seed=SEED, meters=tuple(METERS.values()))
    meters = MetersProcess(directory, config)
    yield Running(directory, meters.addresses)
    meters.stop()
    trace.over.set()
    trace.join()


@pytest.fixture
def create(running: Running) -> Iterator[Any]:
    made: list[Instrument] = []

    def make(name: str, **changes: Any) -> Instrument:
        settings = {**METERS[name].settings, **running.addresses[name], **changes}
        driver = DRIVER[METERS[name].kind]
        instrument = drivers.create(name, driver, settings, time.monotonic_ns)
        made.append(instrument)
        return instrument

    yield make
    for instrument in made:
        instrument.close()


def started(instrument: Instrument) -> Instrument:
    instrument.open()
    instrument.start()
    return instrument


def read_for(instrument: Instrument, seconds: float) -> list[Batch]:
    end = time.monotonic() + seconds
    batches = []
    while time.monotonic() < end:
        batches.append(instrument.read())
    return batches


def numbers(batches: list[Batch]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    blocks = [block for batch in batches for block in batch.blocks]
    assert blocks
    t_ns = np.concatenate([block.t_ns for block in blocks])
    return t_ns, np.concatenate([block.values for block in blocks])


def statuses_until(instrument: Instrument, wanted: Status, seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if any(status.status is wanted for status in instrument.read().statuses):
            return
    raise AssertionError(f"no {wanted} within {seconds} s")


def numbers_again(instrument: Instrument, seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if instrument.read().blocks:
            return
    raise AssertionError(f"no numbers within {seconds} s")


def fails(instrument: Instrument, kinds: type[Exception] | tuple[type[Exception], ...]) -> None:
    with pytest.raises(kinds):
        read_for(instrument, 5.0)


def reconnect(instrument: Instrument, seconds: float = 8.0) -> None:
    """As an owner does: close, wait, open."""
    end = time.monotonic() + seconds
    while True:
        instrument.close()
        try:
            started(instrument)
            return
        except InstrumentError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def offset_bounds(pairs: list[ClockPair], channel: Channel, slope: float) -> tuple[float, float]:
    """What the pairs leave of (host at device time 0), for a clock ``slope`` as fast."""
    tick_ns = channel.clock_tick_s * 1e9
    low = max(p.host_ns - p.round_trip_ns - (p.device_ns + tick_ns) / slope for p in pairs)
    high = min(p.host_ns - p.device_ns / slope for p in pairs)
    return low, high


def compare(channel: Channel, values: Any, true: Any, time_ns: float, per_ns: float) -> None:
    """Values agree with the truth within the accuracy and what the time may be off."""
    noise = 5 * 5e-6 * (channel.range or 0.0)
    allowed = channel.accuracy.of_reading * np.abs(true) + channel.accuracy.floor + noise
    excess = np.abs(values - true) - allowed - abs(time_ns) * per_ns
    assert excess.max() <= 0, f"{(excess > 0).sum()} of {len(values)} off by {excess.max():g} more"


@pytest.mark.parametrize("name", ["i12", "i33"])
def test_streamed_current_and_its_clock(create: Any, name: str) -> None:
    factor = true_shunt_ohm(METERS[name], SEED) or 0.25
    instrument = started(create(name))
    (channel,) = instrument.channels
    batches = read_for(instrument, 3.0)
    t_ns, values = numbers(batches)
    assert not any(batch.statuses for batch in batches)
    assert np.all(np.diff(t_ns) == channel.interval_s * 1e9), "every reading, once"
    pairs = [pair for batch in batches for pair in batch.clock_pairs]
    slope = 1 + METERS[name].drift_ppm * 1e-6
    low, high = offset_bounds(pairs, channel, slope)
    assert low <= high + 1e5, "no clock fits all pairs"
    assert high - low < channel.interval_s * 1e9, "together they know more than one alone"
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
    t_ns, values = numbers(read_for(instrument, 1.0))
    assert len(values) > 3
    compare(channel, values, np.full(len(values), VOLTS_12), 0, 0)
    assert np.all(np.diff(t_ns) > 0)


def test_a_free_running_model_measures_its_interval(create: Any) -> None:
    instrument = started(create("free"))
    (channel,) = instrument.channels
    batches = read_for(instrument, 2.0)
    t_ns, values = numbers(batches)
    pairs = [pair for batch in batches for pair in batch.clock_pairs]
    slopes = [(pairs[-1].device_ns - pairs[0].device_ns), (pairs[-1].host_ns - pairs[0].host_ns)]
    slope = slopes[0] / slopes[1]
    assert slope == pytest.approx(1.0, abs=0.02)
    low, high = offset_bounds(pairs, channel, slope)
    host_ns = t_ns / slope + (low + high) / 2
    half_ns = abs(high - low) / 2 + 15e6
    compare(channel, values, amps(host_ns) / 4, half_ns, 0.25e-9)
    instrument.close()
    with pytest.raises(SettingRefused, match=r"no sample timer .* set interval_s = 0\.00"):
        started(create("free", interval_s=0.02))


def test_memory_that_was_not_emptied(create: Any, running: Running) -> None:
    instrument = started(create("small"))
    (channel,) = instrument.channels
    read_for(instrument, 0.3)
    time.sleep(0.8)
    batch = instrument.read()
    assert [status.status for status in batch.statuses] == [Status.MEMORY_OVERFLOW]
    batches = read_for(instrument, 0.5)
    t_ns, values = numbers(batches)
    assert set((t_ns // EPOCH_NS).tolist()) == {1}
    assert {p.device_ns // EPOCH_NS for b in batches for p in b.clock_pairs} == {1}
    compare(channel, values, np.full(len(values), VOLTS_12), 0, 0)
    running.inject("small", "memory_overflow")
    statuses_until(instrument, Status.MEMORY_OVERFLOW)
    numbers_again(instrument)


def test_it_samples_on_when_a_client_died(create: Any) -> None:
    instrument = started(create("small"))
    read_for(instrument, 0.2)
    instrument._scpi._line.close()  # no ABOR, as after kill -9
    time.sleep(0.6)
    again = started(create("small"))
    numbers_again(again)


@pytest.mark.parametrize("name", ["small", "v12"])
def test_faults_of_scpi_meters(create: Any, running: Running, name: str) -> None:
    instrument = started(create(name))
    read_for(instrument, 0.2)
    running.inject(name, "overload", 0.5)
    statuses_until(instrument, Status.OVERLOAD)
    running.inject(name, "nan", 0.5)
    statuses_until(instrument, Status.NO_VALUE)
    numbers_again(instrument)

    running.inject(name, "disconnect", 0.5)
    fails(instrument, ConnectionLost)
    with pytest.raises(ConnectionLost):
        instrument.open()
    reconnect(instrument)
    numbers_again(instrument)

    running.inject(name, "silent", 2.0)
    fails(instrument, NoAnswer)
    reconnect(instrument)
    numbers_again(instrument)

    running.inject(name, "nonsense", 0.5)
    if name == "v12":
        statuses_until(instrument, Status.UNREADABLE)
    else:
        with suppress(ProtocolError):
            statuses_until(instrument, Status.UNREADABLE)
    reconnect(instrument)
    numbers_again(instrument)
    instrument.close()

    running.inject(name, "identity", 0.5)
    with pytest.raises(WrongInstrument, match="ANOTHER-1"):
        instrument.open()


def test_ut61e(create: Any, running: Running) -> None:
    instrument = started(create("v33"))
    (channel,) = instrument.channels
    t_ns, values = numbers(read_for(instrument, 1.6))
    compare(channel, values, np.full(len(values), VOLTS_3V3), 0, 0)
    assert np.all(np.diff(t_ns) > 0)
    for fault, status in (
        ("overload", Status.OVERLOAD),
        ("hold", Status.HOLD),
        ("wrong_function", Status.WRONG_FUNCTION),
        ("low_battery", Status.LOW_BATTERY),
        ("nan", Status.UNREADABLE),
    ):
        running.inject("v33", fault, 0.7)
        statuses_until(instrument, status)
        running.inject("v33", fault, 0.0)
    running.inject("v33", "disconnect", 0.3)
    fails(instrument, ConnectionLost)
    reconnect(instrument)
    numbers_again(instrument)


def test_k204(create: Any, running: Running) -> None:
    instrument = started(create("thermocouple", interval_s=0.1))
    _, values = numbers(read_for(instrument, 0.5))
    assert np.all(np.abs(values - CASE_CELSIUS) <= instrument.channels[0].accuracy.limit(40))
    running.inject("thermocouple", "open_sensor", 0.5)
    statuses_until(instrument, Status.OPEN_SENSOR)
    numbers_again(instrument)
    running.inject("thermocouple", "silent", 1.5)
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
    assert meters.process.wait(5) == 0
    meters.stop()
