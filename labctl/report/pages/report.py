"""The report of a run, as one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.readings.imported import imported_clocks, is_imported
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.throttling.verdict import OPEN
from labctl.printable import printable
from labctl.record.own_words import own_words
from labctl.record.reader import RunRecord
from labctl.report import key_figures
from labctl.report.pages.offline_page import Drawn, offline_page
from labctl.report.panels import panels


def report_page(record: RunRecord, summary: RunSummary, drawn: Sequence[Drawn]) -> str:
    """The whole report as HTML."""
    labels = {item.phase.index: item.phase.label for item in summary.phases}
    measured = summary.measured
    values = {
        "record": record,
        "header": record.header,
        "own": own_words(record.path),
        "is_imported": is_imported(record),
        "imported_clocks": imported_clocks(record),
        "summary": summary,
        "drawn": drawn,
        "panels": panels(summary.points),
        "rails": key_figures.rail_names(summary),
        "sensors": key_figures.sensor_names(summary),
        "host_meters": key_figures.host_meters(summary),
        "hottest": _hottest_in_report(summary),
        "best": key_figures.most_efficient_phase(measured),
        "highest_power": key_figures.highest_power_phase(measured),
        "worst_alignment_ms": key_figures.worst_alignment_ms(measured),
        "throttled": [item for item in measured if item.throttled],
        "judged": [item for item in summary.phases if item.throttling is not None],
        "not_excluded": sum(
            item.throttling is not None and item.throttling.verdict == OPEN for item in measured
        ),
        "problems": tuple(dict.fromkeys((*summary.problems, *record.problems))),
        "labels": labels,
        "watched": [item for item in summary.phases if item.cpu is not None],
        "notes": _report_page_notes(summary, labels),
        "points_ended": key_figures.points_ended(summary),
        "stated_ms": _stated_alignment_ms(summary),
        "unseen": _without_lag(record, summary),
        "files": _files_shown_in_report(record.path),
    }
    return offline_page("page.html", values)


def _report_page_notes(summary: RunSummary, labels: Mapping[int, str]) -> list[tuple[str, str]]:
    """Each note once, with the phases it is about in words."""
    words = []
    for note, indices in key_figures.shared_notes(summary).items():
        named = ", ".join(labels[index] for index in indices[:4])
        if len(indices) == len(summary.phases) > 1:
            named = "every phase"
        elif len(indices) > 4:
            named = f"{named} and {len(indices) - 4} more"
        words.append((note, named))
    return words


def _hottest_in_report(summary: RunSummary) -> tuple[float, PhaseResult] | None:
    known = [
        (celsius, item) for item in summary.phases if (celsius := item.celsius_max) is not None
    ]
    return max(known, key=lambda pair: pair[0], default=None)


def _stated_alignment_ms(summary: RunSummary) -> Mapping[str, float]:
    """The largest alignment doubt of each rail."""
    stated: dict[str, float] = {}
    for item in summary.phases:
        for name, rail in item.rails.items():
            stated[name] = max(stated.get(name, 0.0), rail.alignment_ms)
    return stated


def _without_lag(record: RunRecord, summary: RunSummary) -> list[str]:
    """Channels of rails in which no edge shows a lag."""
    channels = [name for rail in record.header.rails for name in (rail.current, rail.voltage)]
    seen = {lag.channel for lag in summary.edge_lags}
    return [name for name in dict.fromkeys(channels) if name not in seen]


def _files_shown_in_report(path: Path) -> list[tuple[str, int]]:
    """Every file of the run with its size, without what the report itself makes."""
    derived = (
        "report.html", "summary.json", "phases.csv", "points.csv", "cpu.csv", "drives.csv",
        "charts", "review.html", "review", "phases.parquet", "run.parquet", "drives.parquet",
    )  # fmt: skip
    found = (file for file in path.rglob("*") if file.is_file())
    names = ((file.relative_to(path), file.stat().st_size) for file in found)
    return sorted(
        (printable(str(name)), size) for name, size in names if name.parts[0] not in derived
    )
