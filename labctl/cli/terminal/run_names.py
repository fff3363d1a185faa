"""What a person types for RUN: a path, a run's name or a part of it, or ``latest``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.terminal.arguments import DEFAULT_RUNS, RUNS_VARIABLE

LATEST = "latest"
HELP = "A run: its directory, its name or a part of it, latest, or latest:RIG."
MOST_NAMED = 5
"""Runs that a message names."""


def find_run(text: str) -> Path:
    """The run directory that ``text`` means.

    An existing path is that path. ``latest`` is the newest run, ``latest:RIG`` the newest of a rig;
    another text is the run whose name has it, of those in ``$LABCTL_RUNS`` or else ``./runs``. What
    no run has is given back as a path: who opens it says what is wrong with it. ``:DRIVE`` behind a
    run is kept. Raises typer.BadParameter where there is no newest run or several have the text.
    """
    from labctl.record.reader import find_runs

    path = Path(text)
    if path.exists() or "/" in text or not text:
        return path
    root = Path(os.environ.get(RUNS_VARIABLE) or DEFAULT_RUNS)
    runs = find_runs(root)
    name, colon, rest = text.partition(":")
    if name == LATEST:
        return _latest(runs, rest, root)
    named = [run for run in runs if name == run.name] or [run for run in runs if name in run.name]
    if len(named) > 1:
        shown = ", ".join(run.name for run in named[-MOST_NAMED:])
        newest = "the newest of them " if len(named) > MOST_NAMED else ""
        raise typer.BadParameter(
            f"{len(named)} runs in {root} have {name!r} in their name: {newest}{shown}"
        )
    return Path(f"{named[0]}{colon}{rest}") if named else path


def _latest(runs: list[Path], rig: str, root: Path) -> Path:
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


RunArgument = Annotated[Path, typer.Argument(metavar="RUN", parser=find_run, help=HELP)]
