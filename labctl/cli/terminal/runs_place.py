"""Where runs are: as ``--runs`` or ``LABCTL_RUNS`` says, else the site file, else one default."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from labctl.cli.terminal.arguments import RUNS_VARIABLE
from labctl.config.site import site_runs
from labctl.errors import ConfigurationError, Mistake
from labctl.record.reader import find_runs
from labctl.service.data_dir import default_runs, find_home, make_folder
from labctl.service.status.local_rigs import daemon_info
from labctl.store.address import StoreAddress, is_address, parse_address
from labctl.store.marker import MARKER
from labctl.toml_reading import is_there

HERE = Path("runs")
"""Where ``labctl run`` of version 0.1 wrote."""


def runs_place(said: Path | None) -> Path:
    """Where new runs go. ``said``: by option or variable. Raises ConfigurationError."""
    return _configured(said) or default_runs()


def place_of_jobs(said: Path | None) -> Path:
    """The same, but where nobody said which, the place that the daemon had when it was started.

    Raises ConfigurationError.
    """
    daemon = daemon_info(find_home())
    return _configured(said) or (daemon.runs if daemon is not None else default_runs())


def place_of_new_runs(said: Path | None) -> Path:
    """The same, of a run that begins now: the default is made, for its owner only.

    Raises ConfigurationError, HomeUnusable.
    """
    place = runs_place(said)
    if place == default_runs() and not place.exists():
        before = [str(old) for old in _older_places() if find_runs(old)]
        make_folder(place)
        if before:
            print(
                f"labctl: new runs go to {place}; those in {' and '.join(before)} are still found\n"
                "(--runs, LABCTL_RUNS or the site file names another place)",
                file=sys.stderr,
            )
    return place


def run_places(said: Path | None = None) -> list[Path]:
    """The directories whose runs are meant where a run is named. Raises ConfigurationError.

    ``said``: by an option; the variable is asked here, for commands without such an option.
    Where nobody said which, not only the default: also that of the daemon, if another was said to
    it, and those where older versions wrote.
    """
    variable = os.environ.get(RUNS_VARIABLE)
    configured = _configured(said or (Path(variable) if variable else None))
    if configured is not None:
        return [configured]
    places = [default_runs()]
    for place in (place_of_jobs(None), *_older_places()):
        if place.is_dir() and place.resolve() not in [known.resolve() for known in places]:
            places.append(place)
    return places


def places_to_read(said: str | Path | None) -> list[Path | StoreAddress]:
    """The directories, or the store, whose runs are asked for. ``said``: by option or variable.

    A folder with a store in it is that store. Raises ConfigurationError.
    """
    if said is not None and is_address(str(said)):
        return [parse_address(str(said))]
    found = run_places(None if said is None else Path(said))
    return [
        StoreAddress(folder=place.absolute()) if is_there(place / MARKER) else place
        for place in found
    ]


def _configured(said: Path | None) -> Path | None:
    place = said or site_runs()
    if place is not None and place.parts[:1] in (("s3:",), ("file:",)):  # of s3://, as a path
        allowed = "is a store: runs are recorded in a folder, and go there with labctl push"
        raise ConfigurationError([Mistake("command line", "--runs", str(place), allowed)])
    if place is not None and is_there(place) and not place.is_dir():
        allowed = "is a file; runs are in a folder"
        raise ConfigurationError([Mistake("command line", "--runs", str(place), allowed)])
    return place


def _older_places() -> tuple[Path, ...]:
    return HERE, find_home().runs
