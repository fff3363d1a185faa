"""Points that were measured in rounds: their result is the mean over the measurement window.

The window is the last five rounds (SNIA PTS 2.0.2): those that were steady together, or where no
steady state was reached the last ones there are, which the result marks. Every round stays a phase
of the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from labctl.analysis.estimate import Component, Estimate, Series
from labctl.analysis.phase_result import (
    HostPower,
    PhaseResult,
    RailResult,
    TemperatureResult,
    WindowMaximum,
)
from labctl.analysis.readings.cpu_use import mean_cpu_use
from labctl.analysis.run_summary import RunSummary, SteadyRounds
from labctl.analysis.stats.host_watts import host_watts_beside_drive
from labctl.analysis.stats.uncertainty import (
    combined,
    expanded,
    expanded_u,
    ratio,
    student_factor,
)
from labctl.fio.results import bounds_notes, mean_direction
from labctl.record.events import Outcome
from labctl.record.phase import Role
from labctl.record.point_end import PointEnd, PointEnding

SCATTER = "scatter between rounds"


def window_means(
    results: Sequence[PhaseResult], steady: Sequence[SteadyRounds]
) -> tuple[PhaseResult, ...]:
    """One result a point: the mean over the measurement window of its sweep."""
    found = []
    for one in steady:
        first, last = one.window
        points: dict[object, list[PhaseResult]] = {}
        for item in results:
            phase = item.phase
            own = phase.role is Role.MEASURE and phase.sweep_number == one.sweep_number
            if own and first <= phase.round <= last:
                points.setdefault(phase.point, []).append(item)
        found += [_window_mean(group) for group in points.values()]
    return tuple(sorted(found, key=lambda item: item.phase.index))


def rounds_of_mean(summary: RunSummary, mean: PhaseResult) -> tuple[PhaseResult, ...]:
    """The completed rounds that a result of ``summary.window_means`` is the mean of; else none."""
    if not any(mean is one for one in summary.window_means):
        return ()
    windows = {one.sweep_number: one.window for one in summary.steady_rounds}
    first, last = windows[mean.phase.sweep_number]
    return tuple(
        item
        for item in summary.measured
        if item.phase.point == mean.phase.point
        and first <= item.phase.round <= last
        and item.outcome == Outcome.COMPLETED
    )


def _window_mean(rounds: Sequence[PhaseResult]) -> PhaseResult:
    """The mean of the completed ones; the last as it is where none was completed."""
    last = rounds[-1]
    good = [item for item in rounds if item.outcome == Outcome.COMPLETED]
    if not good:
        return replace(last, phase=replace(last.phase, round=0))
    iops, bytes_per_s = (
        _window_average([i.iops for i in good]),
        _window_average([i.bytes_per_s for i in good]),
    )
    rails = {
        name: _window_mean_rail([item.rails[name] for item in good])
        for name in good[0].rails
        if all(name in item.rails for item in good)
    }
    watts = _window_mean_total([item.watts for item in good], rails.values())
    rate = _window_mean_rate(iops, good)
    data_rate = rate.scaled(bytes_per_s / iops) if rate and iops and bytes_per_s else None
    series = [item.watts_series for item in good if item.watts_series is not None]
    read = mean_direction([item.read for item in good if item.read is not None])
    write = mean_direction([item.write for item in good if item.write is not None])
    own = bounds_notes({"read": last.read, "write": last.write})
    return replace(
        last,
        notes=(
            *(note for note in last.notes if note not in own),
            *bounds_notes({"read": read, "write": write}),
        ),
        phase=replace(last.phase, round=0),
        outcome=Outcome.COMPLETED if len(good) == len(rounds) else last.outcome,
        gap_before_ms=None,
        rails=rails,
        watts=watts,
        watts_series=_window_mean_series(series) if series else None,
        joules=_window_mean_energy([(item.joules, item.watts) for item in good], watts),
        marginal_watts=_mean_of_windows([item.marginal_watts for item in good]),
        read=read,
        write=write,
        iops=iops,
        bytes_per_s=bytes_per_s,
        iops_per_watt=ratio(rate, watts),
        bytes_per_joule=ratio(data_rate, watts),
        joules_per_io=ratio(watts, rate),
        temperatures=_window_mean_temperatures(good),
        throttled_s=sum(item.throttled_s for item in good) / len(good),
        alignment_ms=max(
            (i.alignment_ms for i in good if i.alignment_ms is not None), default=None
        ),
        at_least_watts=None,
        steady=None,
        unthrottled_s=None,
        watts_unthrottled=None,
        iops_unthrottled=None,
        cpu=mean_cpu_use([item.cpu for item in good]),
        fio_clock=_mean_of_windows([item.fio_clock for item in good]),
        point_end=_point_end([item.point_end for item in good]),
        power_envelope=_window_mean_envelope([item.power_envelope for item in good]),
        host_power=_host_power(good, watts, rate, data_rate),
    )


def _host_power(
    rounds: Sequence[PhaseResult],
    watts: Estimate | None,
    rate: Estimate | None,
    data_rate: Estimate | None,
) -> dict[str, HostPower]:
    """Of the meters that read in every round; a share where the rounds have one."""
    found = {}
    for name, last in rounds[-1].host_power.items():
        mean = _mean_of_windows(
            [item.host_power[name].watts if name in item.host_power else None for item in rounds]
        )
        if mean is not None:
            of_drive = None if last.drive_share is None else watts
            found[name] = host_watts_beside_drive(mean, of_drive, rate, data_rate)
    return found


def _window_mean_envelope(rounds: Sequence[tuple[WindowMaximum, ...]]) -> tuple[WindowMaximum, ...]:
    """The largest of the rounds at each length; none where a round has none."""
    found = []
    for same in zip(*rounds, strict=False):
        blocked_s = sum(one.blocked_s for one in same)
        without = [one for one in same if one.watts is None]
        best = max(same, key=lambda one: -math.inf if one.watts is None else one.watts.value)
        found.append(replace(without[0] if without else best, blocked_s=blocked_s))
    return tuple(found)


def _point_end(ends: Sequence[PointEnd | None]) -> PointEnd | None:
    """How the rounds ended: the last that was not good enough, else the last."""
    known = [one for one in ends if one is not None]
    unsettled = [one for one in known if one.ended is PointEnding.LONGEST]
    return next(reversed(unsettled or known), None)


def _window_average(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def scatter_u(values: Sequence[float]) -> float:
    """U of the mean of rounds from their scatter: about 95 % with Student's factor for as many as
    there are. NaN (not known) for fewer than two."""
    line = _scatter_line(values)
    return math.nan if line is None else student_factor(line.dof) * line.watts


def _scatter_line(values: Sequence[float]) -> Component | None:
    """What rounds differ by, as a line of their mean's budget; None for fewer than two."""
    n = len(values)
    if n < 2:
        return None
    mean = sum(values) / n
    u = math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n)
    return Component(SCATTER, "A", u, f"standard deviation of {n} rounds / √{n}", dof=n - 1.0)


def _window_mean_repeatability(values: Sequence[float]) -> float | None:
    return scatter_u(values) if len(values) > 1 else None


def _mean_budget(rounds: Sequence[RailResult]) -> tuple[Component, ...]:
    """The budget of a mean over rounds, but for the scatter between them.

    What scatters is independent from round to round and averages out; limits of instruments and
    what else is not known are the same error in all.
    """
    lines: dict[tuple[str, str], list[Component]] = {}
    for one in rounds:
        for line in one.budget:
            lines.setdefault((line.name, line.source), []).append(line)
    merged = []
    for same in lines.values():
        if same[0].kind == "A" and not same[0].source:
            u, dof = combined(same)
        else:
            u, dof = sum(line.watts for line in same), min(line.dof for line in same)
        merged.append(replace(same[-1], watts=u / len(rounds), dof=dof))
    return tuple(merged)


def _with_scatter(budget: Iterable[Component], values: Sequence[float]) -> tuple[Component, ...]:
    line = _scatter_line(values)
    return tuple(budget) if line is None else (*budget, line)


def _window_mean_total(
    values: Sequence[Estimate | None], rails: Iterable[RailResult]
) -> Estimate | None:
    """The mean of all rails together: the errors of each, and how their sum differed."""
    known = [one.value for one in values if one is not None]
    if not known or len(known) < len(values):
        return None
    lines = [line for rail in rails for line in rail.budget if line.name != SCATTER]
    u = expanded_u(_with_scatter(lines, known))
    return Estimate(sum(known) / len(known), u, _window_mean_repeatability(known))


def _window_mean_rate(iops: float | None, rounds: Sequence[PhaseResult]) -> Estimate | None:
    """IOPS of the mean; how far one round is from it is not known (NaN)."""
    if not iops:
        return None
    values = [item.iops or 0.0 for item in rounds]
    if len(values) > 1:
        return Estimate(iops, scatter_u(values), scatter_u(values))
    return Estimate(iops, math.nan)


def _window_mean_energy(
    rounds: Sequence[tuple[Estimate | None, Estimate | None]], watts: Estimate | None
) -> Estimate | None:
    """Joules of a round on average: the mean watts' U, and that of the edges of the rounds."""
    known = [(joules, one) for joules, one in rounds if joules is not None and one is not None]
    if watts is None or len(known) < len(rounds):
        return None
    n = len(known)
    value = sum(joules.value for joules, _ in known) / n
    if not watts.value:
        return _mean_of_windows([joules for joules, _ in known])
    seconds = value / watts.value
    edges = sum(max(joules.u**2 - (one.u * seconds) ** 2, 0.0) for joules, one in known) / n
    again = _window_mean_repeatability([joules.value for joules, _ in known])
    return Estimate(value, math.hypot(watts.u * seconds, math.sqrt(edges)), again)


def _mean_of_windows(values: Sequence[Estimate | None]) -> Estimate | None:
    """The mean. The rounds' own U are of the same meters and do not average out: their mean
    counts, and the scatter between rounds on top."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    mean = sum(one.value for one in known) / len(known)
    own = sum(one.u for one in known) / len(known)
    again = _window_mean_repeatability([one.value for one in known])
    return Estimate(mean, math.hypot(own, again or 0.0), again)


def _window_mean_series(parts: Sequence[Series]) -> Series:
    n = sum(one.n for one in parts)
    mean = sum(one.mean for one in parts) / len(parts)
    spread = sum(one.std**2 + (one.mean - mean) ** 2 for one in parts) / len(parts)
    return Series(
        mean=mean,
        min=min(one.min for one in parts),
        max=max(one.max for one in parts),
        std=math.sqrt(spread),
        n=n,
        n_effective=sum(one.n_effective for one in parts),
    )


def _window_mean_rail(rounds: Sequence[RailResult]) -> RailResult:
    last = rounds[-1]
    values = [one.watts.value for one in rounds]
    budget = _with_scatter(_mean_budget(rounds), values)
    watts = replace(
        expanded(sum(values) / len(values), budget),
        repeatability=_window_mean_repeatability(values),
    )
    joules = _window_mean_energy([(one.joules, one.watts) for one in rounds], watts)
    assert joules is not None
    return replace(
        last,
        volts=_window_mean_series([one.volts for one in rounds]),
        amps=_window_mean_series([one.amps for one in rounds]),
        watts=watts,
        watts_series=_window_mean_series([one.watts_series for one in rounds]),
        joules=joules,
        budget=budget,
        alignment_ms=max(one.alignment_ms for one in rounds),
        covered=min(one.covered for one in rounds),
        power_envelope=_window_mean_envelope([one.power_envelope for one in rounds]),
    )


def _window_mean_temperatures(rounds: Sequence[PhaseResult]) -> dict[str, TemperatureResult]:
    first, last = rounds[0].temperatures, rounds[-1].temperatures
    return {
        name: TemperatureResult(
            start=first[name].start,
            max=max(item.temperatures[name].max for item in rounds),
            end=last[name].end,
        )
        for name in first
        if all(name in item.temperatures for item in rounds)
    }
