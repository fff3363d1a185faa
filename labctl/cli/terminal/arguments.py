"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.terminal.completion import complete_plans, complete_rigs

RUNS_VARIABLE = "LABCTL_RUNS"
DEFAULT_RUNS = Path("runs")


def _or_of_site(ctx: typer.Context, param: typer.CallbackParam, value: Path | None) -> Path | None:
    """The directory of the site file, where neither option nor variable names one."""
    from labctl.config.site import site_runs

    source = ctx.get_parameter_source(param.name or "")
    if ctx.resilient_parsing or source is None or source.name != "DEFAULT":
        return value
    return site_runs() or value


RUNS = typer.Option(
    "--runs",
    envvar=RUNS_VARIABLE,
    callback=_or_of_site,
    help="Directory of the runs; else that of the site file.",
)
RunsOption = Annotated[Path, RUNS]
"""Where new runs go: ./runs, if nothing else is said."""
SomeRunsOption = Annotated[Path | None, RUNS]
"""Where runs are: None if nothing is said (see :mod:`labctl.cli.terminal.run_names`)."""
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
BrokerOption = Annotated[
    str | None, typer.Option("--broker", help="Rigs of an MQTT broker instead: HOST[:PORT].")
]
