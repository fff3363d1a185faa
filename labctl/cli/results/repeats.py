"""``labctl repeats``: how many repeats tell a change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from labctl.analysis.compare.planning import plan_repeats
from labctl.analysis.run.drives import record_at
from labctl.analysis.run.summary import summarise
from labctl.cli.terminal.arguments import JsonOption
from labctl.cli.terminal.completion import complete_runs
from labctl.cli.terminal.pager import pages
from labctl.cli.terminal.run_names import find_run
from labctl.errors import ConfigurationError, Mistake
from labctl.record.json_values import plain_json
from labctl.report.text.comparison import repeats_text


@pages
def repeats(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            parser=find_run,
            autocompletion=complete_runs,
            help="Repeats of one run, by directory or name; RUN:DRIVE is one of several drives.",
        ),
    ],
    change: Annotated[
        float, typer.Option("--change", max=1e4, metavar="PERCENT", help="The change to be told.")
    ] = 3.0,
    json_output: JsonOption = False,
) -> int:
    """Say how many repeats a side tell a change.

    It follows from how these runs scatter: two show it roughly, four well. Of a single run it is
    taken from its rounds; without rounds the numbers are the fewest possible: one run does not
    show how runs differ.
    """
    analysed = [(record, summarise(record)) for record in map(record_at, runs)]
    try:
        found = plan_repeats(analysed, change / 100.0)
    except ValueError as error:
        raise ConfigurationError(
            [Mistake("command line", "--change", change, str(error))]
        ) from error
    if json_output:
        print(json.dumps(plain_json(found), ensure_ascii=False, indent=1, allow_nan=False))
    else:
        print(repeats_text(found), end="")
    return 0
