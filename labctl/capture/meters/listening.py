"""Listening to the meters of a rig outside a run: what each channel says for a few seconds."""

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


@dataclass
class Heard:
    """What came from one channel."""

    channel: Channel
    t_ns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    statuses: dict[Status, int] = field(default_factory=dict)
    pairs: list[ClockPair] = field(default_factory=list)

    def series(self, name: str, scale: float = 1.0, zero: Zero | None = None) -> ChannelSeries:
        """What came as a series on the host's clock, called ``name`` (``instrument.channel``).

        Raises ValueError when its device clock cannot be mapped.
        """
        info = ChannelInfo.of(name.partition(".")[0], self.channel)
        stamps, values = np.array(self.t_ns, np.int64), np.array(self.values)
        clock = ClockMap()
        if self.channel.clock is Clock.DEVICE and self.t_ns:
            looks = [(pair.device_ns, pair.host_ns, pair.round_trip_ns) for pair in self.pairs]
            pairs = np.array(looks, CLOCK_PAIR)
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
        self.heard = {
            f"{name}.{channel.name}": Heard(channel)
            for name, channels in rig.channels.items()
            for channel in channels
        }

    def batch(self, instrument: str, batch: Batch) -> None:
        """Readings came in (called by owner threads)."""
        with self._lock:
            for block in batch.blocks:
                heard = self.heard[f"{instrument}.{block.channel}"]
                heard.t_ns += block.t_ns.tolist()
                heard.values += block.values.tolist()
            for reading in batch.statuses:
                statuses = self.heard[f"{instrument}.{reading.channel}"].statuses
                statuses[reading.status] = statuses.get(reading.status, 0) + reading.count
            for pair in batch.clock_pairs:
                self.heard[f"{instrument}.{pair.channel}"].pairs.append(pair)

    def state(self, instrument: str, state: State, reason: str) -> None:
        """An instrument came or went: its owner says so, too."""

    def fewest_of(self, channels: Iterable[Heard]) -> int:
        """How many readings have come of the one that has the fewest."""
        with self._lock:
            return min((len(heard.values) for heard in channels), default=0)


@dataclass(frozen=True, slots=True)
class HeardChannels:
    """What was heard of some channels, and who their instruments say they are."""

    heard: dict[str, Heard]
    identities: dict[str, str]


def hear(rig: Rig, names: Sequence[str], seconds: float, fewest: int) -> HeardChannels:
    """Listen to the channels ``names`` for ``seconds``, longer until each has ``fewest`` readings.

    Raises RunFailed when an instrument cannot be read, or a channel tells that what it shows is no
    value (overload, hold).
    """
    timebase = Timebase()
    wanted = {name.partition(".")[0] for name in names}
    made = rig.create_instruments(timebase.now_ns)
    listening = Listening(rig)
    group = Acquisition({name: made[name] for name in wanted}, timebase.now_ns, listening)
    heard = {name: listening.heard[name] for name in names}
    group.start()
    try:
        missing = group.wait_settled(CONNECT_WITHIN_S)
        if not missing:
            _wait(listening, heard, seconds, fewest)
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
    told = [line for name, one in heard.items() for line in _no_values(name, one, fewest)]
    if told:
        raise RunFailed("\n".join(told))
    return HeardChannels(heard, identities)


def _wait(listening: Listening, heard: dict[str, Heard], seconds: float, fewest: int) -> None:
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds + LONGER_S:
        few = listening.fewest_of(heard.values()) < fewest
        if passed >= seconds and not few:
            return
        time.sleep(min(max(seconds - passed, 0.1), 0.5))


def _no_values(name: str, heard: Heard, fewest: int) -> Iterator[str]:
    for status, count in heard.statuses.items():
        if status not in BESIDE_VALUES:
            yield f"{name}: {status.value.replace('_', ' ')} ({count}×): put that right first"
    if len(heard.values) < fewest:
        yield f"{name}: only {len(heard.values)} readings came, at least {fewest} are needed"
