"""The newest value of everything in a run, for display.

Nothing here is a result: results are made from the journal.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from instruments.reading import BESIDE_VALUES, Batch, Block, HostClock
from labctl.analysis.power.volts_times_amps import rail_watts
from labctl.analysis.stats.time_mean import mean_over_time
from labctl.capture.meters.acquisition import State
from labctl.fio.status import Interval, LiveRates
from labctl.record.header import ChannelInfo, HostPowerInfo, RailInfo
from labctl.record.phase import Phase
from labctl.record.point_end import PointState
from labctl.record.timebase import NS_PER_S

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LIVE_S = 1.0
"""A value shown is the mean over so long (or over the last two readings)."""

MOST_RECENT = 4096
"""Readings of a channel that are kept for it: of fast meters it is the mean over less."""

STALE_S = 3.0
"""A value older than this (or than three readings) is not shown as the present one."""


@dataclass(frozen=True, slots=True)
class RecentValues:
    """The newest readings of a channel: at least one, times ascend, on the host's clock."""

    t_ns: Ints
    values: Floats

    @property
    def mean(self) -> float:
        """The mean over their time."""
        return mean_over_time((self.t_ns - self.t_ns[0]).astype(np.float64), self.values)

    @property
    def newest(self) -> float:
        """The last of them: of a temperature, which a limit must not see late."""
        return float(self.values[-1])

    @classmethod
    def of(cls, value: float | None) -> RecentValues | None:
        """One reading; None without a value."""
        return None if value is None else cls(np.zeros(1, np.int64), np.array([value]))


def recent(t_ns: Ints, values: Floats, interval_s: float) -> RecentValues | None:
    """Of readings on the host's clock those of the last ``LIVE_S``, or the last two; None without
    any. ``interval_s`` is the nominal one."""
    if not len(t_ns):
        return None
    begin_ns = int(t_ns[-1]) - round(max(LIVE_S, 2 * interval_s) * NS_PER_S)
    ascends = np.ones(len(t_ns), np.bool_)
    ascends[:-1] = t_ns[1:] > t_ns[:-1]
    fresh = ascends & (t_ns > begin_ns)
    return RecentValues(t_ns[fresh], values[fresh])


@dataclass(frozen=True, slots=True)
class LiveRail:
    """A rail in the last moments, as the summary has it of a phase: means over time, the watts of
    volts and amps at the same instants. None while one is not known."""

    volts: float | None
    amps: float | None
    watts: float | None


def live_rail(rail: RailInfo, volts: RecentValues | None, sensed: RecentValues | None) -> LiveRail:
    """A rail from the newest readings of its channels; ``sensed`` is volts across a shunt, or amps.

    Where the volts are measured before the shunt, its drop is taken off.
    """
    mean_volts = None if volts is None else volts.mean
    if sensed is None:
        return LiveRail(None if rail.drop_ohm else mean_volts, None, None)
    amps = sensed.values / rail.shunt_ohm if rail.shunt_ohm else sensed.values
    mean_amps = RecentValues(sensed.t_ns, amps).mean
    if volts is None or mean_volts is None:
        return LiveRail(None, mean_amps, None)
    origin_ns = sensed.t_ns[0]
    t_amps, t_volts = ((one.t_ns - origin_ns).astype(np.float64) for one in (sensed, volts))
    t, watts = rail_watts(t_amps, amps, t_volts, volts.values, math.inf, rail.drop_ohm)
    return LiveRail(mean_volts - rail.drop_ohm * mean_amps, mean_amps, mean_over_time(t, watts))


@dataclass(frozen=True, slots=True)
class View:
    """The state of a run at one moment."""

    phase: Phase | None = None
    phase_begin_ns: int = 0
    phases_total: int = 0
    ends_ns: int | None = None
    rails: dict[str, LiveRail] = field(default_factory=dict)
    celsius: dict[str, float] = field(default_factory=dict)
    host_watts: dict[str, float] = field(default_factory=dict)
    """Of the drive's host, by the meter: in no watts of the drive."""
    rates: LiveRates | None = None
    instruments: dict[str, State] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)
    point: PointState | None = None
    """How well the numbers of the phase are known, where its end depends on them."""

    @property
    def watts(self) -> float | None:
        """The watts of all rails now; None while one of them is not known."""
        known = [rail.watts for rail in self.rails.values() if rail.watts is not None]
        return sum(known) if known and len(known) == len(self.rails) else None


class _Newest:
    """The last blocks of a channel: what came in ``LIVE_S``, or the last one."""

    def __init__(self, interval_s: float, device_clock: bool) -> None:
        self._interval_s, self._device_clock = interval_s, device_clock
        self._keep_ns = round(max(LIVE_S, 2 * interval_s) * NS_PER_S)
        self._good_for_ns = round(max(STALE_S, 3 * interval_s) * NS_PER_S)
        self._blocks: deque[tuple[int, Block]] = deque()
        self._n = 0

    def add(self, now_ns: int, block: Block) -> None:
        blocks = self._blocks
        blocks.append((now_ns, block))
        self._n += len(block)
        while len(blocks) > 1 and (
            self._n - len(blocks[0][1]) >= MOST_RECENT or blocks[0][0] < now_ns - self._keep_ns
        ):
            self._n -= len(blocks.popleft()[1])

    def clear(self) -> None:
        self._blocks.clear()
        self._n = 0

    def recent(self, now_ns: int) -> RecentValues | None:
        """What it shows now; None when that is nothing, or too old.

        A reading of a device clock was made before it came: the block that came with the least
        delay says how much before.
        """
        if not self._blocks or now_ns - self._blocks[-1][0] > self._good_for_ns:
            return None
        t_ns = np.concatenate([block.t_ns for _, block in self._blocks])
        values = np.concatenate([block.values for _, block in self._blocks])
        if self._device_clock:
            t_ns = t_ns + min(came_ns - int(block.t_ns[-1]) for came_ns, block in self._blocks)
        return recent(t_ns[-MOST_RECENT:], values[-MOST_RECENT:], self._interval_s)


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
        self._host_power: tuple[HostPowerInfo, ...] = ()

    def describe(
        self,
        rails: tuple[RailInfo, ...],
        temperatures: dict[str, str],
        channels: Sequence[ChannelInfo],
        phases_total: int,
        host_power: tuple[HostPowerInfo, ...] = (),
    ) -> None:
        """What is measured: rails, sensors, channels, and watts of the drive's host."""
        with self._lock:
            self._rails = rails
            self._temperatures = temperatures
            self._host_power = host_power
            self._newest = {
                one.name: _Newest(one.interval_s, one.clock == "device") for one in channels
            }
            self._view = replace(self._view, phases_total=phases_total)

    def batch(self, instrument: str, batch: Batch) -> None:
        """Readings came in (called by owner threads)."""
        now_ns = self._clock()
        with self._lock:
            for block in batch.blocks:
                if len(block):
                    name = f"{instrument}.{block.channel}"
                    # what they show is calculated when somebody looks: they come far more often
                    self._of(name).add(now_ns, block)
                    self._statuses.pop(name, None)
                    counts = self._view.counts
                    counts[instrument] = counts.get(instrument, 0) + len(block)
            for reading in batch.statuses:
                if reading.status in BESIDE_VALUES:
                    continue
                name = f"{instrument}.{reading.channel}"
                self._of(name).clear()
                self._statuses[name] = reading.status.value

    def _of(self, name: str) -> _Newest:
        found = self._newest.get(name)
        if found is None:
            found = self._newest[name] = _Newest(0.0, False)
        return found

    def state(self, instrument: str, state: State, reason: str) -> None:
        """An instrument came or went (called by owner threads).

        What it read before is not shown with what it reads when it is back: its clock may have
        begun anew.
        """
        with self._lock:
            if state is not State.READING:
                for name, newest in self._newest.items():
                    if name.partition(".")[0] == instrument:
                        newest.clear()
            self._view.instruments[instrument] = state

    def phase(self, phase: Phase | None, begin_ns: int, ends_ns: int | None) -> None:
        """A phase began; ``ends_ns`` is when the whole run is expected to end."""
        with self._lock:
            self._view = replace(
                self._view,
                phase=phase,
                phase_begin_ns=begin_ns,
                ends_ns=ends_ns,
                rates=None,
                point=None,
            )

    def point(self, state: PointState | None) -> None:
        """How well the numbers of the phase are known."""
        with self._lock:
            self._view = replace(self._view, point=state)

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

    def celsius(self) -> dict[str, float]:
        """The newest temperatures alone, by sensor; stale ones are left out."""
        now_ns = self._clock()
        with self._lock:
            found = {
                name: self._newest[name].recent(now_ns)
                for name in self._temperatures.values()
                if name in self._newest
            }
            return self._celsius(found)

    def _celsius(self, recent: Mapping[str, RecentValues | None]) -> dict[str, float]:
        shown = {sensor: recent.get(name) for sensor, name in self._temperatures.items()}
        return {sensor: one.newest for sensor, one in shown.items() if one is not None}

    def view(self) -> View:
        """A consistent copy of the newest values; stale ones are left out."""
        now_ns = self._clock()
        with self._lock:
            found = {name: newest.recent(now_ns) for name, newest in self._newest.items()}
            fresh = {name: one for name, one in found.items() if one is not None}
            rails = {}
            for rail in self._rails:
                rails[rail.name] = live_rail(rail, fresh.get(rail.voltage), fresh.get(rail.current))
            return replace(
                self._view,
                rails=rails,
                celsius=self._celsius(fresh),
                host_watts={
                    one.name: fresh[one.channel].mean
                    for one in self._host_power
                    if one.channel in fresh
                },
                instruments=dict(self._view.instruments),
                counts=dict(self._view.counts),
                statuses=dict(self._statuses),
            )
