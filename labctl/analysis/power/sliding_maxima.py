"""The largest mean over any window of a given length: exact, from readings that come part by part.

The mean over a window is the difference of two values of the energy of the readings
(:mod:`labctl.analysis.power.reading_energy`), and largest where one end of the window is at a kink
of that. Windows are tried in pairs of kinks that lie about one window apart, all at once; those
whose pair could still beat the best one so far are calculated exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.power.reading_energy import NO_GAPS, Energy, Gaps, NewestEnergy
from labctl.analysis.readings.channel_series import Floats
from labctl.record.power_limits import LENGTHS_S

WINDOWS_S = tuple(LENGTHS_S.values())
"""Lengths of the windows: 100 µs and 1 s are those of the OCP Datacenter NVMe SSD specification's
peak and maximum average power; the others join them to a curve."""

STREAMED = 32_768
"""Readings in a window up to which it is searched while readings come. Longer ones wait for all."""

KEPT = 1 << 20
"""Kinks that are kept for the longer windows. Of a phase with more readings some are left out, and
a window may begin at any of those that are kept."""

ROUNDED = 0.01
"""Times that differ by less, ns, are one."""

OF_BEST = 1 / 3
"""How coarse the first look at the windows may be: what it leaves open, as a share of what the best
window so far has above the level."""

EDGES_BESIDE = 4
"""Edges next to both ends of a window that show what is not known of its first and last reading."""

AT_ONCE = 16_384
"""Pairs that are subtracted before the largest is looked for."""

CROWDED = 16
"""One in so many of the first look's windows may be worth a closer one; if more are, all are looked
at closely, which takes less time for each."""


@dataclass(frozen=True, slots=True)
class Maximum:
    """The largest mean over a window of one length, W; times in ns since the phase began.

    ``between``: variance of the mean that the differences between its readings give, W²;
    ``worth``: how many readings of equal weight it holds; ``edges``: by how much what is not known
    of the first and last reading may change it; ``coarse``: by how much windows between those that
    were tried may be larger; ``lost``: share of the window without a reading; ``reach``: how far
    any reading of the phase is from another.
    """

    window_ns: float
    begin_ns: float
    watts: float
    between: float
    worth: float
    edges: float
    lost: float
    reach: float
    coarse: float = 0.0

    def scaled(self, factor: float) -> Maximum:
        """The same of watts that are multiplied by a ``factor`` > 0."""
        return replace(
            self,
            watts=self.watts * factor,
            between=self.between * factor**2,
            edges=self.edges * factor,
            reach=self.reach * factor,
            coarse=self.coarse * factor,
        )


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search found, by the length of the window, ns. ``tried_s`` and ``blocked_s``: seconds
    of the phase at which a window can begin, and those of them that gaps rule out; ``missing_s``:
    how long the gaps are that rule out a window of the whole phase."""

    found: dict[float, Maximum]
    tried_s: dict[float, float]
    blocked_s: dict[float, float]
    missing_s: float = 0.0

    def scaled(self, factor: float) -> Searched:
        """The same of watts that are multiplied by a ``factor`` > 0."""
        return replace(self, found={key: one.scaled(factor) for key, one in self.found.items()})


class WindowSearch:
    """Takes the energy of a phase part by part and keeps the best window of each length.

    O(n) time for readings on a regular grid, and memory for ``KEPT`` readings at most.
    """

    def __init__(self, windows_ns: Sequence[float], nominal: float, expected: int) -> None:
        """``nominal``: the usual interval between readings, ns; ``expected``: about how many."""
        counts = {window: window / max(nominal, 1e-9) for window in windows_ns}
        self._short = tuple(window for window in windows_ns if counts[window] <= STREAMED)
        self._long = tuple(window for window in windows_ns if counts[window] > STREAMED)
        self._every = max(math.ceil(expected / KEPT), 1)
        self._skip = 0
        self._kept: list[tuple[Floats, Floats]] = []
        self._newest = NewestEnergy(max(self._short, default=0.0) + 4 * nominal)
        self._searched = 0
        self._gaps: list[Gaps] = []
        self._near: Gaps = NO_GAPS
        self._level = self._reach = 0.0
        self._begin = self._end = math.nan
        self._next = dict.fromkeys(windows_ns, 0)
        self._most = dict.fromkeys(windows_ns, -math.inf)
        self._found: dict[float, float] = {}
        self._best: dict[float, Maximum] = {}
        self._pairs, self._at_once = np.empty(0), np.empty(AT_ONCE)

    def add(self, part: Energy | None) -> None:
        """Take the next part."""
        if part is None or not len(part.t):
            return
        if math.isnan(self._begin):
            self._begin, self._level = float(part.t[0]), part.level
        self._end = float(part.t[-1])
        self._reach = max(self._reach, part.reach)
        if len(part.gaps):
            self._gaps.append(part.gaps)
        if self._long:
            new = len(part.t) - bool(self._kept)
            chosen = slice(len(part.t) - new + self._skip, None, self._every)
            self._kept.append((part.t[chosen].copy(), part.above[chosen].copy()))
            self._skip = (self._skip - new) % self._every
        if not self._short:
            return
        if not self._newest.has_room(part):
            self._search_newest()
        self._newest.add(part)
        if len(part.gaps):
            self._near = Gaps.joined([self._near, part.gaps])

    def _search_newest(self) -> None:
        """Search what came since this was done last."""
        newest, near = self._newest, self._near
        if not newest.n:
            return
        self._near = near = near.where(near.end > newest.ends[0]) if len(near) else near
        for window in self._short:
            self._search(window, newest, self._searched - newest.dropped, near)
        self._searched = newest.dropped + newest.n

    def _search(self, window: float, newest: NewestEnergy, old: int, gaps: Gaps) -> None:
        """Windows that end in what came behind the first ``old`` edges, or begin at an edge at
        which not all windows were complete yet."""
        n, length = newest.n, newest.ends[1] - newest.ends[0]
        if length < window:
            return
        gaps = gaps.too_long_for(window) if len(gaps) else gaps
        apart = min(max(round(window / length * (n - 1)), 1), n - 1)
        low = self._next[window] - newest.dropped
        first = max(min(low, old - apart), 0)
        # a window that begins at an edge before these is complete
        most_apart = math.ceil(window / max(newest.widths[0], ROUNDED))
        self._next[window] = newest.dropped + max(n - max(most_apart, apart), low, 0)
        self._try_pairs(window, first, apart, newest, gaps)
        if old < first + apart:  # ends that have no edge so far before
            self._try(window, newest.t_of(old, first + apart) - window, newest, gaps)
        self._describe(window, newest)

    def _try_pairs(
        self, window: float, first: int, apart: int, newest: NewestEnergy, gaps: Gaps
    ) -> None:
        """Take the best of the windows that begin or end at pairs of edges so far ``apart``."""
        shortest, longest = newest.widths
        off = max(window - apart * shortest, apart * longest - window) + ROUNDED
        doubt = off * newest.reach
        begins = self._promising(window, first, apart, newest, doubt)
        if begins is None:
            if self._largest(newest.above, first, apart) + doubt <= self._most[window]:
                return
            pairs = self._differences(newest.above, first, apart, 1)
        else:
            pairs = newest.above[begins + apart] - newest.above[begins]
            if not len(pairs) or float(pairs.max()) + doubt <= self._most[window]:
                return
        best = int(np.argmax(pairs))
        best = first + best if begins is None else int(begins[best])
        t = newest.t_of(best, best + apart + 1)
        self._try(window, np.array([t[0], t[-1] - window]), newest, gaps)
        chosen = np.flatnonzero(pairs > self._most[window] - doubt)
        if not len(chosen):
            return
        pairs = pairs[chosen]
        chosen = first + chosen if begins is None else begins[chosen]
        t = newest.t_of(int(chosen[0]), int(chosen[-1]) + apart + 1)
        chosen -= chosen[0]
        low, high = t[chosen], t[chosen + apart]
        worth = pairs + np.abs(high - low - window) * newest.reach > self._most[window]
        self._try(window, low[worth], newest, gaps)
        self._try(window, high[worth] - window, newest, gaps)

    def _promising(
        self, window: float, first: int, apart: int, newest: NewestEnergy, doubt: float
    ) -> NDArray[np.intp] | None:
        """Edges from ``first`` on that may begin a pair that beats the best one so far; None where
        they are (nearly) all.

        One pair of edges speaks for those around it: shifted by an edge, a window loses a reading
        and gains one, and each is no further than ``reach`` from the level.
        """
        most, of_one = self._most[window], newest.widths[1] * newest.reach
        every = int(OF_BEST * most / of_one) if most > 0 and of_one > 0 else 1
        count = newest.n - apart - first
        if every < 2 or count < every:
            return None
        pairs = self._differences(newest.above, first, apart, every)
        chosen = np.flatnonzero(pairs > most - doubt - every * of_one)
        if len(chosen) * CROWDED > len(pairs):
            return None
        around = first + every * chosen[:, None] + np.arange(every)
        rest = np.arange(first + every * len(pairs), first + count)
        return np.concatenate([around.ravel(), rest])

    def _largest(self, above: Floats, first: int, apart: int) -> float:
        """The largest of all differences, so many at a time as fit into a core's cache."""
        largest = -math.inf
        for begin in range(first, len(above) - apart, AT_ONCE):
            end = min(begin + AT_ONCE, len(above) - apart)
            pairs = self._at_once[: end - begin]
            np.subtract(above[begin + apart : end + apart], above[begin:end], out=pairs)
            largest = max(largest, float(pairs.max()))
        return largest

    def _differences(self, above: Floats, first: int, apart: int, every: int) -> Floats:
        """From the middle one of each ``every`` edges to the edge ``apart`` from it."""
        count = (len(above) - apart - first) // every
        if len(self._pairs) < count:
            self._pairs = np.empty(2 * count)
        begin = first + every // 2
        end = begin + every * (count - 1) + 1
        pairs = self._pairs[:count]
        return np.subtract(
            above[begin + apart : end + apart : every], above[begin:end:every], out=pairs
        )

    def _try(self, window: float, x: Floats, newest: NewestEnergy, gaps: Gaps) -> None:
        """Take the best of the windows that begin at ``x``, if it is the best one so far."""
        if not len(x):
            return
        t, above = newest.around(float(x.min()), float(x.max()) + window)
        x = x[(x >= t[0] - ROUNDED) & (x + window <= t[-1] + ROUNDED)]
        if not len(x):
            return
        energy = np.interp(x + window, t, above) - np.interp(x, t, above)
        if len(gaps):
            reached = np.searchsorted(gaps.begin, x + (window - ROUNDED), side="left")
            passed = np.searchsorted(np.maximum.accumulate(gaps.end), x + ROUNDED, side="right")
            energy[reached > passed] = -math.inf
        place = int(np.argmax(energy))
        if float(energy[place]) > self._most[window]:
            self._most[window] = float(energy[place])
            self._found[window] = float(x[place])

    def _describe(self, window: float, newest: NewestEnergy) -> None:
        begin_ns = self._found.pop(window, None)
        if begin_ns is not None:
            watts = self._most[window] / window + self._level
            beside = EDGES_BESIDE * newest.widths[1]
            read = newest.around(begin_ns - beside, begin_ns + window + beside)
            self._best[window] = _sliding_maximum(window, begin_ns, watts, *read)

    def _try_last(self, window: float, newest: NewestEnergy, gaps: Gaps) -> None:
        """Windows that begin at an edge that none so far behind it belongs to."""
        low = max(self._next[window] - newest.dropped, 0)
        self._try(window, newest.t_of(low, newest.n), newest, gaps)
        self._describe(window, newest)

    def result(self) -> Searched:
        """The best window of each length, as far as there is one."""
        if self._short and self._newest.n:
            self._search_newest()
            for window in self._short:
                gaps = self._near.too_long_for(window)
                self._try_last(window, self._newest, gaps)
        gaps = Gaps.joined(self._gaps)
        coarse: dict[float, float] = {}
        if self._long and self._kept:
            t = np.concatenate([part[0] for part in self._kept])
            above = np.concatenate([part[1] for part in self._kept])
            self._kept = []
            steps = np.diff(t)
            widths = float(steps.min(initial=math.inf)), float(steps.max(initial=0.0))
            longest = widths[1] if self._every > 1 else 0.0
            powers = np.diff(above)
            np.divide(powers, steps, out=powers, where=steps > 0)
            reach = max(float(powers.max(initial=0.0)), -float(powers.min(initial=0.0)))
            kept = NewestEnergy(math.inf)
            kept.add(Energy(t, above, 0.0, reach, widths))
            for window in self._long:
                self._search(window, kept, 0, gaps)
                self._try_last(window, kept, gaps)
                coarse[window] = 2 * self._reach * longest / window
        end = self._end
        found, tried, blocked = {}, {}, {}
        for window in (*self._short, *self._long):
            length = end - self._begin - window
            tried[window] = length * 1e-9 if length >= 0 else 0.0
            blocked[window] = self._blocked(window, gaps, end)
            best = self._best.get(window)
            if best is not None:
                over = (gaps.begin < best.begin_ns + window) & (gaps.end > best.begin_ns)
                lost = float((gaps.step[over] - gaps.usual[over]).sum()) / window
                found[window] = replace(
                    best, lost=lost, reach=2 * self._reach, coarse=coarse.get(window, 0.0)
                )
        whole = 0.0 if math.isnan(end) else end - self._begin
        long = gaps.too_long_for(whole)
        missing_s = float((long.end - long.begin).sum()) * 1e-9
        return Searched(found, tried, blocked, missing_s)

    def _blocked(self, window: float, gaps: Gaps, end: float) -> float:
        gaps = gaps.too_long_for(window)
        if not len(gaps) or math.isnan(self._begin) or end - self._begin < window:
            return 0.0
        ends = np.maximum.accumulate(gaps.end)
        before = np.concatenate([[self._begin], ends[:-1]])
        low = np.maximum(np.maximum(gaps.begin - window, before), self._begin)
        return float(np.maximum(np.minimum(ends, end - window) - low, 0.0).sum()) * 1e-9


def _sliding_maximum(window: float, at: float, watts: float, t: Floats, above: Floats) -> Maximum:
    low = max(int(np.searchsorted(t, at + ROUNDED, side="right")) - 1, 0)
    high = int(np.searchsorted(t, at + window - ROUNDED)) + 1
    first, last = max(low - 1, 0), min(high + 1, len(t))
    widths = np.diff(t[first:last])
    power = np.diff(above[first:last])[widths > 0] / widths[widths > 0]
    widths = widths[widths > 0]
    edges = sum(
        float(np.ptp(power[side])) * float(widths[side].max()) / (4 * window)
        for side in (slice(0, 3), slice(-3, None))
    )
    own = slice(low - first, len(widths) - (last - high))
    widths, power = widths[own], power[own]
    steps = (widths[1:] + widths[:-1]) / 2
    between = float((steps**2 * np.diff(power) ** 2).sum()) / (2 * window**2)
    worth = window**2 / max(float((widths**2).sum()), 1e-300)
    return Maximum(window, at, watts, between, worth, edges, 0.0, 0.0)
