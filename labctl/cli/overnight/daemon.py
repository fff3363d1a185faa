"""``labctl daemon``: plain lines of what it does, for a terminal or for systemd's journal."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from labctl.config.find_rig import find_rig, rig_files
from labctl.config.rig import Rig
from labctl.errors import ConfigurationError, LabctlError, Mistake
from labctl.service.daemon.daemon import Daemon
from labctl.service.daemon.mqtt_commands import take_commands
from labctl.service.daemon.periodic import tell_in_the_morning, watch_disk
from labctl.service.daemon.settings import service_settings
from labctl.service.data_dir import find_home

PRIVATE = 0o077


def serve(names: Sequence[str], runs: Path | None) -> None:
    """Run the daemon until SIGTERM or Ctrl-C. Raises ConfigurationError, RigBusy, HomeUnusable."""
    rigs = _rigs(names)
    home = find_home()
    extras = (tell_in_the_morning, watch_disk, take_commands)
    if runs is None:
        os.umask(PRIVATE)  # where runs go that others shall see, their folder and the umask say it
    daemon = Daemon(home, rigs, runs or home.runs, service_settings(), tell, extras)
    asyncio.run(daemon.run())


def tell(text: str) -> None:
    """A line; systemd's journal has its own times."""
    stamp = "" if "JOURNAL_STREAM" in os.environ else time.strftime("%Y-%m-%d %H:%M:%S  ")
    try:
        print(f"{stamp}{text}", flush=True)
    except OSError:
        return  # nobody reads it any more


def _rigs(names: Sequence[str]) -> list[Rig]:
    """The rigs of these names or files; all that there are where none is named."""
    found: list[Rig] = []
    mistakes: list[Mistake] = []
    for name in names or [str(path) for path in rig_files()]:
        try:
            found.append(find_rig(name))
        except ConfigurationError as error:
            mistakes += error.mistakes
    if mistakes:
        raise ConfigurationError(mistakes)
    if not found:
        raise ConfigurationError([Mistake("rig", "name", None, "no rig is named, and none found")])
    twice = {rig.name for rig in found if [one.name for one in found].count(rig.name) > 1}
    if twice:
        raise LabctlError(f"two rigs have the same name: {', '.join(sorted(twice))}")
    return found


def daemon_command(
    rigs: Annotated[
        list[str] | None, typer.Argument(metavar="RIG", help="Rigs; all, if left out.")
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option("--runs", help="Directory of the runs; else in the data directory."),
    ] = None,
) -> None:
    """Work off the queue on rigs, until SIGTERM or Ctrl-C."""
    serve(rigs or (), runs)
