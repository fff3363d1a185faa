"""What a person types for RUN: a path, a run's name or a part of it, or ``latest``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.terminal.completion import complete_runs
from labctl.store.address import is_address
from labctl.toml_reading import is_there, meant

LATEST = "latest"
HELP = "A run: its directory, its name or a part of it, latest, or latest:RIG."
MOST_NAMED = 5
"""Runs that a message names."""


def find_run(text: str) -> Path:
    """The run directory that ``text`` means.

    An existing path is that path, and of an address in a store (``s3://bucket/prefix/RUN``) the run
    that is fetched from there. ``latest`` is the newest run, ``latest:RIG`` the newest of a rig;
    another text is the run whose name has it, of those where runs are (``run_places``).
    ``:DRIVE`` behind a run is kept. Raises typer.BadParameter where there is no such run, or where
    several have the text.
    """
    from labctl.cli.terminal.runs_place import run_places
    from labctl.record.reader import runs_in

    if is_address(text):
        from labctl.service.runs.pull import fetched_run

        return fetched_run(text)
    path = Path(text)
    if is_there(path) or is_there(Path(text.partition(":")[0])):
        return path
    places = run_places()
    root = " and ".join(map(str, places))
    runs = runs_in(places)
    name, colon, rest = text.partition(":")
    if name == LATEST:
        return _run_named_latest(runs, rest, root)
    named = [run for run in runs if name == run.name] or [run for run in runs if name in run.name]
    if len(named) > 1:
        shown = ", ".join(run.name for run in named[-MOST_NAMED:])
        newest = "the newest of them " if len(named) > MOST_NAMED else ""
        raise typer.BadParameter(
            f"{len(named)} runs in {root} have {name!r} in their name: {newest}{shown}"
        )
    if not named:
        known = meant(name, (run.name for run in runs)) or f" ({len(runs)} there: labctl runs)"
        raise typer.BadParameter(f"there is no run {text!r}, neither here nor in {root}{known}")
    return Path(f"{named[0]}{colon}{rest}")


def _run_named_latest(runs: list[Path], rig: str, root: str) -> Path:
    """The newest of runs in order of time; of a rig, where one is named."""
    from labctl.errors import JournalError
    from labctl.record.reader import RunRecord

    for run in reversed(runs):
        if not rig:
            return run
        try:
            if RunRecord(run).header.rig_name == rig:
                return run
        except JournalError:  # it cannot be read, so it cannot be meant
            continue
    raise typer.BadParameter(f"there is no run{f' of the rig {rig}' if rig else ''} in {root}")


RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", parser=find_run, help=HELP, autocompletion=complete_runs)
]
