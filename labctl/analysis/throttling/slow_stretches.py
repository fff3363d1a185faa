"""The slow stretches of a phase: a walk through its levels.

What a drive does is its free level times what is left by each thing that slows it down: heat, its
flash, its host. These begin and end independently of one another. A level that is lower than all
that is at work explains is a new fall, and its cause is judged by what went with it. At a higher
level the walk asks which of them ended, singly or together: those after whose end the level fits
best.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise

import numpy as np

from labctl.analysis.stats.change_points import bend
from labctl.analysis.throttle_result import Cause, ThrottleInterval
from labctl.analysis.throttling.causes import Fall, energy_grew, judged
from labctl.analysis.throttling.levels import FLOOR, REDUCED, SHORTEST_S, Levels, Steps
from labctl.analysis.throttling.signals import PhaseSignals, SteppedIops
from labctl.analysis.throttling.temperature import STEP

CREST_S = 30.0
"""A drive that declines to ``REDUCED`` within this time does less; more slowly, it drifts."""

FITS = -math.log(REDUCED)
"""How well (logarithm) a level must fit for something to have ended there."""

NEARLY = REDUCED ** (1 / 3)
"""Of a level, still the same one: a decline by and by has no rise above this, and begins there."""

LAST_FIRST = 0.06
"""Of two that fit equally well, what began last ends first, and few rather than many."""

AT_ONCE = 4
"""So many at most are at work at once; more are taken for one."""


@dataclass(slots=True, eq=False)
class _Slow:
    """Something that slows the drive down: what it leaves, and the stretch so far."""

    ratio: float
    item: ThrottleInterval
    has_eased: bool = False
    """Whether it was seen to leave more than at first."""

    @property
    def hot(self) -> bool:
        return self.item.cause == Cause.THERMAL


@dataclass(slots=True)
class Walk:
    """Where the walk through a phase stands.

    ``throttled_before``: throttled since before the phase began. ``lets_go``: whether a rise at a
    moment (ns) to a level (IOPS) can be the end of that; ``released`` is the moment at which one
    was.
    """

    phase: PhaseSignals
    grid: SteppedIops
    levels: Levels
    throttled_before: bool
    lets_go: Callable[[int, float], bool]
    released: int | None = None
    fell_further: bool = False
    """Whether heat was seen to take more of what heat had left: from a light to a heavy level."""
    rose: int = 0
    """The last rise while something slowed the drive down."""
    free: float = 0.0
    slow: list[_Slow] = field(default_factory=list)
    found: list[ThrottleInterval] = field(default_factory=list)
    crest: list[tuple[Steps, float]] = field(default_factory=list)
    """The levels of the last ``CREST_S`` without a rise, and what each ended at."""

    def stretches(self) -> list[ThrottleInterval]:
        """All slow stretches."""
        levels = self.levels
        self._at_free_level(levels.steps[0])
        risen = False
        for (before, now), at in zip(pairwise(levels.steps), levels.begins[1:], strict=True):
            change = math.log(levels.mean(*now) / self._expected())
            step = math.log(levels.first(now) / levels.last(before))
            sure = max(FITS, levels.doubt(now))
            if change < -sure and step < 0:
                self._fall(at, before, now)
            elif self.slow:
                self._higher(at, change, before, now)
            elif step > max(FITS / 2, levels.doubt(now)):
                self._rise_of_free(at, now, first=not risen)
                risen = True
            if not self.slow:
                self._at_free_level(now)
        self.found += [self._ended(one, len(self.grid.x)) for one in self.slow]
        return self.found

    def _expected(self) -> float:
        return self.free * math.prod(one.ratio for one in self.slow)

    def _at_free_level(self, steps: Steps) -> None:
        """Nothing that is known slows the drive down; a gradual decline is reported when it is
        heat."""
        levels = self.levels
        self.free = levels.last(steps)
        since = steps[1] - self.grid.points(CREST_S)
        rises = bool(self.crest) and self.free > self.crest[-1][1] / NEARLY
        self.crest = [] if rises else [one for one in self.crest if one[0][1] >= since]
        self.crest.append((steps, self.free))
        top = self.crest[0][1]
        if (
            self.throttled_before
            or self.free >= REDUCED * top
            or levels.doubt((0, levels.around)) >= FITS
        ):
            return
        begin = max(steps[1] for steps, level in self.crest if level > NEARLY * top)
        beside = max(begin - levels.around, 0), begin
        inside = steps[0], min(steps[1], steps[0] + 2 * levels.around)
        fall = Fall(beside, inside, begin, top, self.free, steps[1])
        item = judged(self.phase, self.grid, fall)
        if item.cause == Cause.THERMAL:
            item = self._from_bend(item, fall)
        if item.cause == Cause.THERMAL:
            self.slow.append(_Slow(self.free / top, item))
            self.free = top

    def _from_bend(self, item: ThrottleInterval, fall: Fall) -> ThrottleInterval:
        """A decline from where it began, if IOPS did not fall at once: judged by what was then."""
        inside = fall.inside
        first = self.crest[0][0] if self.crest else inside
        low = max(first[0], self.rose, inside[0] - 2 * self.grid.points(CREST_S))
        found = bend(np.log(self.levels.x[low : min(inside[1], fall.level_end)] + FLOOR))
        begin = fall.begin if found is None else low + found[0]
        if found is None or abs(begin - fall.begin) * self.grid.step_ns < SHORTEST_S * 1e9:
            return item
        beside = max(begin - self.levels.around, 0), max(begin, 1)
        fall = replace(fall, beside=beside, begin=begin, before=self.levels.mean(*beside))
        item = judged(self.phase, self.grid, fall)
        words = f"{item.evidence}; by and by, begin ±{found[1] * self.grid.step_ns / 1e9:.1f} s"
        return replace(item, evidence=words)

    def _fall(self, at: int, before: Steps, now: Steps) -> None:
        levels = self.levels
        ratio = levels.mean(*now) / self._expected()
        beside = max(before[1] - levels.around, before[0]), before[1]
        level = levels.last(before)
        near = now[0], min(now[1], now[0] + 2 * levels.around)
        fall = Fall(beside, near, at, level, levels.mean(*now), now[1])
        item = judged(self.phase, self.grid, fall)
        if item.watts_during is None:
            # Too short for the meters: by all that the drive did before it did more again.
            later = (one for one in levels.steps if one[0] >= now[1])
            rise = (one[0] for one in later if levels.mean(*one) > REDUCED * level)
            low = now[0], min(next(rise, len(self.grid.x)), now[0] + 2 * levels.around)
            fall = replace(fall, inside=low)
            item = judged(self.phase, self.grid, fall)
        if item.cause == Cause.THERMAL and self.phase.writes:
            measured = None not in (item.watts_before, item.watts_during)
            if not measured and not item.counters_moved and not all(one.hot for one in self.slow):
                # Heat alone does not tell which of the two fell once the flash is down already.
                item = replace(item, cause=Cause.UNKNOWN)
            self._anew(at, level)
        if item.cause == Cause.THERMAL:
            self.fell_further |= any(one.hot for one in self.slow)
        if not self.slow:
            item = self._from_bend(item, fall)
        if len(self.slow) < AT_ONCE:
            self.slow.append(_Slow(ratio, item))
        else:
            self.slow[-1].ratio *= ratio

    def _anew(self, at: int, level: float) -> None:
        """A drive that throttles falls further only when it gets warmer, or from a level that it
        throttled at before. Else it was free again since, and what still slows it down is its
        flash."""
        rose_ns = self.grid.moment(self.rose)
        still = [one for one in self.slow if not one.has_eased and one.item.begin_ns < rose_ns]
        hot = [one for one in still if one.hot]
        if not hot:
            return
        temperature, first = self.phase.temperature, hot[0].item
        then = temperature.highest_near(first.begin_ns)
        now = temperature.highest_near(self.grid.moment(at))
        light = first.iops_during / self.grid.unit
        if then is None or now is None or now > then + STEP or abs(level / light - 1) < FITS:
            return
        for one in hot:
            words = f"{one.item.evidence}; but the drive was free of heat in it"
            one.item = replace(one.item, cause=Cause.UNKNOWN, evidence=words)

    def _higher(self, at: int, change: float, before: Steps, now: Steps) -> None:
        """A level that is ``change`` (logarithm) above the one that was expected, or drifts."""
        every = range(1, len(self.slow) + 1)
        sets = [some for number in every for some in combinations(self.slow, number)]
        grew = energy_grew(self.phase, self.grid, now, before) if self.phase.writes else None

        def misfit(some: tuple[_Slow, ...]) -> float:
            against = len(some) == 1 and grew is not None and some[0].hot is grew
            back = -sum(math.log(one.ratio) for one in some)
            later = sum(one not in some for one in self.slow[self.slow.index(some[0]) :])
            return abs(change - back) + FITS * against + LAST_FIRST * (len(some) + later)

        ended = min(sets, key=misfit)
        ended = ended if misfit(ended) < change else ()
        beyond = change + sum(math.log(one.ratio) for one in ended)
        if not ended or beyond < -FITS:
            # It began with something else at the same moment: part of it ended.
            deep = [one for one in self.slow if -math.log(one.ratio) > change]
            one = (deep or self.slow)[-1]
            one.ratio *= math.exp(change)
            if change > FITS and grew and one.hot and not one.has_eased:
                item = replace(one.item, cause=Cause.UNKNOWN, costly=True)
                self.found.append(self._ended(replace(one, item=item), at))
            one.has_eased |= change > FITS
            ended = (one,) if one.ratio > math.sqrt(REDUCED) else ()
        for one in ended:
            self.slow.remove(one)
            self.found.append(self._ended(one, at))
        if ended and self.slow:
            self.slow[-1].ratio *= self.levels.mean(*now) / self._expected()
        if change > FITS:
            self.rose = at

    def _rise_of_free(self, at: int, now: Steps, first: bool) -> None:
        """A rise where no fall was seen: the phase may have begun slow."""
        levels, grid = self.levels, self.grid
        level, begun = levels.first(now), levels.mean(0, at)
        if self.throttled_before:
            if self.lets_go(grid.moment(at), level * grid.unit):
                self.throttled_before, self.released = False, grid.moment(at)
        elif first and not self.found and begun < REDUCED * level:
            beside = now[0], min(now[1], now[0] + levels.around)
            fall = Fall(beside, (0, at), 0, level, begun, at, at_start=True)
            self.found.append(replace(judged(self.phase, grid, fall), end_ns=grid.moment(at)))

    def _ended(self, one: _Slow, end: int) -> ThrottleInterval:
        grid = self.grid
        end_ns = self.phase.end_ns if end >= len(grid.x) - 1 else grid.moment(end)
        begin = round((one.item.begin_ns - grid.begin_ns) / grid.step_ns)
        during = grid.iops(begin, max(end, begin + 1))
        return replace(one.item, end_ns=end_ns, iops_during=during)
