"""``labctl run``, ``demo`` and ``simulate``: what is done to a drive.

Nothing heavy is imported before a command is chosen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.terminal.arguments import (
    DEFAULT_RUNS,
    PLAN,
    RIG,
    JsonOption,
    RunsOption,
    ScaleOption,
)


def run(
    rig: Annotated[str | None, RIG] = None,
    plan: Annotated[str | None, PLAN] = None,
    runs: RunsOption = DEFAULT_RUNS,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the phases, time and bytes; touch nothing.")
    ] = False,
    scale: ScaleOption = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask about a plan of many hours or bytes.")
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Go on with a run that was cut off, in its directory."),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Run a plan on a rig: record it, report it."""
    from labctl.cli.run import run as running

    if resume is not None:
        if dry_run or (scale is not None and plan is None):
            raise typer.BadParameter("--resume takes no --dry-run, and --scale with a plan alone")
        raise typer.Exit(running.resume_and_report(resume, json_output, rig, plan, scale))
    if rig is None or plan is None:
        raise typer.BadParameter("a rig and a plan are needed, or --resume RUN")
    if dry_run:
        running.print_dry_run(rig, plan, json_output, scale)
    else:
        raise typer.Exit(running.run_and_report(rig, plan, runs, json_output, scale, yes))


def demo(
    runs: RunsOption = DEFAULT_RUNS,
    plan: Annotated[str, typer.Option(help="The plan to run on the simulated rig.")] = "demo",
    scale: ScaleOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the meters' errors and noise.")] = 1,
    to: Annotated[
        str | None, typer.Option(help="Send it to http://HOST:8086?org=ORG&bucket=BUCKET, too.")
    ] = None,
    grafana: Annotated[
        str | None, typer.Option(help="Grafana's address, to print the dashboard's.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Do it all on a simulated rig, and compare with the truth."""
    from labctl.cli.run import demo as demonstration

    raise typer.Exit(demonstration.demonstrate(runs, plan, scale, seed, to, grafana, json_output))


def simulate(
    directory: Annotated[Path, typer.Argument(help="Where sockets, ttys and rig.toml go.")],
    seed: Annotated[int, typer.Option(help="Seed of the meters' errors and noise.")] = 1,
    parameters: Annotated[
        Path | None, typer.Option(help="Drive parameters (TOML); the reference drive if left out.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Start the simulated rig and keep it until Ctrl-C."""
    from labctl.cli.run import demo as demonstration

    demonstration.simulate(directory, seed, parameters, json_output)
