"""``labctl queue …``: adds, lists, moves and cancels jobs, and pauses rigs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from labctl.cli.terminal.arguments import PLAN, RIG, JsonOption, YesOption
from labctl.cli.terminal.completion import complete_jobs, complete_rigs
from labctl.cli.terminal.consent import ask_first
from labctl.cli.terminal.console import Terminal
from labctl.cli.terminal.jobs_table import (
    expected_span,
    job_json,
    jobs_lines,
    jobs_table,
    wall_time,
)
from labctl.cli.terminal.pager import pages
from labctl.config.find_rig import find_rig
from labctl.errors import ConfigurationError, LabctlError, Mistake
from labctl.service.data_dir import find_home
from labctl.service.queue.job import Job, JobState
from labctl.service.queue.new_jobs import Order, find_plan, jobs_of, parse_after, read_matrix
from labctl.service.queue.schedule import ExpectedTimes, expected_schedule
from labctl.service.queue.store import Queue
from labctl.toml_reading import is_file

RigNameArgument = Annotated[
    str, typer.Argument(metavar="RIG", help="The rig's name or file.", autocompletion=complete_rigs)
]
JobArgument = Annotated[
    int, typer.Argument(metavar="JOB", help="The job's number.", autocompletion=complete_jobs)
]

FINISHED_SHOWN = 10
DRAWN = 200
"""More jobs than this are listed as plain lines."""

app = typer.Typer(
    help="Queue plans for rigs; labctl daemon works them off.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.command()
def add(
    rig: Annotated[str | None, RIG] = None,
    plan: Annotated[str | None, PLAN] = None,
    matrix: Annotated[
        Path | None, typer.Option(help="A file of rigs and plans: queue every combination.")
    ] = None,
    after: Annotated[
        str | None, typer.Option(help="Not before: 22:00, '2026-11-21 22:00' or +2h30m.")
    ] = None,
    repeat: Annotated[int, typer.Option(help="How often.")] = 1,
    tag: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="A word to find it by; repeatable.")
    ] = None,
    retries: Annotated[int, typer.Option(help="Try again after a failure, so often.")] = 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check it and print the jobs; queue nothing.")
    ] = False,
    yes: YesOption = False,
    json_output: JsonOption = False,
) -> None:
    """Queue a plan on a rig, or a whole matrix of them."""
    now = datetime.now().astimezone()
    queue = Queue(find_home())
    if matrix is not None:
        if rig is not None or plan is not None or after is not None or repeat != 1 or tag:
            allowed = "comes alone: rigs, plans, after, repeat, tags and retries stand in the file"
            raise ConfigurationError([Mistake("--matrix", "option", None, allowed)])
        orders = read_matrix(matrix, find_rig, now)
    elif rig is None or plan is None:
        raise typer.BadParameter("a rig and a plan are needed, or --matrix FILE")
    else:
        after_s = None if after is None else parse_after(after, now)
        found, text = find_plan(plan, Path())
        orders = [Order(find_rig(rig), found, text, repeat, after_s, tuple(tag or ()), retries)]
    earlier = queue.jobs()
    makers = [
        (make, repetition)
        for order in orders
        for make in (jobs_of(order, now.timestamp(), earlier),)
        for repetition in range(1, order.repeat + 1)
    ]
    if dry_run:
        jobs = [make(index, repetition) for index, (make, repetition) in enumerate(makers, 1)]
        _print_jobs(jobs, expected_schedule(jobs, time.time(), ()), json_output)
        return
    for order in orders:
        ask_first(order.rig, order.plan, yes=yes, json_output=json_output, repeat=order.repeat)
    following = iter(makers)

    def next_job(number: int) -> Job:
        make, repetition = next(following)
        return make(number, repetition)

    added = queue.add(next_job, len(makers))
    _print_jobs(added, _expected(queue), json_output)
    if not json_output:
        _note_paused(queue, added)


@app.command("list")
@pages
def list_jobs(
    rig: Annotated[
        str | None,
        typer.Option(metavar="RIG", autocompletion=complete_rigs, help="Only this rig's."),
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Only those with this tag.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also all that are over, not only the last ten.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """List the jobs, with the time each will begin and end."""
    queue = Queue(find_home())
    jobs = queue.jobs()
    expected = _expected(queue, jobs)
    shown = [
        job for job in jobs if (rig is None or job.rig == rig) and (tag is None or tag in job.tags)
    ]
    over = sorted((job for job in shown if job.state.over), key=lambda job: job.id)
    running = [job for job in shown if job.state is JobState.RUNNING]
    waiting = [job for job in shown if job.state is JobState.QUEUED]
    finished = over if everything or json_output else over[-FINISHED_SHOWN:]
    _print_jobs([*finished, *running, *waiting], expected, json_output)
    if not json_output:
        _note_paused(queue, waiting)
    for problem in queue.problems:
        print(f"labctl: {problem}", file=sys.stderr)


@app.command()
@pages
def show(job: JobArgument, json_output: JsonOption = False) -> None:
    """Show a job: its plan, its attempts, their runs."""
    queue = Queue(find_home())
    found = queue.job(job)
    expected = _expected(queue).get(job)
    if json_output:
        print(json.dumps(job_json(found, expected), indent=1))
    else:
        _print_job(found, expected)


@app.command()
def move(
    job: JobArgument,
    position: Annotated[
        int,
        typer.Argument(metavar="PLACE", min=1, help="Its place among those that wait; 1: next."),
    ],
    json_output: JsonOption = False,
) -> None:
    """Move a waiting job to another place."""
    queue = Queue(find_home())
    order = queue.move(job, position)
    _print_jobs(order, _expected(queue), json_output)


@app.command()
def cancel(
    jobs: Annotated[
        list[int],
        typer.Argument(metavar="JOB", help="Numbers of jobs.", autocompletion=complete_jobs),
    ],
    json_output: JsonOption = False,
) -> None:
    """Cancel jobs; one that runs is stopped, and its record stays."""
    queue = Queue(find_home())
    done, errors = [], list[LabctlError]()
    for number in jobs:
        try:
            done.append(queue.cancel(number))
        except LabctlError as error:
            errors.append(error)
    if json_output:
        print(json.dumps([job_json(job, None) for job in done], indent=1))
    else:
        for job in done:
            stops = job.state is JobState.RUNNING
            print(f"job {job.id}: {'its run is being stopped' if stops else 'cancelled'}")
    if errors:
        raise type(errors[0])("\n".join(map(str, errors)))


@app.command()
def pause(rig: RigNameArgument, json_output: JsonOption = False) -> None:
    """Begin no further job on a rig; the one that runs goes on."""
    _set_paused(rig, True, json_output)


@app.command()
def resume(rig: RigNameArgument, json_output: JsonOption = False) -> None:
    """Begin jobs on a rig again."""
    _set_paused(rig, False, json_output)


def _set_paused(rig: str, paused: bool, json_output: bool) -> None:
    queue = Queue(find_home())
    name = find_rig(rig).name if is_file(Path(rig)) else rig
    try:
        (queue.pause if paused else queue.resume)(name)
    except ValueError as error:
        raise ConfigurationError([Mistake("rig", "name", rig, str(error))]) from error
    if json_output:
        print(json.dumps({"rig": name, "paused": paused}))
    else:
        print(f"{name}: {'no further job begins' if paused else 'jobs begin again'}")


def _expected(queue: Queue, jobs: Sequence[Job] | None = None) -> dict[int, ExpectedTimes]:
    """When each of the queue's ``jobs`` will begin and end; those that it has now if left out."""
    jobs = queue.jobs() if jobs is None else jobs
    paused = {rig for rig in {job.rig for job in jobs} if queue.is_paused(rig)}
    return expected_schedule(jobs, time.time(), paused)


def _print_jobs(jobs: Sequence[Job], expected: dict[int, ExpectedTimes], json_output: bool) -> None:
    if json_output:
        print(json.dumps([job_json(job, expected.get(job.id)) for job in jobs], indent=1))
    elif len(jobs) > DRAWN:
        print("\n".join(jobs_lines(jobs, expected)))
    elif jobs:
        Terminal().print(jobs_table(jobs, expected))
        for job in jobs:
            if job.state is JobState.FAILED:
                print(f"job {job.id}: {job.reason}")
    else:
        print("no jobs: labctl queue add RIG PLAN")


def _note_paused(queue: Queue, jobs: Sequence[Job]) -> None:
    for rig in dict.fromkeys(job.rig for job in jobs):
        if queue.is_paused(rig):
            print(f"{rig} is paused: labctl queue resume {rig}")


def _print_job(job: Job, expected: ExpectedTimes | None) -> None:
    print(f"job {job.id}: {job.plan} on {job.rig}, {job.state}")
    if job.reason:
        print(f"  {job.reason}")
    print(f"  queued {wall_time(job.added_s)}")
    if job.after_s is not None:
        print(f"  not before {wall_time(job.after_s)}")
    if job.repeat[1] > 1:
        print(f"  repetition {job.repeat[0]} of {job.repeat[1]}")
    if job.tags:
        print(f"  tags {' '.join(job.tags)}")
    drive = f"{job.drive_target} {job.drive_serial}".strip()
    print(f"  drive {drive}")
    if expected is not None and expected.begin_s is not None:
        print(f"  {expected_span(expected)}")
    if job.retries:
        print(f"  tried again {job.failures} of {job.retries} times")
    for attempt in job.attempts:
        end = "" if attempt.ended_s is None else f" to {wall_time(attempt.ended_s)}"
        outcome = "running" if attempt.outcome is None else attempt.outcome.value
        print(f"  {wall_time(attempt.begun_s)}{end}: {outcome}")
        if attempt.run:
            print(f"    {attempt.run}")
        if attempt.reason:
            print(f"    {attempt.reason}")
    print("\n" + job.plan_text.rstrip())
