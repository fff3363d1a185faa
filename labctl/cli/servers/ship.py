"""``labctl ship``: sends runs to their sinks, from where it stopped or from the start."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from labctl.cli.terminal.arguments import JsonOption
from labctl.cli.terminal.completion import complete_rigs, complete_runs
from labctl.cli.terminal.console import Terminal
from labctl.cli.terminal.run_names import find_run
from labctl.config.find_rig import find_rig, rig_of
from labctl.config.rig import Rig
from labctl.config.site import site_file
from labctl.errors import ConfigurationError, Mistake
from labctl.printable import printable
from labctl.record.reader import RunRecord
from labctl.service.runs import configured_sinks, shipping
from labctl.service.runs.shipping import Shipped
from labctl.sinks.influxdb.settings import influx_settings
from labctl.sinks.mqtt.settings import mqtt_settings
from labctl.sinks.sink import ReportLine

PLAIN_EVERY = 0.1
"""Without a terminal: a line each tenth of the run."""


def ship_runs(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            parser=find_run,
            autocompletion=complete_runs,
            help="Runs, by directory or name.",
        ),
    ],
    to: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="To http://HOST:8086?org=ORG&bucket=BUCKET; repeatable."),
    ] = None,
    rig: Annotated[
        str | None,
        typer.Option(
            metavar="RIG",
            autocompletion=complete_rigs,
            help="To where this rig says; else the rig here of the run's name, or site.",
        ),
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Send everything again (harmless).")
    ] = False,
    full_rate: Annotated[
        bool, typer.Option("--full-rate", help="Every reading, not means per bin.")
    ] = False,
    json_output: JsonOption = False,
) -> int:
    """Send or repair runs in InfluxDB and MQTT.

    From where it stopped, or from the start.
    """
    # The sinks that the run itself names are never used, since a run may come from anywhere: they
    # are those of the site file and of this machine's rig (the one named, or the run's by name).
    named = None if rig is None else find_rig(rig)
    done: list[Shipped] = []
    for run in runs:
        record = RunRecord(run)
        found = named or rig_of(record)
        makers = _sinks_to_ship_to(found, to or (), from_start=from_start, full_rate=full_rate)
        if not makers:
            raise _no_sinks(record, found)
        for make in makers:
            with _ship_progress(run, quiet=json_output) as (report_line, progress):
                done += asyncio.run(_ship(run, make, report_line, progress))
            if not json_output:
                _print_ship_report(done[-1])
    if json_output:
        print(json.dumps([_ship_report_json(one) for one in done]))
    return 1 if any(one.report.rejected or one.problem for one in done) else 0


def _sinks_to_ship_to(
    rig: Rig | None, to: Sequence[str], *, from_start: bool, full_rate: bool
) -> list[configured_sinks.SinkFactory]:
    """The sinks of ``to``, or those that ``rig`` or the site file names."""
    makers = []
    text, name = ("", str(site_file())) if rig is None else (rig.text, rig.path)
    for target in to or (None,):
        settings = influx_settings(text, name, target)
        if settings is not None:
            makers.append(
                configured_sinks.influx_sink(
                    settings, to=target, full_rate=full_rate, from_start=from_start
                )
            )
    mqtt = None if to else mqtt_settings(text, name)
    if mqtt is not None:
        makers.append(configured_sinks.mqtt_sink(mqtt, live=False, from_start=from_start))
    return makers


def _no_sinks(record: RunRecord, rig: Rig | None) -> ConfigurationError:
    theirs = (
        f"nor has the rig {rig.path}"
        if rig is not None
        else f"and no rig of this machine is called {printable(record.header.rig_name)} "
        "(where the run itself says to send it does not count)"
    )
    allowed = (
        f"is missing, {theirs}: say url and bucket there, name a rig that says them with --rig, "
        "or give --to 'http://…:8086?org=…&bucket=…'"
    )
    return ConfigurationError([Mistake(str(site_file()), "sinks.influxdb", None, allowed)])


async def _ship(
    run: Path,
    make: configured_sinks.SinkFactory,
    report_line: ReportLine,
    progress: shipping.Progress,
) -> list[Shipped]:
    return await shipping.ship(run, [make(run, report_line)], progress=progress)


@contextlib.contextmanager
def _ship_progress(run: Path, quiet: bool) -> Iterator[tuple[ReportLine, shipping.Progress]]:
    """Where to report lines and progress: a bar on a terminal, else a line now and then."""
    console = Terminal(stderr=True)
    if not console.is_terminal:
        yield _print_line, (_ignore_ship_progress if quiet else _Lines(run))
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[lines]:,} lines"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(run.name, total=None, lines=0)

        def progress(name: str, done_s: float, total_s: float, sent: int) -> None:
            bar.update(task, completed=done_s, total=total_s or None, lines=sent)

        yield lambda text: console.print(text), progress


def _print_line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _ignore_ship_progress(name: str, done_s: float, total_s: float, sent: int) -> None:
    """Progress is not shown: a program reads the output."""


class _Lines:
    """Progress as plain lines."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._next = PLAIN_EVERY

    def __call__(self, name: str, done_s: float, total_s: float, sent: int) -> None:
        share = done_s / total_s if total_s else 1.0
        if PLAIN_EVERY <= self._next <= share < 1.0:
            print(f"{self._run.name}: {share:.0%}, {sent:,} lines", file=sys.stderr, flush=True)
            self._next = share + PLAIN_EVERY


def _print_ship_report(one: Shipped) -> None:
    report = one.report
    print(f"{one.run.name}: {report.sent:,} lines to {report.destination}")
    if report.rejected:
        print(
            f"{report.rejected:,} lines were refused: "
            f"{one.run / 'sinks' / f'{report.name}.rejected.lp'}"
        )
    if one.problem:
        print(f"its readings are sent, its phases are not: {one.problem}")
    elif not one.complete:
        print("the run is still on: sent up to now")


def _ship_report_json(one: Shipped) -> dict[str, object]:
    return {
        "run": str(one.run),
        "complete": one.complete,
        "problem": one.problem,
        **asdict(one.report),
    }
