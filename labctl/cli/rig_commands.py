"""Commands about what there is, and whether a rig is ready.

Nothing heavy is imported before a command is chosen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.terminal.arguments import DEFAULT_RUNS, JsonOption, RigArgument, RunsOption


def list_runs(runs: RunsOption = DEFAULT_RUNS, json_output: JsonOption = False) -> None:
    """List the runs."""
    from labctl.cli.rig import lists

    lists.list_runs(runs, json_output)


def list_rigs(json_output: JsonOption = False) -> None:
    """List the rigs.

    In ./rigs, $LABCTL_RIGS and ~/.config/labctl/rigs.
    """
    from labctl.cli.rig import lists

    lists.list_rigs(json_output)


def list_plans(json_output: JsonOption = False) -> None:
    """List the built-in plans."""
    from labctl.cli.rig import lists

    lists.list_plans(json_output)


def check(
    file: Annotated[Path, typer.Argument(help="A rig or a plan file.")],
    json_output: JsonOption = False,
) -> None:
    """Check a rig or plan file; every mistake is named."""
    from labctl.cli.rig import lists

    lists.check(file, json_output)


def doctor(
    rig: RigArgument,
    plan: Annotated[str | None, typer.Argument(help="A plan that it shall do tonight.")] = None,
    runs: RunsOption = DEFAULT_RUNS,
    json_output: JsonOption = False,
) -> None:
    """Check what would go wrong tonight, and say what to do."""
    from labctl.cli.rig import doctor as page

    raise typer.Exit(page.print_examination(rig, plan, runs, json_output))


def suggest_ranges(
    rig: RigArgument,
    plan: Annotated[str | None, typer.Argument(help="Its heaviest points; else reads.")] = None,
    runs: RunsOption = DEFAULT_RUNS,
    json_output: JsonOption = False,
) -> None:
    """Find the range to lock on each meter, at the heaviest points."""
    from labctl.cli.meters import find_ranges

    raise typer.Exit(find_ranges.suggest_ranges(rig, plan, runs, json_output))


def trim_check(
    rig: RigArgument,
    folder: Annotated[
        str | None,
        typer.Option(
            help="A folder on a filesystem of the drive, on the drive's host: nothing is lost."
        ),
    ] = None,
    size: Annotated[str, typer.Option(help="How much to write and discard.")] = "16m",
    json_output: JsonOption = False,
) -> None:
    """Does TRIM work? On the raw drive, or a filesystem (--folder)."""
    from labctl.cli.rig import trim_check as trimming

    raise typer.Exit(trimming.check_trim(rig, folder, size, json_output))
