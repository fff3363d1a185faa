"""What a reader must know about a run or a phase before trusting its numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from instruments.reading import Status
from labctl.analysis.phase_result import PhaseResult, RailResult
from labctl.analysis.power.blind_spots import (
    CLOSE_THE_GAPS,
    FILLED,
    STATE_THE_APERTURE,
    blind_problems,
    blind_spot,
)
from labctl.analysis.power.mains_ripple import NOTEWORTHY, left_of_ripple
from labctl.analysis.power.phase_power import PhasePower
from labctl.analysis.readings.channel_series import ChannelSeries
from labctl.analysis.readings.channel_statuses import (
    UNCOUNTED,
    WARNINGS,
    ChannelStatus,
    channel_statuses,
)
from labctl.analysis.readings.fio_clock_result import is_off, words
from labctl.analysis.readings.host_clock import host_problems
from labctl.analysis.readings.imported import (
    import_problems,
    imported_unconfirmed_note,
    is_imported,
)
from labctl.analysis.readings.phase_spans import PhaseSpan, phase_span_problems
from labctl.analysis.throttling.host_load import HostLoad
from labctl.fio.results import FioResult
from labctl.record.events import Event, EventKind, Outcome
from labctl.record.json_values import is_number
from labctl.record.layout import HOST_STOLEN, HOST_WAITING
from labctl.record.phase import Pattern, Role
from labctl.record.point_end import PointEnding
from labctl.record.reader import RunRecord
from labctl.rounded import rounded

PEAKS_FROM_HZ = 350.0
"""Readings a second below which peaks are reported as not measurable. One study needed at least
350 Hz to agree with the energy measured at 4 kHz, and was up to 80 % off at 1 Hz."""

WELL_COVERED = 0.95
HALF_A_STEP_WATTS = 0.005
"""Of a power limit, which labctl sets in hundredths of a watt."""
REAPED_LATE = (
    "latencies are too long: this fio sees completions of a paced replay only when its queue is "
    "full; take fio 3.36 and no nbd, or replay_stalls = false"
)


def phase_problems(
    record: RunRecord,
    span: PhaseSpan,
    power: PhasePower,
    rails: Mapping[str, RailResult],
    fio: FioResult | None,
) -> tuple[str, ...]:
    """Notes of one phase: what is missing, what cannot be measured, what fio complained of."""
    notes = []
    if power.missing and span.phase.role is not Role.PREPARE:
        notes += [*power.missing, "no total watts: a sum without a rail is not a total"]
    slowest = max(power.rails.values(), key=lambda rail: rail.amps_interval_ns, default=None)
    if slowest is not None and slowest.amps_interval_ns > 1e9 / PEAKS_FROM_HZ:
        aperture_s = slowest.rail.amps.info.aperture_s
        aperture = "aperture not known"
        if aperture_s:
            aperture = f"aperture {rounded(aperture_s * 1e3)} ms"
        notes.append(
            f"peak power not measurable at {rounded(1e9 / slowest.amps_interval_ns)} S/s "
            f"({aperture}): min and max are of means over the aperture"
        )
    notes += [
        f"{name}: readings cover {rail.covered:.0%} of the phase"
        for name, rail in rails.items()
        if rail.covered < WELL_COVERED
    ]
    notes += _status_notes(record, span)
    notes += imported_unconfirmed_note(record, span.phase.index)
    if span.outcome != Outcome.COMPLETED:
        notes.append(f"{span.outcome}: {span.reason}" if span.reason else span.outcome)
    elif span.phase.pattern is Pattern.PROGRAM and span.reason:
        notes.append(span.reason)
    if span.point_end is not None and span.point_end.ended is PointEnding.LONGEST:
        notes.append(span.point_end.words)
    if span.unfit not in span.reason:
        notes.append(span.unfit)
    if fio is not None:
        replay = span.phase.replay
        if replay is not None and replay.stalls and reaps_late(record.header.drive.engine, fio):
            notes.append(REAPED_LATE)
        if is_off(span, fio):
            notes.append(
                f"{words(fio.clock_rate, 1)}: IOPS and bytes/s are over the time that labctl "
                "measured, latencies are as fio's clock measured them"
            )
        notes += [fio.error] * bool(fio.error)
        notes += fio.notes
    return tuple(notes)


def latencies_are_valid(result: PhaseResult) -> bool:
    """Whether the phase's latencies are those of its drive, not of fio's late reaping."""
    return REAPED_LATE not in result.notes


def reaps_late(engine: str, fio: FioResult) -> bool:
    """Whether fio leaves completions unseen while it waits for the next I/O of a trace.

    It does before version 3.36 (pull request 1600 of fio), and in every version with the nbd
    engine, which checks for no completions when the least number it is asked for is 0.
    """
    found = re.search(r"(\d+)\.(\d+)", fio.version)
    return engine == "nbd" or found is None or (int(found[1]), int(found[2])) < (3, 36)


def _status_notes(record: RunRecord, span: PhaseSpan) -> list[str]:
    """A line for each channel and status in a phase.

    Statuses wholly in the phase are counted together; for one that reaches beyond it the
    line gives the time inside the phase, and the count of the whole stretch.
    """
    inside: dict[tuple[str, str], ChannelStatus] = {}
    lines = []
    for item in channel_statuses(record)[0]:
        end_ns = span.end_ns if item.end_ns is None else item.end_ns
        if item.begin_ns > span.end_ns or end_ns < span.begin_ns:
            continue
        key = (item.channel, item.status)
        if item.end_ns is not None and span.begin_ns <= item.begin_ns and end_ns <= span.end_ns:
            before = inside[key].count if key in inside else 0
            inside[key] = replace(item, count=item.count + before)
            continue
        seconds = (min(end_ns, span.end_ns) - max(item.begin_ns, span.begin_ns)) * 1e-9
        line = f"{item.words()}, for {seconds:.1f} s of this phase"
        if item.end_ns is None:
            line += ", not over when the data ended"
        elif item.status not in (*WARNINGS, UNCOUNTED):
            line += " (the number is of the whole stretch, which reaches beyond it)"
        lines.append(line + _lower_bound_note(item))
    return lines + [item.words() + _lower_bound_note(item) for item in inside.values()]


def _lower_bound_note(item: ChannelStatus) -> str:
    if item.status != Status.OVERLOAD:
        return ""
    return "; what was over range is not known: what was read is a lower bound"


def _status_problems(record: RunRecord) -> list[str]:
    """A line for each channel and status of the run."""
    statuses, lines = channel_statuses(record)
    over: dict[tuple[str, str], ChannelStatus] = {}
    for item in statuses:
        if item.end_ns is None:
            at_s = (item.begin_ns - record.events[0].t_ns) * 1e-9
            lines.append(
                f"{item.channel}: {item.status.replace('_', ' ')} from {at_s:.1f} s on, "
                "not over when the data ended"
            )
            continue
        key = (item.channel, item.status)
        before = over[key].count if key in over else 0
        over[key] = replace(item, count=item.count + before)
    return lines + [item.words() for item in over.values()]


def run_problems(
    record: RunRecord,
    channels: Mapping[str, ChannelSeries],
    live: Sequence[ChannelSeries],
    unusable: Sequence[str],
    spans: Sequence[PhaseSpan],
) -> tuple[str, ...]:
    """Problems of the whole run, one line each."""
    lines = [*record.problems, *phase_span_problems(record), *unusable]
    lines += [
        f"phase {span.phase.index + 1} ({span.phase.label}): {span.unfit}"
        for span in spans
        if span.unfit
    ]
    for name, series in channels.items():
        lines += [f"{name}: {problem}" for problem in (*series.problems, *series.clock.problems)]
        if not len(series) and _should_have_readings(name, spans):
            lines.append(f"{name}: no readings at all")
    lines += [f"{one.info.name}: {problem}" for one in live for problem in one.problems]
    longest_s = max((phase.duration_s for phase in record.header.phases), default=0.0)
    lines += [
        f"{name}: a reading each {series.info.interval_s * 1e3:g} ms meets the mains ripple at the "
        "same place each time, which averages out slowly or never (the uncertainty allows for "
        "it); take nplc = 1 or more, or an interval that is no multiple of half a mains period"
        for name, series in channels.items()
        if left_of_ripple(series.info, longest_s) > NOTEWORTHY
    ]
    remedy = STATE_THE_APERTURE if is_imported(record) else CLOSE_THE_GAPS
    lines += blind_problems(record.header.rails, channels, remedy)
    lines += _busy_host_problems(record, channels, spans)
    back: dict[str, list[float]] = {}
    lost: dict[str, list[str]] = {}
    away: set[str] = set()
    for event in record.events:
        instrument = str(event.data.get("instrument", ""))
        if event.kind == EventKind.INSTRUMENT_LOST:
            lost.setdefault(instrument, []).append(str(event.data.get("reason", "")))
            away.add(instrument)
        elif event.kind == EventKind.INSTRUMENT_BACK:
            back.setdefault(instrument, []).append(_problem_seconds(event.data.get("gap_s")))
            away.discard(instrument)
        elif event.kind == EventKind.RUN_RESUMED:
            away.clear()
    for instrument, reasons in lost.items():
        gaps = back.get(instrument, [])
        line = f"{instrument}: lost {_times_text(len(reasons))} ({reasons[-1]})"
        if gaps:
            line += f", back after {sum(gaps):.1f} s in all"
        if instrument in away:
            line += ", not back at the end"
        lines.append(line)
    lines += _limits_of_others(record)
    lines += _not_put_back(record)
    lines += _interruption_problems(record)
    lines += _repeated_phases(record)
    lines += _held_up(record, channels, spans)
    lines += host_problems(record)
    lines += import_problems(record)
    lines += _status_problems(record)
    return tuple(dict.fromkeys(lines))


def _busy_host_problems(
    record: RunRecord, channels: Mapping[str, ChannelSeries], spans: Sequence[PhaseSpan]
) -> Iterator[str]:
    """A line about meters that are asked, and see little of the time, beside a host that was short
    of processors: what decides when they are asked decides what the drive does, too."""
    load = HostLoad.of(record)
    busy = [span for span in spans if load.is_short((span.begin_ns, span.end_ns))]
    asked = [
        name
        for name in dict.fromkeys(rail.current for rail in record.header.rails)
        if name in channels and channels[name].info.dither > 0
        and (spot := blind_spot(channels[name])) is not None and spot.integrated < FILLED
    ]  # fmt: skip
    if busy and asked:
        phases = "1 phase" if len(busy) == 1 else f"{len(busy)} phases"
        yield (
            f"{', '.join(asked)}: asked at random moments, and the drive's host was short of "
            f"processors in {phases} (the first: {busy[0].phase.label}); where labctl runs on that "
            "host, both go together, and no U holds that: leave it processors, or take a meter "
            "that integrates without a gap"
        )


def _should_have_readings(name: str, spans: Sequence[PhaseSpan]) -> bool:
    """Whether a channel should have readings: fio's have none before a phase with that work, and
    not every kernel counts how busy its host is."""
    source, _, rest = name.partition(".")
    direction = rest.partition(".")[0]
    if name in (HOST_WAITING, HOST_STOLEN):
        return False
    return source != "fio" or any(
        direction in span.phase.directions for span in spans if span.outcome == Outcome.COMPLETED
    )


def _limits_of_others(record: RunRecord) -> Iterator[str]:
    """A line for each power limit that the drive had in phases which the plan did not give it
    to: a run that was killed, or somebody else, has set it."""
    phases = {phase.index: phase for phase in record.header.phases}
    found: dict[str, list[str]] = {}
    for event in record.events:
        index, watts = event.data.get("index"), event.data.get("power_limit_watts", "")
        if event.kind != EventKind.SETTINGS_FOUND or not isinstance(index, int):
            continue
        phase = phases.get(index)
        if phase is None or not (watts is None or is_number(watts)):
            continue
        wanted = phase.power_limit_watts
        if watts is None and wanted is not None:
            found.setdefault("no power limit", []).append(phase.label)
        elif watts is not None and (wanted is None or abs(watts - wanted) > HALF_A_STEP_WATTS):
            found.setdefault(f"a power limit of {watts:g} W", []).append(phase.label)
    for limit, labels in found.items():
        more = f"{len(labels)} phases (the first: {labels[0]})"
        where = labels[0] if len(labels) == 1 else more
        yield (
            f"the drive had {limit} in {where}, which the plan did not set: is it left from "
            "another run, or did somebody else set it?"
        )


def _not_put_back(record: RunRecord) -> list[str]:
    """A line for each drive whose settings the run could not put back at its end."""
    reasons: list[str] = []
    for event in record.events:
        if event.kind == EventKind.RUN_RESUMED:  # which puts them back first
            reasons.clear()
        elif event.kind == EventKind.NOT_RESTORED:
            reasons.append(str(event.data.get("reason", "")))
    return [
        f"settings were not put back at the end of the run: {reason}; the next run on the rig puts "
        "them back, and so does labctl run --resume"
        for reason in reasons
    ]


def _interruption_problems(record: RunRecord) -> Iterator[str]:
    """A line for each time that the run was cut off and went on."""
    phases = {phase.index: phase for phase in record.header.phases}
    for event in record.events:
        if event.kind != EventKind.RUN_RESUMED:
            continue
        index = event.data.get("interrupted")
        phase = phases.get(index) if isinstance(index, int) else None
        where = "between phases" if phase is None else f"in phase {phase.index + 1} ({phase.label})"
        gap_s = _problem_seconds(event.data.get("gap_s"))
        yield f"interrupted {where}, resumed after {gap_s:.1f} s"


def _repeated_phases(record: RunRecord) -> Iterator[str]:
    """A line for each phase that was done again, with why the first time did not count."""
    phases = {phase.index: phase for phase in record.header.phases}
    ends: dict[int, list[Event]] = {}
    for event in record.events:
        index = event.data.get("index")
        if event.kind == EventKind.PHASE_ENDED and isinstance(index, int) and index in phases:
            ends.setdefault(index, []).append(event)
    for index, found in ends.items():
        first = found[0].data
        if len(found) > 1 and first.get("outcome") != Outcome.COMPLETED:
            why = str(first.get("reason") or first.get("outcome"))
            label = phases[index].label
            yield f"phase {index + 1} ({label}) was done {_times_text(len(found))}: at first {why}"


def _held_up(
    record: RunRecord, channels: Mapping[str, ChannelSeries], spans: Sequence[PhaseSpan]
) -> Iterator[str]:
    """A line for each time that labctl itself was held up, with what each meter lost by it.

    A meter with a memory loses nothing. The others lose a reading for each of their usual
    intervals without one.
    """
    for event in record.events:
        if event.kind != EventKind.HELD_UP:
            continue
        seconds = _problem_seconds(event.data.get("seconds"))
        begin_ns = event.t_ns - round(seconds * 1e9)
        lost = {
            name: count
            for name, series in channels.items()
            if (count := _problem_missing_readings(series, begin_ns, event.t_ns))
        }
        inside = [span for span in spans if span.begin_ns < event.t_ns and begin_ns < span.end_ns]
        where = "".join(
            f", in phase {span.phase.index + 1} ({span.phase.label})" for span in inside
        )
        missing = ", ".join(f"{count} of {name}" for name, count in lost.items())
        yield (
            f"labctl stood still for {seconds:.1f} s{where}: stopped, or the machine was too busy "
            f"or asleep; {missing or 'no'} readings are missing"
        )


def _problem_missing_readings(series: ChannelSeries, begin_ns: int, end_ns: int) -> int:
    """How many readings are missing between the last before a stretch and the first after it."""
    low, high = series.index_at(np.array([begin_ns, end_ns])).tolist()
    low, high = max(low - 1, 0), min(high + 1, len(series))
    usual_ns = series.interval_ns(0, len(series))
    if high - low < 2 or not usual_ns > 0:
        return 0
    steps = np.diff(series.elapsed_ns(low, high, begin_ns))
    return int(np.maximum(np.rint(steps / usual_ns) - 1, 0).sum())


def _problem_seconds(value: object) -> float:
    return float(value) if is_number(value) and value > 0 else 0.0


def _times_text(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
