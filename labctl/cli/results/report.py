"""``labctl report``: shows the results of a run, and writes its report files where they differ."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from labctl.analysis.run.summary import summarise
from labctl.analysis.run_summary import RunSummary
from labctl.cli.terminal.arguments import JsonOption
from labctl.cli.terminal.console import Terminal
from labctl.cli.terminal.run_names import RunArgument
from labctl.config.calibration_file import in_force, load_calibration
from labctl.config.rig import parse_rig_file
from labctl.config.rig_file import MAX_AGE_DAYS
from labctl.errors import ConfigurationError, JournalError, Mistake
from labctl.record.calibration_used import UsedCalibration
from labctl.record.header import Header
from labctl.record.own_words import OwnWords, keep_own_words, own_words
from labctl.record.reader import RunRecord
from labctl.record.timebase import NS_PER_S
from labctl.report.pages.all_pages import write_pages
from labctl.report.pages.report_files import REVIEW_FILE, is_current, wants_review
from labctl.report.text import table


def report(
    run_directory: RunArgument,
    calibration: Annotated[
        Path | None, typer.Option(help="Zeros from this file, in place of those of the run.")
    ] = None,
    without_calibration: Annotated[
        bool, typer.Option("--without-calibration", help="Subtract no zeros.")
    ] = False,
    title: Annotated[
        str | None, typer.Option(help="Your own title: kept with the run, on pages and charts.")
    ] = None,
    note: Annotated[
        str | None, typer.Option(help="Your own note: kept with the run, on top of its pages.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Show a run's results, and make its report again.

    It is made from the journal alone, and only what is missing or says anything else.
    """
    record = record_with(run_directory, calibration, without_calibration)
    _keep_report_words(run_directory, title, note)
    summary = summarise(record)
    if json_output:
        print(json.dumps(summary.to_json()), flush=True)
    else:
        print_table(summary)
    if not is_current(record, summary):
        write_pages(record, summary)
    if not json_output:
        print_pages(run_directory)


def _keep_report_words(run: Path, title: str | None, note: str | None) -> None:
    """Keep a person's words with the run; None leaves what was said before. Raises JournalError."""
    if title is None and note is None:
        return
    before = own_words(run)
    words = OwnWords(
        before.title if title is None else title, before.note if note is None else note
    )
    try:
        keep_own_words(run, words)
    except OSError as error:
        raise JournalError(f"cannot write into {run}: {error.strerror or error}") from error


def make_report(record: RunRecord, quiet: bool = False) -> RunSummary:
    """Summarise a run, print its table, and write ``summary.json``, ``phases.csv``,
    ``report.html``, charts; its review, too, where the plan asks for one.

    The table comes first: pages and charts take seconds. ``quiet`` prints none.
    """
    summary = summarise(record)
    if not quiet:
        with contextlib.suppress(OSError):  # the terminal may be gone
            print_table(summary)
    write_pages(record, summary)
    return summary


def print_table(summary: RunSummary) -> None:
    """Print the table of a run, at once."""
    if sys.stdout.isatty():
        console = Terminal()
        console.print(table.run_table(summary, console.width))
    else:
        print(table.table_text(summary), flush=True)


def print_pages(path: Path) -> None:
    """Print where the report of a run is, and its review."""
    print(f"report: {path / 'report.html'}")
    if wants_review(RunRecord(path)):
        print(f"review: {path / REVIEW_FILE}")


def record_with(
    run_directory: Path, calibration: Path | None, without_calibration: bool
) -> RunRecord:
    """A run with the zeros of its header, those of another file, or none.

    Raises JournalError, ConfigurationError.
    """
    record = RunRecord(run_directory)
    if without_calibration:
        record.header = replace(record.header, calibration=None)
    elif calibration is not None:
        record.header = replace(
            record.header, calibration=_calibration_for_report(record.header, calibration)
        )
    return record


def _calibration_for_report(header: Header, file: Path) -> UsedCalibration:
    """The part of another calibration that is valid for a recorded run."""
    found = load_calibration(file)
    if found is None:
        raise ConfigurationError([Mistake(str(file), "calibration", None, "there is no such file")])
    try:
        rig = parse_rig_file(header.rig_text, "rig")
        fingerprint, limit = rig.fingerprint, rig.calibration.max_age_days
    except ConfigurationError:  # written by another version of labctl
        fingerprint, limit = found.fingerprint, MAX_AGE_DAYS
    ranges = {channel.name: channel.range for channel in header.channels}
    moment = datetime.fromtimestamp(header.anchor.wall_ns / NS_PER_S, UTC)
    return in_force(found, fingerprint, ranges, header.identities, moment, limit)
