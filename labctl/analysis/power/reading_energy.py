"""The energy of readings over time, from readings that come part by part.

Each reading stands for the time half way to its neighbours (as in the mean of a phase), so energy
is a line of straight pieces over time, with a kink at each edge between two readings.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

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


ROOM = 8
"""What is kept is moved to the front of its memory once for so many times as much."""

NO_GAPS = Gaps(*(np.empty(0) for _ in range(4)))


@dataclass(frozen=True, slots=True)
class Energy:
    """A part of the energy of a series over time: at the edges ``t`` between readings, ns, and
    since the first one, in W·ns above ``level`` watts. It begins at the edge at which the part
    before ended. ``reach``: how far any power of it is from
    that level at most. ``widths``: neighbouring edges are apart by these at least and at most."""

    t: Floats
    above: Floats
    level: float
    reach: float
    widths: tuple[float, float] = (math.inf, 0.0)
    gaps: Gaps = NO_GAPS


class EnergyOfReadings:
    """Turns readings into energy; each reading stands for the time half way to its neighbours."""

    def __init__(
        self, span: float, nominal: float, dither: float = 0.0, edge: float = math.inf
    ) -> None:
        """``span``: ns of the phase; ``nominal``: the usual interval, ns; ``dither``: share of it
        that the moments of readings are drawn from; ``edge``: how far the first reading is from the
        begin of the phase at most, and the last from its end, if none is missing there, ns."""
        self._span, self._nominal, self._dither = span, nominal, dither
        # beyond the one interval that the edge has, as between two readings
        self._edge_ns = edge + (LOST - 1.0) * nominal
        self._ahead = NO_GAPS
        self._level = self._last_t = self._last_watts = self._edge = self._energy = math.nan
        self._more = np.empty(0)
        self._memory = np.empty((2, 0))

    def add(self, t: Floats, watts: Floats) -> Energy | None:
        """The energy that these readings add, with their ascending times; None for none."""
        if not len(t):
            return None
        if math.isnan(self._edge):
            self._level = float(watts.mean())
            self._edge = max(float(t[0]) - self._nominal / 2, 0.0)
            if float(t[0]) > self._edge_ns:
                self._ahead = self._gap(0.0, self._edge, float(t[0]))
                self._edge = 0.0
            self._energy = 0.0
            self._last_t, self._last_watts = float(t[0]), float(watts[0])
            t, watts = t[1:], watts[1:]
        edges = np.empty(len(t) + 1)
        edges[0] = self._edge
        if not len(t):
            return self._advanced(edges, np.empty(0), 0.0, (math.inf, 0.0), NO_GAPS)
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
        widths = float(steps.min()), float(steps.max())
        gaps = Gaps.joined([self._ahead, self._gaps(t, steps, widths)])
        self._ahead = NO_GAPS
        first_width = float(edges[1] - edges[0])
        widths = wider(widths, (first_width, first_width))
        self._last_t, self._last_watts = float(t[-1]), float(watts[-1])
        reach = max(float(above.max()), -float(above.min()))
        reach = max(reach, abs(self._last_watts - self._level))
        edges, above, widths = self._with_edges(edges, above, widths, gaps)
        return self._advanced(edges, above, reach, widths, gaps)

    def ended(self) -> Energy | None:
        """The energy of the last reading."""
        if math.isnan(self._edge):
            return None
        end = min(self._last_t + self._nominal / 2, max(self._span, self._last_t))
        last = self._last_watts - self._level
        edges = np.array([self._edge, end])
        width = end - self._edge
        gaps, self._ahead = self._ahead, NO_GAPS
        edges, above, widths = self._with_edges(edges, np.array([last]), (width, width), gaps)
        left = self._span - self._last_t
        if left > self._edge_ns:
            gaps = Gaps.joined([gaps, self._gap(end, self._span, left)])
            edges, above = np.append(edges, self._span), np.append(above, last)
            widths = wider(widths, (self._span - end, self._span - end))
        return self._advanced(edges, above, abs(last), widths, gaps)

    def _gap(self, begin: float, end: float, step: float) -> Gaps:
        """Readings that are missing at an end of the phase."""
        return Gaps(*(np.array([one]) for one in (begin, end, step, self._nominal)))

    def _advanced(
        self,
        edges: Floats,
        above: Floats,
        reach: float,
        widths: tuple[float, float],
        gaps: Gaps,
    ) -> Energy:
        energy = np.empty(len(edges))
        energy[0] = self._energy
        part = energy[1:]
        np.subtract(edges[1:], edges[:-1], out=part)
        part *= above
        prefix_sums(part, reach * widths[1], self._energy)
        self._edge, self._energy = float(edges[-1]), float(energy[-1])
        return Energy(edges, energy, self._level, reach, widths, gaps)

    def _gaps(self, t: Floats, steps: Floats, widths: tuple[float, float]) -> Gaps:
        """Where readings are missing in the ``steps`` that end at ``t``; ``widths``: the shortest
        and the longest of them."""
        # of one or two steps only the nominal interval says whether they are usual
        if not self._dither and len(steps) > 2 and widths[1] <= LOST * widths[0]:
            return NO_GAPS
        usual = usual_steps(steps, self._nominal, self._dither)
        if usual is steps:
            return NO_GAPS
        lost = np.flatnonzero(steps > (1.0 if self._dither > 0 else LOST) * usual)
        half = usual[lost] / 2
        return Gaps(t[lost] - steps[lost] + half, t[lost] - half, steps[lost], usual[lost])

    def _with_edges(
        self, edges: Floats, above: Floats, widths: tuple[float, float], gaps: Gaps
    ) -> tuple[Floats, Floats, tuple[float, float]]:
        """Edges, the watts between them and how far they are apart, with one edge more at both ends
        of each gap."""
        more = np.concatenate([self._more, gaps.begin, gaps.end])
        if not len(more):
            return edges, above, widths
        more.sort()
        self._more = more[more > edges[-1]]
        place = np.searchsorted(edges, more)
        inside = (place > 0) & (place < len(edges))
        more, place = more[inside], place[inside]
        edges = np.insert(edges, place, more)
        own = np.diff(edges)
        widths = float(own.min()), float(own.max())
        return edges, np.insert(above, place, above[place - 1]), widths


class NewestEnergy:
    """The newest stretch of an energy that comes part by part.

    ``dropped``: how many edges came before the first one; ``reach`` and ``widths``: as in
    :class:`Energy`.
    """

    def __init__(self, kept_ns: float) -> None:
        """``kept_ns``: how far back from the newest edge it reaches at least."""
        self._kept_ns = kept_ns
        self._parts: list[Energy] = []
        self._begins: list[int] = []
        self._memory = np.empty(0)
        self.n = self.dropped = 0
        self.reach, self.widths = 0.0, (math.inf, 0.0)

    def has_room(self, part: Energy) -> bool:
        """Whether the next part can be taken without giving up old ones."""
        return self.n + len(part.t) <= len(self._memory)

    def add(self, part: Energy) -> None:
        """Take the next part; without room for it, what is older than is to be kept goes."""
        if not self.has_room(part):
            self._make_room(part)
        self._append(part)

    def _make_room(self, part: Energy) -> None:
        kept = self._parts
        while kept and float(kept[0].t[-1]) < float(kept[-1].t[-1]) - self._kept_ns:
            self.dropped += len(kept.pop(0).t) - 1
        wanted = sum(len(one.t) for one in kept) + len(part.t)
        if len(self._memory) < ROOM * wanted / 2:
            self._memory = np.empty(ROOM * wanted)
        self._parts, self._begins = [], []
        self.n, self.reach, self.widths = 0, 0.0, (math.inf, 0.0)
        for one in kept:
            self._append(one)

    def _append(self, part: Energy) -> None:
        begin = max(self.n - 1, 0)
        self._parts.append(part)
        self._begins.append(begin)
        self.n = begin + len(part.t)
        self._memory[begin : self.n] = part.above
        self.widths = wider(self.widths, part.widths)
        self.reach = max(self.reach, part.reach)

    @property
    def above(self) -> Floats:
        """The energy at each edge, as in :class:`Energy`."""
        return self._memory[: self.n]

    @property
    def ends(self) -> tuple[float, float]:
        """Its first edge and its last one, ns."""
        return float(self._parts[0].t[0]), float(self._parts[-1].t[-1])

    def t_of(self, low: int, high: int) -> Floats:
        """The edges from number ``low`` up to ``high``."""
        first = bisect_right(self._begins, low) - 1
        end = max(bisect_left(self._begins, high), first + 1)
        begin = self._begins[first]
        return _joined_energy_parts([part.t for part in self._parts[first:end]])[
            low - begin : high - begin
        ]

    def around(self, begin: float, end: float) -> tuple[Floats, Floats]:
        """Edges from before one moment, ns, to behind another, where there are any so far, and
        the energy at them."""
        first = max(bisect_right(self._parts, begin, key=_first_edge) - 1, 0)
        last = bisect_left(self._parts, end, lo=first, key=_last_edge)
        t = _joined_energy_parts([part.t for part in self._parts[first : last + 1]])
        low = self._begins[first]
        return t, self._memory[low : low + len(t)]


def _first_edge(part: Energy) -> float:
    return float(part.t[0])


def _last_edge(part: Energy) -> float:
    return float(part.t[-1])


def _joined_energy_parts(parts: Sequence[Floats]) -> Floats:
    """The parts one behind the other; each begins with what the one before ended with."""
    return np.concatenate([parts[0], *(part[1:] for part in parts[1:])]) if parts[1:] else parts[0]


class EnergyOfAll:
    """The energy of several series together, each on a clock of its own."""

    def __init__(self, grid: int) -> None:
        """``grid``: the number of the series whose edges are taken: the fastest one."""
        self._grid = grid
        self._parts: list[list[Energy]] = []
        self._gaps: list[Gaps] = []
        self._used = -math.inf

    def add(self, parts: Sequence[Energy | None]) -> Energy | None:
        """The energy that all have added up to the moment that the latest of them has come to."""
        self._parts = self._parts or [[] for _ in parts]
        for of_one, part in zip(self._parts, parts, strict=True):
            if part is not None:
                of_one.append(part)
                self._gaps.append(part.gaps)
        if not all(self._parts):
            return None
        since = max(self._used, *(float(of_one[0].t[0]) for of_one in self._parts))
        upto = min(float(of_one[-1].t[-1]) for of_one in self._parts)
        pieces = []
        for part in self._parts[self._grid]:
            low, high = np.searchsorted(part.t, since), np.searchsorted(part.t, upto, side="right")
            if low < high:
                pieces.append((part.t[low:high], part.above[low:high]))
        if not pieces or pieces[-1][0][-1] <= self._used:
            return None
        return self._summed(*(_joined_energy_parts(column) for column in zip(*pieces, strict=True)))

    def _summed(self, t: Floats, above: Floats) -> Energy:
        self._used = float(t[-1])
        for number, of_one in enumerate(self._parts):
            if number != self._grid:
                above = above + _at(of_one, t)
        widths = (math.inf, 0.0)
        for part in self._parts[self._grid]:
            widths = wider(widths, part.widths)
        whole = Energy(
            t,
            above,
            sum(of_one[0].level for of_one in self._parts),
            sum(max(part.reach for part in of_one) for of_one in self._parts),
            widths,
            Gaps.joined(self._gaps),
        )
        self._gaps = []
        self._parts = [
            [part for part in of_one if float(part.t[-1]) > self._used] for of_one in self._parts
        ]
        return whole


def wider(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """The :attr:`Energy.widths` of two parts together."""
    return min(one[0], other[0]), max(one[1], other[1])


def _at(parts: Sequence[Energy], t: Floats) -> Floats:
    """The energy of a series at the times ``t``; its parts reach from before to behind them."""
    pieces, done = [], 0
    for part in parts:
        upto = int(np.searchsorted(t, part.t[-1], side="right"))
        if upto > done:
            pieces.append(_of_part(part, t[done:upto]))
            done = upto
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _of_part(part: Energy, t: Floats) -> Floats:
    low = int(np.searchsorted(part.t, t[0]))
    if np.array_equal(part.t[low : low + len(t)], t):
        return part.above[low : low + len(t)]
    return interpolated(t, part.t, part.above, math.inf)[0]
