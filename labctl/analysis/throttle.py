"""When the drive did less than it could, and why: intervals with their evidence.

Three questions are asked of each phase. Where does the level of IOPS change? Which stretches lie
clearly below the level that the drive showed it can do in this phase? And what went with it:
temperature and watts (thermal), a single lasting step of a writing phase (write cache), dips that
come again (garbage collection), no I/O at all (host stall)?
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from labctl.analysis.changes import Floats, scatter_of_steps, segment_bounds
from labctl.analysis.heat import Heat
from labctl.analysis.results import ThrottleInterval
from labctl.analysis.series import Ints

REDUCED = 0.90
"""A stretch counts as reduced below this fraction of the phase's own level."""

ABRUPT = 0.94
"""Mean IOPS just after over just before a change; a slower decline is no throttling."""

STALLED = 0.02
"""Below this fraction of the level no I/O gets through."""

SHORTEST_S = 2.0
"""Shortest stretch that is looked for."""

AROUND_S = 4.0
"""What "just before" and "just after" mean."""

BURST_S = 5.0
"""A faster start of a phase that reads, up to this long, is no level to hold it to."""

MOST_POINTS = 7200
QUIET = 0.94
WATTS_FELL = 0.97
THROTTLING = ("thermal", "power_limit")
"""Causes that count as throttled time."""


@dataclass(frozen=True, slots=True)
class PhaseSignals:
    """What is known of a phase: fio's interval IOPS (time = middle of the interval) and more.

    ``watts_between`` gives the mean total watts between two moments, None when not measured.
    """

    index: int
    begin_ns: int
    end_ns: int
    writes: bool
    t_ns: Ints
    iops: Floats
    heat: Heat
    watts_between: Callable[[int, int], float | None]
    workload: str = ""
    """Phases with the same one should do the same IOPS; empty: not known."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """IOPS on even steps, relative to their median, and how to get back."""

    x: Floats
    unit: float
    begin_ns: int
    step_ns: int

    def moment(self, index: int) -> int:
        return self.begin_ns + index * self.step_ns

    def points(self, seconds: float) -> int:
        return max(round(seconds * 1e9 / self.step_ns), 2)


@dataclass(frozen=True, slots=True)
class _Dip:
    begin: int
    end: int
    before: float
    during: float
    stalled: bool


def find_throttling(phases: Sequence[PhaseSignals]) -> tuple[ThrottleInterval, ...]:
    """All reduced stretches of a run's phases (in order of time), with cause and evidence."""
    found: list[ThrottleInterval] = []
    slow: list[PhaseSignals] = []
    free: dict[str, float] = {}
    for phase in phases:
        last = found[-1] if found else None
        hot = last is not None and last.cause == "thermal" and _just_before(last, phase)
        intervals = _of_phase(phase, last if hot else None)
        found += intervals
        if hot and not intervals and _stays_hot(phase):
            slow.append(phase)
        elif not intervals and phase.workload and len(phase.iops):
            level = float(np.mean(phase.iops))
            free[phase.workload] = max(level, free.get(phase.workload, 0.0))
    # Only now, so that nothing is carried over from what was itself carried over.
    carried = [_carried_over(phase, free.get(phase.workload)) for phase in slow]
    found += [item for item in carried if item is not None]
    return tuple(sorted(found, key=lambda item: item.begin_ns))


def throttled_s(intervals: Sequence[ThrottleInterval], index: int) -> float:
    """Seconds of a phase in which the drive held itself back (``THROTTLING`` causes only)."""
    return sum(
        item.duration_s
        for item in intervals
        if item.phase_index == index and item.cause in THROTTLING
    )


def _just_before(last: ThrottleInterval, phase: PhaseSignals) -> bool:
    return 0 <= phase.begin_ns - last.end_ns < 3_000_000_000


def _of_phase(phase: PhaseSignals, hot: ThrottleInterval | None) -> list[ThrottleInterval]:
    grid = _on_grid(phase)
    if grid is None:
        return []
    dips = _dips(grid, phase.writes, 0)
    found = [_explained(phase, grid, dip, hot) for dip in dips]
    intervals = _repeated([item for item in found if item is not None], phase)
    cache = [item for item in intervals if item.cause == "write_cache"]
    if cache:
        start = round((cache[-1].begin_ns - grid.begin_ns) / grid.step_ns)
        later = [_explained(phase, grid, dip, None) for dip in _dips(grid, phase.writes, start)]
        rest = [item for item in later if item is not None and item.cause != "write_cache"]
        intervals = [*intervals, *_repeated(rest, phase)]
    return intervals


def _stays_hot(phase: PhaseSignals) -> bool:
    return phase.heat.stays_hot(phase.begin_ns, phase.end_ns) and _on_grid(phase) is not None


def _on_grid(phase: PhaseSignals) -> _Grid | None:
    """Interval IOPS on even steps: each step takes the interval that covers it.

    A status that came late stands for a longer interval, whose length follows from the middles
    of its neighbours.
    """
    inside = (phase.t_ns >= phase.begin_ns) & (phase.t_ns <= phase.end_ns)
    t, iops = (phase.t_ns[inside] - phase.begin_ns).astype(np.float64), phase.iops[inside]
    if len(t) < 8:
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
    ends = t + lengths / 2
    centres = (np.arange(int(duration // step)) + 0.5) * step
    which = np.clip(np.searchsorted(ends, centres), 0, len(t) - 1)
    x = iops[which] / unit
    lost = centres < t[which] - lengths[which] / 2 - 2 * usual
    x[lost & (which > 0)] = 0.0
    if step > 1.5 * usual:
        sums = np.concatenate([[0.0], np.cumsum(iops * lengths)])
        cuts = np.clip(np.searchsorted(ends, np.arange(len(centres) + 1) * step), 0, len(t))
        weight = np.concatenate([[0.0], np.cumsum(lengths)])
        span = np.diff(weight[cuts])
        x = np.where(span > 0, np.diff(sums[cuts]) / np.where(span > 0, span, 1) / unit, x)
    return _Grid(x=x, unit=unit, begin_ns=phase.begin_ns, step_ns=round(step))


def _dips(grid: _Grid, writes: bool, start: int) -> list[_Dip]:
    """Stretches from ``start`` on that lie clearly below the level of the phase."""
    x = grid.x[start:]
    shortest = grid.points(SHORTEST_S)
    if len(x) < 2 * shortest:
        return []
    smooth = np.convolve(x, np.full(shortest, 1.0 / shortest), mode="valid")
    if smooth.min() >= QUIET * np.quantile(smooth, 0.9):
        return []
    noise = scatter_of_steps(x)
    penalty = max(5 * noise**2 * np.log(len(x)), 0.01)
    bounds = segment_bounds(x, penalty, shortest)
    levels = [float(x[a:b].mean()) for a, b in itertools.pairwise(bounds)]
    top = _reference(levels, bounds, grid, writes)
    limit = min(REDUCED, 1 - 3 * noise / top / shortest**0.5) * top
    dips: list[_Dip] = []
    state: bool | None = None
    for level, a, b in zip(levels, bounds[:-1], bounds[1:], strict=True):
        kind = None if level >= limit else level < STALLED * top
        if kind is not None and kind == state:
            dips[-1] = _Dip(dips[-1].begin, start + b, dips[-1].before, 0.0, kind)
        elif kind is not None:
            dips.append(_Dip(start + a, start + b, 0.0, 0.0, kind))
        state = kind
    return [dip for dip in (_measured(grid, dip, start, top) for dip in dips) if dip is not None]


def _reference(levels: list[float], bounds: list[int], grid: _Grid, writes: bool) -> float:
    """The highest level of the phase; a short burst at the start of a reading phase aside."""
    if not writes and len(levels) > 1 and bounds[1] <= grid.points(BURST_S):
        return max(levels[1:])
    return max(levels)


def _measured(grid: _Grid, dip: _Dip, start: int, top: float) -> _Dip | None:
    """The dip with its levels; None when it came or went too slowly to be one."""
    around = grid.points(AROUND_S)
    during = float(grid.x[dip.begin : dip.end].mean())
    if dip.begin > start:
        before = float(grid.x[max(dip.begin - around, start) : dip.begin].mean())
        after = float(grid.x[dip.begin : min(dip.begin + around, dip.end)].mean())
        stalled_before = before < STALLED * top
        if after > ABRUPT * before and not stalled_before:
            return None
        before = top if stalled_before else before
    else:
        if dip.end >= len(grid.x):
            return None
        before = float(grid.x[dip.end : dip.end + around].mean())
        if during > ABRUPT * before:
            return None
    return _Dip(dip.begin, dip.end, before, during, dip.stalled)


def _explained(
    phase: PhaseSignals, grid: _Grid, dip: _Dip, hot: ThrottleInterval | None
) -> ThrottleInterval | None:
    """The dip as an interval with its cause; None for a slow start without any cause."""
    begin_ns = grid.moment(dip.begin)
    to_end = dip.end >= len(grid.x) - 1
    end_ns = phase.end_ns if to_end else grid.moment(dip.end)
    at_start = dip.begin == 0
    around = round(AROUND_S * 1e9)
    if at_start:
        watts_before = phase.watts_between(end_ns, min(end_ns + around, phase.end_ns))
    else:
        watts_before = phase.watts_between(max(begin_ns - around, phase.begin_ns), begin_ns)
    watts_during = phase.watts_between(begin_ns, end_ns)
    fell = watts_before is None or watts_during is None or watts_during < WATTS_FELL * watts_before
    seen = [f"IOPS {dip.before * grid.unit:.0f} → {dip.during * grid.unit:.0f}"]
    if watts_before is not None and watts_during is not None:
        seen.append(f"watts {watts_before:.2f} → {watts_during:.2f}")
    heat = phase.heat.at_limit(begin_ns, end_ns, at_start, hot is not None)
    if dip.stalled:
        cause = "host_stall"
        seen.append("no I/O got through")
    elif heat is not None and fell:
        cause = "thermal"
        seen.append(heat)
    elif at_start:
        return None
    elif phase.writes and to_end:
        cause = "write_cache"
        seen.append("one lasting step down in a phase that writes, without a link to temperature")
    else:
        cause = "unknown"
        seen.append("without a link to temperature")
    return ThrottleInterval(
        begin_ns=begin_ns,
        end_ns=end_ns,
        phase_index=phase.index,
        cause=cause,
        evidence="; ".join(seen),
        iops_before=dip.before * grid.unit,
        iops_during=dip.during * grid.unit,
        watts_before=watts_before,
        watts_during=watts_during,
        celsius=phase.heat.celsius_at(begin_ns),
    )


def _repeated(found: list[ThrottleInterval], phase: PhaseSignals) -> list[ThrottleInterval]:
    """Dips of a writing phase that come again, without heat, are the drive's housekeeping."""
    dips = [item for item in found if item.cause == "unknown"]
    if not phase.writes or len(dips) < 2:
        return found
    spacing = np.diff([item.begin_ns for item in dips]) * 1e-9
    words = f"{len(dips)} dips, one every {spacing.mean():.0f} s"
    if len(spacing) > 1:
        words += f" (±{spacing.std(ddof=1) / spacing.mean():.0%})"
    return [
        _with(item, "garbage_collection", f"{item.evidence}; {words}")
        if item.cause == "unknown"
        else item
        for item in found
    ]


def _carried_over(phase: PhaseSignals, free: float | None) -> ThrottleInterval | None:
    """A whole phase after one that ended throttled, the drive never cool since.

    ``free`` is the level of IOPS of the same workload when it was not throttled. Heat alone is no
    proof: without that level it stays open whether the drive held itself back.
    """
    level = float(np.mean(phase.iops))
    if free is not None and level >= REDUCED * free:
        return None
    warm = phase.heat.words(phase.begin_ns, phase.end_ns)
    since = f"the phase before ended throttled and the drive has not cooled since: {warm}"
    if free is None:
        cause, evidence = "unknown", f"may be thermal: {since}; no level to compare IOPS with"
    else:
        cause = "thermal"
        evidence = f"{since}; IOPS {level:.0f}, unthrottled the same workload did {free:.0f}"
    return ThrottleInterval(
        begin_ns=phase.begin_ns,
        end_ns=phase.end_ns,
        phase_index=phase.index,
        cause=cause,
        evidence=evidence,
        iops_before=free if free is not None else float("nan"),
        iops_during=level,
        watts_before=None,
        watts_during=phase.watts_between(phase.begin_ns, phase.end_ns),
        celsius=phase.heat.celsius_at(phase.begin_ns),
    )


def _with(item: ThrottleInterval, cause: str, evidence: str) -> ThrottleInterval:
    return ThrottleInterval(
        item.begin_ns,
        item.end_ns,
        item.phase_index,
        cause,
        evidence,
        item.iops_before,
        item.iops_during,
        item.watts_before,
        item.watts_during,
        item.celsius,
    )
