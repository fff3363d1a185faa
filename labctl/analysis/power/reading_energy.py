"""The energy of readings over time, from readings that come part by part.

Each reading stands for the time half way to its neighbours (as in the mean of a phase), so energy
is a line of straight pieces over time, with a kink at each edge between two readings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.power.interpolation import interpolated
from labctl.analysis.readings.channel_series import Floats
from labctl.analysis.stats.prefix_sums import prefix_sums
from labctl.analysis.stats.time_mean import LOST, STANDS_FOR, usual_steps

BRIDGED_SHARE = 0.01
"""Share of a window that one stretch of lost readings may be to be bridged by its neighbours, as it
is in the watts of a phase (up to four readings). Any longer one is a gap, and a window over a gap
is none."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """Stretches without readings, ns, in their order: from ``begin`` to ``end``, between two
    readings ``step`` apart that are usually ``usual`` apart."""

    begin: Floats
    end: Floats
    step: Floats
    usual: Floats

    def __len__(self) -> int:
        return len(self.begin)

    def where(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Gaps:
        """Some of them."""
        return Gaps(self.begin[chosen], self.end[chosen], self.step[chosen], self.usual[chosen])

    def too_long_for(self, window: float) -> Gaps:
        """Those that no window of this length may reach over."""
        bridged = np.minimum(2 * STANDS_FOR * self.usual, BRIDGED_SHARE * window)
        return self.where(self.step > bridged)

    @staticmethod
    def joined(parts: Sequence[Gaps]) -> Gaps:
        """All gaps of several series, by their begin."""
        columns = ("begin", "end", "step", "usual")
        parts = [part for part in parts if len(part)]
        if not parts:
            return NO_GAPS
        whole = Gaps(
            *(np.concatenate([np.empty(0), *(getattr(p, name) for p in parts)]) for name in columns)
        )
        return whole.where(np.argsort(whole.begin, kind="stable"))


ROOM = 4
"""What is kept is moved to the front of its memory once for so many times as much."""

ROUNDED_TO = 2.0**-21
"""Eight times half the last bit of a number in single precision, as a share of it: of both that a
difference is made of, one each; of the difference, and of what it is compared with, two each."""

NO_GAPS = Gaps(*(np.empty(0) for _ in range(4)))


@dataclass(frozen=True, slots=True)
class Energy:
    """A part of the energy of a series over time: at the edges ``t`` between readings, ns, and
    since the first one, in W·ns above ``level`` watts. ``reach``: how far any power of it is from
    that level at most. ``widths``: the shortest and the longest time between two edges."""

    t: Floats
    above: Floats
    level: float
    reach: float
    widths: tuple[float, float] = (math.inf, 0.0)
    gaps: Gaps = NO_GAPS


class EnergyOfReadings:
    """Turns readings into energy; each reading stands for the time half way to its neighbours."""

    def __init__(self, span: float, nominal: float, dither: float = 0.0) -> None:
        """``span``: ns of the phase; ``nominal``: the usual interval, ns; ``dither``: share of it
        that the moments of readings are drawn from."""
        self._span, self._nominal, self._dither = span, nominal, dither
        self._level = self._last_t = self._last_watts = self._edge = self._energy = math.nan
        self._more = np.empty(0)
        self._memory = np.empty((2, 0))

    def add(self, t: Floats, watts: Floats) -> Energy | None:
        """The energy that these readings add, with their ascending times; None for none."""
        if not len(t):
            return None
        first = math.isnan(self._edge)
        if first:
            self._level = float(watts.mean())
            self._edge = max(float(t[0]) - self._nominal / 2, 0.0)
            self._energy = 0.0
            self._last_t, self._last_watts = float(t[0]), float(watts[0])
            t, watts = t[1:], watts[1:]
        edges = np.empty(len(t) + 1)
        edges[0] = self._edge
        if not len(t):
            return self._advanced(edges, np.empty(0), 0.0, NO_GAPS, first)
        # of the reading before these, and of all of these but the last one
        if self._memory.shape[1] < len(t):
            self._memory = np.empty((2, len(t)))
        above, steps = self._memory[:, : len(t)]
        edges[1] = (self._last_t + t[0]) / 2
        np.add(t[1:], t[:-1], out=edges[2:])
        edges[2:] *= 0.5
        above[0] = self._last_watts - self._level
        np.subtract(watts[:-1], self._level, out=above[1:])
        steps[0] = t[0] - self._last_t
        np.subtract(t[1:], t[:-1], out=steps[1:])
        gaps = self._gaps(t, steps)
        self._last_t, self._last_watts = float(t[-1]), float(watts[-1])
        reach = max(float(above.max()), -float(above.min()))
        reach = max(reach, abs(self._last_watts - self._level))
        edges, above = self._with_edges(edges, above, gaps)
        return self._advanced(edges, above, reach, gaps, first)

    def ended(self) -> Energy | None:
        """The energy of the last reading."""
        if math.isnan(self._edge):
            return None
        end = min(self._last_t + self._nominal / 2, max(self._span, self._last_t))
        last = self._last_watts - self._level
        edges = np.array([self._edge, end])
        edges, above = self._with_edges(edges, np.array([last]), NO_GAPS)
        return self._advanced(edges, above, abs(last), NO_GAPS, False)

    def _advanced(
        self, edges: Floats, above: Floats, reach: float, gaps: Gaps, first: bool
    ) -> Energy:
        energy = np.empty(len(edges))
        energy[0] = self._energy
        part = energy[1:]
        np.subtract(edges[1:], edges[:-1], out=part)
        widths = (float(part.min()), float(part.max())) if len(part) else (math.inf, 0.0)
        part *= above
        prefix_sums(part, reach * widths[1], self._energy)
        self._edge, self._energy = float(edges[-1]), float(energy[-1])
        new = slice(0 if first else 1, None)
        return Energy(edges[new], energy[new], self._level, reach, widths, gaps)

    def _gaps(self, t: Floats, steps: Floats) -> Gaps:
        """Where readings are missing in the ``steps`` that end at ``t``."""
        usual = usual_steps(steps, self._nominal, self._dither)
        if usual is steps:
            return NO_GAPS
        lost = np.flatnonzero(steps > (1.0 if self._dither > 0 else LOST) * usual)
        half = usual[lost] / 2
        return Gaps(t[lost] - steps[lost] + half, t[lost] - half, steps[lost], usual[lost])

    def _with_edges(self, edges: Floats, above: Floats, gaps: Gaps) -> tuple[Floats, Floats]:
        """Edges, and the watts between them, with one edge more at both ends of each gap."""
        more = np.concatenate([self._more, gaps.begin, gaps.end])
        if not len(more):
            return edges, above
        more.sort()
        self._more = more[more > edges[-1]]
        place = np.searchsorted(edges, more)
        inside = (place > 0) & (place < len(edges))
        more, place = more[inside], place[inside]
        return np.insert(edges, place, more), np.insert(above, place, above[place - 1])


class NewestEnergy:
    """The newest stretch of an energy that comes part by part.

    ``rough``: :attr:`Energy.above` less some constant, in numbers that are quick to compare; a
    difference of two of them is wrong by ``rounding`` at most. ``dropped``: how many edges came
    before the first one.
    """

    def __init__(self, kept_ns: float) -> None:
        """``kept_ns``: how far back from the newest edge it reaches at least."""
        self._kept_ns = kept_ns
        self._parts: list[Energy] = []
        self._memory = np.empty(0, np.float32)
        self._base = self._most = 0.0
        self._joined: tuple[Floats, Floats] | None = None
        self.n = self.dropped = 0

    def add(self, part: Energy) -> int:
        """Take the next part; gives how many edges of older ones are left before it."""
        if self.n + len(part.t) > len(self._memory):
            self._make_room(part)
        old = self.n
        self._parts.append(part)
        self._joined = None
        self._append_rough(part)
        return old

    def _make_room(self, part: Energy) -> None:
        kept = self._parts
        while kept and float(kept[0].t[-1]) < float(kept[-1].t[-1]) - self._kept_ns:
            self.dropped += len(kept.pop(0).t)
        wanted = sum(len(one.t) for one in kept) + len(part.t)
        if len(self._memory) < 2 * wanted:
            self._memory = np.empty(ROOM * wanted, np.float32)
        self.n, self._base, self._most = 0, float(part.above[0]), 0.0
        for one in kept:
            self._append_rough(one)

    def _append_rough(self, part: Energy) -> None:
        rough = self._memory[self.n : self.n + len(part.t)]
        np.subtract(part.above, self._base, out=rough, casting="same_kind")
        self._most = max(self._most, float(rough.max()), -float(rough.min()))
        self.n += len(part.t)

    @property
    def rough(self) -> NDArray[np.float32]:
        """One number for each edge."""
        return self._memory[: self.n]

    @property
    def rounding(self) -> float:
        """What a difference of two of ``rough`` is wrong by at most."""
        return self._most * ROUNDED_TO

    @property
    def ends(self) -> tuple[float, float]:
        """Its first edge and its last one, ns."""
        return float(self._parts[0].t[0]), float(self._parts[-1].t[-1])

    @property
    def widths(self) -> tuple[float, float]:
        """The shortest and the longest time between two edges."""
        widths = [part.widths for part in self._parts]
        return min(shortest for shortest, _ in widths), max(longest for _, longest in widths)

    @property
    def t_and_above(self) -> tuple[Floats, Floats]:
        """Its edges, and the energy at them, as in :class:`Energy`."""
        if self._joined is None:
            t = np.concatenate([part.t for part in self._parts])
            self._joined = t, np.concatenate([part.above for part in self._parts])
        return self._joined


class EnergyOfAll:
    """The energy of several series together, each on a clock of its own."""

    def __init__(self, grid: int) -> None:
        """``grid``: the number of the series whose edges are taken: the fastest one."""
        self._grid = grid
        self._parts: list[Energy] = []
        self._used = -math.inf

    def add(self, parts: Sequence[Energy | None]) -> Energy | None:
        """The energy that all have added up to the moment that the latest of them has come to."""
        if not self._parts:
            self._parts = [Energy(np.empty(0), np.empty(0), 0.0, 0.0) for _ in parts]
        if all(not len(old.t) or old.t[-1] <= self._used for old in self._parts):
            known = [part for part in parts if part is not None]
            t = known[0].t if known else np.empty(0)
            if len(known) == len(parts) and all(np.array_equal(part.t, t) for part in known[1:]):
                return self._summed(known, t)
        self._parts = [
            old if new is None else _continued_energy(old, new)
            for old, new in zip(self._parts, parts, strict=True)
        ]
        if not all(len(part.t) for part in self._parts):
            return None
        upto = min(float(part.t[-1]) for part in self._parts)
        since = max(float(part.t[0]) for part in self._parts)
        t = self._parts[self._grid].t
        low = max(np.searchsorted(t, since), np.searchsorted(t, self._used, side="right"))
        t = t[low : np.searchsorted(t, upto, side="right")]
        return self._summed(self._parts, t) if len(t) else None

    def _summed(self, parts: Sequence[Energy], t: Floats) -> Energy:
        self._used = float(t[-1])
        above = _at(parts[0], t)
        for part in parts[1:]:
            above = above + _at(part, t)
        whole = Energy(
            t,
            above,
            sum(part.level for part in parts),
            sum(part.reach for part in parts),
            parts[self._grid].widths,
            Gaps.joined([part.gaps for part in parts]),
        )
        self._parts = [_rest(part, self._used) for part in parts]
        return whole


def _continued_energy(old: Energy, new: Energy) -> Energy:
    return replace(
        new,
        t=np.concatenate([old.t, new.t]),
        above=np.concatenate([old.above, new.above]),
        reach=max(old.reach, new.reach),
        widths=wider(old.widths, new.widths),
        gaps=Gaps.joined([old.gaps, new.gaps]),
    )


def wider(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """The :attr:`Energy.widths` of two parts together."""
    return min(one[0], other[0]), max(one[1], other[1])


def _at(part: Energy, t: Floats) -> Floats:
    low = int(np.searchsorted(part.t, t[0]))
    if part.t is t:
        return part.above
    if np.array_equal(part.t[low : low + len(t)], t):
        return part.above[low : low + len(t)]
    return interpolated(t, part.t, part.above, math.inf)[0]


def _rest(part: Energy, used: float) -> Energy:
    """What the next part is made of: from the last edge that is not behind ``used`` on."""
    low = max(int(np.searchsorted(part.t, used, side="right")) - 1, 0)
    return replace(part, t=part.t[low:].copy(), above=part.above[low:].copy(), gaps=NO_GAPS)
