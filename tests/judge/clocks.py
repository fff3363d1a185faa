"""Clocks of instruments: what they show when, and the pairs of times that a run records of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tests.judge.loads import Floats

Times = NDArray[np.int64]

BEGAN_NS = 1_760_000_000_000_000_000
EPOCH_S = 1e6
"""A clock that began anew goes on at the next multiple of this (docs/run-on-disk.md)."""


def on_timebase(seconds: Floats | float) -> Times:
    return BEGAN_NS + np.rint(np.asarray(seconds) * 1e9).astype(np.int64)


@dataclass(frozen=True)
class HostClock:
    """The host stamps each reading, and is off by up to ``u_s``: most of it always alike."""

    u_s: float = 0.001
    always_late_s: float = 0.0

    name = "host"
    tick_s = 0.0

    def stamps(self, t: Floats, rng: np.random.Generator) -> Times:
        off = self.always_late_s + 0.8 * self.u_s * rng.uniform(-1, 1)
        return on_timebase(t + off + 0.2 * self.u_s * rng.uniform(-1, 1, len(t)))

    def pairs(self, seconds: float, rng: np.random.Generator) -> None:
        return None


def _straight(t: Floats) -> Floats:
    return np.zeros_like(t)


@dataclass(frozen=True)
class DeviceClock:
    """A quartz: ``offset_s`` and ``ppm`` off, and ``bent`` by seconds beside the straight line."""

    offset_s: float
    ppm: float
    tick_s: float = 0.001
    bent: Callable[[Floats], Floats] = field(default=_straight)
    restarts_at_s: float | None = None
    every_s: float = 1.0
    trip_s: tuple[float, float, float] = (0.0003, 0.002, 0.001)
    """Shortest and longest of the even part of a round trip, mean of its exponential rest."""
    absurd_pair: bool = False
    only_sends: bool = False
    u_s: float = 0.0

    name = "device"

    def shows(self, t: Floats) -> Floats:
        """Seconds on the device at moments of the host."""
        device = 1000.0 + self.offset_s + t * (1 + self.ppm * 1e-6) + self.bent(t)
        if self.restarts_at_s is not None:
            fresh = EPOCH_S + 0.5 + (t - self.restarts_at_s) * (1 + self.ppm * 1e-6)
            device = np.where(t < self.restarts_at_s, device, fresh)
        return device

    def stamps(self, t: Floats, rng: np.random.Generator) -> Times:
        return np.asarray(np.rint(self.shows(t) * 1e9), np.int64)

    def pairs(self, seconds: float, rng: np.random.Generator) -> Times:
        """Rows of device time, host time and round trip, ns."""
        asked_s = np.arange(0.2, seconds, self.every_s)
        asked_s = asked_s + rng.uniform(0, 0.05, len(asked_s))
        least, most, rest = self.trip_s
        trip = rng.uniform(least, most, len(asked_s)) + rng.exponential(rest, len(asked_s))
        moment = asked_s + trip * rng.uniform(0.05, 0.95, len(asked_s))
        if self.only_sends:
            moment = asked_s
        shown = self.shows(moment)
        if self.tick_s:
            shown = np.floor(shown / self.tick_s) * self.tick_s
        device = np.rint(shown * 1e9).astype(np.int64)
        if self.absurd_pair:
            device[int(rng.integers(len(device)))] += round(rng.uniform(-3, 3) * 1e9)
        round_trip = np.zeros(len(asked_s)) if self.only_sends else np.rint(trip * 1e9) + 2
        return np.stack([device, on_timebase(asked_s + trip), round_trip.astype(np.int64)], axis=1)


def quartz(rng: np.random.Generator, **other: object) -> DeviceClock:
    """An ordinary one: seconds and up to 50 ppm off."""
    offset, ppm = float(rng.uniform(-5, 5)), float(rng.uniform(-50, 50))
    return DeviceClock(offset, ppm, **other)  # type: ignore[arg-type]
