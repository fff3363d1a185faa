"""Why IOPS fell: what went with a fall in counters, host, energy, temperature and power state."""

from __future__ import annotations

from dataclasses import dataclass, replace

from labctl.analysis.throttle_result import Cause, ThrottleInterval
from labctl.analysis.throttling.levels import AROUND_S, REDUCED, SHORTEST_S, STALLED, Steps
from labctl.analysis.throttling.signals import PhaseSignals, SteppedIops

BUSY_WATTS = 1.5
"""What a drive may take above idle just for being busy, however little it does (a choice), at most
two thirds of its watts above idle. These do not fall with IOPS; the watts of the work must do so to
``REDUCED`` of the share by which IOPS fell in a drive that held itself back: its energy per
operation stays as it was. Past the end of a write cache, and while it collects garbage, each write
costs more energy."""

WORK_WATTS = 0.5
"""Watts above idle before a fall, from which on it is judged how watts followed IOPS."""

NEAR_NS = 5_000_000_000
"""A power state that was set this close to the begin of a fall is why."""

ROSE = 1.01
"""Watts during over watts before, above which the drive did not hold itself back."""


@dataclass(frozen=True, slots=True)
class Fall:
    """A fall of IOPS in steps of a grid; levels are relative to the grid's unit."""

    beside: Steps
    inside: Steps
    begin: int
    before: float
    during: float
    level_end: int
    """Where the level to which it fell ends."""
    at_start: bool = False
    """The phase began in it: ``beside`` is after it."""


def judged(phase: PhaseSignals, grid: SteppedIops, fall: Fall) -> ThrottleInterval:
    """A fall as an interval with its cause and what shows it; its end is that of ``inside``."""
    seen = ThrottleInterval(
        begin_ns=grid.moment(fall.begin),
        end_ns=min(grid.moment(fall.inside[1]), phase.end_ns),
        phase_index=phase.index,
        cause=Cause.UNKNOWN,
        evidence="",
        iops_before=fall.before * grid.unit,
        iops_during=fall.during * grid.unit,
        watts_before=_cause_step_watts(phase, grid, fall.beside),
        watts_during=_cause_step_watts(phase, grid, fall.inside),
        celsius=phase.temperature.celsius_at(grid.moment(fall.begin)),
    )
    words = [f"IOPS {seen.iops_before:.0f} → {seen.iops_during:.0f}"]
    if seen.watts_before is not None and seen.watts_during is not None:
        words.append(f"watts {seen.watts_before:.2f} → {seen.watts_during:.2f}")
    found = _cause(phase, grid, fall, seen)
    return replace(found, evidence="; ".join([*words, found.evidence]))


def _cause_inner_steps(steps: Steps) -> Steps:
    return (steps[0] + 1, steps[1] - 1) if steps[1] - steps[0] > 2 else steps


def _cause_step_moments(phase: PhaseSignals, grid: SteppedIops, steps: Steps) -> tuple[int, int]:
    low, high = _cause_inner_steps(steps)
    if steps[1] >= len(grid.x) and high < steps[1]:
        high = steps[1]
    return grid.moment(low), min(grid.moment(high), phase.end_ns)


def _cause_step_watts(phase: PhaseSignals, grid: SteppedIops, steps: Steps) -> float | None:
    return (
        phase.watts_between(*_cause_step_moments(phase, grid, steps))
        if steps[1] > steps[0]
        else None
    )


def energy_grew(phase: PhaseSignals, grid: SteppedIops, more: Steps, less: Steps) -> bool | None:
    """Whether each operation took more energy in the stretch that did ``less``; None when that
    cannot be told. Judged by the seconds of each that are next to the other."""
    around = 2 * grid.points(AROUND_S)
    if more[0] >= less[1]:
        more, less = (
            (more[0], min(more[1], more[0] + around)),
            (max(less[0], less[1] - around), less[1]),
        )
    watts = _cause_step_watts(phase, grid, more), _cause_step_watts(phase, grid, less)
    return _cause_energy_grew(
        phase,
        watts,
        grid.iops(*_cause_inner_steps(less)) / max(grid.iops(*_cause_inner_steps(more)), 1e-9),
    )


def _cause_energy_grew(
    phase: PhaseSignals, watts: tuple[float | None, float | None], ratio: float
) -> bool | None:
    before, during = watts
    if phase.idle_watts is None or before is None or during is None or ratio >= 1:
        return None
    above = before - phase.idle_watts
    if above < WORK_WATTS:
        return None
    busy = min(BUSY_WATTS / above, 2 / 3)
    return (before - during) / above < REDUCED * (1 - busy) * (1 - ratio)


def same_energy(item: ThrottleInterval, idle_watts: float | None) -> bool:
    """Whether an operation took no more energy in a stretch than before, all watts above idle
    counted; never said of watts that are too few to judge by."""
    if idle_watts is None or item.watts_before is None or item.watts_during is None:
        return False
    before, during = item.watts_before - idle_watts, item.watts_during - idle_watts
    if before < WORK_WATTS:
        return False
    return REDUCED * during * item.iops_before <= before * item.iops_during


def _cause(
    phase: PhaseSignals, grid: SteppedIops, fall: Fall, seen: ThrottleInterval
) -> ThrottleInterval:
    """The first rule that fits."""

    def of_cause(
        cause: Cause, *words: str | None, counted: bool = False, costly: bool = False
    ) -> ThrottleInterval:
        evidence = "; ".join(filter(None, words))
        return replace(seen, cause=cause, evidence=evidence, counters_moved=counted, costly=costly)

    if fall.during < STALLED * fall.before:
        return _standstill_cause(phase, grid, fall, seen)
    watts = seen.watts_before, seen.watts_during
    heat = phase.temperature.at_limit(seen.begin_ns, seen.end_ns, fall.at_start)
    cool = heat is None and phase.temperature.knows_limit
    # Counters are read seldom: where the drive was known to be cool, some other stretch moved them.
    end_ns = min(grid.moment(fall.level_end), phase.end_ns) if cool else seen.end_ns
    counted = phase.counters.moved(seen.begin_ns, end_ns, closely=cool)
    grew = _cause_energy_grew(phase, watts, fall.during / fall.before)
    rose = watts[0] is not None and watts[1] is not None and watts[1] > ROSE * watts[0]
    flash = phase.writes and bool(grew) and phase.counters.began(seen.begin_ns) is None
    if counted is None and not flash:
        host = _host_as_cause(phase, grid, fall, heat is not None and not rose)
        if host is not None:
            return of_cause(Cause.HOST_STALL, host, heat)
    if not flash and not rose and (heat is not None or counted is not None):
        words = f"the drive's own counters moved: {counted}" if counted is not None else None
        return of_cause(Cause.THERMAL, heat, words, counted=counted is not None)
    limit = phase.counters.power_limit(seen.begin_ns + NEAR_NS)
    if limit is not None and any(
        abs(t_ns - seen.begin_ns) < NEAR_NS for t_ns in phase.counters.changes_of_state()
    ):
        return of_cause(Cause.POWER_LIMIT, f"{limit[0]} since then")
    words = "without a link to temperature" if heat is None else heat
    more = "each write took more energy than before" if flash else None
    calm = len(phase.host.waiting[0]) and not phase.host.near(seen.begin_ns, seen.end_ns)
    if grew is False and calm and not (phase.writes and phase.heat_recorded):
        more = "likely throttling: no operation took more energy than before, nor was the host busy"
    return of_cause(Cause.UNKNOWN, words, more, costly=flash)


def _host_as_cause(phase: PhaseSignals, grid: SteppedIops, fall: Fall, as_heat: bool) -> str | None:
    """What the drive's host was short of, if that accounts for a fall; or, if it looks as heat
    does, may do so."""
    beside, inside = (
        _cause_step_moments(phase, grid, steps) for steps in (fall.beside, fall.inside)
    )
    depth = 1 - fall.during / fall.before
    risen = phase.host.why(beside, inside, depth)
    if risen is not None or not as_heat:
        return risen
    if fall.inside[1] - fall.inside[0] < grid.points(SHORTEST_S):
        return phase.host.near(grid.moment(fall.begin), grid.moment(fall.inside[1]))
    return phase.host.throughout(beside, inside, depth)


def _standstill_cause(
    phase: PhaseSignals, grid: SteppedIops, fall: Fall, seen: ThrottleInterval
) -> ThrottleInterval:
    """No I/O at all: the host's fault unless the drive went on taking power."""
    words = ["no I/O got through"]
    late = bool(grid.late[fall.inside[0] : fall.inside[1]].mean() > 0.5)
    margin = (seen.end_ns - seen.begin_ns) // 4
    silent = phase.silent_between(seen.begin_ns + margin, seen.end_ns - margin)
    words += ["fio itself did not report"] if late else []
    words += ["every series that this machine stamps stopped"] if silent else []
    if (
        not late
        and not silent
        and _cause_energy_grew(phase, (seen.watts_before, seen.watts_during), 0.0)
    ):
        words.append("while fio reported and the drive went on taking power")
        return replace(seen, evidence="; ".join(words))
    return replace(seen, cause=Cause.HOST_STALL, evidence="; ".join(words))
