"""When the drive did less than it could, and why: intervals with their evidence.

Where IOPS fell is found in :mod:`labctl.analysis.throttling.slow_stretches`, why in
:mod:`labctl.analysis.throttling.causes`. What a single fall does not show follows from others like
it (:mod:`labctl.analysis.throttling.repeated_falls`), and from the rest of the run
(:mod:`labctl.analysis.throttling.run_knowledge`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from labctl.analysis.throttle_result import Cause, ThrottleInterval
from labctl.analysis.throttling.levels import SHORTEST_S, Levels
from labctl.analysis.throttling.power_limits import limited
from labctl.analysis.throttling.repeated_falls import (
    explained_by_others,
    heat_or_cache,
    overlapping_as_one,
    repeated_falls_of_flash,
    without_pauses,
)
from labctl.analysis.throttling.run_knowledge import (
    NOTHING,
    Known,
    doubted,
    ended_in,
    known,
    since_begin,
    stretch_before,
)
from labctl.analysis.throttling.signals import PhaseSignals, SteppedIops, on_grid
from labctl.analysis.throttling.slow_stretches import Walk

_Cut = tuple[SteppedIops, Levels]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one phase, or several, show: slow stretches; begins of phases that were slow for no
    known reason; whether heat was seen to take more of what it had left."""

    found: Sequence[ThrottleInterval] = ()
    starts: Sequence[ThrottleInterval] = ()
    fell_further: bool = False

    def and_then(self, other: _Seen) -> _Seen:
        return _Seen(
            [*self.found, *other.found],
            [*self.starts, *other.starts],
            self.fell_further or other.fell_further,
        )


def find_throttling(phases: Sequence[PhaseSignals]) -> tuple[ThrottleInterval, ...]:
    """All slow stretches of a run's phases (in order of time), with cause and evidence."""
    cuts = [None if grid is None else (grid, Levels.of(grid)) for grid in map(on_grid, phases)]
    alone = _detect_in_phases(phases, cuts, NOTHING)
    what = known(phases, alone.found, alone.starts, alone.fell_further)
    again = [
        replace(one, temperature=replace(one.temperature, fell_celsius=what.fell_celsius))
        for one in phases
    ]
    seen = _detect_in_phases(again, cuts, what)
    explained = limited(explained_by_others(seen.found, again), seen.starts, again)
    return tuple(without_pauses(heat_or_cache(explained, again), again))


def _detect_in_phases(
    phases: Sequence[PhaseSignals], cuts: Sequence[_Cut | None], what: Known
) -> _Seen:
    """The slow stretches of each phase."""
    all_seen = _Seen()
    last: ThrottleInterval | None = None
    for phase, cut in zip(phases, cuts, strict=True):
        earlier = stretch_before(last, phase)
        seen = _Seen() if cut is None else _of_phase(phase, cut, earlier, all_seen.found, what)
        all_seen = all_seen.and_then(seen)
        last = ended_in(phase, seen.found, earlier)
    return all_seen


def _of_phase(
    phase: PhaseSignals,
    cut: _Cut,
    before: ThrottleInterval | None,
    earlier: Sequence[ThrottleInterval],
    what: Known,
) -> _Seen:
    """The slow stretches of a phase; ``before`` is what the phase before ended in."""
    grid, levels = cut
    hot = before is not None and before.cause == Cause.THERMAL and what is not NOTHING
    walk = Walk(phase, grid, levels, hot, lambda at, iops: what.lets_go(phase, at, iops))
    every = walk.stretches()
    seen = [item for item in every if _is_reported(item, phase)]
    starts = [item for item in every if _is_slow_start(item, phase)]
    seen = overlapping_as_one(doubted(phase, overlapping_as_one(seen), earlier))
    if phase.writes:
        seen = repeated_falls_of_flash(phase, seen)
    if what is NOTHING:
        return _Seen(seen, starts, walk.fell_further)
    begun = since_begin(phase, seen, starts, before, walk.released, what)
    if begun is not None and begun.end_ns >= phase.end_ns:
        seen = [item for item in seen if item.cause != Cause.UNKNOWN]
    seen += [] if begun is None else [begun]
    return _Seen(overlapping_as_one(seen), starts, walk.fell_further)


def _is_reported(item: ThrottleInterval, phase: PhaseSignals) -> bool:
    """Whether a slowdown is reported: not one too short, nor a slow start without heat."""
    at_start = item.begin_ns <= phase.begin_ns
    long = item.duration_s >= SHORTEST_S - 0.01
    if item.cause == Cause.THERMAL:
        return long or not at_start
    return long and not at_start


def _is_slow_start(item: ThrottleInterval, phase: PhaseSignals) -> bool:
    return item.cause == Cause.UNKNOWN and item.begin_ns <= phase.begin_ns
