"""What a person types for RUN: a path, a run's name or a part of it, or ``latest``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.terminal.arguments import DEFAULT_RUNS, RUNS_VARIABLE
from labctl.cli.terminal.completion import complete_runs
from labctl.toml_reading import meant

LATEST = "latest"
HELP = "A run: its directory, its name or a part of it, latest, or latest:RIG."
MOST_NAMED = 5
"""Runs that a message names."""


def find_run(text: str) -> Path:
    """The run directory that ``text`` means.

    An existing path is that path. ``latest`` is the newest run, ``latest:RIG`` the newest of a rig;
    another text is the run whose name has it, of those where runs are (:func:`run_places`).
    ``:DRIVE`` behind a run is kept. Raises typer.BadParameter where there is no such run, or where
    several have the text.
    """
    path = Path(text)
    if path.exists() or Path(text.partition(":")[0]).exists():
        return path
    places = run_places(os.environ.get(RUNS_VARIABLE))
    root = " and ".join(map(str, places))
    runs = runs_in(places)
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
    if not named:
        known = meant(name, (run.name for run in runs)) or f" ({len(runs)} there: labctl runs)"
        raise typer.BadParameter(f"there is no run {text!r}, neither here nor in {root}{known}")
    return Path(f"{named[0]}{colon}{rest}")


def run_places(given: str | Path | None = None) -> list[Path]:
    """The directories whose runs are meant where none is named: what is given, or the site file's,
    or else ./runs and the daemon's. Raises ConfigurationError."""
    from labctl.config.site import site_runs
    from labctl.service.status.local_rigs import runs_root

    configured = Path(given) if given else site_runs()
    if configured is not None:
        return [configured]
    daemons = runs_root(None)
    apart = daemons.is_dir() and daemons.resolve() != DEFAULT_RUNS.resolve()
    here = [DEFAULT_RUNS] if DEFAULT_RUNS.is_dir() or not apart else []
    return [*here, *([daemons] if apart else [])]


def runs_in(places: Iterable[Path]) -> list[Path]:
    """The runs in these directories, oldest first."""
    from labctl.record.reader import find_runs

    return sorted((run for place in places for run in find_runs(place)), key=lambda run: run.name)


def _latest(runs: list[Path], rig: str, root: str) -> Path:
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
