"""Everything that is derived of a run, written into it: report, and review where asked for."""

from __future__ import annotations

from labctl.analysis.run_summary import RunSummary
from labctl.errors import JournalError
from labctl.record.reader import RunRecord
from labctl.report.pages.report_files import wants_review, write_report


def write_pages(record: RunRecord, summary: RunSummary) -> None:
    """Write the report of a run, and its review where the plan asks for one.

    Raises JournalError where it cannot be written.
    """
    try:
        write_report(record, summary)
        if wants_review(record):
            # imported here: the libraries of every analysis take long to load
            from labctl.analysis.methods.method_results import methods_of
            from labctl.report.pages.review import write_review

            write_review(record, summary, methods_of(record, summary))
    except OSError as error:
        raise JournalError(
            f"cannot write the report of {record.path}: {error.strerror or error}; the record "
            "itself stays: make room, then labctl report"
        ) from error
