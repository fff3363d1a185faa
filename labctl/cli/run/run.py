"""``labctl run``: the run, what is seen of it, and its report."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from labctl.capture.phases.stopping import StopRequest
from labctl.capture.run.expand import PlannedWork, limits_too_slow_for, planned_work
from labctl.capture.run.resumption import Resumption, resumption
from labctl.capture.run.run import Run
from labctl.capture.run.run_end import RunOutcome, StoppedBeforehand
from labctl.cli.results.push import push_at_end
from labctl.cli.results.report import make_report, print_pages
from labctl.cli.run.dry_run import print_dry_run
from labctl.cli.terminal import live_view
from labctl.cli.terminal.arguments import (
    PLAN,
    RIG,
    JsonOption,
    RunsOption,
    ScaleOption,
    UntilOption,
    YesOption,
)
from labctl.cli.terminal.completion import complete_runs
from labctl.cli.terminal.consent import ask_first
from labctl.cli.terminal.console import Terminal
from labctl.cli.terminal.filled import filled
from labctl.cli.terminal.held_rig import held
from labctl.cli.terminal.printer import Printer
from labctl.cli.terminal.run_names import find_run
from labctl.cli.terminal.runs_place import place_of_new_runs, run_places
from labctl.config.find_rig import find_rig, rig_of
from labctl.config.plan import Plan, load_plan
from labctl.config.rig import Rig
from labctl.config.site import site_store
from labctl.errors import INTERRUPTED, ConfigurationError, LabctlError, Mistake, Refused
from labctl.printable import printable
from labctl.record.events import Event, EventKind, Outcome
from labctl.record.layout import HEADER_FILE
from labctl.record.reader import RunRecord
from labctl.service.daemon.run_process import watch_lifeline
from labctl.service.data_dir import find_home
from labctl.service.locks.rig_lock import RigLock, use_of
from labctl.service.runs.configured_sinks import SinkFactory, configured_sinks
from labctl.service.runs.killed_runs import end_fio_of, end_leftovers
from labctl.service.runs.push import need_for_push
from labctl.service.runs.run_of_job import JOB_PATTERN, run_of_job
from labctl.service.runs.shipping import LiveShipping

STOPS_WITHIN_S = 15
"""How long the end of a run takes at most on a machine that is not busy, with its report."""


def run(
    rig: Annotated[str | None, RIG] = None,
    plan: Annotated[str | None, PLAN] = None,
    runs: RunsOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the phases, time and bytes; touch nothing.")
    ] = False,
    scale: ScaleOption = None,
    until: UntilOption = None,
    yes: YesOption = False,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            parser=find_run,
            autocompletion=complete_runs,
            help="Go on with a run that was cut off.",
        ),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Of a scheduler's job: go on with its run, if it was cut off.",
        ),
    ] = None,
    json_output: JsonOption = False,
) -> int:
    """Run a plan on a rig: record it, report it."""
    if job is not None and (resume is not None or dry_run or not re.fullmatch(JOB_PATTERN, job)):
        raise typer.BadParameter(
            "--job NAME (letters, digits, . _ : -) finds what to go on with itself: neither "
            "--resume nor --dry-run"
        )
    if resume is not None:
        changed = scale is not None or until is not None
        if dry_run or (changed and plan is None):
            raise typer.BadParameter(
                "--resume takes no --dry-run, and --scale and --until with a plan alone"
            )
        return resume_and_report(resume, json_output, rig, plan, scale, until)
    if rig is None or plan is None:
        raise typer.BadParameter("a rig and a plan are needed, or --resume RUN")
    if dry_run:
        print_dry_run(rig, plan, json_output, scale, until, runs)
        return 0
    return run_and_report(rig, plan, runs, json_output, scale, yes, job or "", until)


def run_and_report(
    rig_name: str,
    plan_name: str,
    runs: Path | None,
    json_output: bool,
    scale: float | None,
    yes: bool,
    job: str = "",
    until: str | None = None,
) -> int:
    """Do the run and make its report; the exit code.

    ``scale`` scales the plan down; ``yes``: do not ask about a large one. ``job``: of a scheduler,
    whose run goes on if there is one that was cut off, and is not done twice. ``until``: when its
    points end.
    """

    def do() -> RunOutcome:
        rig = find_rig(rig_name)
        plan, plan_text = load_plan(plan_name, scale, until)
        work = planned_work(rig, plan)
        ask_first(rig, plan, yes=yes, json_output=json_output, phases=work.phases)
        for line in limits_too_slow_for(rig, plan):
            print(filled(f"labctl: {line}"), file=sys.stderr)
        sinks = configured_sinks(rig.text, rig.path)
        with held(rig, "labctl run") as lock:
            begun = _begun_run(job, rig, (plan, plan_text), runs) if job else None
            if begun is not None and (kept := _goes_on(begun, rig, (plan, plan_text))):
                if isinstance(kept, RunOutcome):
                    return kept
                return resume_run(kept, sinks, json_output, lock)
            end_leftovers_on(rig)
            return run_plan(rig, plan, plan_text, runs, sinks, json_output, lock, work, job)

    return reported(do, json_output)


def _begun_run(job: str, rig: Rig, plan: tuple[Plan, str], runs: Path | None) -> RunRecord | None:
    """The run of a scheduler's job that there is already; None where it begins one."""
    found = run_of_job(job, rig.name, plan[0].name, plan[1], run_places(runs))
    if found.another:
        _say(f"{found.another}. The job begins a new run")
    return found.record


def _goes_on(record: RunRecord, rig: Rig, plan: tuple[Plan, str]) -> Resumption | RunOutcome | None:
    """What is left to do of a job's run, or how it has ended; None where a new one is needed."""
    name = record.path.name
    if record.end is not None and record.end.data.get("outcome") == Outcome.COMPLETED:
        _say(f"the run of this job is completed already: {name}")
        return RunOutcome(record.path, Outcome.COMPLETED, "", 0)
    try:
        kept = resumption(record.path, rig, plan)
    except Refused as refused:
        _say(f"{refused}. The job begins a new run")
        return None
    end_leftovers_on(rig, but=record.path.absolute())
    end_fio_of(record.path)
    _say(f"the job goes on with its run {name}")
    return kept


def _say(text: str) -> None:
    print(f"labctl: {text}", file=sys.stderr)


def end_leftovers_on(rig: Rig, but: Path | None = None) -> None:
    """End what is left of the last run on this rig, if it was killed. ``but``: the run that goes on
    now, which knows what it has set."""
    before = use_of(find_home(), rig)
    if before is None or before.process.alive or Path(before.run) == but:
        return
    for line in end_leftovers(Path(before.run), rig):
        _say(line)


def resume_and_report(
    path: Path,
    json_output: bool,
    rig_name: str | None,
    plan_name: str | None,
    scale: float | None,
    until: str | None = None,
) -> int:
    """Go on with the run in ``path`` and make its report; the exit code.

    With the rig of this machine that is named, or has the name of the run's.
    """

    def do() -> RunOutcome:
        rig = _rig_to_resume(path, rig_name)
        plan = None if plan_name is None else load_plan(plan_name, scale, until)
        sinks = configured_sinks(rig.text, rig.path)
        with held(rig, "labctl run") as lock:
            kept = resumption(path, rig, plan)
            end_leftovers_on(rig, but=path.absolute())
            end_fio_of(path)
            return resume_run(kept, sinks, json_output, lock)

    return reported(do, json_output)


def _rig_to_resume(path: Path, rig_name: str | None) -> Rig:
    """The rig that is named, else this machine's rig of the run's name.

    Raises JournalError, ConfigurationError.
    """
    record = RunRecord(path)
    rig = rig_of(record) if rig_name is None else find_rig(rig_name)
    if rig is None:
        allowed = (
            "no rig of this machine has this name, and one that only the run names is not used: "
            f"labctl run RIG --resume {path}"
        )
        name = printable(record.header.rig_name)
        raise ConfigurationError([Mistake(str(path / HEADER_FILE), "rig", name, allowed)])
    return rig


def reported(do: Callable[[], RunOutcome], json_output: bool) -> int:
    """Do a run, make its report, and push it where the site file names a store; the exit code."""
    try:
        store = site_store()
        if store is not None:
            need_for_push(store)
        outcome = do()
        summary = make_report(RunRecord(outcome.path), quiet=json_output)
    except LabctlError as error:
        if json_output:
            outcome_word = "aborted" if isinstance(error, StoppedBeforehand) else "refused"
            print(json.dumps({"run": None, "outcome": outcome_word, "reason": str(error)}))
        raise
    if json_output:
        print(json.dumps({**outcome.to_json(), "summary": summary.to_json()}))
    else:
        with contextlib.suppress(OSError):  # the terminal may be gone
            print_pages(outcome.path)
    if store is not None:
        push_at_end(outcome.path, store)
    return outcome.exit_code


def run_plan(
    rig: Rig,
    plan: Plan,
    plan_text: str,
    runs: Path | None,
    sinks: Sequence[SinkFactory] = (),
    quiet: bool = False,
    lock: RigLock | None = None,
    work: PlannedWork | None = None,
    job: str = "",
) -> RunOutcome:
    """Run in this process, shown on the terminal, sent to ``sinks`` meanwhile.

    ``runs`` is where runs were said to go; ``lock`` that of the rig, where it has one; ``work``
    that of the plan, where it is known already; ``job`` the scheduler's. Raises LabctlError when it
    is refused.
    """
    work = work or planned_work(rig, plan)
    root = place_of_new_runs(runs)
    return shown_run(partial(Run, rig, plan, plan_text, work, root, job=job), sinks, quiet, lock)


def resume_run(
    kept: Resumption,
    sinks: Sequence[SinkFactory] = (),
    quiet: bool = False,
    lock: RigLock | None = None,
) -> RunOutcome:
    """Go on with a run, as :func:`run_plan` does it."""
    run = partial(Run, kept.rig, kept.plan, kept.header.plan_text, kept.work, kept.path.parent)
    return shown_run(partial(run, resumption=kept), sinks, quiet, lock)


def shown_run(
    make: Callable[[Callable[[Event], None]], Run],
    sinks: Sequence[SinkFactory],
    quiet: bool,
    lock: RigLock | None,
    printer: Printer | None = None,
) -> RunOutcome:
    """Carry out the run that ``make`` makes, shown on the terminal, sent to ``sinks`` meanwhile.

    ``printer``: what else prints lines meanwhile.
    """
    console = Terminal(stderr=quiet)
    shipping = LiveShipping(sinks, lambda text: print(f"labctl: {text}", file=sys.stderr))
    try:
        printer = printer or Printer(stderr=quiet)
        return asyncio.run(_run(make, console, shipping, lock, printer))
    finally:
        shipping.finish()


def stopping_text(path: Path | None) -> str:
    """What happens after Ctrl-C, how long it takes, and how to go on with the run at ``path`` (None
    where that is not possible)."""
    lines = [
        "",
        "stopping: what was recorded is kept. The work is ended, the meters go local, and",
        f"the report is made: about {STOPS_WITHIN_S} s. Ctrl-C again kills, without a report.",
    ]
    if path is not None:
        lines.append(f"to go on later: labctl run --resume {path}")
    return "\n".join(lines)


async def _run(
    make: Callable[[Callable[[Event], None]], Run],
    console: Console,
    shipping: LiveShipping,
    lock: RigLock | None,
    printer: Printer,
) -> RunOutcome:
    show: list[Callable[[Event], None]] = []

    def on_event(event: Event) -> None:
        if (
            event.kind in (EventKind.RUN_STARTED, EventKind.RUN_RESUMED)
            and this_run.path is not None
        ):
            shipping.begin(this_run.path)
            if lock is not None:
                lock.note_run(this_run.path, this_run.plan.name)
        show[0](event)

    this_run = make(on_event)
    stop = StopRequest()
    loop = asyncio.get_running_loop()

    def interrupt(reason: str, may_kill: bool) -> None:
        if stop.asked and may_kill:
            this_run.abandon()
            printer.do(console.show_cursor)
            if this_run.path is not None:
                text = f"\nkilled; what was recorded: labctl report {this_run.path}"
                printer.do(partial(print, text, file=sys.stderr))
            printer.close()
            os._exit(INTERRUPTED)
        stop.ask(Outcome.ABORTED, reason, INTERRUPTED)
        text = stopping_text(None if this_run.plan.resume == "forbid" else this_run.path)
        printer.do(partial(print, text, file=sys.stderr))

    loop.add_signal_handler(signal.SIGINT, interrupt, "Ctrl-C", True)
    loop.add_signal_handler(signal.SIGTERM, interrupt, "SIGTERM", False)
    loop.add_signal_handler(signal.SIGHUP, interrupt, "the terminal went away", False)
    watch_lifeline(loop, lambda: interrupt("the daemon went away", False))
    with live_view.showing(this_run, console, printer) as shown:
        show.append(shown)
        return await this_run.execute(stop)
