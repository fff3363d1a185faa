"""``labctl daemon``: runs the daemon; prints what it does, for a terminal or systemd's journal."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from labctl.cli.terminal.arguments import RunsOption
from labctl.cli.terminal.completion import complete_rigs
from labctl.cli.terminal.runs_place import place_of_new_runs
from labctl.config.find_rig import find_rig, rig_files
from labctl.config.rig import Rig
from labctl.errors import ConfigurationError, LabctlError, Mistake
from labctl.service.daemon.daemon import Daemon
from labctl.service.daemon.mqtt_commands import take_commands
from labctl.service.daemon.periodic import send_morning_summaries, watch_disk
from labctl.service.daemon.settings import service_settings
from labctl.service.daemon.unit import SYSTEM_RIGS, ServiceOf, Surroundings, install
from labctl.service.data_dir import default_runs, find_home

PRIVATE = 0o077
"""A umask: only this user can read what is written."""


def serve(
    rigs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RIG", autocompletion=complete_rigs, help="Rigs; all, if left out."),
    ] = None,
    runs: RunsOption = None,
    install_service: Annotated[
        ServiceOf | None,
        typer.Option(help="Instead: write the systemd unit for this place, and what to do next."),
    ] = None,
) -> None:
    """Work off the queue on rigs, until SIGTERM or Ctrl-C."""
    if install_service is not None:
        if rigs:
            raise typer.BadParameter("a service works for every rig that it finds: name none")
        if runs is not None:
            where = "the site file's [runs] directory says where, not --runs or LABCTL_RUNS"
            raise typer.BadParameter(f"a service does not know this shell: {where}")
        _install_daemon(install_service)
        return
    found = _daemon_rigs(rigs or ())
    home = find_home()
    extras = (send_morning_summaries, watch_disk, take_commands)
    place = place_of_new_runs(runs)
    if place == default_runs():
        # a directory that others may read is chosen; its umask is the user's
        os.umask(PRIVATE)
    daemon = Daemon(home, found, place, service_settings(), print_line, extras)
    asyncio.run(daemon.run())


def _install_daemon(of: ServiceOf) -> None:
    files = sorted(SYSTEM_RIGS.glob("*.toml")) if of is ServiceOf.SYSTEM else rig_files()
    texts = [file.read_text("utf-8", "replace") for file in files]
    file, steps = install(of, Surroundings.here(texts))
    print(f"written: {file}")
    print("next:")
    for step in steps:
        print(f"  {step}")


def print_line(text: str) -> None:
    """Print a line with date and time; without them for systemd's journal, which has its own."""
    stamp = "" if "JOURNAL_STREAM" in os.environ else time.strftime("%Y-%m-%d %H:%M:%S  ")
    try:
        print(f"{stamp}{text}", flush=True)
    except OSError:
        return  # standard output was closed


def _daemon_rigs(names: Sequence[str]) -> list[Rig]:
    """The rigs of these names or files; every rig that is found where none is named."""
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
