"""Sample watts and temperature during a phase, for the rules that end it or its rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import numpy as np

from labctl.analysis.steady_state.temperature import is_steady
from labctl.record.phase import Phase
from labctl.record.timebase import NS_PER_S

SAMPLE_EVERY_S = 0.5


class Sensed(Protocol):
    """What can be seen of the drive now."""

    def celsius(self) -> float | None:
        """The drive's temperature, if it is known."""

    def watts(self) -> float | None:
        """All rails together, if they are known."""


class DriveSamples:
    """Samples during ``phase``; ``steady`` is set when its temperature is steady, where its end
    depends on that."""

    def __init__(self, phase: Phase, sensed: Sensed, now_ns: Callable[[], int]) -> None:
        self.steady = asyncio.Event()
        self._window_s = phase.steady_temperature_s
        self._sensed = sensed
        self._now_ns = now_ns
        self._watts: list[float] = []
        self._t_s: list[float] = []
        self._celsius: list[float] = []

    async def keep(self) -> None:
        """Sample repeatedly, until cancelled."""
        begin_ns = self._now_ns()
        while True:
            watts, celsius = self._sensed.watts(), self._sensed.celsius()
            if watts is not None:
                self._watts.append(watts)
            if celsius is not None:
                self._t_s.append((self._now_ns() - begin_ns) / NS_PER_S)
                self._celsius.append(celsius)
            if self._window_s and self._is_steady():
                self.steady.set()
            await asyncio.sleep(SAMPLE_EVERY_S)

    def _is_steady(self) -> bool:
        return is_steady(np.array(self._t_s), np.array(self._celsius), self._window_s)

    @property
    def watts(self) -> float | None:
        """The mean so far."""
        return sum(self._watts) / len(self._watts) if self._watts else None

    @property
    def celsius(self) -> float | None:
        """The newest."""
        return self._celsius[-1] if self._celsius else None
