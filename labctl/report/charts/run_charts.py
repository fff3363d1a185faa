"""All charts of a run, in the order of the report."""

from __future__ import annotations

from labctl.analysis.readings.imported import imported_clocks
from labctl.analysis.run.timeline import timeline
from labctl.analysis.run_summary import RunSummary
from labctl.record.own_words import own_words
from labctl.record.reader import RunRecord
from labctl.report.charts.alignment import alignment_chart
from labctl.report.charts.cpu_use import cpu_chart
from labctl.report.charts.depths_and_jobs import depths_and_jobs_chart
from labctl.report.charts.latency_histograms import latency_histograms
from labctl.report.charts.over_time import time_chart
from labctl.report.charts.per_drive import drive_charts
from labctl.report.charts.power_envelope import envelope_chart
from labctl.report.charts.sweeps import sweep_charts
from labctl.report.charts.theme import Chart, signed
from labctl.report.key_figures import source_words


def run_charts(record: RunRecord, summary: RunSummary) -> tuple[Chart, ...]:
    """Watts, work and latency along each sweep, and the whole run over time."""
    charts = [
        *sweep_charts(summary),
        envelope_chart(summary),
        latency_histograms(summary),
        depths_and_jobs_chart(summary),
    ]
    charts += [*drive_charts(summary), cpu_chart(summary)]
    if summary.end_ns > summary.begin_ns:
        drive = record.header.drive
        limits = {"warning": drive.warning_celsius, "critical": drive.critical_celsius}
        line = timeline(record, summary.begin_ns, summary.end_ns)
        charts.append(time_chart(summary, line, limits))
        charts.append(alignment_chart(summary, line, imported_clocks(record)))
    source = source_words(summary, own_words(record.path).title)
    return tuple(signed(chart, source) for chart in charts if chart is not None)
