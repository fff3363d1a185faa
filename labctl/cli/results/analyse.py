"""``labctl analyse`` and ``labctl review``: the review methods and the standards, for one run."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from labctl.analysis.methods.method_results import methods_of
from labctl.analysis.run.summary import summarise
from labctl.cli.terminal.arguments import JsonOption
from labctl.cli.terminal.run_names import RunArgument
from labctl.errors import JournalError
from labctl.record.reader import RunRecord
from labctl.report.text.methods import methods_text

TailOption = Annotated[
    float, typer.Option("--tail", min=2.0, help="Seconds of a phase's end that consistency is of.")
]
DEFAULT_TAIL_S = 400.0


def analyse(
    run_directory: RunArgument,
    tail_s: TailOption = DEFAULT_TAIL_S,
    limit_watts: Annotated[
        float | None, typer.Option("--watts", help="Ask for the most IOPS under this many watts.")
    ] = None,
    wanted_iops: Annotated[
        float | None, typer.Option("--iops", help="Ask for the least watts that do these IOPS.")
    ] = None,
    qos_percent: Annotated[float, typer.Option(help="Percentile of the latency verdict.")] = 99.9,
    qos_us: Annotated[float, typer.Option(help="Its limit, in microseconds.")] = 500.0,
    json_output: JsonOption = False,
) -> None:
    """Consistency, steady state, efficiency, power model of a run."""
    record = RunRecord(run_directory)
    found = methods_of(
        record,
        summarise(record),
        tail_s=tail_s,
        limit_watts=limit_watts,
        wanted_iops=wanted_iops,
        qos=(qos_percent, qos_us),
    )
    if json_output:
        print(json.dumps(found.to_json(), ensure_ascii=False, indent=1, allow_nan=False))
    else:
        print(methods_text(found), end="")


def review(run_directory: RunArgument, tail_s: TailOption = DEFAULT_TAIL_S) -> None:
    """Make the page and charts of a review, each with CSV and PDF."""
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
