"""``labctl tidy``: exports and deletes old runs by a rule."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.terminal.arguments import JsonOption, RunsOption
from labctl.cli.terminal.runs_place import place_of_jobs
from labctl.errors import ConfigurationError, LabctlError, Mistake
from labctl.installed import Extra, need
from labctl.record.phase import parse_size
from labctl.record.timebase import DAY_S
from labctl.service.daemon.settings import service_settings
from labctl.service.data_dir import find_home
from labctl.service.queue.store import Queue
from labctl.service.runs.retention import (
    Decision,
    Rule,
    Step,
    carry_out,
    decide,
    sweep_deleted,
)
from labctl.store.address import is_address, parse_address
from labctl.store.marker import check_store
from labctl.store.open_place import open_place
from labctl.store.place import Place

_STEP_WORDS = {Step.EXPORT: "Parquet", Step.DELETE: "delete", Step.KEEP: "keep"}


def tidy(
    export_after_days: Annotated[
        float | None,
        typer.Option(
            "--export-after", min=0, help="Write Parquet beside runs older than so many days."
        ),
    ] = None,
    delete_after_days: Annotated[
        float | None,
        typer.Option("--delete-after", min=0, help="Delete runs older than so many days."),
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Delete the oldest until the rest fits: 200g.")
    ] = None,
    archive: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER|STORE",
            help="Nothing is deleted before its Parquet is in FOLDER, or it is in STORE (s3://…).",
        ),
    ] = None,
    runs: RunsOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done; touch nothing.")
    ] = False,
    json_output: JsonOption = False,
) -> int:
    """Export or delete old runs, never one on or not shipped."""
    # the exit code is 1 when something could not be done
    rule = Rule(
        None if export_after_days is None else export_after_days * DAY_S,
        None if delete_after_days is None else delete_after_days * DAY_S,
        _budget_for_tidy(budget),
        *_archive_for_tidy(archive),
    )
    if rule.does_nothing:
        allowed = "give --export-after, --delete-after or --budget, or service.disk_budget"
        raise ConfigurationError([Mistake("labctl tidy", "rule", None, allowed)])
    root = place_of_jobs(runs)
    if rule.archive is not None and rule.archive.resolve() == root.resolve():
        allowed = "must be another folder than that of the runs"
        raise ConfigurationError([Mistake("--archive", "folder", archive, allowed)])
    if rule.writes_parquet:
        need(Extra.PARQUET)
    needed = {
        attempt.run
        for job in Queue(find_home()).jobs()
        if not job.state.over
        for attempt in job.attempts  # a job may resume the run of an earlier attempt
        if attempt.run is not None
    }
    if not dry_run:
        sweep_deleted(root)
    done: list[tuple[Decision, str]] = []
    for decision in decide(root, rule, time.time(), frozenset(needed)):
        problem = ""
        if not dry_run:
            try:
                carry_out(decision, rule)
            except LabctlError as error:
                problem = str(error)
        done.append((decision, problem))
    if json_output:
        print(
            json.dumps(
                [_tidied_run_json(decision, problem) for decision, problem in done], indent=1
            )
        )
    else:
        _print_tidied_runs(done, dry_run)
    return 1 if any(problem for _, problem in done) else 0


def _archive_for_tidy(text: str | None) -> tuple[Path | None, Place | None]:
    """The folder for Parquet, or the store, that is the archive. Raises LabctlError."""
    if text is None or not is_address(text):
        return None if text is None else Path(text), None
    place = open_place(parse_address(text, "--archive"))
    check_store(place)
    return None, place


def _budget_for_tidy(text: str | None) -> int | None:
    if text is None:
        return service_settings().disk_budget
    try:
        return parse_size(text)
    except ValueError as error:
        raise ConfigurationError([Mistake("--budget", "size", text, f"must be {error}")]) from error


def _print_tidied_runs(done: list[tuple[Decision, str]], dry_run: bool) -> None:
    for decision, problem in done:
        if decision.step is Step.KEEP and not decision.reason:
            continue
        print(f"{_STEP_WORDS[decision.step]:<8}{decision.run.name} ({decision.bytes / 1e6:.1f} MB)")
        if decision.reason:
            print(f"        {decision.reason}")
        if problem:
            print(f"labctl: {problem}", file=sys.stderr)
    freed = sum(one.bytes for one, problem in done if one.step is Step.DELETE and not problem)
    left = sum(one.bytes for one, _ in done) - freed
    would = "would be " if dry_run else ""
    print(f"{freed / 1e6:.1f} MB {would}freed, {left / 1e6:.1f} MB stay")


def _tidied_run_json(decision: Decision, problem: str) -> dict[str, object]:
    return {
        "run": str(decision.run),
        "step": decision.step.value,
        "reason": decision.reason,
        "bytes": decision.bytes,
        "problem": problem,
    }
