"""Slow stretches of a phase that writes, where heat and flash take turns and overlap.

What a drive does is the product of two factors: how far it holds itself back (heat), and what its
flash leaves (write cache, garbage collection). At each abrupt change the energy of an operation
tells which of the two moved: a drive that holds itself back takes as much for each as before, its
flash takes more. Both are followed side by side, so throttling lasts until its own factor is back,
whatever the flash did meanwhile.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from labctl.analysis.results import Cause, ThrottleInterval
from labctl.analysis.throttling.causes import ALIKE, explained, held_back
from labctl.analysis.throttling.heat import STEP
from labctl.analysis.throttling.signals import PhaseSignals, SteppedIops
from labctl.analysis.throttling.slowdowns import ABRUPT, REDUCED, STALLED, Levels, Slowdown

PASSING_S = 1.5
"""A level that lasts no longer and lies between its neighbours is the way from one to the other."""

OVERSHOOT = 1.25
"""A rise that takes a factor this far above what it was before its fall was not of that factor."""

SURE = 4.0
"""Standard deviations by which the levels beside a change must differ."""

Step = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Edge:
    """An abrupt change at a step: the levels beside it, and the steps that these last."""

    at: int
    before: Step
    after: Step
    ratio: float
    """IOPS after over before."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A slowdown that has begun; ``factor`` is what its factor was before."""

    edge: _Edge
    factor: float


@dataclass(frozen=True, slots=True)
class _Fall:
    """A fall from a ``level``; of heat or of the flash, whose ``factor`` was before."""

    level: float
    hot: bool
    factor: float


@dataclass(slots=True)
class _Walk:
    """Where the walk through a phase stands: the factors, what has begun and what has ended."""

    phase: PhaseSignals
    grid: SteppedIops
    levels: Levels
    lets_go: Callable[[int], bool]
    handed: bool
    """Throttled since before the phase began, how far is not known: ``heat`` is 1 there."""
    heat: float = 1.0
    flash: float = 1.0
    held: _Begun | None = None
    begun: list[_Begun] = field(default_factory=list)
    """Slowdowns of the flash, dips inside of lasting steps."""
    found: list[ThrottleInterval] = field(default_factory=list)
    freed: int | None = None
    """Where the drive was last seen to hold itself back less."""
    falls: list[_Fall] = field(default_factory=list)
    """Those that no rise has undone yet, the last one last."""
    rose: int | None = None
    """The last rise that may have been one of a drive that was handed over throttled."""

    def fall(self, edge: _Edge) -> None:
        """One of the factors became less."""
        level = self._before(edge)
        seen = self._told(edge, edge.after[1], to_end=False)
        # Heat alone does not tell which of the two fell once the flash is down already.
        told = seen.counters_moved or None not in (seen.watts_before, seen.watts_during)
        if seen.cause == Cause.THERMAL and (told or not self.begun):
            if self.held is not None and self.freed is not None and self._falls_anew(edge):
                self.found.append(self._told(self.held.edge, self.freed, to_end=False))
                self.heat, self.held = self.held.factor, None
            if self.held is None:
                self.held = _Begun(edge, self.heat)
            self.falls.append(_Fall(level, True, self.heat))
            self.heat *= edge.ratio
            self.freed = None
        else:
            self.begun.append(_Begun(edge, self.flash))
            self.falls.append(_Fall(level, False, self.flash))
            self.flash *= edge.ratio

    def rise(self, edge: _Edge) -> None:
        """One of the factors, or both, are back or on their way."""
        if self.held is None and not self.handed and not self.begun:
            self._first_rise(edge)
            return
        if self._undoes(edge):
            return
        followed = held_back(self.phase, self.grid, edge.after, edge.before)
        if self.held is None and not self.begun:
            if followed is not False:
                self._handed_rise(edge)
        elif not self.begun:
            self._heat_is(self.heat * edge.ratio, edge)
        elif self.held is None and not (self.handed and followed):
            self._flash_is(self.flash * edge.ratio, edge)
        else:
            self._either_rise(edge, followed)

    def _undoes(self, edge: _Edge) -> bool:
        """A rise to the level before some fall undoes that fall and all since, whatever they were
        of: that two others made up for it so exactly is not to be expected."""
        level = self.levels.after(*edge.after)
        undone: list[_Fall] = []
        while self.falls and self.falls[-1].level <= (1 + ALIKE) * level:
            undone.append(self.falls.pop())
        if not undone or undone[-1].level < (1 - ALIKE) * level:
            return False
        hot = [fall for fall in undone if fall.hot and self.held is not None]
        flash = [fall for fall in undone if not fall.hot and self.begun]
        if flash:
            self._flash_is(flash[-1].factor, edge)
        if hot:
            self._heat_is(hot[-1].factor, edge)
        return bool(flash or hot)

    def _either_rise(self, edge: _Edge, followed: bool | None) -> None:
        """A rise while both factors are down: of the one that energy tells, if that fits."""
        top = self.begun[-1].factor
        heat, flash = self.heat * edge.ratio, self.flash * edge.ratio / top
        if followed is None:
            followed = abs(math.log(heat)) < abs(math.log(flash))
        if followed and heat <= OVERSHOOT:
            if self.held is None:
                self._handed_rise(edge)
            else:
                self._heat_is(heat, edge)
        elif flash <= OVERSHOOT:
            self._flash_is(flash * top, edge)
        else:
            # More than either alone: the flash is back, and what is left over is heat.
            self._flash_is(top, edge)
            self._heat_is(self.heat * flash, edge)

    def settled(self, steps: Step) -> None:
        """A level without an abrupt change: the one before a slowdown may be reached again."""
        level = self.levels.mean(*steps)
        if (
            self.held is not None
            and not self.begun
            and level >= REDUCED * self._before(self.held.edge)
        ):
            self._heat_is(1.0, _Edge(steps[0], steps, steps, 1.0))
        elif self.begun and self.held is None:
            while self.begun and level >= REDUCED * self._before(self.begun[-1].edge):
                self._flash_is(self.begun[-1].factor, _Edge(steps[0], steps, steps, 1.0))

    def end(self) -> list[ThrottleInterval]:
        """All slow stretches, those too that last until the phase ends."""
        last = len(self.grid.x)
        if self.held is not None:
            self.found.append(self._told(self.held.edge, last, to_end=True))
        self.found += [self._of_flash(one.edge, last, to_end=True) for one in self.begun]
        if self.handed and self.rose is not None:
            self._since_begin(self.levels.bounds[-1])
        return sorted(self.found, key=lambda item: (item.begin_ns, -item.end_ns))

    def _before(self, edge: _Edge) -> float:
        return self.levels.before(edge.before[1], edge.before[0])

    def _falls_anew(self, edge: _Edge) -> bool:
        """Whether a drive falls where it fell when it was free: then it was free again, and its
        flash hid that. One that throttles falls further only when it gets warmer than that, and
        from a level that it throttled at before."""
        assert self.held is not None
        light = self.levels.after(*self.held.edge.after)
        if abs(self._before(edge) - light) < ALIKE * light:
            return False
        heat, grid = self.phase.heat, self.grid
        first = heat.highest_near(grid.moment(self.held.edge.at))
        now = heat.highest_near(grid.moment(edge.at))
        return first is not None and now is not None and now <= first + STEP / 2

    def _heat_is(self, factor: float, edge: _Edge) -> None:
        self.heat, self.freed = factor, edge.at
        if self.held is not None and factor >= REDUCED * self.held.factor:
            self.found.append(self._told(self.held.edge, edge.at, to_end=False))
            self.heat, self.held = self.held.factor, None
            if self.handed and not self.lets_go(edge.at):
                self.rose = edge.at  # back at the level that the phase began throttled at

    def _flash_is(self, factor: float, edge: _Edge) -> None:
        self.flash = factor
        while self.begun and factor >= REDUCED * self.begun[-1].factor:
            one = self.begun.pop()
            self.found.append(self._of_flash(one.edge, edge.at, to_end=False))
            self.flash = one.factor

    def _handed_rise(self, edge: _Edge) -> None:
        self.rose = edge.at
        if self.lets_go(edge.at):
            self.handed = False
            self._since_begin(edge.at)

    def _since_begin(self, end: int) -> None:
        beside = min((bound for bound in self.levels.bounds if bound > end), default=end)
        rise = end if end < beside or self.rose is None else self.rose
        before = self.levels.mean(rise, max(beside, rise + 1))
        item = Slowdown(0, end, beside, before, self.levels.mean(0, end), True, False)
        self.found.append(explained(self.phase, self.grid, item, True))

    def _first_rise(self, edge: _Edge) -> None:
        """A phase may begin slow, and nobody saw when that began."""
        if self.found or self.rose is not None:
            return
        self.rose = edge.at
        before, during = self.levels.mean(*edge.after), self.levels.mean(0, edge.at)
        if during < self.levels.limit(edge.at) * before:
            item = Slowdown(0, edge.at, edge.after[1], before, during, True, False)
            self.found.append(explained(self.phase, self.grid, item, False))

    def _told(self, edge: _Edge, end: int, *, to_end: bool) -> ThrottleInterval:
        """A stretch from an edge on; what it was is judged by what went with the edge."""
        levels, grid = self.levels, self.grid
        longest = edge.at + 2 * levels.around
        seen = self._judged(edge, min(edge.after[1], longest), to_end)
        if seen.watts_during is None:
            # Too short for the meters: by all that the drive did before it did more again.
            seen = self._judged(edge, min(self._low_until(edge), longest), to_end)
        end_ns = self.phase.end_ns if end >= len(grid.x) - 1 else grid.moment(end)
        during = grid.iops(edge.at, max(end, edge.at + 1))
        return replace(seen, end_ns=end_ns, iops_during=during)

    def _of_flash(self, edge: _Edge, end: int, *, to_end: bool) -> ThrottleInterval:
        seen = self._told(edge, end, to_end=to_end)
        if seen.cause != Cause.THERMAL:
            return seen
        return replace(seen, cause=Cause.WRITE_CACHE if to_end else Cause.UNKNOWN)

    def _judged(self, edge: _Edge, near: int, to_end: bool) -> ThrottleInterval:
        before = self._before(edge)
        after = self.levels.mean(edge.at, max(near, edge.at + 1))
        item = Slowdown(edge.at, near, edge.before[0], before, after, False, to_end)
        return explained(self.phase, self.grid, item, False)

    def _low_until(self, edge: _Edge) -> int:
        low = REDUCED * self._before(edge)
        later = [step for step in itertools.pairwise(self.levels.bounds) if step[0] >= edge.at]
        return next(
            (begin for begin, end in later if self.levels.mean(begin, end) > low), len(self.grid.x)
        )


def slow_stretches(
    phase: PhaseSignals,
    grid: SteppedIops,
    levels: Levels,
    handed: bool,
    lets_go: Callable[[int], bool],
) -> list[ThrottleInterval]:
    """Slow stretches of a phase that writes, in order.

    ``handed``: the phase before ended throttled. ``lets_go``: whether a rise at a step can be the
    end of throttling whose begin was not seen.
    """
    walk = _Walk(phase, grid, levels, lets_go, handed)
    for before, after in itertools.pairwise(_settled(levels, grid)):
        edge = _edge(levels, before, after)
        clear = _clear(levels, before, after)
        if edge.ratio < min(REDUCED, clear):
            walk.fall(edge)
        elif edge.ratio > 1 / min(ABRUPT, clear):
            walk.rise(edge)
        else:
            walk.settled(after)
    return walk.end()


def _clear(levels: Levels, before: Step, after: Step) -> float:
    """The ratio of two levels, means of the seconds beside a change, that noise does not give."""
    points = [min(end - begin, levels.around) for begin, end in (before, after)]
    return math.exp(-SURE * levels.noise * math.sqrt(sum(1 / n for n in points)))


def _settled(levels: Levels, grid: SteppedIops) -> Sequence[Step]:
    """The stretches of constant level, without those on the way from one to another."""
    steps = list(itertools.pairwise(levels.bounds))
    means = [levels.mean(*one) for one in steps]
    passing = grid.points(PASSING_S)
    return [
        one
        for number, one in enumerate(steps)
        if not 0 < number < len(steps) - 1
        or one[1] - one[0] > passing
        or not min(means[number - 1], means[number + 1])
        < means[number]
        < max(means[number - 1], means[number + 1])
    ]


def _edge(levels: Levels, before: Step, after: Step) -> _Edge:
    """The change from one level to the next; it is where the first of it shows in a fall, and in a
    rise where most of it is done."""
    one = levels.before(before[1], before[0])
    two = levels.after(after[0], after[1])
    floor = STALLED * max(one, two)
    ratio = max(two, floor) / max(one, floor)
    at = before[1]
    if after[0] > before[1]:
        between = levels.mean(before[1], after[0])
        at = before[1] if abs(one - between) >= abs(two - between) else after[0]
    return _Edge(at, before, after, ratio)
