"""What drives draw and do, as a share of their mean, in steps of 20 ms; and how hot they are.

Own generators: nothing here is the product's. Each makes ``n`` phases at once, a row each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rng = np.random.Generator
Draw = Callable[[Rng, int, Floats], "Course"]

STEP_S = 0.02
READ_S, WRITE_S = 180.0, 600.0
"""The longest phases of loads that read, and of those that write and collect garbage."""


@dataclass(frozen=True)
class Rise:
    """A spectrum that rises towards the mean as ``level`` / f, per hertz, or faster, down to
    ``ends_hertz``; slower than that it is ``below``."""

    level: float
    ends_hertz: float
    below: float


@dataclass(frozen=True)
class Course:
    """``watts``: phases × steps. ``mean``: of each, what the process has in the long run, or where
    it has no such mean, what the whole of the longest phase draws."""

    watts: Floats
    mean: Floats
    celsius: Floats | None = None
    limit_celsius: float | None = None
    rise: Rise | None = None


@dataclass(frozen=True)
class Load:
    """A process with all its parameters. ``draw`` gets the moments of the steps."""

    kind: str
    name: str
    draw: Draw
    longest_s: float = READ_S
    period_s: float = 0.0

    @property
    def writes(self) -> bool:
        """Whether it may collect garbage."""
        return self.longest_s == WRITE_S

    def phases(self, rng: Rng, n: int) -> Course:
        """So many of them, each as long as the longest."""
        steps = round(self.longest_s / STEP_S)
        return self.draw(rng, n, np.arange(steps, dtype=np.float64) * STEP_S)


def _noise(rng: Rng, n: int, t_s: Floats, share: float) -> Floats:
    """White in steps: of a mean over a second it is a seventh."""
    return share * rng.standard_normal((n, len(t_s)))


def white(share: float) -> Load:
    def draw(rng: Rng, n: int, t_s: Floats) -> Course:
        return Course(1 + _noise(rng, n, t_s, share), np.ones(n))

    return Load("white noise", f"white noise, {share:.1%}", draw)


def correlated(share: float, within_s: float) -> Load:
    """Noise that forgets by 1/e within so many seconds."""

    def draw(rng: Rng, n: int, t_s: Floats) -> Course:
        keeps = np.exp(-STEP_S / within_s)
        fresh = share * np.sqrt(1 - keeps**2) * rng.standard_normal((n, len(t_s)))
        fresh[:, 0] = share * rng.standard_normal(n)
        noise = np.empty_like(fresh)
        last = np.zeros(n)
        for step in range(len(t_s)):
            last = keeps * last + fresh[:, step]
            noise[:, step] = last
        flat, corner = 4 * share**2 * within_s, 1 / (2 * np.pi * within_s)
        rise = Rise(flat * corner, corner, flat)
        return Course(1 + noise + _noise(rng, n, t_s, 0.01), np.ones(n), rise=rise)

    return Load("noise with memory", f"noise that keeps {within_s:g} s, {share:.1%}", draw)


def flicker(share: float, beside: float) -> Load:
    """1/f from a step up to four of the longest phases, beside white noise."""

    def draw(rng: Rng, n: int, t_s: Floats) -> Course:
        long = 4 * len(t_s)
        size = 1 / np.sqrt(np.arange(1, long // 2 + 1))
        rows = []
        for _ in range(n):
            turn = rng.standard_normal(len(size)) + 1j * rng.standard_normal(len(size))
            wave = np.fft.irfft(np.concatenate([[0], size * turn]), long)
            wave *= share * long / 2 / np.sqrt((size**2).sum())
            begin = int(rng.integers(long - len(t_s)))
            rows.append(wave[begin : begin + len(t_s)])
        rise = Rise(share**2 / float((size**2).sum()), 1 / (long * STEP_S), 0.0)
        watts = 1 + np.array(rows) + _noise(rng, n, t_s, beside)
        return Course(watts, np.ones(n), rise=rise)

    kind = "1/f beneath white noise" if beside else "1/f"
    return Load(kind, f"{kind}, {share:.1%}", draw)


def _turn(rng: Rng, n: int, t_s: Floats, period_s: float) -> Floats:
    """The place in the period, 0 to 1, of each step of each phase: they begin anywhere, and each
    has a period of its own up to 3 % from ``period_s``, as no drive keeps to a meter's clock."""
    periods_s = period_s * rng.uniform(0.97, 1.03, (n, 1))
    place: Floats = (t_s / periods_s + rng.uniform(size=(n, 1))) % 1.0
    return place


def sawtooth(period_s: float, swing: float, beside: float) -> Load:
    def draw(rng: Rng, n: int, t_s: Floats) -> Course:
        watts = 1 + swing * (0.5 - _turn(rng, n, t_s, period_s)) + _noise(rng, n, t_s, beside)
        return Course(watts, np.ones(n))

    name = f"sawtooth of {period_s:g} s, {swing:.0%}"
    return Load("collection, sawtooth", name, draw, WRITE_S, period_s)


def dips(period_s: float, lasts: float, depth: float, beside: float) -> Load:
    def draw(rng: Rng, n: int, t_s: Floats) -> Course:
        low = _turn(rng, n, t_s, period_s) < lasts
        return Course(1 - depth * low + _noise(rng, n, t_s, beside), np.full(n, 1 - depth * lasts))

    name = f"dips each {period_s:g} s, {depth:.0%}"
    return Load("collection, dips", name, draw, WRITE_S, period_s)


def drift(rises: float, beside: float, kind: str = "slow drift") -> Load:
    def draw(rng: Rng, n: int, t_s: Floats) -> Course:
        watts = 1 + rises * t_s / t_s[-1] + _noise(rng, n, t_s, beside)
        return Course(watts, watts.mean(axis=1))

    return Load(kind, f"rises by {rises:.1%}", draw)


def decay(falls: float, within_s: float, beside: float, kind: str = "slow drift") -> Load:
    def draw(rng: Rng, n: int, t_s: Floats) -> Course:
        watts = 1 + falls * np.exp(-t_s / within_s) + _noise(rng, n, t_s, beside)
        return Course(watts, watts.mean(axis=1))

    return Load(kind, f"falls by {falls:.0%} within {within_s:g} s", draw)


def bursts(each_s: float, lasts_s: float, height: float, kind: str = "bursts") -> Load:
    """At any moment, one in ``each_s`` on average; they add up."""

    def draw(rng: Rng, n: int, t_s: Floats) -> Course:
        length = max(round(lasts_s / STEP_S), 1)
        begins = rng.poisson(STEP_S / each_s, (n, len(t_s) + length)).astype(np.float64)
        sums = np.cumsum(begins, axis=1)
        watts = 1 + height * (sums[:, length:] - sums[:, :-length]) + _noise(rng, n, t_s, 0.01)
        return Course(watts, np.full(n, 1 + height * length * STEP_S / each_s))

    return Load(kind, f"bursts of {lasts_s:g} s each {each_s:g} s, {height:.0%}", draw)


def late(begins_s: float, falls: float = 0.3) -> Load:
    """A drive that warms up from 45 °C and throttles at 75 °C, which it reaches at ``begins_s``."""

    def draw(rng: Rng, n: int, t_s: Floats) -> Course:
        slow = begins_s <= t_s
        inertia_s = begins_s / np.log(40 / 10)
        celsius = np.where(slow, 75.0, 45 + 40 * (1 - np.exp(-t_s / inertia_s)))
        watts = 1 - falls * slow + _noise(rng, n, t_s, 0.01)
        return Course(watts, watts.mean(axis=1), np.broadcast_to(celsius, watts.shape), 75.0)

    return Load("throttling that begins late", f"throttles at {begins_s:g} s", draw)


HIDDEN_DRIFT = "drift that is steady by the rule"
RARE = "bursts that are rare"
PERIODS_S = (1.0, 5.0, 20.0, 60.0, 150.0, 200.0)

LOADS = (
    *(white(share) for share in (0.005, 0.01, 0.02, 0.03, 0.04, 0.06)),
    *(correlated(share, within_s) for share in (0.005, 0.02) for within_s in (0.2, 1.0, 3.0)),
    *(flicker(share, 0.0) for share in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)),
    *(sawtooth(period_s, swing, 0.01) for period_s in PERIODS_S for swing in (0.05, 0.2)),
    *(dips(period_s, 0.1, depth, 0.01) for period_s in PERIODS_S for depth in (0.2, 0.5)),
    *(drift(rises, 0.01) for rises in (0.12, 0.25, 0.5)),
    *(decay(0.2, within_s, 0.01) for within_s in (15.0, 50.0, 100.0)),
    bursts(0.2, 0.05, 0.1),
    bursts(0.5, 0.1, 0.1),
    bursts(1.0, 0.1, 0.2),
    bursts(1.0, 0.2, 0.1),
    bursts(2.0, 0.1, 0.2),
    bursts(4.0, 0.1, 0.3),
    *(late(begins_s) for begins_s in (25.0, 40.0, 60.0, 80.0, 120.0, 160.0)),
    *(flicker(share, share) for share in (0.003, 0.01, 0.03)),
    *(drift(rises, 0.01, HIDDEN_DRIFT) for rises in (0.005, 0.01, 0.015, 0.03, 0.08)),
    bursts(20.0, 0.5, 0.5, RARE),
    bursts(60.0, 1.0, 0.5, RARE),
)
"""All that is judged."""
