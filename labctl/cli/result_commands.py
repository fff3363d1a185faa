"""Commands about runs that were recorded: reports, analyses, comparisons, bundles, queries.

Nothing heavy is imported before a command is chosen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.terminal.arguments import DEFAULT_RUNS, JsonOption, RunsOption


def report(
    run_directory: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    calibration: Annotated[
        Path | None, typer.Option(help="Zeros from this file, in place of those of the run.")
    ] = None,
    without_calibration: Annotated[
        bool, typer.Option("--without-calibration", help="Subtract no zeros.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Show a run's results, and make its report again.

    It is made from the journal alone, and only where it is missing, or says anything else.
    """
    from labctl.cli.results import report as reporting

    reporting.report(run_directory, json_output, calibration, without_calibration)


def analyse(
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
    from labctl.cli.results import analyse as analysing

    analysing.analyse(run_directory, tail, watts, iops, (qos_percent, qos_us), json_output)


def review(
    run_directory: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    tail: Annotated[
        float, typer.Option(min=2.0, help="Seconds of a phase's end that consistency is of.")
    ] = 400.0,
) -> None:
    """Make the page and charts of a review, each with CSV and PDF."""
    from labctl.cli.results import analyse as analysing

    analysing.review(run_directory, tail)


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Run directories; RUN:DRIVE is one of several."),
    ],
    gate: Annotated[Path | None, typer.Option(help="A gate file (TOML): limits.")] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="QUANTITY=PERCENT", help="How much worse; celsius_max=K; repeatable."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="A limit within the uncertainty fails, too.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page with charts here.")] = None,
    csv_output: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Compare runs with the first one.

    A single run of several drives is compared drive by drive. Exit code 1 when a gate fails.
    """
    from labctl.cli.results import compare as comparing

    raise typer.Exit(
        comparing.compare_runs(runs, gate, allow or (), strict, html, csv_output, json_output)
    )


def bundle(
    run_directory: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The archive.")] = None,
    json_output: JsonOption = False,
) -> None:
    """Pack a run's raw data into one archive, with checksums."""
    from labctl.cli.results import bundle as bundling

    bundling.bundle(run_directory, output, json_output)


def verify(
    file: Annotated[Path, typer.Argument(metavar="BUNDLE", help="An archive of labctl bundle.")],
    json_output: JsonOption = False,
) -> None:
    """Derive every number of a bundle again.

    Exit code 1 when a number or a file differs.
    """
    from labctl.cli.results import bundle as bundling

    raise typer.Exit(bundling.verify(file, json_output))


def query(
    sql: Annotated[str, typer.Argument(help="SQL over the tables phases and runs.")],
    runs: RunsOption = DEFAULT_RUNS,
    csv_output: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Ask all runs with SQL (DuckDB), as in SELECT * FROM phases."""
    from labctl.cli.results import query as querying

    querying.run_query(sql, [runs], csv_output, json_output)
