"""The key figures of a run, for the top of the table and of the page."""

from __future__ import annotations

from collections.abc import Iterable

from labctl.analysis.numbers import duration, utc
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run_summary import RunSummary
from labctl.record.events import Outcome
from labctl.record.point_end import ENDING_WORDS


def source_words(summary: RunSummary, title: str = "") -> str:
    """What a chart is of, for the line under its title: the person's own ``title`` of the run,
    drive, rig and date."""
    drive = " ".join(filter(None, (summary.drive_model, summary.drive_serial))) or "drive not named"
    date = utc(summary.begin_ns, "%Y-%m-%d")
    return " · ".join(filter(None, (title, drive, summary.rig_name, date)))


def rail_names(summary: RunSummary) -> tuple[str, ...]:
    """Every rail that any phase measured, highest power first."""
    power: dict[str, float] = {}
    for result in summary.phases:
        for name, rail in result.rails.items():
            power[name] = max(power.get(name, 0.0), rail.watts.value)
    return tuple(sorted(power, key=lambda name: -power[name]))


def sensor_names(summary: RunSummary) -> tuple[str, ...]:
    """Every temperature sensor that any phase measured, in order of appearance."""
    return tuple(dict.fromkeys(name for item in summary.phases for name in item.temperatures))


def host_meters(summary: RunSummary) -> tuple[str, ...]:
    """Every meter of the host's watts that read in any phase, in order of appearance."""
    return tuple(dict.fromkeys(name for item in summary.phases for name in item.host_power))


def highest_power_phase(results: Iterable[PhaseResult]) -> PhaseResult | None:
    """The phase with the highest mean power."""
    known = [(item.watts.value, item) for item in results if item.watts is not None]
    return max(known, key=lambda pair: pair[0], default=(0.0, None))[1]


def most_efficient_phase(results: Iterable[PhaseResult]) -> PhaseResult | None:
    """The completed phase that did most operations for its energy."""
    known = [
        (item.iops_per_watt.value, item)
        for item in results
        if item.iops_per_watt is not None and item.outcome == Outcome.COMPLETED
    ]
    return max(known, key=lambda pair: pair[0], default=(0.0, None))[1]


def worst_alignment_ms(results: Iterable[PhaseResult]) -> float | None:
    """The largest uncertainty of meter time against workload time in any phase, ms."""
    return max(
        (item.alignment_ms for item in results if item.alignment_ms is not None), default=None
    )


def points_ended(summary: RunSummary) -> str:
    """How many points ended how, and how long they took; empty where all took their time by plan:
    ``Points ended: 20 settled (20 s to 1 min 36 s), 2 longest time, not settled (3 min 0 s).``"""
    parts = []
    for ending, words in ENDING_WORDS.items():
        seconds = [
            item.duration_s
            for item in summary.measured
            if item.point_end is not None and item.point_end.ended is ending
        ]
        if seconds:
            least, most = duration(min(seconds)), duration(max(seconds))
            times = least if least == most else f"{least} to {most}"
            parts.append(f"{len(seconds)} {words} ({times})")
    return f"Points ended: {'; '.join(parts)}." if parts else ""


def shared_notes(summary: RunSummary) -> dict[str, tuple[int, ...]]:
    """What a reader must know, each note once, with the indices of the phases it is about."""
    notes: dict[str, list[int]] = {}
    for result in summary.phases:
        for note in result.notes:
            notes.setdefault(note, []).append(result.phase.index)
    return {note: tuple(indices) for note, indices in notes.items()}
