"""What a drive draws: watts that stay the same between steps, so their integral is exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Steps:
    """``values[k]`` holds from ``edges[k]`` to ``edges[k + 1]``, in seconds."""

    edges: Floats
    values: Floats

    @property
    def seconds(self) -> float:
        return float(self.edges[-1] - self.edges[0])

    def at(self, moments: Floats) -> Floats:
        place = np.searchsorted(self.edges, moments, side="right") - 1
        return self.values[np.clip(place, 0, len(self.values) - 1)]

    def _with(self, other: Steps) -> tuple[Floats, Floats, Floats]:
        edges = np.union1d(self.edges, other.edges)
        edges = edges[(edges >= self.edges[0]) & (edges <= self.edges[-1])]
        begins = edges[:-1]
        return edges, self.at(begins), other.at(begins)

    def __mul__(self, other: Steps | float) -> Steps:
        if not isinstance(other, Steps):
            return Steps(self.edges, self.values * other)
        edges, one, two = self._with(other)
        return Steps(edges, one * two)

    def __add__(self, other: Steps | float) -> Steps:
        if not isinstance(other, Steps):
            return Steps(self.edges, self.values + other)
        edges, one, two = self._with(other)
        return Steps(edges, one + two)

    def after(self, begin_s: float) -> Steps:
        return Steps(self.edges + begin_s, self.values)

    def integral(self) -> Integral:
        return Integral(self)


class Integral:
    """The exact integral of steps from their begin to any moment."""

    def __init__(self, steps: Steps) -> None:
        self._edges = steps.edges
        self._sums = np.concatenate([[0.0], np.cumsum(steps.values * np.diff(steps.edges))])

    def until(self, moments: Floats | float) -> Floats:
        return np.asarray(np.interp(moments, self._edges, self._sums))

    def mean(self, begins: Floats | float, ends: Floats | float) -> Floats:
        span = np.asarray(ends, np.float64) - begins
        return np.asarray((self.until(ends) - self.until(begins)) / span)


def joined(parts: Sequence[Steps]) -> Steps:
    """Steps one behind another, each given from 0."""
    edges, values, begin = [np.zeros(1)], [], 0.0
    for part in parts:
        edges.append(begin + part.edges[1:])
        values.append(part.values)
        begin = float(edges[-1][-1])
    return Steps(np.concatenate(edges), np.concatenate(values))


def level(seconds: float, watts: float) -> Steps:
    return Steps(np.array([0.0, seconds]), np.array([watts]))


def _grid(seconds: float, step_s: float, values: Floats) -> Steps:
    edges = np.asarray(np.arange(len(values) + 1) * step_s, np.float64)
    edges[-1] = max(seconds, edges[-2] + 1e-9)
    return Steps(edges, values)


def _count(seconds: float, step_s: float) -> int:
    return max(int(np.ceil(seconds / step_s - 1e-9)), 1)


def restless(
    rng: np.random.Generator, seconds: float, share: float, forgets_s: float = 0.0
) -> Steps:
    """A factor about 1 with a standard deviation of ``share`` that is Gaussian and forgets
    exponentially (0: white, steps of 1 ms)."""
    step = max(forgets_s / 50, 1e-3)
    n = _count(seconds, step)
    if not forgets_s:
        return _grid(seconds, step, np.clip(1 + share * rng.normal(size=n), 0.05, None))
    long = n + int(np.ceil(10 * forgets_s / step))
    frequency = np.fft.rfftfreq(2 * long, step)
    shape = 1 / np.sqrt(1 + (2 * np.pi * frequency * forgets_s) ** 2)
    return _grid(seconds, step, np.clip(1 + share * _coloured(rng, shape, n), 0.05, None))


def flicker(rng: np.random.Generator, seconds: float, share: float) -> Steps:
    """A factor about 1 whose spectrum is 1/f from 2 ms up to four times as long as it lasts."""
    step = 1e-3
    n = _count(seconds, step)
    frequency = np.fft.rfftfreq(4 * n, step)
    shape = np.zeros(len(frequency))
    shape[1:] = 1 / np.sqrt(frequency[1:])
    return _grid(seconds, step, np.clip(1 + share * _coloured(rng, shape, n), 0.05, None))


def _coloured(rng: np.random.Generator, shape: Floats, n: int) -> Floats:
    white = rng.normal(size=len(shape)) + 1j * rng.normal(size=len(shape))
    power = 4 * (shape[1:] ** 2).sum()
    noise = np.fft.irfft(white * shape) * (2 * (len(shape) - 1)) / np.sqrt(power)
    return np.asarray(noise[:n])


def square(
    seconds: float, low: float, high: float, period_s: float, duty: float, lag_s: float = 0.0
) -> Steps:
    """``high`` for ``duty`` of each period, ``low`` for the rest."""
    begins = np.arange(-1.0, seconds / period_s + 2.0) * period_s + lag_s
    edges = np.sort(np.concatenate([begins, begins + duty * period_s]))
    values = np.where(np.arange(len(edges)) % 2 == 0, high, low)[:-1]
    return cut(Steps(edges, values.astype(float)), seconds)


def cut(steps: Steps, seconds: float) -> Steps:
    """What lies between 0 and ``seconds``."""
    inner = steps.edges[(steps.edges > 0) & (steps.edges < seconds)]
    edges = np.concatenate([[0.0], inner, [seconds]])
    return Steps(edges, steps.at(edges[:-1]))


def sampled(seconds: float, values: Floats) -> Steps:
    """Equal steps through ``seconds``."""
    return Steps(np.linspace(0.0, seconds, len(values) + 1), np.asarray(values, np.float64))


def spells(
    rng: np.random.Generator,
    seconds: float,
    levels: Sequence[tuple[float, float, float]],
) -> Steps:
    """Levels in turn, each (level, shortest, longest) for a random time; begins anywhere."""
    edges, values = [0.0], []
    place = int(rng.integers(len(levels)))
    first = True
    while edges[-1] < seconds:
        value, least, most = levels[place % len(levels)]
        lasts = float(rng.uniform(least, most)) * (float(rng.uniform(0.05, 1)) if first else 1.0)
        values.append(value)
        edges.append(edges[-1] + lasts)
        place, first = place + 1, False
    return cut(Steps(np.array(edges), np.array(values)), seconds)
