"""The results of a run as files beside its record. All of it can be deleted and made again."""

from __future__ import annotations

import os
from pathlib import Path

from labctl.analysis.run_summary import RunSummary
from labctl.errors import ConfigurationError
from labctl.record.atomic_write import write_atomically
from labctl.record.layout import EVENTS_FILE
from labctl.record.own_words import own_words
from labctl.record.reader import RunRecord
from labctl.report.data.result_files import (
    cpu_csv,
    drives_csv,
    phases_csv,
    points_csv,
    summary_json,
)
from labctl.toml_reading import parse_toml

SUMMARY_FILE = "summary.json"
PHASES_FILE = "phases.csv"
POINTS_FILE = "points.csv"
CPU_FILE = "cpu.csv"
DRIVES_FILE = "drives.csv"
PAGE_FILE = "report.html"
REVIEW_FILE = "review.html"
CHARTS_DIR = "charts"
_HEAD_BYTES = 1024
"""Of the page: in them it says which words it was made with."""


def write_report(record: RunRecord, summary: RunSummary) -> list[Path]:
    """Write ``summary.json``, ``phases.csv``, the pictures in ``charts`` and ``report.html`` into
    the run.

    Gives their files, the page last. Older ones are replaced, each in one step; pictures of charts
    that did not change stay.
    """
    # altair and vl-convert take a second to load: only who wants charts waits for them
    from labctl.report.charts.run_charts import run_charts
    from labctl.report.pages.offline_page import Drawn
    from labctl.report.pages.pictures import write_pictures
    from labctl.report.pages.report import report_page

    written = [
        write_atomically(record.path / name, data)
        for name, data in _report_file_texts(summary).items()
    ]
    drawn = []
    folder = record.path / CHARTS_DIR
    for chart in run_charts(record, summary):
        folder.mkdir(exist_ok=True)
        pictures = write_pictures(chart, folder)
        written += pictures.files
        drawn.append(Drawn(chart, pictures.svg))
    written.append(
        write_atomically(record.path / PAGE_FILE, report_page(record, summary, drawn).encode())
    )
    return written


def _report_file_texts(summary: RunSummary) -> dict[str, bytes]:
    """The files that are text, by name."""
    texts = {SUMMARY_FILE: summary_json(summary), PHASES_FILE: phases_csv(summary)}
    if summary.window_means:
        texts[POINTS_FILE] = points_csv(summary)
    if any(item.cpu is not None for item in summary.phases):
        texts[CPU_FILE] = cpu_csv(summary)
    if summary.drives:
        texts[DRIVES_FILE] = drives_csv(summary)
    return {name: text.encode() for name, text in texts.items()}


def is_current(record: RunRecord, summary: RunSummary) -> bool:
    """Whether everything derived is there and agrees with this summary: the tables byte for
    byte, and the pages, written behind them, by a labctl that has not been replaced since and with
    the words that a person says of the run by now."""
    folder, tables = record.path, _report_file_texts(summary)
    try:
        same = all((folder / name).read_bytes() == text for name, text in tables.items())
        tables_ns = max((folder / name).stat().st_mtime_ns for name in tables)
        with (folder / PAGE_FILE).open("rb") as page:
            page_ns, head = os.fstat(page.fileno()).st_mtime_ns, page.read(_HEAD_BYTES)
    except OSError:
        return False
    whole = same and (folder / CHARTS_DIR).is_dir() and is_made(record)
    worded = own_words(folder).fingerprint.encode() in head
    return whole and worded and page_ns >= max(tables_ns, _installed_ns())


def _installed_ns() -> int:
    """When the newest file of this labctl came to be where it is."""
    files = Path(__file__).parents[2].rglob("*.*")
    return max(file.stat().st_ctime_ns for file in files if "__pycache__" not in file.parts)


def wants_review(record: RunRecord) -> bool:
    """Whether the plan of a run asks for the review page."""
    try:
        return parse_toml(record.header.plan_text, "plan").get("report") == "review"
    except ConfigurationError:
        return False  # a record of somebody else's making


def is_made(record: RunRecord) -> bool:
    """Whether the report of a run is there, whole, and of all that is recorded by now: a run that
    went on has one of its first part."""
    last = record.path / (REVIEW_FILE if wants_review(record) else PAGE_FILE)
    try:
        return last.stat().st_mtime_ns > (record.path / EVENTS_FILE).stat().st_mtime_ns
    except OSError:
        return False
