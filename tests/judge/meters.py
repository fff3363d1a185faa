"""Meters: when they integrate, how far they are off, what they leave out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tests.judge.clocks import DeviceClock, HostClock
from tests.judge.loads import Floats, Integral, Steps

Pace = Callable[[np.random.Generator, float, float], Floats]
"""Middles of the readings, of the seconds that the run lasts and the usual interval."""

Leaves = Callable[[np.random.Generator, Floats, Floats], NDArray[np.bool_]]
"""Which readings get lost, of their times and values."""

MAINS_HZ = 50.0


def regular(rng: np.random.Generator, seconds: float, interval_s: float) -> Floats:
    """A quartz of the meter's own."""
    own = interval_s * (1 + rng.uniform(-3e-5, 3e-5))
    return np.arange(0.3 + rng.uniform(0, own), seconds - 0.3, own)


def dithered(rng: np.random.Generator, seconds: float, interval_s: float) -> Floats:
    """Asked at random between a half and one and a half of the interval after the last."""
    gaps = interval_s * rng.uniform(0.5, 1.5, int(seconds / interval_s * 1.3) + 10)
    t = 0.3 + np.cumsum(gaps)
    return np.asarray(t[t < seconds - 0.3])


def drawn(rng: np.random.Generator, seconds: float, interval_s: float) -> Floats:
    """Asked at a random moment of each interval, and not before a meter that needs a quarter of
    it is done."""
    begins = np.arange(0.3, seconds - 0.3, interval_s)
    t = begins + interval_s * rng.random(len(begins))
    for k in range(1, len(t)):
        t[k] = max(t[k], t[k - 1] + interval_s / 4)
    return np.asarray(t[t < seconds - 0.3])


def jittery(rng: np.random.Generator, seconds: float, interval_s: float) -> Floats:
    """Asked over USB by a host that now and then is late."""
    t = np.arange(0.3 + rng.uniform(0, interval_s), seconds - 0.5, interval_s)
    late = rng.exponential(0.05 * interval_s, len(t))
    late += (rng.random(len(t)) < 0.05) * rng.uniform(0.2, 0.9, len(t)) * interval_s
    return np.maximum.accumulate(t + late) + np.arange(len(t)) * 1e-9


@dataclass(frozen=True)
class Meter:
    """One channel, what its header says of it, and what is true of it."""

    channel: str
    rail: str
    sees: str
    """ "volts" or "amps" of the drive, "drop" across the shunt, "supply": volts before it."""
    interval_s: float = 0.1
    aperture_s: float = 0.02
    gain_limit: float = 0.0005
    floor_limit: float = 0.0005
    gain: float = 0.0
    offset: float = 0.0
    noise: float = 0.0
    digit: float = 0.0
    hum: float = 0.0
    """Amplitude of 100 Hz (``hum_hz``) that gets into the readings."""
    hum_hz: float = 2 * MAINS_HZ
    full_scale: float | None = None
    beyond: str = "overload"
    """Above full scale: "overload" or "hold", which it says, or "clip", which it does not."""
    stuck: tuple[float, float] | None = None
    """From when to when it repeats what it showed, in shares of the run."""
    pace: Pace = regular
    clock: HostClock | DeviceClock = field(default_factory=HostClock)
    leaves: Leaves | None = None
    moments: Floats | None = None
    """Given where one instrument goes through its channels in turn."""

    @property
    def unit(self) -> str:
        return "A" if self.sees == "amps" else "V"


@dataclass(frozen=True)
class Shown:
    """What a meter would have handed over."""

    t: Floats
    """True middles of the windows, s."""
    values: Floats
    statuses: list[tuple[float, float, int]]
    """Begin, end and number of readings that were a status."""


def readings(meter: Meter, truth: Integral, rng: np.random.Generator, seconds: float) -> Shown:
    t = meter.moments
    if t is None:
        t = meter.pace(rng, seconds, meter.interval_s)
    half = max(meter.aperture_s / 2, 5e-7)
    t = t[(t > half) & (t < seconds - half)]
    values = truth.mean(t - half, t + half)
    if meter.hum:
        turns = 2 * np.pi * meter.hum_hz
        left = np.sinc(meter.hum_hz * meter.aperture_s)
        values = values + meter.hum * left * np.sin(turns * t + rng.uniform(0, 2 * np.pi))
    values = values * (1 + meter.gain) + meter.offset
    if meter.noise:
        values = values + rng.normal(0, meter.noise, len(t))
    if meter.digit:
        values = np.round(values / meter.digit) * meter.digit
    if meter.stuck is not None:
        begin, end = (share * seconds for share in meter.stuck)
        held = (t >= begin) & (t < end)
        if held.any():
            values = np.where(held, values[int(held.argmax())], values)
    keep = np.ones(len(t), np.bool_)
    statuses: list[tuple[float, float, int]] = []
    if meter.full_scale is not None and meter.beyond == "clip":
        values = np.minimum(values, meter.full_scale)
    elif meter.full_scale is not None:
        over = values > meter.full_scale
        statuses = _stretches(t, over)
        keep &= ~over
    if meter.leaves is not None:
        keep &= ~meter.leaves(rng, t, values)
    return Shown(t[keep], values[keep], statuses)


def _stretches(t: Floats, over: NDArray[np.bool_]) -> list[tuple[float, float, int]]:
    """Neighbouring readings without a value, from the first to the first good one after them."""
    edges = np.diff(np.concatenate([[0], over.astype(int), [0]]))
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return [
        (float(t[one]), float(t[min(two, len(t) - 1)]), int(two - one))
        for one, two in zip(begins, ends, strict=True)
    ]


@dataclass(frozen=True)
class Rail:
    """A supply with a source resistance, and what is in series for the measurement."""

    name: str
    volts: float
    ohm: float = 0.03
    share: float = 1.0
    """Of the drive's watts."""
    shunt_ohm: float = 0.0
    """True resistance of the shunt or ammeter in series."""
    declared: dict[str, object] = field(default_factory=dict)
    """What the rig says about it beside its channels."""

    def amps(self, watts: Steps) -> Steps:
        """What a drive takes that draws these watts behind the resistance: the smaller root of
        (U − R·I)·I = P."""
        r = self.ohm + self.shunt_ohm
        p = watts.values * self.share
        if r == 0:
            return Steps(watts.edges, p / self.volts)
        root = np.sqrt(self.volts**2 - 4 * r * p)
        return Steps(watts.edges, 2 * p / (self.volts + root))

    def seen(self, amps: Steps) -> dict[str, Integral]:
        drive = Steps(amps.edges, self.volts - (self.ohm + self.shunt_ohm) * amps.values)
        supply = Steps(amps.edges, self.volts - self.ohm * amps.values)
        drop = amps * self.shunt_ohm
        return {
            "volts": drive.integral(), "amps": amps.integral(),
            "supply": supply.integral(), "drop": drop.integral(),
        }  # fmt: skip
