"""The wall clock of the drive's host, which fio prints, against the timebase of the run.

Every sample brackets it: asked at t1, answered at t2, and the clock had the answered value at some
time between. The samples are recorded as a device clock (channel ``host.wall``) and mapped by
:mod:`labctl.analysis.readings.clock_fit`, here for the moment and later by the analysis for good.

A device time is the host's wall time since the clock's first sample (plus ``LEAD_NS``). When the
wall clock steps, or its machine restarts, a new epoch of device time begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from instruments.reading import ClockPair
from labctl.analysis.readings.clock_fit import EPOCH_NS, ClockMap, fit_clock
from labctl.capture.host.drive_host import HostMoment
from labctl.record.events import EventKind
from labctl.record.layout import CLOCK_PAIR, HOST_CLOCK
from labctl.record.timebase import NS_PER_MS, NS_PER_S

LEAD_NS = EPOCH_NS // 10
"""Device time of a first sample: what happened before it (up to a day) has one, too."""
STEP_NS = 100 * NS_PER_MS
FITTED = 240
"""The newest samples that the mapping of the moment is made from: eight minutes at one in 2 s."""
_WALL = re.compile(r"(\d{9,11})(\d{9})?(?!\d)")


@dataclass(frozen=True, slots=True)
class ClockSample:
    """One bracketed sample: when it was asked and answered here, and the host's clocks.

    ``tick_ns``: resolution of the wall clock (1 s where ``date`` knows no ``%N``).
    ``up_ns``: its time since boot, in steps of 10 ms; None where unknown.
    """

    sent_ns: int
    received_ns: int
    wall_ns: int
    tick_ns: int
    up_ns: int | None

    @property
    def round_trip_ns(self) -> int:
        """From asking to the answer."""
        return self.received_ns - self.sent_ns

    @classmethod
    def parse(cls, sent_ns: int, received_ns: int, wall: str, up: str) -> Self | None:
        """The sample in an answer of ``keeper.sh``; None when it has no time."""
        match = _WALL.match(wall)
        if match is None:
            return None
        wall_ns = int(match[1]) * NS_PER_S + int(match[2] or 0)
        try:
            up_ns = round(float(up) * NS_PER_S)
        except ValueError:
            up_ns = None
        return cls(sent_ns, received_ns, wall_ns, 1 if match[2] else NS_PER_S, up_ns)


class HostWallClock:
    """Collects samples, notices steps, and maps the wall clock of the moment.

    ``on_pair`` takes each sample for the record. ``on_event`` takes ``host_clock`` (an epoch of
    device time begins: ``epoch``, ``zero_wall_ns``, ``offset_ns``, ``tick_s``) and
    ``host_clock_step`` (``seconds``).
    """

    def __init__(
        self,
        on_pair: Callable[[ClockPair], None],
        on_event: Callable[..., None],
        first_epoch: int = 0,
    ) -> None:
        self._on_pair = on_pair
        self._on_event = on_event
        self._epoch = first_epoch - 1
        self._zero_wall_ns = 0
        self._tick_ns = 1
        self._boot_id = ""
        self._last: ClockSample | None = None
        self._pairs: list[tuple[int, int, int]] = []
        self._map: ClockMap | None = None

    def booted(self, boot_id: str) -> None:
        """A connection was made: another boot has another clock."""
        if self._boot_id and boot_id != self._boot_id:
            self._last = None
        self._boot_id = boot_id

    def take(self, sample: ClockSample) -> None:
        """Take the best sample of a round."""
        stepped_ns = self._stepped_ns(sample) if self._last is not None else None
        if self._last is None or stepped_ns is not None:
            self._begin_epoch(sample)
        if stepped_ns is not None:
            self._on_event(EventKind.HOST_CLOCK_STEP, seconds=round(stepped_ns / NS_PER_S, 3))
        self._last = sample
        pair = (self._device_ns(sample.wall_ns), sample.received_ns, sample.round_trip_ns)
        self._pairs = [*self._pairs[1 - FITTED :], pair]
        self._map = None
        self._on_pair(ClockPair(HOST_CLOCK.split(".")[1], *pair))

    def moment_of(self, wall_ns: int) -> HostMoment:
        """A recent wall time of the host on the timebase."""
        device_ns = self._device_ns(wall_ns)
        if self._map is None:
            pairs = np.array(self._pairs, CLOCK_PAIR)
            self._map = fit_clock(pairs, self._tick_ns / NS_PER_S, device_ns, device_ns)
        t_ns = int(self._map.to_host_ns(np.array([device_ns]))[0])
        return HostMoment(t_ns, round(self._map.u_between_ns(t_ns, t_ns)), device_ns)

    def _device_ns(self, wall_ns: int) -> int:
        return self._epoch * EPOCH_NS + LEAD_NS + wall_ns - self._zero_wall_ns

    def _stepped_ns(self, sample: ClockSample) -> int | None:
        """How far the wall clock was set since the last sample; None when it only ran on."""
        last = self._last
        assert last is not None
        wall_ns = sample.wall_ns - last.wall_ns
        if sample.up_ns is not None and last.up_ns is not None:
            ran_ns = sample.up_ns - last.up_ns
        else:
            ran_ns = sample.received_ns - last.received_ns
        # a busy host may read its two clocks at either end of the sample
        u_ns = sample.round_trip_ns + last.round_trip_ns
        far = STEP_NS + u_ns + (self._tick_ns if self._tick_ns > 1 else 0)
        return wall_ns - ran_ns if abs(wall_ns - ran_ns) > far else None

    def _begin_epoch(self, sample: ClockSample) -> None:
        self._epoch += 1
        self._zero_wall_ns = sample.wall_ns
        self._tick_ns = sample.tick_ns
        self._pairs = []
        middle_ns = sample.received_ns - sample.round_trip_ns // 2
        data: dict[str, Any] = {"epoch": self._epoch, "zero_wall_ns": sample.wall_ns}
        data |= {"offset_ns": sample.wall_ns - middle_ns, "tick_s": sample.tick_ns / NS_PER_S}
        self._on_event(EventKind.HOST_CLOCK, **data)
