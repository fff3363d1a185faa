"""What a reader must know about a run or a phase before trusting its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from labctl.analysis.phases import PhaseSpan
from labctl.analysis.power import PhasePower
from labctl.analysis.results import RailResult
from labctl.analysis.series import ChannelSeries
from labctl.fio_output import FioResult
from labctl.record import RunRecord

PEAKS_FROM_HZ = 350.0
"""Readings a second below which peaks are said not to be measurable. One study needed at least
350 Hz to agree with the energy measured at 4 kHz, and was up to 80 % off at 1 Hz."""

WELL_COVERED = 0.95
CUTS_OFF = "overload"


def phase_problems(
    record: RunRecord,
    span: PhaseSpan,
    power: PhasePower,
    rails: Mapping[str, RailResult],
    fio: FioResult | None,
) -> tuple[str, ...]:
    """Notes of one phase: what is missing, what cannot be measured, what fio complained of."""
    notes = list(power.missing)
    if power.missing:
        notes.append("no total watts: a sum without a rail is not a total")
    slowest = max(power.rails.values(), key=lambda rail: rail.amps_interval_ns, default=None)
    if slowest is not None and slowest.amps_interval_ns > 1e9 / PEAKS_FROM_HZ:
        aperture_ms = slowest.rail.amps.info.aperture_s * 1e3
        notes.append(
            f"peak power not measurable at {1e9 / slowest.amps_interval_ns:.3g} S/s (aperture "
            f"{aperture_ms:.3g} ms): min and max are of means over the aperture"
        )
    notes += [
        f"{name}: readings cover {rail.covered:.0%} of the phase"
        for name, rail in rails.items()
        if rail.covered < WELL_COVERED
    ]
    notes += _status_notes(record, span)
    if span.outcome != "completed":
        notes.append(f"{span.outcome}: {span.reason}" if span.reason else span.outcome)
    if fio is not None and fio.error:
        notes.append(fio.error)
    return tuple(notes)


def _status_notes(record: RunRecord, span: PhaseSpan) -> list[str]:
    counts: Counter[tuple[str, str]] = Counter()
    for event in record.events:
        if event.kind == "status" and span.begin_ns <= event.t_ns <= span.end_ns:
            key = (str(event.data.get("channel")), str(event.data.get("status")))
            counts[key] += int(event.data.get("count", 1))
    lines = []
    for (channel, status), count in counts.items():
        line = f"{channel}: {count} readings lost to {status.replace('_', ' ')}"
        if status == CUTS_OFF:
            line += "; what was over range is not in the mean: it is a lower bound"
        lines.append(line)
    return lines


def run_problems(
    record: RunRecord, channels: Mapping[str, ChannelSeries], unusable: Sequence[str]
) -> tuple[str, ...]:
    """Problems of the whole run, one line each."""
    lines = [*record.problems, *unusable]
    for name, series in channels.items():
        lines += [f"{name}: {problem}" for problem in series.clock.problems]
        if not len(series):
            lines.append(f"{name}: no readings at all")
    back: dict[str, list[float]] = {}
    lost: dict[str, list[str]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for event in record.events:
        instrument = str(event.data.get("instrument", ""))
        if event.kind == "instrument_lost":
            lost.setdefault(instrument, []).append(str(event.data.get("reason", "")))
        elif event.kind == "instrument_back":
            back.setdefault(instrument, []).append(float(event.data.get("gap_s") or 0.0))
        elif event.kind == "status":
            key = (str(event.data.get("channel")), str(event.data.get("status")))
            counts[key] += int(event.data.get("count", 1))
    for instrument, reasons in lost.items():
        gaps = back.get(instrument, [])
        line = f"{instrument}: lost {_times(len(reasons))} ({reasons[-1]})"
        if gaps:
            line += f", back after {sum(gaps):.1f} s in all"
        if len(gaps) < len(reasons):
            line += ", not back at the end"
        lines.append(line)
    lines += [
        f"{channel}: {count} readings lost to {status.replace('_', ' ')}"
        for (channel, status), count in counts.items()
    ]
    return tuple(dict.fromkeys(lines))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
