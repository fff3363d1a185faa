"""``labctl runs``: the runs, with columns and filters."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from labctl.cli.terminal.arguments import JsonOption, RunsToReadOption
from labctl.cli.terminal.completion import complete_plans, complete_rigs
from labctl.cli.terminal.pager import pages
from labctl.cli.terminal.plain_table import print_table
from labctl.cli.terminal.runs_place import places_to_read
from labctl.errors import ConfigurationError, Mistake
from labctl.record.events import Outcome
from labctl.report.data.run_list import COLUMNS, Row
from labctl.report.data.runs_at import rows_at
from labctl.service.data_dir import cache_of_runs
from labctl.toml_reading import meant

USUAL = ("run", "phases", "outcome")
"""Columns of the table where none are named: a run's name says time, rig and plan."""
OUTCOMES = (*map(str, Outcome), "unreadable")


@pages
def list_runs(
    runs: RunsToReadOption = None,
    rig: Annotated[
        str | None,
        typer.Option(metavar="RIG", autocompletion=complete_rigs, help="Only of this rig."),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(metavar="PLAN", autocompletion=complete_plans, help="Only of this plan."),
    ] = None,
    outcome: Annotated[
        str | None, typer.Option(help="Only with this outcome: completed, failed …")
    ] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Only the newest so many.")] = None,
    columns: Annotated[
        str | None,
        typer.Option(help=f"Of the table, as in run,drive: {', '.join(COLUMNS)}; or all."),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """List the runs."""
    shown = _runs_columns(columns)
    _refuse_no_outcome(outcome)
    places = places_to_read(runs)
    wanted = {"rig": rig, "plan": plan, "outcome": outcome}
    listed: list[Row] = []
    for place in places:
        found, left_out = rows_at(place, cache_of_runs())
        listed += found
        for line in left_out:
            print(f"labctl: left out: {line}", file=sys.stderr)
    listed.sort(key=_by_name)
    rows = [
        row
        for row in listed
        if all(value is None or _run_row_has(row, key, value) for key, value in wanted.items())
    ]
    rows = rows[-last:] if last is not None else rows
    if json_output:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    if not rows:
        filtered = " like that" if any(wanted.values()) else ""
        print(f"no runs{filtered} in {' or '.join(map(str, places))}")
        if not filtered:
            print("labctl run RIG PLAN makes one; labctl demo does so without meters or a drive")
        return
    texts = [["" if row[name] is None else str(row[name]) for name in shown] for row in rows]
    print_table(shown, texts)


def _by_name(row: Row) -> str:
    return str(row["run"])


def _run_row_has(row: Row, key: str, value: str) -> bool:
    """Whether a row has a value; a scaled plan has its name before the scale."""
    return str(row[key] or "").partition(" at scale ")[0].partition(":")[0] == value


def _refuse_no_outcome(text: str | None) -> None:
    """Raises ConfigurationError for a word that no run ends with."""
    if text is not None and text not in OUTCOMES:
        allowed = f"must be one of {', '.join(OUTCOMES)}{meant(text, OUTCOMES)}"
        raise ConfigurationError([Mistake("command line", "--outcome", text, allowed)])


def _runs_columns(text: str | None) -> tuple[str, ...]:
    """The columns that are named. Raises ConfigurationError."""
    if text is None:
        return USUAL
    if text == "all":
        return COLUMNS
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in COLUMNS:
            allowed = f"must be of {', '.join(COLUMNS)}{meant(name, COLUMNS)}"
            raise ConfigurationError([Mistake("command line", "--columns", name, allowed)])
    return names
