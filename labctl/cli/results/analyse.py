"""``labctl analyse`` and ``labctl review``: the review methods and the standards, of one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from labctl.analysis.methods.all import methods_of
from labctl.analysis.run.summary import summarise
from labctl.cli.terminal.arguments import JsonOption
from labctl.errors import JournalError
from labctl.record.reader import RunRecord
from labctl.report.text.methods import methods_text


def analyse(
    run_directory: Path,
    tail_s: float,
    limit_watts: float | None,
    wanted_iops: float | None,
    qos: tuple[float, float],
    json_output: bool,
) -> None:
    """Print what the methods say of a run. Raises JournalError when it is none."""
    record = RunRecord(run_directory)
    found = methods_of(
        record,
        summarise(record),
        tail_s=tail_s,
        limit_watts=limit_watts,
        wanted_iops=wanted_iops,
        qos=qos,
    )
    if json_output:
        print(json.dumps(found.to_json(), ensure_ascii=False, indent=1, allow_nan=False))
    else:
        print(methods_text(found), end="")


def review(run_directory: Path, tail_s: float) -> None:
    """Write the review page of a run and its figures. Raises JournalError."""
    from labctl.report.pages.report_files import write_report
    from labctl.report.pages.review import write_review

    record = RunRecord(run_directory)
    summary = summarise(record)
    try:
        write_report(record, summary)
        written = write_review(record, summary, methods_of(record, summary, tail_s=tail_s))
    except OSError as error:
        raise JournalError(
            f"cannot write the review of {record.path}: {error.strerror or error}"
        ) from error
    print(f"review: {written[-1]} ({len(written) - 1} files in {written[-1].parent / 'review'})")


def analyse_command(
    run_directory: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    tail: Annotated[
        float, typer.Option(min=2.0, help="Seconds of a phase's end that consistency is of.")
    ] = 400.0,
    watts: Annotated[
        float | None, typer.Option(help="Ask for the most IOPS under this many watts.")
    ] = None,
    iops: Annotated[
        float | None, typer.Option(help="Ask for the least watts that do these IOPS.")
    ] = None,
    qos_percent: Annotated[float, typer.Option(help="Percentile of the latency verdict.")] = 99.9,
    qos_us: Annotated[float, typer.Option(help="Its limit, in microseconds.")] = 500.0,
    json_output: JsonOption = False,
) -> None:
    """Consistency, steady state, efficiency, power model of a run."""
    analyse(run_directory, tail, watts, iops, (qos_percent, qos_us), json_output)


def review_command(
    run_directory: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    tail: Annotated[
        float, typer.Option(min=2.0, help="Seconds of a phase's end that consistency is of.")
    ] = 400.0,
) -> None:
    """Make the page and charts of a review, each with CSV and PDF."""
    review(run_directory, tail)
