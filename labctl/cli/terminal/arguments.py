"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RUNS_VARIABLE = "LABCTL_RUNS"
RunsOption = Annotated[
    Path, typer.Option("--runs", envvar=RUNS_VARIABLE, help="Directory of the runs.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
RIG = typer.Argument(help="A rig file, or the name of a rig in rigs/.")
PLAN = typer.Argument(help="A built-in plan's name, or a plan file.")
RigArgument = Annotated[str, RIG]
YesOption = Annotated[
    bool, typer.Option("--yes", help="Do not ask about a plan of many hours or bytes.")
]
ScaleOption = Annotated[
    float | None,
    typer.Option(help="Scale times, spans and fills of the plan down, such as 0.01."),
]
DEFAULT_RUNS = Path("runs")
BrokerOption = Annotated[
    str | None, typer.Option("--broker", help="Rigs of an MQTT broker instead: HOST[:PORT].")
]
