"""``labctl push`` and ``labctl pull``: runs into a store, and out of it."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from labctl.cli.terminal.arguments import JsonOption, RunsOption
from labctl.cli.terminal.completion import complete_runs
from labctl.cli.terminal.console import Terminal
from labctl.cli.terminal.run_names import LATEST, MOST_NAMED, find_run
from labctl.cli.terminal.runs_place import place_of_new_runs
from labctl.config.site import site_file, site_store
from labctl.errors import ConfigurationError, LabctlError, Mistake
from labctl.service.runs.pull import PullState, pull
from labctl.service.runs.push import PushState, need_for_push, push
from labctl.store.address import FORMS, StoreAddress, is_address, parse_address
from labctl.store.entries import RunEntry, read_entries
from labctl.store.open_place import open_place
from labctl.store.place import Place
from labctl.toml_reading import meant

_Report = Callable[[int, int], None]


def push_runs(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|STORE",
            help="Runs, by directory or name; s3://bucket/prefix, file:///folder; else the site's.",
            autocompletion=complete_runs,
        ),
    ],
    json_output: JsonOption = False,
) -> int:
    """Put runs into a store (S3, a folder), verified there.

    Nothing here is deleted, nothing there is overwritten.
    """
    names, address = _push_arguments(words)
    need_for_push(address)
    place = open_place(address)
    paths = [find_run(name) for name in names]
    done = []
    for run in paths:
        row: dict[str, Any] = {"run": str(run), "state": "failed", "sent_bytes": 0, "problem": ""}
        row["store"] = str(place.address)
        try:
            with _push_progress(run.name, quiet=json_output) as report:
                pushed = push(run, place, report)
        except LabctlError as error:
            row["problem"] = str(error)
            print(f"labctl: {error}", file=sys.stderr)
        else:
            row |= {"state": pushed.state.value, "sent_bytes": pushed.sent_bytes}
            if not json_output:
                print(_result_line(pushed.entry, pushed.state, pushed.sent_bytes, place))
        done.append(row)
    if json_output:
        print(json.dumps(done, ensure_ascii=False, indent=1))
    return 1 if any(row["problem"] for row in done) else 0


def _result_line(entry: RunEntry, state: PushState, sent_bytes: int, place: Place) -> str:
    if state is PushState.THERE:
        return f"{entry.run}: is in {place.address} already"
    size = sum(file.size for file in entry.files.values())
    rest = "" if sent_bytes == size else f", {(size - sent_bytes) / 1e6:.1f} MB were there"
    again = f", revision {entry.revision}" if entry.revision > 1 else ""
    return f"{entry.run}: {sent_bytes / 1e6:.1f} MB sent to {place.address}, verified{again}{rest}"


def pull_runs(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|STORE",
            help="Names of runs, parts of them or latest; the store's address, else the site's.",
        ),
    ],
    runs: RunsOption = None,
    json_output: JsonOption = False,
) -> int:
    """Get runs out of a store, verified here.

    Nothing here is overwritten.
    """
    names, address = _push_arguments(words)
    place = open_place(address)
    found = read_entries(place)
    for line in found.left_out:
        print(f"labctl: left out: {line}", file=sys.stderr)
    entries = [_pushed_run_named(name, list(found.runs.values()), place) for name in names]
    root = place_of_new_runs(runs)
    done = []
    for entry in entries:
        row: dict[str, Any] = {"run": entry.run, "state": "failed", "path": None, "problem": ""}
        row["store"] = str(place.address)
        try:
            with _push_progress(entry.run, quiet=json_output) as report:
                pulled = pull(entry, place, root, report)
        except LabctlError as error:
            row["problem"] = str(error)
            print(f"labctl: {error}", file=sys.stderr)
        else:
            row |= {"state": pulled.state.value, "path": str(pulled.run)}
            if not json_output:
                here = pulled.state is PullState.HERE
                word = "is here already" if here else "verified; labctl report makes its pages"
                print(f"{pulled.run}: {word}")
        done.append(row)
    if json_output:
        print(json.dumps(done, ensure_ascii=False, indent=1))
    return 1 if any(row["problem"] for row in done) else 0


def _push_arguments(words: list[str]) -> tuple[list[str], StoreAddress]:
    """The runs that the words name, and the store: the last word, else that of the site file.

    Raises ConfigurationError.
    """
    names = words[:-1] if is_address(words[-1]) else words
    address = parse_address(words[-1]) if is_address(words[-1]) else site_store()
    if address is None or not names:
        allowed = f"name runs, and last the store, {FORMS}; or name one in {site_file()} ([store])"
        raise ConfigurationError([Mistake("command line", "store", words[-1], allowed)])
    return names, address


def push_at_end(run: Path, address: StoreAddress) -> None:
    """Push a run that has just ended, and say so; a store that fails changes nothing else."""
    try:
        pushed = push(run, place := open_place(address))
    except LabctlError as error:
        print(f"labctl: not in the store: {error}", file=sys.stderr)
        print(f"labctl: to try again: labctl push {run} {address}", file=sys.stderr)
    else:
        said = _result_line(pushed.entry, pushed.state, pushed.sent_bytes, place)
        print(f"labctl: {said}", file=sys.stderr)


def _pushed_run_named(name: str, entries: list[RunEntry], place: Place) -> RunEntry:
    """The run of a store that a name, a part of one, or ``latest`` means."""
    if name == LATEST and entries:
        return entries[-1]
    found = [one for one in entries if one.run == name] or [
        one for one in entries if name in one.run
    ]
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(one.run for one in found[-MOST_NAMED:])
        raise typer.BadParameter(
            f"{len(found)} runs in {place.address} have {name!r} in their name: {shown}"
        )
    near = meant(name, (one.run for one in entries)) or f" ({len(entries)} are there)"
    raise typer.BadParameter(f"there is no run {name!r} in {place.address}{near}")


@contextlib.contextmanager
def _push_progress(name: str, quiet: bool) -> Iterator[_Report]:
    """Where to report bytes: a bar on a terminal, else nowhere."""
    console = Terminal(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda done, total: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
