"""Sample watts and temperature during a phase, for the rules that end it or its rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import numpy as np

from labctl.analysis.steady_state.temperature import is_temperature_steady
from labctl.record.phase import Phase
from labctl.record.point_end import PointState
from labctl.record.timebase import NS_PER_S

SAMPLE_EVERY_S = 0.5
REPORT_EVERY_S = 2.0
"""Each report of how well a point is known is an event in the journal."""


class LiveDrive(Protocol):
    """What the meters and sensors of the drive say now."""

    def celsius(self) -> float | None:
        """The drive's temperature, if it is known."""

    def watts(self) -> float | None:
        """All rails together, if they are known."""

    def point_began(self, phase: Phase, t_ns: int) -> None:
        """``phase``, whose end depends on its numbers, does its first I/O about now."""

    def point_state(self) -> PointState | None:
        """How well the numbers of that phase are known by now."""


class DriveSamples:
    """Samples during ``phase``, which began at ``begin_ns``. ``enough`` is set when it may end
    before its time: where that depends on its temperature, when that is steady (``steady``); where
    it depends on its numbers, when they are good enough (``point``: how well they are known,
    ``kept_s``: for how many seconds each reason kept it going)."""

    def __init__(
        self,
        phase: Phase,
        live: LiveDrive,
        now_ns: Callable[[], int],
        begin_ns: int,
        on_point: Callable[[PointState], None],
    ) -> None:
        """``on_point`` takes each other state of a point, at most every ``REPORT_EVERY_S``."""
        self.enough = asyncio.Event()
        self.steady = False
        self.point: PointState | None = None
        self.kept_s: dict[str, float] = {}
        self._sampled_ns = begin_ns
        self._until = phase.until
        self._on_point = on_point
        self._reported: PointState | None = None
        self._reported_ns = begin_ns
        if phase.until is not None:
            live.point_began(phase, begin_ns)
        self._window_s = phase.steady_temperature_s
        self._in_rounds = phase.round > 0
        self._live = live
        self._now_ns = now_ns
        self._watts: list[float] = []
        self._t_s: list[float] = []
        self._celsius: list[float] = []

    async def keep(self) -> None:
        """Sample repeatedly, until cancelled; nothing where no rule depends on it."""
        if not (self._in_rounds or self._window_s or self._until is not None):
            return
        begin_ns = self._now_ns()
        while True:
            watts = self._live.watts() if self._in_rounds else None
            celsius = self._live.celsius()
            if watts is not None:
                self._watts.append(watts)
            if celsius is not None:
                self._t_s.append((self._now_ns() - begin_ns) / NS_PER_S)
                self._celsius.append(celsius)
            if self._window_s and self._is_steady():
                self.steady = True
                self.enough.set()
            if self._until is not None:
                self._sample_point()
            await asyncio.sleep(SAMPLE_EVERY_S)

    def _sample_point(self) -> None:
        """How well the numbers of the point are known; what was once enough stays so."""
        found = self._live.point_state()
        if found is None or self.enough.is_set():
            return
        now_ns = self._now_ns()
        for why in self.point.keeps if self.point is not None else ():
            lasted_s = (now_ns - self._sampled_ns) / NS_PER_S
            self.kept_s[why] = self.kept_s.get(why, 0.0) + lasted_s
        self.point, self._sampled_ns = found, now_ns
        waited_s = (now_ns - self._reported_ns) / NS_PER_S
        if found != self._reported and (found.enough or waited_s >= REPORT_EVERY_S):
            self._reported, self._reported_ns = found, now_ns
            self._on_point(found)
        if found.enough:
            self.enough.set()

    def _is_steady(self) -> bool:
        return is_temperature_steady(np.array(self._t_s), np.array(self._celsius), self._window_s)

    @property
    def watts(self) -> float | None:
        """The mean so far, of a phase in rounds: their end may depend on it."""
        return sum(self._watts) / len(self._watts) if self._watts else None

    @property
    def celsius(self) -> float | None:
        """The newest."""
        return self._celsius[-1] if self._celsius else None
