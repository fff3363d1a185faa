"""``labctl influxdb``: what a database keeps of runs."""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from labctl.cli.terminal.arguments import JsonOption
from labctl.cli.terminal.completion import complete_rigs
from labctl.config.find_rig import find_rig
from labctl.config.site import site_file
from labctl.errors import ConfigurationError, Mistake
from labctl.installed import Extra, need
from labctl.record.timebase import DAY_S, NS_PER_S
from labctl.sinks.influxdb.settings import InfluxSettings, influx_settings

if TYPE_CHECKING:
    from labctl.sinks.influxdb.stored_runs import RunStore

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """What an InfluxDB keeps of runs."""


@app.command("forget")
def forget_runs(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN", help="Runs by name, also of directories long gone."),
    ] = None,
    older_than_days: Annotated[
        float | None,
        typer.Option("--older-than", min=0, help="All that ended so many days ago."),
    ] = None,
    bins: Annotated[
        bool, typer.Option("--bins", help="Only values over time; results and events stay.")
    ] = False,
    rig: Annotated[
        str | None,
        typer.Option(
            metavar="RIG",
            autocompletion=complete_rigs,
            help="Where this rig is sent; else the site.",
        ),
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="URL", help="http://HOST:8086?org=ORG&bucket=BUCKET")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be removed; touch nothing.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Remove runs from the database, or the bulk of them.

    Nothing on disk is touched: labctl ship RUN --from-start sends it again.
    """
    names = [PurePath(run).name for run in runs or ()]
    if bool(names) == (older_than_days is not None):
        allowed = "name runs, or say --older-than DAYS"
        raise ConfigurationError([Mistake("labctl influxdb forget", "RUN", None, allowed)])
    before_ns = _before_ns(older_than_days)
    settings = _settings(rig, to)
    need(Extra.INFLUX)
    from labctl.sinks.influxdb.stored_runs import RunStore

    store = RunStore(settings, lambda text: print(text, file=sys.stderr, flush=True))
    chosen = asyncio.run(_forget_in_influxdb(store, names, before_ns, bins, dry_run))
    if json_output:
        print(
            json.dumps(
                {
                    "destination": settings.destination,
                    "runs": chosen,
                    "bins_only": bins,
                    "removed": not dry_run,
                }
            )
        )
        return
    for name in chosen:
        print(name)
    what = "the bins of " if bins else ""
    done = "would be removed from" if dry_run else "removed from"
    print(f"{what}{len(chosen)} {'run' if len(chosen) == 1 else 'runs'} {done} ", end="")
    print(settings.destination)


def _before_ns(older_than_days: float | None) -> int | None:
    if older_than_days is None:
        return None
    if not math.isfinite(older_than_days):
        where, allowed = ("labctl influxdb forget", "--older-than"), "must be a number of days"
        raise ConfigurationError([Mistake(*where, older_than_days, allowed)])
    return max(round((time.time() - older_than_days * DAY_S) * NS_PER_S), 0)


async def _forget_in_influxdb(
    store: RunStore, names: list[str], before_ns: int | None, bins: bool, dry_run: bool
) -> list[str]:
    """The names of the runs that were removed, or would be. Raises ConfigurationError where one
    that was named is not there, LabctlError."""
    stored, still_on = await store.runs(bins), await store.on()
    if before_ns is None:
        chosen = [run for run in stored if run.name in names]
        missing = sorted(set(names) - {run.name for run in chosen})
        if missing:
            allowed = f"has no {'bins' if bins else 'points'} in the database"
            raise ConfigurationError([Mistake("labctl", "RUN", name, allowed) for name in missing])
        sending = sorted(still_on & set(names))
        if sending:
            allowed = "is on: its values still come"
            raise ConfigurationError([Mistake("labctl", "RUN", name, allowed) for name in sending])
    else:
        chosen = [run for run in stored if run.last_ns < before_ns and run.name not in still_on]
    if not dry_run:
        await store.remove(chosen, bins)
        if before_ns is not None:
            await store.remove_heartbeats(before_ns)
    return [run.name for run in chosen]


def _settings(rig: str | None, to: str | None) -> InfluxSettings:
    found = None if rig is None else find_rig(rig)
    text, name = ("", str(site_file())) if found is None else (found.text, found.path)
    settings = influx_settings(text, name, to)
    if settings is None:
        allowed = "is missing: say url and bucket there, or give --rig or --to"
        raise ConfigurationError([Mistake(name, "sinks.influxdb", None, allowed)])
    return settings
