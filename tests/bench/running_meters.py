"""Simulated meters on real sockets and serial lines for a test, and how to read them.

The drive is a trace that a thread writes: steady volts, and a current that rises and falls so
steeply that a wrong time would show in the value. Nothing here depends on how fast the machine
is: it is read until something is there, and a fault lasts until it was seen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from instruments import drivers
from instruments.errors import InstrumentError
from instruments.instrument import Instrument
from instruments.reading import Batch, Channel, Status, StatusReading
from instruments.simulated.bench import MetersProcess
from instruments.simulated.drive.state_ring import StateWriter
from instruments.simulated.meter_kit.config import MeterConfig, MetersConfig
from instruments.simulated.meter_kit.fault_control import inject
from instruments.simulated.meters.registry import DRIVERS

VOLTS_12, VOLTS_3V3 = 12.05, 3.302
CASE_CELSIUS = 38.4
PERIOD_S = 2.0
DEADLINE_S = 30.0


def amps(t_ns: NDArray[np.float64] | float) -> Any:
    """A triangle between 0.5 and 1.5 A: 1 A/s."""
    phase = np.asarray(t_ns) * 1e-9 / PERIOD_S % 1.0
    return 0.5 + 2 * np.abs(phase - 0.5)


class TraceThread(threading.Thread):
    """Writes ticks of 1 ms as the drive would."""

    def __init__(self, path: Path) -> None:
        super().__init__(name="trace", daemon=True)
        self._writer = StateWriter(path)
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
    """Meters that run; instruments that were made are closed by :meth:`close`."""

    directory: Path
    addresses: dict[str, dict[str, str]]
    configs: dict[str, MeterConfig]
    made: list[Instrument] = field(default_factory=list)

    def create(self, name: str, **changes: Any) -> Any:
        """The driver of a meter, not opened."""
        config = self.configs[name]
        settings = {**config.settings, **self.addresses[name], **changes}
        driver = DRIVERS[config.kind]
        self.made.append(drivers.create(name, driver, settings, time.monotonic_ns))
        return self.made[-1]

    def close(self) -> None:
        """Close what was made."""
        while self.made:
            self.made.pop().close()

    def inject(self, meter: str, fault: str, seconds: float = 1.0) -> None:
        """Let a meter have a fault."""
        inject(self.directory, meter, fault, seconds)

    @contextmanager
    def having(self, meter: str, fault: str) -> Iterator[None]:
        """Let a meter have a fault for as long as it takes."""
        self.inject(meter, fault, 4 * DEADLINE_S)
        try:
            yield
        finally:
            self.inject(meter, fault, 0.0)


@contextmanager
def running_meters(directory: Path, configs: Iterable[MeterConfig], seed: int) -> Iterator[Running]:
    """The meters in a process of their own, on the trace of a drive that is on."""
    by_name = {config.name: config for config in configs}
    trace = TraceThread(directory / "trace")
    time.sleep(0.01)
    trace.advance()
    trace.start()
    try:
        meters = MetersProcess(directory, MetersConfig(seed=seed, meters=tuple(by_name.values())))
        try:
            running = Running(directory, meters.addresses, by_name)
            yield running
            running.close()
        finally:
            meters.stop()
    finally:
        trace.over.set()
        trace.join()


def started(instrument: Any) -> Any:
    """Open and start."""
    instrument.open()
    instrument.start()
    return instrument


def read_for(instrument: Instrument, seconds: float) -> list[Batch]:
    """What it reads in some seconds: it may be nothing."""
    end = time.monotonic() + seconds
    batches = []
    while time.monotonic() < end:
        batches.append(instrument.read())
    return batches


def read_until(instrument: Instrument, enough: Callable[[list[Batch]], bool]) -> list[Batch]:
    """What it reads until there is enough."""
    end = time.monotonic() + DEADLINE_S
    batches: list[Batch] = []
    while not enough(batches):
        assert time.monotonic() < end, f"not within {DEADLINE_S} s: {batches[-3:]}"
        batches.append(instrument.read())
    return batches


def read_count(instrument: Instrument, count: int) -> list[Batch]:
    """What it reads until it has read ``count`` numbers of a channel."""

    def enough(batches: list[Batch]) -> bool:
        read: dict[str, int] = {}
        for batch in batches:
            for block in batch.blocks:
                read[block.channel] = read.get(block.channel, 0) + len(block)
        return max(read.values(), default=0) >= count

    return read_until(instrument, enough)


def numbers(
    batches: list[Batch], channel: str = ""
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Times and values, of one channel where one is named."""
    blocks = [b for batch in batches for b in batch.blocks if channel in ("", b.channel)]
    assert blocks
    t_ns = np.concatenate([block.t_ns for block in blocks])
    return t_ns, np.concatenate([block.values for block in blocks])


def reported(batches: list[Batch]) -> list[StatusReading]:
    """All statuses but that an answer was late, which a slow machine may make it."""
    return [s for batch in batches for s in batch.statuses if " late" not in s.detail]


def statuses_until(instrument: Instrument, wanted: Status) -> list[Batch]:
    """Read until it tells a status."""
    return read_until(
        instrument, lambda read: any(s.status is wanted for b in read[-1:] for s in b.statuses)
    )


def numbers_again(instrument: Instrument) -> list[Batch]:
    """Read until it brings a number."""
    return read_count(instrument, 1)


def fails(instrument: Instrument, kinds: type[Exception] | tuple[type[Exception], ...]) -> None:
    """Read until it raises one of these."""
    with pytest.raises(kinds):
        read_for(instrument, DEADLINE_S)


def reconnect(instrument: Instrument) -> None:
    """As an owner does: close, wait, open."""
    end = time.monotonic() + DEADLINE_S
    while True:
        instrument.close()
        try:
            started(instrument)
            return
        except InstrumentError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def compare(channel: Channel, values: Any, true: Any, time_ns: float, per_ns: float) -> None:
    """Values agree with the truth within the accuracy and what the time may be off."""
    noise = 5 * 5e-6 * (channel.range or 0.0)
    allowed = channel.accuracy.of_reading * np.abs(true) + channel.accuracy.floor + noise
    excess = np.abs(values - true) - allowed - abs(time_ns) * per_ns
    assert excess.max() <= 0, f"{(excess > 0).sum()} of {len(values)} off by {excess.max():g} more"
