"""``labctl analyse`` and ``labctl review``: the review methods and the standards, for one run."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from labctl.analysis.methods.method_results import methods_of
from labctl.analysis.run.marks import moment_of
from labctl.analysis.run.stretch import stretch_of
from labctl.analysis.run.summary import summarise
from labctl.cli.terminal.arguments import JsonOption
from labctl.cli.terminal.pager import pages
from labctl.cli.terminal.renamed import renamed
from labctl.cli.terminal.run_names import RunArgument
from labctl.errors import ConfigurationError, JournalError, Mistake
from labctl.record.reader import RunRecord
from labctl.record.timebase import NS_PER_S
from labctl.report.text.methods import methods_text

TailOption = Annotated[
    float, typer.Option("--tail", min=2.0, help="Seconds of a phase's end that consistency is of.")
]
DEFAULT_TAIL_S = 400.0
TIMES = "Seconds since the run began, 90s, 2min, a clock (12:03:04, 12:03:04Z), or a mark."


@pages
def analyse(
    run_directory: RunArgument,
    tail_s: TailOption = DEFAULT_TAIL_S,
    limit_watts: Annotated[
        float | None,
        typer.Option("--max-watts", min=0, help="Ask for the most IOPS under this many watts."),
    ] = None,
    wanted_iops: Annotated[
        float | None,
        typer.Option("--min-iops", min=0, help="Ask for the least watts that do these IOPS."),
    ] = None,
    old_watts: Annotated[
        float | None, typer.Option("--watts", hidden=True, callback=renamed("--max-watts"))
    ] = None,
    old_iops: Annotated[
        float | None, typer.Option("--iops", hidden=True, callback=renamed("--min-iops"))
    ] = None,
    qos_percent: Annotated[
        float, typer.Option(min=0, max=100, help="Percentile of the verdict.")
    ] = 99.9,
    qos_us: Annotated[float, typer.Option(min=0, help="Its limit, in microseconds.")] = 500.0,
    json_output: JsonOption = False,
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Of a stretch: where it begins. " + TIMES),
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Where it ends.")] = None,
) -> None:
    """Consistency, steady state, efficiency, power model of a run.

    With --from or --to: the watts and joules of that stretch alone.
    """
    record = RunRecord(run_directory)
    if begin is not None or end is not None:
        _print_stretch(record, begin, end, json_output)
        return
    found = methods_of(
        record,
        summarise(record),
        tail_s=tail_s,
        limit_watts=old_watts if limit_watts is None else limit_watts,
        wanted_iops=old_iops if wanted_iops is None else wanted_iops,
        qos=(qos_percent, qos_us),
    )
    if json_output:
        print(json.dumps(found.to_json(), ensure_ascii=False, indent=1, allow_nan=False))
    else:
        print(methods_text(found), end="")


def _print_stretch(
    record: RunRecord, begin: str | None, end: str | None, json_output: bool
) -> None:
    """Print a stretch of a run. Raises ConfigurationError where it is none."""
    from labctl.report.text.programs import stretch_text

    summary = summarise(record)
    mistakes = []

    def moment(option: str, text: str | None, otherwise_ns: int) -> int:
        try:
            if text is None:
                return otherwise_ns
            return moment_of(text, summary.begin_ns, summary.marks)
        except ValueError as error:
            mistakes.append(Mistake("command line", option, text, str(error)))
            return otherwise_ns

    begin_ns = moment("--from", begin, summary.begin_ns)
    end_ns = moment("--to", end, summary.end_ns)
    lasted_s = (summary.end_ns - summary.begin_ns) / NS_PER_S
    if not mistakes and not summary.begin_ns <= begin_ns < end_ns <= summary.end_ns + NS_PER_S:
        allowed = f"must come after --from, and both lie within the {lasted_s:.3f} s of the run"
        mistakes.append(Mistake("command line", "--to", end, allowed))
    if mistakes:
        raise ConfigurationError(mistakes)
    found = stretch_of(record, summary, begin_ns, end_ns)
    if json_output:
        print(json.dumps(found.to_json(), ensure_ascii=False, indent=1, allow_nan=False))
    else:
        print(stretch_text(found, summary.begin_ns), end="")


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
