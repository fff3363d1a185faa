"""fio's clock against the timebase: how fast it runs, from the statuses that fio prints.

fio measures its runtime, its rates and its latencies with a clock of its own: a counter of the
processor that it calibrates when it starts, or CLOCK_MONOTONIC. That may run faster or slower than
labctl's, by 7 % where a counter is calibrated wrongly. Each status says how long fio thinks that it
has worked, and when it was printed by the wall clock, which labctl maps to its timebase.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.stats.uncertainty import student_factor
from labctl.capture.host.drive_host import HostMoment
from labctl.record.timebase import NS_PER_MS

FEWEST_STATUSES = 4
"""From which a rate is estimated: two unknowns, and two left to show how they scatter."""

MOST_POINTS = 64
"""Statuses that a line is fitted to: of more, the promptest of each few in a row."""

PRINTED_TO_NS = 0.5 * NS_PER_MS
"""Standard uncertainty of a status, which holds two times in whole milliseconds."""

FAR_LATE = 8.0
HELD_UP_NS = 50 * NS_PER_MS
"""A status that came so many times as late as is usual (median), and by so much, was held up."""

MATTERS_NS = 4 * NS_PER_MS
"""A drift over a phase below this is within what its begin and end are uncertain anyway."""

FASTEST = 1.25
"""The fastest clock taken for possible, in seconds that it counts in a second."""


@dataclass(frozen=True, slots=True)
class PrintedTimes:
    """The two times of a status: fio's runtime, and when it was printed."""

    runtime_ms: int
    shown: HostMoment

    def began(self, rate: float) -> HostMoment:
        """When the first I/O was, for a clock that counts ``rate`` seconds in a second."""
        return self.shown.before(round(self.runtime_ms * NS_PER_MS / rate))


@dataclass(frozen=True, slots=True)
class FioClock:
    """Seconds that fio's clock counts in a second of the timebase, with U (about 95 %), and from
    how many statuses."""

    rate: float
    u: float
    statuses: int

    def matters(self, runtime_ns: int) -> bool:
        """Whether it differs from the timebase, surely and enough for a phase of that length."""
        off = abs(self.rate - 1.0)
        return off > 2 * self.u and off * runtime_ns > MATTERS_NS


def fio_clock(printed: Sequence[PrintedTimes]) -> FioClock | None:
    """The least-squares line through runtime and time of printing; None with too few statuses.

    fio notes its runtime first and prints later, on a busy machine by tens of milliseconds, so
    what scatters about the line is its delay; statuses that came far later than the others do not
    count. Its U follows from that scatter, with Student's factor. Statuses after the last I/O,
    whose runtime stands, do not count. O(n).
    """
    if not printed:
        return None
    newest = printed[-1]
    known = {one.runtime_ms: one for one in reversed(printed)}
    rows = [one for at_ms, one in sorted(known.items()) if at_ms < newest.runtime_ms]
    if len(rows) < FEWEST_STATUSES:
        return None
    count = len(rows)
    x = np.array([one.runtime_ms * NS_PER_MS for one in rows], np.float64)
    y = np.array([one.shown.t_ns - rows[0].shown.t_ns for one in rows], np.float64)
    if count > MOST_POINTS:
        late = y - x * ((y[-1] - y[0]) / (x[-1] - x[0]))
        together = -(-count // MOST_POINTS)
        groups = late[: count // together * together].reshape(-1, together)
        prompt = groups.argmin(axis=1) + np.arange(len(groups)) * together
        x, y = x[prompt], y[prompt]
    if len(x) < FEWEST_STATUSES:
        return None
    prompt = _usable_for_fio_clock(x, y)
    x, y = x[prompt], y[prompt]
    x, y = x - x.mean(), y - y.mean()
    spread = float(x @ x)
    slope = float(x @ y) / spread
    if not slope > 0:
        return None
    left = y - slope * x
    dof = len(x) - 2
    variance = float(left @ left) / dof + PRINTED_TO_NS**2
    u = student_factor(dof) * math.sqrt(variance / spread)
    return FioClock(1.0 / slope, u / slope**2, count)


def _usable_for_fio_clock(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which statuses were not held up: those not far above the line of the median slope between
    any two (Theil 1950; Sen 1968), by the median distance from it."""
    first, second = np.triu_indices(len(x), 1)
    slope = _fio_clock_median((y[second] - y[first]) / (x[second] - x[first]))
    late = y - slope * x
    late -= _fio_clock_median(late)
    usual = _fio_clock_median(np.abs(late))
    kept: NDArray[np.bool_] = late <= max(FAR_LATE * usual, HELD_UP_NS)
    return kept


def _fio_clock_median(values: NDArray[np.float64]) -> float:
    """NumPy's own loads its masked arrays: 70 ms, while a drive is measured."""
    return float(statistics.median(values.tolist()))
