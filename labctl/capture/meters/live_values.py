"""The newest value of everything in a run, for display.

Nothing here is a result: results are made from the journal.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from instruments.reading import BESIDE_VALUES, Batch, HostClock
from labctl.capture.meters.acquisition import State
from labctl.fio.status import Interval, LiveRates
from labctl.record.header import RailInfo
from labctl.record.phase import Phase
from labctl.record.timebase import NS_PER_S

STALE_S = 3.0
"""A value older than this (or than three readings) is not shown as the present one."""


@dataclass(frozen=True, slots=True)
class LiveRail:
    """The newest watts of a rail; None while it is not known."""

    volts: float | None
    amps: float | None

    @property
    def watts(self) -> float | None:
        """Volts times amps, when both are known."""
        return None if self.volts is None or self.amps is None else self.volts * self.amps


def live_rail(rail: RailInfo, volts: float | None, sensed: float | None) -> LiveRail:
    """A rail from the newest readings of its channels; ``sensed`` is volts across a shunt, or amps.

    Where the volts are measured before the shunt, its drop is taken off.
    """
    amps = sensed / rail.shunt_ohm if sensed is not None and rail.shunt_ohm else sensed
    if rail.drop_ohm:
        volts = None if volts is None or amps is None else volts - rail.drop_ohm * amps
    return LiveRail(volts, amps)


@dataclass(frozen=True, slots=True)
class View:
    """The state of a run at one moment."""

    phase: Phase | None = None
    phase_begin_ns: int = 0
    phases_total: int = 0
    ends_ns: int | None = None
    rails: dict[str, LiveRail] = field(default_factory=dict)
    celsius: dict[str, float] = field(default_factory=dict)
    rates: LiveRates | None = None
    instruments: dict[str, State] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Newest:
    values: NDArray[np.float64]
    seen_ns: int
    good_for_ns: int

    @property
    def mean(self) -> float:
        return float(np.add.reduce(self.values)) / len(self.values)  # faster than its mean


class Monitor:
    """Collects the newest values from every thread; ``view`` gives them consistently."""

    def __init__(self, clock: HostClock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._newest: dict[str, _Newest] = {}
        self._statuses: dict[str, str] = {}
        self._view = View()
        self._rails: tuple[RailInfo, ...] = ()
        self._temperatures: dict[str, str] = {}
        self._good_for_ns: dict[str, int] = {}

    def describe(
        self,
        rails: tuple[RailInfo, ...],
        temperatures: dict[str, str],
        intervals_s: dict[str, float],
        phases_total: int,
    ) -> None:
        """What is measured: rails, sensors, and the interval of each channel."""
        with self._lock:
            self._rails = rails
            self._temperatures = temperatures
            self._good_for_ns = {
                name: round(max(STALE_S, 3 * interval_s) * NS_PER_S)
                for name, interval_s in intervals_s.items()
            }
            self._view = replace(self._view, phases_total=phases_total)

    def batch(self, instrument: str, batch: Batch) -> None:
        """Readings came in (called by owner threads)."""
        now_ns = self._clock()
        with self._lock:
            for block in batch.blocks:
                if len(block):
                    name = f"{instrument}.{block.channel}"
                    good_for_ns = self._good_for_ns.get(name, round(STALE_S * NS_PER_S))
                    # their mean is taken when somebody looks: readings come far more often
                    self._newest[name] = _Newest(block.values, now_ns, good_for_ns)
                    self._statuses.pop(name, None)
                    counts = self._view.counts
                    counts[instrument] = counts.get(instrument, 0) + len(block)
            for reading in batch.statuses:
                if reading.status in BESIDE_VALUES:
                    continue
                name = f"{instrument}.{reading.channel}"
                self._newest.pop(name, None)
                self._statuses[name] = reading.status.value

    def state(self, instrument: str, state: State, reason: str) -> None:
        """An instrument came or went (called by owner threads)."""
        with self._lock:
            self._view.instruments[instrument] = state

    def phase(self, phase: Phase | None, begin_ns: int, ends_ns: int | None) -> None:
        """A phase began; ``ends_ns`` is when the whole run is expected to end."""
        with self._lock:
            self._view = replace(
                self._view, phase=phase, phase_begin_ns=begin_ns, ends_ns=ends_ns, rates=None
            )

    def rates(self, found: dict[str, Interval]) -> None:
        """fio's newest interval."""
        if not found:
            return
        latencies = [
            (item.latency_mean_us, item.iops)
            for item in found.values()
            if item.latency_mean_us is not None
        ]
        weight = sum(iops for _, iops in latencies)
        latency = sum(us * iops for us, iops in latencies) / weight if weight else None
        rates = LiveRates(
            iops=sum(item.iops for item in found.values()),
            bytes_per_s=sum(item.bytes_per_s for item in found.values()),
            latency_mean_us=latency,
        )
        with self._lock:
            phase = self._view.phase
            if phase is None or phase.pattern.io:  # fio's last words come when it is over
                self._view = replace(self._view, rates=rates)

    def view(self) -> View:
        """A consistent copy of the newest values; stale ones are left out."""
        now_ns = self._clock()
        with self._lock:
            fresh = {
                name: newest.mean
                for name, newest in self._newest.items()
                if now_ns - newest.seen_ns <= newest.good_for_ns
            }
            rails = {}
            for rail in self._rails:
                rails[rail.name] = live_rail(rail, fresh.get(rail.voltage), fresh.get(rail.current))
            celsius = {
                sensor: fresh[name] for sensor, name in self._temperatures.items() if name in fresh
            }
            return replace(
                self._view,
                rails=rails,
                celsius=celsius,
                instruments=dict(self._view.instruments),
                counts=dict(self._view.counts),
                statuses=dict(self._statuses),
            )
