"""The review of a run: the charts of the reviews, each with its numbers, on one offline page."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from labctl.analysis.methods.consistency import TAIL_S
from labctl.analysis.methods.method_results import MethodResults
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.readings.live_iops import live_iops
from labctl.analysis.run.drives import runs_of_drives
from labctl.analysis.run_summary import RunSummary
from labctl.record.atomic_write import write_atomically
from labctl.record.own_words import own_words
from labctl.record.reader import RunRecord
from labctl.report.charts.depths_and_jobs import depths_and_jobs_chart
from labctl.report.charts.latency_histograms import latency_histograms
from labctl.report.charts.per_drive import drive_charts
from labctl.report.charts.sweeps import sweep_charts
from labctl.report.charts.theme import Chart, signed
from labctl.report.key_figures import source_words
from labctl.report.pages.offline_page import Drawn, offline_page
from labctl.report.pages.pictures import write_pictures
from labctl.report.pages.report_files import REVIEW_FILE
from labctl.report.panels import panels
from labctl.report.review_charts.conditioned import conditioned_figure
from labctl.report.review_charts.consistency import consistency_figure, watts_per_second
from labctl.report.review_charts.efficiency import efficiency_figure
from labctl.report.review_charts.headline import headline_figure
from labctl.report.review_charts.matrix import matrices, matrix_figures
from labctl.report.review_charts.mixed import mixed_figure
from labctl.report.review_charts.replays import replay_figure
from labctl.report.review_charts.review_chart import Figure
from labctl.report.review_charts.saturation import saturation_figures
from labctl.report.review_charts.soak import soak_figure
from labctl.report.review_charts.steady_state import steady_figure
from labctl.report.review_charts.transfer_sizes import transfer_figure
from labctl.report.text.methods import methods_text

FOLDER = "review"
CONSISTENCY_FROM_S = 120.0
"""Shorter phases get no consistency chart: it would say nothing of a worn-in drive."""
LONGER_THAN_USUAL = 5.0
"""Times the usual duration of a run's phases from which one gets a consistency chart: the points of
a sweep are not shown as 36 charts."""
FEW_PHASES = 4
"""Measured phases of a run up to which each gets one, if it is long enough."""


def review_figures(
    record: RunRecord, summary: RunSummary, methods: MethodResults
) -> tuple[Figure, ...]:
    """Every chart of the reviews that the run has data for."""
    measured = summary.measured
    figures = [
        headline_figure(methods.averages),
        efficiency_figure(summary.points, methods.idle),
    ]
    by_index = {item.phase.index: item for item in measured}
    long = [
        one
        for one in methods.consistencies
        if _shows_consistency(by_index[one.phase_index], measured)
    ]
    for number, one in enumerate(long, start=1):
        result = by_index[one.phase_index]
        seconds, iops = live_iops(record, result)
        name = f"consistency-{number}"
        power = watts_per_second(record, result)
        figures.append(consistency_figure(result, seconds, iops, one.consistency, name, power))
    tables = {item.phase.index for found in matrices(summary.points) for item in found}
    curves = [item for item in summary.points if item.phase.index not in tables]
    figures += [mixed_figure(curves), transfer_figure(summary.points)]
    figures += matrix_figures(summary.points)
    figures.append(conditioned_figure(methods.conditioned, summary.phases))
    figures.append(replay_figure(methods.replays))
    for number, report in enumerate(methods.steady, start=1):
        figures.append(steady_figure(report, f"steady-{number}" if number > 1 else "steady"))
    figures += saturation_figures(record, summary)
    for number, soak in enumerate(methods.soaks):
        figures.append(soak_figure(record, summary, soak, f"soak-{number + 1}"))
    return tuple(figure for figure in figures if figure is not None)


def _shows_consistency(result: PhaseResult, measured: Sequence[PhaseResult]) -> bool:
    usual_s = statistics.median(item.duration_s for item in measured)
    return result.duration_s > TAIL_S or (
        result.duration_s >= CONSISTENCY_FROM_S
        and (result.duration_s >= LONGER_THAN_USUAL * usual_s or len(measured) <= FEW_PHASES)
    )


@dataclass(frozen=True, slots=True)
class ReviewPart:
    """What the page shows of a run, or of one of several drives in it."""

    name: str
    """The drive's in the rig; empty of the run itself."""
    summary: RunSummary
    figures: tuple[Drawn, ...]
    sweeps: tuple[Drawn, ...]


def write_review(record: RunRecord, summary: RunSummary, methods: MethodResults) -> list[Path]:
    """Write ``review.html``, and of each figure SVG, PNG, PDF and CSV; the page is last.

    Of several drives the figures of all together come first, then those of each.
    """
    folder = record.path / FOLDER
    folder.mkdir(exist_ok=True)
    written: list[Path] = []
    run, *drives = (
        _review_part(name, of, one, found, folder, written)
        for name, of, one, found in _review_parts(record, summary, methods)
    )
    page = offline_page(
        "review.html",
        {"summary": summary, "own": own_words(record.path), "header": record.header,
         "run": run, "drives": drives, "panels": panels(summary.points),
         "text": methods_text(methods), "folder": FOLDER},
    )  # fmt: skip
    return [*written, write_atomically(record.path / REVIEW_FILE, page)]


def _review_parts(
    record: RunRecord, summary: RunSummary, methods: MethodResults
) -> Iterator[tuple[str, RunRecord, RunSummary, MethodResults]]:
    """The run, then what each of several drives did in it."""
    yield "", record, summary, methods
    for name, of in runs_of_drives(record).items():
        yield name, of, summary.drives[name], methods.drives[name]


def _review_part(
    name: str,
    record: RunRecord,
    summary: RunSummary,
    methods: MethodResults,
    folder: Path,
    written: list[Path],
) -> ReviewPart:
    """The charts of a part of the page; the files beside it are added to ``written``."""

    source = source_words(summary, own_words(record.path).title)

    def drawn(chart: Chart) -> Drawn:
        own = signed(_named_after_drive(name, chart), source)
        pictures = write_pictures(own, folder, pdf=True)
        written.extend(pictures.files)
        return Drawn(own, pictures.svg)

    figures = []
    for figure in review_figures(record, summary, methods):
        figures.append(drawn(figure.chart))
        table = folder / f"{figures[-1].chart.name}.csv"
        written.append(write_atomically(table, figure.csv()))
    along = [*sweep_charts(summary), latency_histograms(summary), depths_and_jobs_chart(summary)]
    along += drive_charts(summary)
    sweeps = tuple(drawn(chart) for chart in along if chart is not None)
    return ReviewPart(name, summary, tuple(figures), sweeps)


def _named_after_drive(drive: str, chart: Chart) -> Chart:
    """A chart under the name of its drive, where there are several."""
    if not drive:
        return chart
    return replace(chart, name=f"{drive}-{chart.name}", title=f"{drive}: {chart.title}")
