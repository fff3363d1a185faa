"""Collect readings of a rig's meters for a few seconds, outside a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from instruments.reading import BESIDE_VALUES, Batch, Channel, Clock, ClockPair, Status
from labctl.analysis.readings.channel_series import ChannelSeries, ordered
from labctl.analysis.readings.clock_fit import ClockMap, fit_clock
from labctl.capture.meters.acquisition import Acquisition, State
from labctl.config.rig import Rig
from labctl.errors import RunFailed
from labctl.record.calibration_used import Zero
from labctl.record.header import ChannelInfo
from labctl.record.layout import CLOCK_PAIR
from labctl.record.timebase import Timebase

CONNECT_WITHIN_S = 12.0
LONGER_S = 30.0
"""How much longer than asked is waited for a slow meter's readings."""

FEW_UNREADABLE = 0.1
"""Unreadable answers per reading up to which they count as lost, and one always may: on a busy host
an answer may come so late that its time is not known. Other statuses are of what is measured."""


@dataclass
class ChannelReadings:
    """The readings of one channel."""

    channel: Channel
    t_ns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    statuses: dict[Status, int] = field(default_factory=dict)
    pairs: list[ClockPair] = field(default_factory=list)

    def few(self, status: Status) -> bool:
        """Whether it is as seldom as answers that are lost on a busy host."""
        most = max(1.0, FEW_UNREADABLE * len(self.values))
        return status is Status.UNREADABLE and bool(self.values) and self.statuses[status] <= most

    def series(self, name: str, scale: float = 1.0, zero: Zero | None = None) -> ChannelSeries:
        """The readings as a series on the host's clock, called ``name`` (``instrument.channel``).

        Raises ValueError when its device clock cannot be mapped.
        """
        info = ChannelInfo.of(name.partition(".")[0], self.channel)
        stamps, values = np.array(self.t_ns, np.int64), np.array(self.values)
        clock = ClockMap()
        if self.channel.clock is Clock.DEVICE and self.t_ns:
            bracketed = [(pair.device_ns, pair.host_ns, pair.round_trip_ns) for pair in self.pairs]
            pairs = np.array(bracketed, CLOCK_PAIR)
            clock = fit_clock(pairs, info.clock_tick_s, self.t_ns[0], self.t_ns[-1])
        return ChannelSeries(info, *ordered(stamps, values)[:2], clock, scale, zero=zero)

    @property
    def mean(self) -> float | None:
        """The mean of its readings; None where there was none."""
        return float(np.mean(self.values)) if self.values else None


class Listening:
    """Takes what the owner threads read."""

    def __init__(self, rig: Rig) -> None:
        self._lock = threading.Lock()
        self.readings = {
            f"{name}.{channel.name}": ChannelReadings(channel)
            for name, channels in rig.channels.items()
            for channel in channels
        }

    def batch(self, instrument: str, batch: Batch) -> None:
        """Readings came in (called by owner threads)."""
        with self._lock:
            for block in batch.blocks:
                readings = self.readings[f"{instrument}.{block.channel}"]
                readings.t_ns += block.t_ns.tolist()
                readings.values += block.values.tolist()
            for reading in batch.statuses:
                statuses = self.readings[f"{instrument}.{reading.channel}"].statuses
                statuses[reading.status] = statuses.get(reading.status, 0) + reading.count
            for pair in batch.clock_pairs:
                self.readings[f"{instrument}.{pair.channel}"].pairs.append(pair)

    def state(self, instrument: str, state: State, reason: str) -> None:
        """The state of an instrument changed; its owner keeps it too, so nothing is done."""

    def have_come(self, channels: Iterable[ChannelReadings], fewest: int) -> bool:
        """Whether each has so many readings, and unreadable ones are few among them."""
        with self._lock:
            return all(
                len(one.values) >= fewest
                and (Status.UNREADABLE not in one.statuses or one.few(Status.UNREADABLE))
                for one in channels
            )


@dataclass(frozen=True, slots=True)
class CollectedReadings:
    """The readings by channel, and the identities that the instruments report."""

    readings: dict[str, ChannelReadings]
    identities: dict[str, str]


def collect_readings(
    rig: Rig, names: Sequence[str], seconds: float, fewest: int
) -> CollectedReadings:
    """Listen to the channels ``names`` for ``seconds``, longer until each has ``fewest`` readings.

    Raises RunFailed when an instrument cannot be read, or a channel reports a status instead
    of values (overload, hold).
    """
    timebase = Timebase()
    wanted = {name.partition(".")[0] for name in names}
    made = rig.create_instruments(timebase.now_ns)
    listening = Listening(rig)
    group = Acquisition({name: made[name] for name in wanted}, timebase.now_ns, listening)
    readings = {name: listening.readings[name] for name in names}
    group.start()
    try:
        missing = group.wait_settled(CONNECT_WITHIN_S)
        if not missing:
            _wait(listening, readings, seconds, fewest)
            missing = {
                name: owner.reason
                for name, owner in group.owners.items()
                if owner.state is not State.READING
            }
        identities = group.identities()
    finally:
        group.stop()
    if missing:
        raise RunFailed("\n".join(f"{name}: {reason}" for name, reason in missing.items()))
    problems = [line for name, one in readings.items() for line in _no_values(name, one, fewest)]
    if problems:
        raise RunFailed("\n".join(problems))
    return CollectedReadings(readings, identities)


def _wait(
    listening: Listening, readings: dict[str, ChannelReadings], seconds: float, fewest: int
) -> None:
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds + LONGER_S:
        if passed >= seconds and listening.have_come(readings.values(), fewest):
            return
        time.sleep(min(max(seconds - passed, 0.1), 0.5))


def _no_values(name: str, readings: ChannelReadings, fewest: int) -> Iterator[str]:
    for status, count in readings.statuses.items():
        if status not in BESIDE_VALUES and not readings.few(status):
            yield f"{name}: {status.value.replace('_', ' ')} ({count}×): put that right first"
    if len(readings.values) < fewest:
        yield f"{name}: only {len(readings.values)} readings came, at least {fewest} are needed"
