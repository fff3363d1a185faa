"""``labctl report``: everything derived from a run's journal, made again."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

from rich.console import Console

from labctl.analysis.results import RunSummary
from labctl.analysis.summary import summarise
from labctl.errors import JournalError
from labctl.record import RunRecord
from labctl.report import table
from labctl.report.write import write_report


def make_report(record: RunRecord) -> RunSummary:
    """Summarise a run and write ``summary.json``, ``phases.csv``, ``report.html``, charts.

    Its review, too, where the plan asks for one.
    """
    summary = summarise(record)
    try:
        write_report(record, summary)
        if wants_review(record):
            # it loads the libraries of every analysis: only who wants it waits for them
            from labctl.analysis.methods import methods_of
            from labctl.report.review import write_review

            write_review(record, summary, methods_of(record, summary))
    except OSError as error:
        raise JournalError(
            f"cannot write the report of {record.path}: {error.strerror or error}; the record "
            "itself stays: make room, then labctl report"
        ) from error
    return summary


def wants_review(record: RunRecord) -> bool:
    """Whether the plan of a run asks for the review page."""
    try:
        return tomllib.loads(record.header.plan_text).get("report") == "review"
    except tomllib.TOMLDecodeError:
        return False  # a record of somebody else's making


def print_summary(path: Path, summary: RunSummary) -> None:
    """The table, and where the rest is."""
    if sys.stdout.isatty():
        console = Console()
        console.print(table.run_table(summary, console.width))
    else:
        print(table.table_text(summary))
    print(f"report: {path / 'report.html'}")
    if wants_review(RunRecord(path)):
        print(f"review: {path / 'review.html'}")


def report(run_directory: Path, json_output: bool) -> None:
    """Make the report of a run. Raises JournalError when it is none."""
    record = RunRecord(run_directory)
    summary = make_report(record)
    if json_output:
        print(json.dumps(summary.to_json()))
    else:
        print_summary(run_directory, summary)
