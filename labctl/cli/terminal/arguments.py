"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.terminal.completion import complete_plans, complete_rigs

RUNS_VARIABLE = "LABCTL_RUNS"
RunsOption = Annotated[
    Path | None,
    typer.Option(
        "--runs",
        envvar=RUNS_VARIABLE,
        help="Directory of the runs. Else ~/labctl-runs, or as the site file says.",
    ),
]
"""None where neither option nor variable names one: see :mod:`labctl.cli.terminal.runs_place`."""
RunsToReadOption = Annotated[
    str | None,
    typer.Option(
        "--runs",
        envvar=RUNS_VARIABLE,
        help="Directory of the runs, or a store: s3://bucket/prefix, file:///folder.",
    ),
]
"""The same of who only reads: also ``s3://bucket/prefix`` or ``file:///folder``."""
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
RIG = typer.Argument(
    metavar="RIG",
    help="A rig file, or the name of a rig in rigs/.",
    autocompletion=complete_rigs,
)
PLAN = typer.Argument(
    metavar="PLAN", help="A built-in plan's name, or a plan file.", autocompletion=complete_plans
)
RigArgument = Annotated[str, RIG]
YesOption = Annotated[
    bool, typer.Option("--yes", help="Do not ask about a plan of many hours or bytes.")
]
ScaleOption = Annotated[
    float | None,
    typer.Option(help="Scale times, spans and fills of the plan down, such as 0.01."),
]
UntilOption = Annotated[
    str | None,
    typer.Option(
        metavar="settled", help="End each point when more time would not help its numbers."
    ),
]
BrokerOption = Annotated[
    str | None, typer.Option("--broker", help="Rigs of an MQTT broker instead: HOST[:PORT].")
]
