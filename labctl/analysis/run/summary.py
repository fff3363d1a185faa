"""The summary of a recorded run: phases, watts, work, throttling, clocks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from labctl.analysis.estimate import Estimate
from labctl.analysis.phase_result import PhaseResult, RailResult, no_watts_note
from labctl.analysis.power.budget import phase_energy, rail_result, total_envelope, total_watts
from labctl.analysis.power.drive_own_power import (
    own_measurement_problems,
    own_measurements,
    own_power,
    own_power_problem,
)
from labctl.analysis.power.host_power import host_powers
from labctl.analysis.power.phase_power import PhasePower, phase_power
from labctl.analysis.power.reading_faults import digit_of
from labctl.analysis.power.shared_errors import watts_above_idle
from labctl.analysis.power.shunt import burden_problems, temperature_problems
from labctl.analysis.power.source_resistance import source_resistances
from labctl.analysis.power.unthrottled import unthrottled_part, unthrottled_pieces
from labctl.analysis.readings.channel_series import (
    ChannelSeries,
    RailSeries,
    channel_series,
    host_channel_series,
    rail_series,
)
from labctl.analysis.readings.cpu_use import CpuSample, cpu_samples, cpu_use
from labctl.analysis.readings.edge_lag import lag_problems, rail_lags
from labctl.analysis.readings.fio_clock_result import fio_clock_problem, fio_clock_result
from labctl.analysis.readings.fio_output import read_output
from labctl.analysis.readings.host_clock import host_clock_result
from labctl.analysis.readings.live_iops import LIVE_IOPS, iops_between, repeatability_in_parts
from labctl.analysis.readings.phase_spans import PhaseSpan, last_datum_ns, phase_spans
from labctl.analysis.readings.thermal_counters import counters_moved
from labctl.analysis.run.drives import run_of_all, runs_of_drives, with_drives
from labctl.analysis.run.marks import marks_of
from labctl.analysis.run.problems import phase_problems, run_problems
from labctl.analysis.run.temperatures import temperatures_of
from labctl.analysis.run.unsound_rails import UnsoundRail, unsound_rails, without_unsound
from labctl.analysis.run_summary import ClockResult, RunSummary, SourceResistance
from labctl.analysis.stats.ended_points import watts_ended_with
from labctl.analysis.stats.uncertainty import ratio
from labctl.analysis.steady_state.rounds import steady_rounds_of
from labctl.analysis.steady_state.rule import steady_throughout
from labctl.analysis.steady_state.window_means import window_means
from labctl.analysis.throttle_result import ThrottleInterval, throttled_s, throttled_stretches
from labctl.analysis.throttling.detection import find_throttling
from labctl.analysis.throttling.run_signals import IDLE_ROLES, run_signals
from labctl.analysis.throttling.signals import PhaseSignals
from labctl.analysis.throttling.verdict import verdict
from labctl.fio.results import FioResult
from labctl.record.events import EventKind, Outcome
from labctl.record.phase import Role
from labctl.record.point_end import PointEnd
from labctl.record.reader import RunRecord

THREADS = 2
"""More do not help: the work is bound by memory, and parts of it hold Python's lock."""


def summarise(record: RunRecord, running: bool = False) -> RunSummary:
    """The summary of a run, from its journal alone.

    ``running``: it is still on, not cut off. Each reading is read once, and with several drives
    once more for each drive's own; memory does not grow with the length of the run.
    """
    summary = _summarise(run_of_all(record), running)
    drives = {name: _summarise(one, running) for name, one in runs_of_drives(record).items()}
    summary = with_drives(summary, drives) if drives else summary
    return replace(summary, marks=marks_of(record))


def _summarise(record: RunRecord, running: bool) -> RunSummary:
    """The run of one drive, or of all of them together."""
    workers = min(THREADS, os.cpu_count() or 1)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return _summarised(record, running, pool)


def _summarised(record: RunRecord, running: bool, pool: ThreadPoolExecutor) -> RunSummary:
    channels, unusable = usable_channels(record)
    rails = usable_rails(record, channels)
    outputs = [
        read_output(record, one) for one in phase_spans(record, last_datum_ns(record, channels))
    ]
    spans = [span for span, _ in outputs]
    powers = list(pool.map(lambda span: power_of(record, rails, span), spans))
    unsound = unsound_rails(record, spans, powers)
    sources = source_resistances(
        [without_unsound(*one)[0] for one in zip(powers, unsound, strict=True)],
        [span.phase.role in IDLE_ROLES for span in spans],
    )
    powers, results, at_least = with_budgets(spans, powers, unsound, sources)
    totals = [
        _summary_total_watts(span.point_end, power, rail)
        for span, power, rail in zip(spans, powers, results, strict=True)
    ]
    idle = _summary_idle_phase(spans, totals)
    idle_rails = results[idle] if idle is not None else {}
    idle_watts = totals[idle] if idle is not None else None
    lagging = [
        pool.submit(rail_lags, rail, spans, idle_rails.get(rail.info.name)) for rail in rails
    ]
    live = [host_channel_series(record, name) for name in LIVE_IOPS]
    signals = run_signals(record, rails, channels, spans, live, idle_watts)
    throttling = find_throttling(signals)
    by_index = {phase.index: phase for phase in signals}
    phases = []
    cpu = cpu_samples(record.events)
    breaks = [event.t_ns for event in record.events if event.kind in UNPLANNED_BREAKS]
    for number, span in enumerate(spans):
        before = _phase_before(spans[number - 1], span, breaks) if number else None
        result = _phase_result(
            record,
            channels,
            span,
            outputs[number][1],
            before,
            powers[number],
            results[number],
            totals[number],
            at_least[number],
            watts_above_idle(results[number], idle_rails, totals[number]) if idle_watts else None,
            cpu,
            repeatability_in_parts(
                iops_between(live, span.begin_ns, span.end_ns)[1], span.point_end
            ),
        )
        if span.phase.index in by_index:
            phase = by_index[span.phase.index]
            result = _with_throttling(result, phase, throttling, rails, span.boundary_u_ns, sources)
        phases.append(result)
    gaps = [
        item.gap_before_ms
        for item, before in zip(phases[1:], phases[:-1], strict=True)
        if item.gap_before_ms is not None
        and before.phase.role is Role.MEASURE
        and item.phase.role is Role.MEASURE
    ]
    measured = own_measurements(record, rails, phases)
    phases = [
        replace(item, own_measurement=measured.get(item.phase.index)) if measured else item
        for item in phases
    ]
    own = own_power(record, rails)
    outcome, reason = _summary_outcome(record, running)
    lags = tuple(lag for lags_of_rail in lagging for lag in lags_of_rail.result())
    problems = run_problems(record, channels, live, unusable, spans)
    steady = steady_rounds_of(record.events, phases)
    calibration = record.header.calibration
    begins = [event.t_ns for event in record.events[:1]] or [record.header.anchor.wall_ns]
    end = record.end
    return RunSummary(
        run_id=record.header.run_id,
        rig_name=record.header.rig_name,
        plan_name=record.header.plan_title,
        scale=record.header.scale,
        drive_model=record.header.drive.model,
        drive_serial=record.header.drive.serial,
        outcome=outcome,
        reason=reason,
        begin_ns=begins[0],
        end_ns=end.t_ns if end is not None else last_datum_ns(record, channels),
        idle_watts=idle_watts,
        phases=tuple(phases),
        throttling=throttling,
        clocks=_summary_clocks(record, channels, spans),
        edge_lags=lags,
        gap_median_ms=float(np.median(gaps)) if gaps else None,
        problems=(
            *problems,
            *fio_clock_problem(spans, [fio for _, fio in outputs]),
            *lag_problems(lags),
            *own_power_problem(own),
            *own_measurement_problems(record.events),
            *burden_problems(record.header.rails, phases),
            *temperature_problems(record.header.rails, channels),
            *(calibration.problems if calibration is not None else ()),
        ),
        labctl_version=record.header.versions.get("labctl", ""),
        drive_state=record.header.drive_state,
        drive_counters=counters_moved(record.events),
        own_power=own,
        source_resistances=tuple(sources.values()),
        steady_rounds=steady,
        window_means=window_means(phases, steady),
        calibration=calibration,
    )


UNPLANNED_BREAKS = (EventKind.PAUSED, EventKind.HOST_LOST, EventKind.RUN_RESUMED)
"""Events after which the next phase does not follow the one before without idle time."""


def _phase_before(before: PhaseSpan, span: PhaseSpan, breaks: Sequence[int]) -> PhaseSpan | None:
    """``before``, unless something came between it and ``span`` that was not planned.

    A phase that was done again later than those that follow it in the plan has none before it.
    """
    broken = span.begin_ns < before.begin_ns or any(
        before.end_ns <= t_ns <= span.begin_ns for t_ns in breaks
    )
    return None if broken else before


def usable_channels(record: RunRecord) -> tuple[dict[str, ChannelSeries], tuple[str, ...]]:
    """Every channel of the header with its clock, and a line for each that cannot be used."""
    channels, unusable = {}, []
    for info in record.header.channels:
        try:
            channels[info.name] = channel_series(record, info)
        except ValueError as error:
            unusable.append(f"{info.name}: {error}")
    return channels, tuple(unusable)


def _summary_outcome(record: RunRecord, running: bool) -> tuple[str, str]:
    end = record.end
    if end is not None:
        return str(end.data.get("outcome", Outcome.COMPLETED)), str(end.data.get("reason") or "")
    return (Outcome.RUNNING, "") if running else (Outcome.INTERRUPTED, "the run was cut off")


def usable_rails(record: RunRecord, channels: Mapping[str, ChannelSeries]) -> list[RailSeries]:
    """The rails whose channels can be used."""
    found = (rail_series(info, channels) for info in record.header.rails)
    return [rail for rail in found if rail is not None]


def power_of(record: RunRecord, rails: Sequence[RailSeries], span: PhaseSpan) -> PhasePower:
    """Watts of a phase; without a total when a rail of the rig cannot be used at all."""
    power = phase_power(rails, span.begin_ns, span.end_ns, span.boundary_u_ns, windows=True)
    absent = {info.name for info in record.header.rails} - {rail.info.name for rail in rails}
    if not absent:
        return power
    lines = tuple(no_watts_note(name, "a channel of it cannot be used") for name in sorted(absent))
    return PhasePower(power.rails, None, None, None, power.missing + lines)


def with_budgets(
    spans: Sequence[PhaseSpan],
    powers: Sequence[PhasePower],
    unsound: Sequence[Mapping[str, UnsoundRail]],
    sources: Mapping[str, SourceResistance],
) -> tuple[list[PhasePower], list[dict[str, RailResult]], list[float | None]]:
    """Each phase's power and rails, and what it drew at least where it has no total but a bound.

    A budget needs the steps to the phases before and after, and the meters' digits.
    """
    digits: dict[str, tuple[float, float]] = {}
    for power in powers:
        for name, rail in power.rails.items():
            if name not in digits:
                digits[name] = digit_of(rail.rail.volts), digit_of(rail.rail.amps)
    sound, results, bounds = [], [], []
    for number, (span, power) in enumerate(zip(spans, powers, strict=True)):
        beside = [powers[i].rails for i in (number - 1, number + 1) if 0 <= i < len(powers)]
        rails = {}
        for name, rail in power.rails.items():
            own = rail.watts.mean
            steps = [abs(own - other[name].watts.mean) for other in beside if name in other]
            step, u_ns = max(steps, default=0.0), span.boundary_u_ns
            end = span.point_end if power.total is not None and len(power.rails) == 1 else None
            rails[name] = rail_result(
                rail, span.duration_ns * 1e-9, step, u_ns, sources.get(name), digits[name], end
            )
        left, bound = without_unsound(power, unsound[number], rails)
        sound.append(left)
        bounds.append(bound)
        results.append({name: one for name, one in rails.items() if name in left.rails})
    return sound, results, bounds


def _summary_total_watts(
    end: PointEnd | None, power: PhasePower, rails: Mapping[str, RailResult]
) -> Estimate | None:
    """The watts of all rails together, of a phase that ended so; None when a rail is missing."""
    watts = total_watts(power, list(rails.values()))
    return None if watts is None else watts_ended_with(end, watts)


def _summary_idle_phase(
    spans: Sequence[PhaseSpan], totals: Sequence[Estimate | None]
) -> int | None:
    """The phase that idle watts are taken from: idle before the work, else idle after it.

    After the work a drive is warm and may still be tidying up.
    """
    for role in (Role.IDLE_BEFORE, Role.IDLE_AFTER):
        for number, span in enumerate(spans):
            if span.phase.role is role and totals[number] is not None:
                return number
    return None


def _phase_result(
    record: RunRecord,
    channels: Mapping[str, ChannelSeries],
    span: PhaseSpan,
    fio: FioResult | None,
    before: PhaseSpan | None,
    power: PhasePower,
    rails: dict[str, RailResult],
    watts: Estimate | None,
    at_least: float | None,
    marginal: Estimate | None,
    cpu: Sequence[CpuSample],
    again: float | None,
) -> PhaseResult:
    duration_s = span.duration_ns * 1e-9
    sides = [side for side in (fio.read, fio.write) if side is not None] if fio else []
    iops = sum(side.iops for side in sides) if sides else None
    bytes_per_s = sum(side.bytes_per_s for side in sides) if sides else None
    doubt = 2 * span.boundary_u_ns * 1e-9 / duration_s if duration_s > 0 else 0.0
    rate = _with_doubt(iops, doubt, again)
    data_rate = _with_doubt(bytes_per_s, doubt, again)
    gap_ms = (span.begin_ns - before.end_ns) * 1e-6 if before is not None else None
    notes = phase_problems(record, span, power, rails, fio)
    return PhaseResult(
        phase=span.phase,
        outcome=span.outcome,
        begin_ns=span.begin_ns,
        end_ns=span.end_ns,
        gap_before_ms=gap_ms,
        rails=rails,
        watts=watts,
        at_least_watts=at_least,
        watts_series=power.total,
        joules=phase_energy(watts, duration_s, span.boundary_u_ns) if watts else None,
        marginal_watts=None if span.phase.role in IDLE_ROLES else marginal,
        read=fio.read if fio else None,
        write=fio.write if fio else None,
        iops=iops,
        bytes_per_s=bytes_per_s,
        iops_per_watt=ratio(rate, watts),
        bytes_per_joule=ratio(data_rate, watts),
        joules_per_io=ratio(watts, rate),
        temperatures=temperatures_of(record, channels, span),
        throttled_s=0.0,
        alignment_ms=max((rail.alignment_ms for rail in rails.values()), default=None),
        notes=notes,
        cpu=cpu_use(cpu, span, fio),
        fio_clock=span.fio_rate,
        point_end=span.point_end,
        power_envelope=total_envelope(power, rails, duration_s),
        host_power=host_powers(record.header.host_power, channels, span, watts, rate, data_rate),
    )


def _with_doubt(rate: float | None, doubt: float, again: float | None) -> Estimate | None:
    """A rate with the relative ``doubt`` that the edges of its phase leave, and its relative
    repeatability; None without I/O."""
    if not rate:
        return None
    return Estimate(rate, rate * doubt, None if again is None else rate * again)


def _with_throttling(
    result: PhaseResult,
    phase: PhaseSignals,
    throttling: Sequence[ThrottleInterval],
    rails: Sequence[RailSeries],
    boundary_u_ns: int,
    sources: Mapping[str, SourceResistance],
) -> PhaseResult:
    """The result with the verdict and, where it throttled, the numbers of what is left."""
    stretches = throttled_stretches(throttling, phase.index)
    judged = replace(
        result,
        steady=steady_throughout(phase.t_ns, phase.iops, phase.begin_ns, phase.end_ns),
        throttling=verdict(phase, throttling),
        throttled_s=throttled_s(throttling, phase.index),
    )
    if not stretches:
        doubt = 2 * boundary_u_ns * 1e-9 / result.duration_s if result.duration_s > 0 else 0.0
        return replace(
            judged,
            unthrottled_s=result.duration_s,
            watts_unthrottled=result.watts,
            iops_unthrottled=_with_doubt(
                result.iops, doubt, repeatability_in_parts(phase.iops, result.point_end)
            ),
        )
    pieces = unthrottled_pieces(phase.begin_ns, phase.end_ns, stretches)
    left = unthrottled_part(rails, phase.t_ns, phase.iops, pieces, boundary_u_ns, sources)
    return replace(
        judged,
        unthrottled_s=left.seconds,
        watts_unthrottled=left.watts if result.watts is not None else None,
        iops_unthrottled=left.iops,
    )


def _summary_clocks(
    record: RunRecord, channels: Mapping[str, ChannelSeries], spans: Sequence[PhaseSpan]
) -> tuple[ClockResult, ...]:
    host, fio = host_clock_result(record), fio_clock_result(spans)
    meters = tuple(
        ClockResult(
            channel=name,
            drift_ppm=series.clock.drift_ppm,
            u_ms=(series.clock.u_ns + series.info.time_u_s * 1e9) * 1e-6,
            epochs=series.clock.epochs,
            pairs=series.clock.pairs,
        )
        for name, series in channels.items()
        if series.clock.pieces
    )
    return (*([host] if host else []), *meters, *([fio] if fio else []))
