"""Commands of the queue's daemon, what it does and what it has done.

Nothing heavy is imported before a command is chosen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.terminal.arguments import BrokerOption, JsonOption, RigArgument


def daemon(
    rigs: Annotated[
        list[str] | None, typer.Argument(metavar="RIG", help="Rigs; all, if left out.")
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option("--runs", help="Directory of the runs; else in the data directory."),
    ] = None,
) -> None:
    """Work off the queue on rigs, until SIGTERM or Ctrl-C."""
    from labctl.cli.overnight import daemon as serving

    serving.serve(rigs or (), runs)


def idle(
    rig: RigArgument,
    runs: Annotated[Path | None, typer.Option("--runs", help="Directory of the records.")] = None,
) -> None:
    """Record the meters of a rig without a workload, until Ctrl-C."""
    from labctl.cli.overnight import idle as idling

    idling.record(rig, runs)


def status(broker: BrokerOption = None, json_output: JsonOption = False) -> None:
    """Print what runs, what waits and what came of the rest."""
    from labctl.cli.overnight import status as standing

    standing.print_status(broker, json_output)


def watch(broker: BrokerOption = None) -> None:
    """Show it on the whole screen until q; works over ssh."""
    from labctl.cli.overnight import watch as watching

    watching.watch(broker)


def morning(
    since: Annotated[
        str | None, typer.Option(help="From then on: 18:00, or a date and time; else a day.")
    ] = None,
    runs: Annotated[Path | None, typer.Option("--runs", help="Directory of the runs.")] = None,
    json_output: JsonOption = False,
) -> None:
    """Print what ran, what it found and what to look at."""

    from labctl.cli.overnight import morning as overnight_morning

    overnight_morning.print_morning(since, runs, json_output)


def tidy(
    export_after: Annotated[
        float | None, typer.Option(help="Write Parquet beside runs older than so many days.")
    ] = None,
    delete_after: Annotated[
        float | None, typer.Option(help="Delete runs older than so many days.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Delete the oldest until the rest fits: 200g.")
    ] = None,
    archive: Annotated[
        Path | None, typer.Option(help="Where Parquet goes; nothing is deleted before it is there.")
    ] = None,
    runs: Annotated[Path | None, typer.Option("--runs", help="Directory of the runs.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done; touch nothing.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Export or delete old runs, never one on or not shipped."""
    from labctl.cli.overnight import tidy as tidying

    code = tidying.tidy(
        runs,
        export_after,
        delete_after,
        budget,
        archive,
        dry_run=dry_run,
        json_output=json_output,
    )
    raise typer.Exit(code)
