"""Points that were measured in rounds: their result is the mean over the measurement window.

The window is the last five rounds (SNIA PTS 2.0.2): those that were steady together, or where no
steady state was reached the last ones there are, which the result marks. Every round stays a phase
of the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from labctl.analysis.readings.cpu_use import mean_cpu_use
from labctl.analysis.results import (
    COVERAGE_FACTOR,
    Component,
    Estimate,
    PhaseResult,
    RailResult,
    RunSummary,
    Series,
    SteadyRounds,
    TemperatureResult,
)
from labctl.analysis.stats.uncertainty import ratio
from labctl.analysis.steady_state.rule import WINDOW
from labctl.fio.results import mean_direction
from labctl.record.events import Event, EventKind, Outcome
from labctl.record.phase import Role

SCATTER = "scatter between rounds"


def steady_rounds_of(
    events: Sequence[Event], results: Sequence[PhaseResult]
) -> tuple[SteadyRounds, ...]:
    """How each measured sweep with rounds ended; one that was cut off did not become steady."""
    ended = {
        event.data.get("sweep_number"): event.data
        for event in events
        if event.kind == EventKind.STEADY_STATE and isinstance(event.data.get("round"), int)
    }
    last: dict[tuple[int, str], int] = {}
    for item in results:
        if item.phase.role is Role.MEASURE and item.phase.round:
            last[item.phase.sweep_number, item.phase.sweep] = item.phase.round
    return tuple(
        SteadyRounds(
            sweep=sweep,
            sweep_number=number,
            rounds=done,
            reached=bool(ended.get(number, {}).get("reached")),
            window=(max(done - WINDOW + 1, 1), done),
            written=ended.get(number, {}).get("ended") == "written",
        )
        for (number, sweep), done in last.items()
    )


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
        found += [_mean(group) for group in points.values()]
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


def _mean(rounds: Sequence[PhaseResult]) -> PhaseResult:
    """The mean of the completed ones; the last as it is where none was completed."""
    last = rounds[-1]
    good = [item for item in rounds if item.outcome == Outcome.COMPLETED]
    if not good:
        return replace(last, phase=replace(last.phase, round=0))
    iops, bytes_per_s = _average([i.iops for i in good]), _average([i.bytes_per_s for i in good])
    watts = _estimate([item.watts for item in good])
    rate = Estimate(iops, scatter_u([item.iops or 0.0 for item in good])) if iops else None
    data_rate = None
    if rate is not None and bytes_per_s:
        data_rate = Estimate(bytes_per_s, rate.u * bytes_per_s / rate.value)
    rails = {
        name: _rail([item.rails[name] for item in good])
        for name in good[0].rails
        if all(name in item.rails for item in good)
    }
    series = [item.watts_series for item in good if item.watts_series is not None]
    return replace(
        last,
        phase=replace(last.phase, round=0),
        outcome=Outcome.COMPLETED if len(good) == len(rounds) else last.outcome,
        gap_before_ms=None,
        rails=rails,
        watts=watts,
        watts_series=_series(series) if series else None,
        joules=_estimate([item.joules for item in good]),
        marginal_watts=_estimate([item.marginal_watts for item in good]),
        read=mean_direction([item.read for item in good if item.read is not None]),
        write=mean_direction([item.write for item in good if item.write is not None]),
        iops=iops,
        bytes_per_s=bytes_per_s,
        iops_per_watt=ratio(rate, watts),
        bytes_per_joule=ratio(data_rate, watts),
        joules_per_io=ratio(watts, rate),
        temperatures=_temperatures(good),
        throttled_s=sum(item.throttled_s for item in good),
        alignment_ms=max(
            (i.alignment_ms for i in good if i.alignment_ms is not None), default=None
        ),
        steady=None,
        unthrottled_s=None,
        watts_unthrottled=None,
        iops_unthrottled=None,
        cpu=mean_cpu_use([item.cpu for item in good]),
    )


def _average(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def scatter_u(values: Sequence[float]) -> float:
    """U (k = 2) of the mean of the rounds from their scatter."""
    n = len(values)
    if n < 2:
        return 0.0
    mean = sum(values) / n
    return COVERAGE_FACTOR * math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n)


def _estimate(values: Sequence[Estimate | None]) -> Estimate | None:
    """The mean. The rounds' own U are of the same meters and do not average out: their mean
    counts, and the scatter between rounds on top."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    mean = sum(one.value for one in known) / len(known)
    own = sum(one.u for one in known) / len(known)
    return Estimate(mean, math.hypot(own, scatter_u([one.value for one in known])))


def _series(parts: Sequence[Series]) -> Series:
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


def _rail(rounds: Sequence[RailResult]) -> RailResult:
    last = rounds[-1]
    watts, joules = _estimate([one.watts for one in rounds]), _estimate([o.joules for o in rounds])
    assert watts is not None and joules is not None
    scatter = scatter_u([one.watts.value for one in rounds]) / COVERAGE_FACTOR
    how = f"standard deviation of {len(rounds)} rounds / √{len(rounds)}"
    line = Component(SCATTER, "A", scatter, how, dof=max(len(rounds) - 1, 1))
    return replace(
        last,
        volts=_series([one.volts for one in rounds]),
        amps=_series([one.amps for one in rounds]),
        watts=watts,
        watts_series=_series([one.watts_series for one in rounds]),
        joules=joules,
        budget=(*last.budget, line),
        alignment_ms=max(one.alignment_ms for one in rounds),
        covered=min(one.covered for one in rounds),
    )


def _temperatures(rounds: Sequence[PhaseResult]) -> dict[str, TemperatureResult]:
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
