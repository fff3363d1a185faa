"""``labctl runs``: the runs, with columns and filters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from labctl.cli.terminal.arguments import JsonOption, SomeRunsOption
from labctl.cli.terminal.console import Terminal
from labctl.cli.terminal.run_names import run_places, runs_in
from labctl.errors import ConfigurationError, JournalError, Mistake
from labctl.record.events import EventKind, Outcome
from labctl.record.journal import is_held
from labctl.record.reader import RunRecord
from labctl.record.timebase import NS_PER_S
from labctl.toml_reading import meant

RUNNING = "running"
COLUMNS = ("run", "rig", "plan", "scale", "drive", "begin", "seconds", "phases", "outcome", "path")
USUAL = ("run", "phases", "outcome")
"""Columns of the table where none are named: a run's name says time, rig and plan."""


def list_runs(
    runs: SomeRunsOption = None,
    rig: Annotated[str | None, typer.Option(help="Only of this rig.")] = None,
    plan: Annotated[str | None, typer.Option(help="Only of this plan.")] = None,
    outcome: Annotated[
        str | None, typer.Option(help="Only with this outcome: completed, failed …")
    ] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Only the newest so many.")] = None,
    columns: Annotated[
        str | None, typer.Option(help=f"Of the table: {','.join(COLUMNS)}; or all.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """List the runs.

    Without --runs those of the site file's directory, or of ./runs and the daemon.
    """
    shown = _columns(columns)
    places = run_places(runs)
    wanted = {"rig": rig, "plan": plan, "outcome": outcome}
    rows = [
        row
        for row in map(run_row, runs_in(places))
        if all(value is None or _has(row, key, value) for key, value in wanted.items())
    ]
    rows = rows[-last:] if last is not None else rows
    if json_output:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    if not rows:
        filtered = " like that" if any(wanted.values()) else ""
        print(f"no runs{filtered} in {' or '.join(map(str, places))}")
        return
    table = Table(box=None, pad_edge=False)
    for name in shown:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*("" if row[name] is None else str(row[name]) for name in shown))
    Terminal(soft_wrap=False).print(table)


def _has(row: Mapping[str, Any], key: str, value: str) -> bool:
    """Whether a row has a value; a scaled plan has its name before the scale."""
    return str(row[key] or "").partition(" at scale ")[0].partition(":")[0] == value


def _columns(text: str | None) -> tuple[str, ...]:
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


def run_row(path: Path) -> dict[str, Any]:
    """What ``schemas/runs.v1.json`` says of a run."""
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {"run": path.name, "path": str(path)}
    try:
        record = RunRecord(path)
        held = is_held(path)
    except (JournalError, OSError) as error:
        return {**row, "outcome": f"unreadable: {error}"}
    header, end = record.header, record.end
    completed = sum(
        event.kind == EventKind.PHASE_ENDED and event.data.get("outcome") == Outcome.COMPLETED
        for event in record.events
    )
    times = [event.t_ns for event in record.events]
    unended = RUNNING if held else Outcome.INTERRUPTED.value
    return {
        **row,
        "rig": header.rig_name,
        "plan": header.plan_title,
        "scale": header.scale,
        "drive": " ".join(filter(None, (header.drive.model, header.drive.serial))) or None,
        "begin": datetime.fromtimestamp(times[0] / NS_PER_S, UTC).isoformat(timespec="seconds")
        if times
        else None,
        "seconds": round(max(times[-1] - times[0], 0) / NS_PER_S, 3) if times else None,
        "phases": f"{completed}/{len(header.phases)}",
        "outcome": str(end.data.get("outcome", "not told")) if end else unended,
    }
