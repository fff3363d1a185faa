"""What the search for throttling looks at: a phase's IOPS on even steps, its heat, its watts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.readings.channel_series import Floats, Ints
from labctl.analysis.throttling.host_load import HostLoad
from labctl.analysis.throttling.smart_counters import Counters
from labctl.analysis.throttling.temperature import Temperatures

FEWEST = 8
"""Statuses of fio below which a phase says nothing about changes inside it."""

MOST_POINTS = 7200

LATE_S = 1.0
LATE = 2.5
"""A status is late when it stands for this many usual intervals, and ``LATE_S`` longer."""


@dataclass(frozen=True, slots=True)
class PhaseSignals:
    """What is known of a phase: fio's interval IOPS (time = middle of the interval) and more.

    ``watts_between`` gives the mean total watts between two moments, None when not measured.
    ``silent_between`` tells whether every series that this machine stamps had no reading between
    two moments, None when that is not known.
    """

    index: int
    begin_ns: int
    end_ns: int
    writes: bool
    t_ns: Ints
    iops: Floats
    temperature: Temperatures
    watts_between: Callable[[int, int], float | None]
    workload: str = ""
    """Phases with the same one should do the same IOPS; empty: not known."""
    idle_watts: float | None = None
    counters: Counters = field(default_factory=Counters)
    silent_between: Callable[[int, int], bool | None] = lambda begin_ns, end_ns: None
    host: HostLoad = field(default_factory=HostLoad)

    @property
    def duration_s(self) -> float:
        """Seconds from begin to end."""
        return (self.end_ns - self.begin_ns) / 1e9

    @property
    def heat_recorded(self) -> bool:
        """Whether any temperature, or a counter of throttling that moves, was recorded."""
        return bool(self.temperature.sensors) or self.counters.count


@dataclass(frozen=True, slots=True)
class SteppedIops:
    """IOPS on even steps, relative to their median ``unit``; ``late`` where no status came."""

    x: Floats
    late: NDArray[np.bool_]
    unit: float
    begin_ns: int
    step_ns: int

    def moment(self, index: int) -> int:
        """The time at which a step begins, ns."""
        return self.begin_ns + index * self.step_ns

    def points(self, seconds: float) -> int:
        """Steps in a time; at least two."""
        return max(round(seconds * 1e9 / self.step_ns), 2)

    def iops(self, begin: int, end: int) -> float:
        """Mean IOPS of some steps."""
        return float(self.x[begin:end].mean()) * self.unit


def on_grid(phase: PhaseSignals) -> SteppedIops | None:
    """Interval IOPS on even steps: each step takes the interval that covers it.

    A status that came late stands for a longer interval, whose length follows from the middles
    of its neighbours. One in which hardly more was done than fits into a usual interval stands
    for a standstill: nothing was done in it. None when there are too few statuses.
    """
    inside = (phase.t_ns >= phase.begin_ns) & (phase.t_ns <= phase.end_ns)
    t, iops = (phase.t_ns[inside] - phase.begin_ns).astype(np.float64), phase.iops[inside]
    if len(t) < FEWEST:
        return None
    unit = float(np.median(iops))
    if unit <= 0:
        return None
    steps = np.diff(t)
    usual = float(np.median(steps))
    duration = float(phase.end_ns - phase.begin_ns)
    step = max(usual, duration / MOST_POINTS, 1e8)
    lengths = np.full(len(t), usual)
    lengths[1:-1] = np.maximum(steps[:-1] + steps[1:] - usual, usual)
    late = lengths > max(LATE * usual, usual + LATE_S * 1e9)
    iops = _without_standstills(iops, lengths, late, usual)
    ends = t + lengths / 2
    centres = (np.arange(max(int(duration // step), 1)) + 0.5) * step
    which = np.clip(np.searchsorted(ends, centres), 0, len(t) - 1)
    x = iops[which] / unit
    missing = (centres < t[which] - lengths[which] / 2 - 2 * usual) & (which > 0)
    x[missing] = 0.0
    if step > 1.5 * usual:
        x = _signal_step_means(x, iops * lengths / unit, lengths, ends, step)
    return SteppedIops(x, late[which] | missing, unit, phase.begin_ns, round(step))


def _without_standstills(
    iops: Floats, lengths: Floats, late: NDArray[np.bool_], usual: float
) -> Floats:
    """Nothing where a late status tells of no more than two usual intervals' worth of I/O."""
    result = iops.copy()
    for number in np.flatnonzero(late):
        beside = iops[max(number - 3, 0) : number]
        level = float(np.median(beside)) if len(beside) else float(np.median(iops))
        if iops[number] * lengths[number] <= 2.2 * usual * level:
            result[number] = 0.0
    return result


def _signal_step_means(
    x: Floats, done: Floats, lengths: Floats, ends: Floats, step: float
) -> Floats:
    """Means over steps that are longer than the intervals of fio."""
    sums = np.concatenate([[0.0], np.cumsum(done)])
    cuts = np.clip(np.searchsorted(ends, np.arange(len(x) + 1) * step), 0, len(ends))
    weight = np.concatenate([[0.0], np.cumsum(lengths)])
    span = np.diff(weight[cuts])
    return np.where(span > 0, np.diff(sums[cuts]) / np.where(span > 0, span, 1), x)
