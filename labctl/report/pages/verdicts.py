"""The page of a judgement: every verdict, and pictures of the seconds that decided."""

from __future__ import annotations

from collections.abc import Iterator

from labctl.analysis.methods.power_verdicts import Judgement, PowerVerdict, highest
from labctl.analysis.run.drives import runs_of_drives
from labctl.analysis.run.timeline import timeline
from labctl.analysis.run_summary import RunSummary
from labctl.record.reader import RunRecord
from labctl.report.charts.power_verdict import BINS, drawn_verdict_window, verdict_chart
from labctl.report.charts.static_svg import static_svg
from labctl.report.charts.theme import Chart, signed
from labctl.report.key_figures import source_words
from labctl.report.pages.offline_page import Drawn, offline_page

MOST_PICTURES = 24
"""Of the checks that failed; of each limit the closest one is always shown."""


def verdicts_page(record: RunRecord, summary: RunSummary, found: Judgement) -> str:
    """The judgement as HTML."""
    source = source_words(summary)
    return offline_page(
        "judge.html",
        {
            "found": found,
            "summary": summary,
            "verdicts": PowerVerdict,
            "drawn": [
                Drawn(chart, static_svg(chart.spec))
                for chart in (signed(one, source) for one in _verdicts_page_charts(record, found))
            ],
            "began": {one.phase.index: one.begin_ns for one in summary.phases},
        },
    )


def _verdicts_page_charts(record: RunRecord, found: Judgement) -> Iterator[Chart]:
    shown = list(highest(found.checks))
    failed = [check for check in found.of(PowerVerdict.FAIL) if check not in shown]
    drives = runs_of_drives(record)
    for number, check in enumerate([*shown, *failed[:MOST_PICTURES]], start=1):
        window = drawn_verdict_window(check)
        if window is not None:
            line = timeline(drives.get(check.drive, record), *window, BINS)
            chart = verdict_chart(check, line, number)
            if chart is not None:
                yield chart
