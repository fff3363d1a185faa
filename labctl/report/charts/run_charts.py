"""All charts of a run, in the order of the report."""

from __future__ import annotations

from labctl.analysis.results import RunSummary
from labctl.analysis.run.timeline import timeline
from labctl.record.reader import RunRecord
from labctl.report.charts.cpu_use import cpu_chart
from labctl.report.charts.over_time import time_chart
from labctl.report.charts.per_drive import drive_charts
from labctl.report.charts.sweeps import sweep_charts
from labctl.report.charts.theme import Chart


def run_charts(record: RunRecord, summary: RunSummary) -> tuple[Chart, ...]:
    """Watts, work and latency along each sweep, and the whole run over time."""
    cpu = cpu_chart(summary)
    charts = sweep_charts(summary) + drive_charts(summary) + (() if cpu is None else (cpu,))
    if summary.end_ns <= summary.begin_ns:
        return charts
    drive = record.header.drive
    limits = {"warning": drive.warning_celsius, "critical": drive.critical_celsius}
    over_time = time_chart(summary, timeline(record, summary.begin_ns, summary.end_ns), limits)
    return charts if over_time is None else (*charts, over_time)
