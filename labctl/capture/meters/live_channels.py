"""Every channel of a rig as it is shown: state, newest mean, and the means before it."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

from instruments.reading import BESIDE_VALUES, Batch, Channel
from labctl.capture.meters.acquisition import State
from labctl.config.rig import Rig

HISTORY_VALUES = 24


@dataclass(slots=True)
class LiveChannel:
    """What is shown of one channel."""

    channel: Channel
    state: State = State.CONNECTING
    reason: str = ""
    value: float | None = None
    """Mean of the newest interval that had readings, in the channel's unit; None: no reading."""
    status: str = ""
    total: float = 0.0
    """Sum of the readings of this interval."""
    count: int = 0
    history: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY_VALUES))


class LiveChannels:
    """Every channel of a rig. Owner threads add readings; ``take`` gives means and begins anew."""

    def __init__(self, rig: Rig) -> None:
        self._lock = threading.Lock()
        self._channels = {
            f"{name}.{channel.name}": LiveChannel(channel)
            for name, of_instrument in rig.channels.items()
            for channel in of_instrument
        }

    def batch(self, instrument: str, batch: Batch) -> None:
        """Add the readings of an instrument (called by owner threads)."""
        with self._lock:
            for reading in batch.statuses:
                if reading.status not in BESIDE_VALUES:
                    live = self._channels[f"{instrument}.{reading.channel}"]
                    live.status, live.value = reading.status.value, None
            for block in batch.blocks:
                if len(block):
                    live = self._channels[f"{instrument}.{block.channel}"]
                    live.total += float(block.values.sum())
                    live.count += len(block)
                    live.status = ""

    def state(self, instrument: str, state: State, reason: str) -> None:
        """Note that an instrument connected, was lost or stopped (called by owner threads)."""
        with self._lock:
            for name, live in self._channels.items():
                if name.partition(".")[0] == instrument:
                    live.state, live.reason = state, reason
                    if state is not State.READING:
                        live.value = None

    def take(self) -> list[tuple[str, LiveChannel, int]]:
        """Each channel by name, with the number of readings since the last call."""
        with self._lock:
            seen = []
            for name, live in self._channels.items():
                count = live.count
                if count:
                    live.value = live.total / count
                    live.history.append(live.value)
                live.total, live.count = 0.0, 0
                seen.append((name, live, count))
            return seen
