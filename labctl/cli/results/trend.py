"""``labctl trend``: what moved in the runs of a drive, plan and rig, and a gate on it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from labctl.analysis.compare.gate import check_trend
from labctl.analysis.compare.series_table import RunOfSeries, run_of_series
from labctl.analysis.compare.trend import trend
from labctl.analysis.run.drives import record_at
from labctl.analysis.run.summary import summarise
from labctl.cli.results.gated import (
    GateFileOption,
    exit_code,
    gate_of,
    print_json,
    write_gated_page,
)
from labctl.cli.terminal.arguments import JsonOption, RunsToReadOption
from labctl.cli.terminal.completion import complete_plans, complete_rigs, complete_runs
from labctl.cli.terminal.pager import pages
from labctl.cli.terminal.run_names import find_run
from labctl.cli.terminal.runs_place import places_to_read
from labctl.errors import ConfigurationError, JournalError, Mistake
from labctl.record.header import Header
from labctl.record.reader import runs_in
from labctl.record.timebase import NS_PER_S
from labctl.report.text.trend import trend_csv, trend_text


@pages
def print_trend(
    named: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN",
            parser=find_run,
            autocompletion=complete_runs,
            help="Runs, by directory or name; none: all runs.",
            show_default=False,
        ),
    ] = None,
    runs: RunsToReadOption = None,
    rig: Annotated[
        str | None,
        typer.Option(metavar="RIG", autocompletion=complete_rigs, help="Only of this rig."),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(metavar="PLAN", autocompletion=complete_plans, help="Only of this plan."),
    ] = None,
    drive: Annotated[
        str | None, typer.Option(metavar="SERIAL", help="Only of the drive with this number.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DATE", help="Only runs from then on: 2026-03-01.")
    ] = None,
    gate_file: GateFileOption = None,
    allowances: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="QUANTITY=PERCENT",
            help="How much worse than at first the newest level may be.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="A limit that cannot be told fails, too.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page with charts here.")] = None,
    csv_output: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    json_output: JsonOption = False,
) -> int:
    """Say what moved in the runs of a drive, rig and plan.

    When, how far, how sure, and what changed there. Runs of different drives, rigs, plans or
    versions of a plan are series of their own. Exit code 1 when a gate fails.
    """
    gate = gate_of(gate_file, allowances or (), strict)
    from_ns = _moment_ns(since)
    wanted = {"rig_name": rig, "plan_name": plan}
    paths = named or _paths_for_trend(runs, rig, plan)
    read = list(_read_for_trend(paths, wanted, drive, from_ns, by_name=bool(named)))
    found = trend(read)
    result = check_trend(found, gate) if gate is not None else None
    if html is not None:
        from labctl.report.pages.trend import trend_page

        write_gated_page(html, trend_page(found, result))
    if json_output:
        print_json(found, result)
    elif csv_output:
        print(trend_csv(found), end="")
    elif not found.series:
        print("no runs like that; labctl runs lists those that there are")
    else:
        print(trend_text(found, result), end="")
        if html is not None:
            print(f"page: {html}")
    return exit_code(result)


def _moment_ns(text: str | None) -> int:
    """A day or moment (UTC where it has no zone), ns. Raises ConfigurationError."""
    if text is None:
        return 0
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return int(moment.timestamp()) * NS_PER_S
    except (ValueError, OverflowError) as error:
        allowed = "a day or a moment, such as 2026-03-01"
        raise ConfigurationError([Mistake("command line", "--since", text, allowed)]) from error


def _paths_for_trend(runs: str | None, rig: str | None, plan: str | None) -> Iterator[Path]:
    """The runs of a folder; of a store those of the rig and plan, fetched one by one,
    and a line for each that is not whole there."""
    for place in places_to_read(runs):
        if isinstance(place, Path):
            yield from runs_in([place])
            continue
        from labctl.report.data.runs_at import rows_at
        from labctl.service.data_dir import cache_of_runs
        from labctl.service.runs.pull import fetched_run
        from labctl.store.place import DamagedObject, NoSuchObject

        rows, left_out = rows_at(place, cache_of_runs())
        for line in left_out:
            print(f"labctl: left out: {line}", file=sys.stderr)
        for row in rows:
            title = str(row["plan"]).partition(" at scale ")[0]
            if rig in (None, row["rig"]) and plan in (None, title):
                try:
                    yield fetched_run(str(row["path"]))
                except (NoSuchObject, DamagedObject) as error:
                    print(f"labctl: left out: {error}", file=sys.stderr)


def _read_for_trend(
    paths: Iterable[Path],
    wanted: dict[str, str | None],
    drive: str | None,
    from_ns: int,
    *,
    by_name: bool,
) -> Iterator[RunOfSeries]:
    """What a series needs of each run that is meant; of a folder, a line for each that cannot be
    read. Raises JournalError where it was named."""
    for path in paths:
        try:
            record = record_at(path)
            if not _is_meant(record.header, wanted, drive):
                continue
            one = run_of_series((record, summarise(record)))
        except JournalError as error:
            if by_name:
                raise
            print(f"labctl: left out: {error}", file=sys.stderr)
            continue
        if one.begin_ns >= from_ns:
            yield one


def _is_meant(header: Header, wanted: dict[str, str | None], drive: str | None) -> bool:
    serials = {header.drive.serial, *(one.serial for one in header.drives.values())}
    return (drive is None or drive in serials) and all(
        value is None or getattr(header, name) == value for name, value in wanted.items()
    )
