"""``labctl mark``: a moment with a text, set by a person or a script in the run that is on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.terminal.completion import complete_rigs, complete_runs
from labctl.cli.terminal.run_names import HELP, find_run
from labctl.errors import ConfigurationError, JournalError, Mistake, RunFailed
from labctl.printable import printable
from labctl.record.events import Event
from labctl.record.journal import is_held
from labctl.record.layout import EVENTS_FILE
from labctl.record.marks import MOST_CHARACTERS, ask_for_mark
from labctl.record.reader import RunRecord, find_runs
from labctl.service.data_dir import find_home
from labctl.service.locks.rig_lock import rigs_in_use
from labctl.service.runs.event_tail import EventTail

TAKEN_WITHIN_S = 10.0
"""A run looks for marks each second."""
LOOK_EVERY_S = 0.1


def mark(
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="What happens now.")],
    rig: Annotated[
        str | None,
        typer.Option(
            metavar="RIG",
            autocompletion=complete_rigs,
            help="Of several that run: the name of the rig.",
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", parser=find_run, autocompletion=complete_runs, help=f"Instead: {HELP}"
        ),
    ] = None,
) -> None:
    """Set a mark, with a text, in the run that is on."""
    words = printable(" ".join(text))[:MOST_CHARACTERS].strip()
    if not words:
        raise typer.BadParameter("a mark needs a text")
    path = run or _run_to_mark(rig)
    if not (path / EVENTS_FILE).is_file():
        raise JournalError(f"{path} is no run")
    tail = EventTail(path, (path / EVENTS_FILE).stat().st_size)
    try:
        token = ask_for_mark(path, words)
    except OSError as error:
        raise JournalError(f"cannot write {path}: {error.strerror or error}") from error
    taken = _taken(tail, token)
    stamp = time.strftime("%H:%M:%S", time.localtime(taken.t_ns / 1e9))
    print(f"marked at {stamp} in {path.name}: {words}")


def _run_to_mark(rig: str | None) -> Path:
    """The run that is on, of ``rig`` where it is named; while there is none, the idle record that
    is. Raises ConfigurationError."""
    home = find_home()
    runs = [(use.rig, Path(use.run)) for use in rigs_in_use(home)]
    held = filter(is_held, find_runs(home.idle))
    idle = ((RunRecord(path).header.rig_name, path) for path in held)
    on = [one for one in runs if rig in (None, one[0])]
    on = on or [one for one in idle if rig in (None, one[0])]
    if len(on) == 1:
        return on[0][1]
    rigs = ", ".join(sorted(name for name, _ in on))
    wanted = f"these run, name one: {rigs}" if on else "nothing runs, of this data directory"
    raise ConfigurationError([Mistake("command line", "--rig", rig, wanted)])


def _taken(tail: EventTail, token: str) -> Event:
    """The event of the mark. Raises RunFailed where nobody takes it."""
    deadline = time.monotonic() + TAKEN_WITHIN_S
    while time.monotonic() < deadline:
        for event in tail.new_events():
            if event.data.get("token") == token:
                return event
        time.sleep(LOOK_EVERY_S)
    raise RunFailed("no mark is set: nothing records this run now")
