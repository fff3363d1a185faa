"""Listening to the meters of a rig outside a run: what each channel says for a few seconds."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from instruments.reading import Batch, Channel, ClockPair, Status
from labctl.capture.acquisition import State
from labctl.rig import Rig


@dataclass
class Heard:
    """What came from one channel."""

    channel: Channel
    t_ns: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    statuses: dict[Status, int] = field(default_factory=dict)
    pairs: list[ClockPair] = field(default_factory=list)

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
