"""The watts of each rail as its readings come in, for what is decided while a phase goes on.

Nothing here is a result: results are made from the journal.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from instruments.reading import Batch, Block, HostClock
from labctl.analysis.power.volts_times_amps import rail_watts
from labctl.record.header import ChannelInfo, RailInfo
from labctl.record.timebase import NS_PER_S

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_WAITING = 1 << 18
"""Readings of a channel that wait at most, for those of the other or to be taken; older ones are
dropped."""
MOST_BLOCKS = 1024
"""Blocks that wait at most to be put together: a slow meter's hold one reading each."""
GROUP_S = 0.02
"""Readings of fast meters are handed on as means over so long."""


class _Waiting:
    """The readings of a channel that were not used yet, on the host's clock; times ascend."""

    def __init__(self, device_clock: bool) -> None:
        self._device_clock = device_clock
        self._least_late_ns: int | None = None
        self._blocks: list[Block] = []
        self._in_blocks = 0
        self.t_ns: Ints = np.empty(0, np.int64)
        self.values: Floats = np.empty(0)

    def add(self, came_ns: int, block: Block) -> None:
        late_ns = came_ns - int(block.t_ns[-1])
        if self._least_late_ns is None or late_ns < self._least_late_ns:
            self._least_late_ns = late_ns
        self._blocks.append(block)
        self._in_blocks += len(block)
        if self._in_blocks >= MOST_WAITING or len(self._blocks) >= MOST_BLOCKS:
            self.gather()  # a phase whose end does not depend on them takes nothing

    def gather(self) -> None:
        """Make arrays of what came in. A reading of a device clock was made before it came: the
        block that came with the least delay says how much before."""
        if not self._blocks:
            return
        shift_ns = (self._least_late_ns or 0) if self._device_clock else 0
        t_ns = np.concatenate([self.t_ns, *(block.t_ns + shift_ns for block in self._blocks)])
        values = np.concatenate([self.values, *(block.values for block in self._blocks)])
        self._blocks, self._in_blocks = [], 0
        ascends = np.ones(len(t_ns), np.bool_)
        ascends[1:] = t_ns[1:] > np.maximum.accumulate(t_ns)[:-1]
        self.t_ns, self.values = t_ns[ascends][-MOST_WAITING:], values[ascends][-MOST_WAITING:]

    def keep_from(self, index: int) -> None:
        self.t_ns, self.values = self.t_ns[index:], self.values[index:]

    def clear(self) -> None:
        """Forget all, also the clock: the meter was away."""
        self._blocks, self._in_blocks, self._least_late_ns = [], 0, None
        self.keep_from(len(self.t_ns))


class LiveWatts:
    """Takes the readings of all rails, from every thread; :meth:`take` gives their watts."""

    def __init__(
        self, rails: Sequence[RailInfo], channels: Sequence[ChannelInfo], clock: HostClock
    ) -> None:
        self._rails = tuple(rails)
        self._clock = clock
        self._lock = threading.Lock()
        # a channel may be in several rails, and each uses its readings up for itself
        self._waiting = {
            (rail.name, one.name): _Waiting(one.clock == "device")
            for rail in rails
            for one in channels
            if one.name in (rail.voltage, rail.current)
        }

    def batch(self, instrument: str, batch: Batch) -> None:
        """Readings came in (called by owner threads)."""
        now_ns = self._clock()
        with self._lock:
            for block in batch.blocks:
                for (_, name), waiting in self._waiting.items():
                    if len(block) and name == f"{instrument}.{block.channel}":
                        waiting.add(now_ns, block)

    def away(self, instrument: str) -> None:
        """An instrument was lost: its clock may begin anew."""
        with self._lock:
            for (_, name), waiting in self._waiting.items():
                if name.partition(".")[0] == instrument:
                    waiting.clear()

    def take(self) -> dict[str, tuple[Ints, Floats]]:
        """The watts of each rail since the last time: when, in ns on the timebase, and how much.
        Those of a rail that has none are empty."""
        with self._lock:
            return {rail.name: self._of(rail) for rail in self._rails}

    def _of(self, rail: RailInfo) -> tuple[Ints, Floats]:
        volts, sensed = (self._waiting[rail.name, name] for name in (rail.voltage, rail.current))
        for waiting in (volts, sensed):
            waiting.gather()
        if not (len(volts.t_ns) and len(sensed.t_ns)):
            return np.empty(0, np.int64), np.empty(0)
        usable = int(np.searchsorted(sensed.t_ns, volts.t_ns[-1], side="right"))
        if not usable:
            return np.empty(0, np.int64), np.empty(0)
        t_ns, amps = sensed.t_ns[:usable], sensed.values[:usable]
        origin_ns = int(volts.t_ns[0])
        t, watts = rail_watts(
            (t_ns - origin_ns).astype(np.float64),
            amps / rail.shunt_ohm if rail.shunt_ohm else amps,
            (volts.t_ns - origin_ns).astype(np.float64),
            volts.values,
            math.inf,
            rail.drop_ohm,
        )
        sensed.keep_from(usable)
        # the readings of V on both sides of the next of I are still needed
        next_ns = sensed.t_ns[0] if len(sensed.t_ns) else t_ns[-1] + 1
        before = int(np.searchsorted(volts.t_ns, next_ns, side="right")) - 1
        volts.keep_from(max(before, 0))
        return _grouped_live_watts(t.astype(np.int64) + origin_ns, watts)


def _grouped_live_watts(t_ns: Ints, watts: Floats) -> tuple[Ints, Floats]:
    """Means over the readings of each ``GROUP_S``, at the time of the last of them."""
    if len(t_ns) < 2:
        return t_ns, watts
    group = t_ns // round(GROUP_S * NS_PER_S)
    first = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    counts = np.diff(first, append=len(t_ns))
    return t_ns[first + counts - 1], np.add.reduceat(watts, first) / counts
