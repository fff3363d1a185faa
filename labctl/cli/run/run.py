"""``labctl run``: the run, what is seen of it, and its report."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from labctl.capture.phases.stopping import StopRequest
from labctl.capture.run.expand import PlannedWork, planned_work
from labctl.capture.run.resumption import Resumption, resumption
from labctl.capture.run.run import Run
from labctl.capture.run.run_end import RunOutcome, StoppedBeforehand
from labctl.cli.results.report import make_report, print_summary
from labctl.cli.run.dry_run import print_dry_run
from labctl.cli.terminal import live_view
from labctl.cli.terminal.arguments import (
    DEFAULT_RUNS,
    PLAN,
    RIG,
    JsonOption,
    RunsOption,
    ScaleOption,
    YesOption,
)
from labctl.cli.terminal.consent import ask_first
from labctl.cli.terminal.console import Terminal
from labctl.cli.terminal.held_rig import held
from labctl.cli.terminal.run_names import find_run
from labctl.config.find_rig import find_rig, rig_of
from labctl.config.plan import Plan, load_plan
from labctl.config.rig import Rig
from labctl.errors import INTERRUPTED, ConfigurationError, LabctlError, Mistake
from labctl.printable import printable
from labctl.record.events import Event, EventKind, Outcome
from labctl.record.layout import HEADER_FILE
from labctl.record.reader import RunRecord
from labctl.service.daemon.run_process import watch_lifeline
from labctl.service.data_dir import find_home
from labctl.service.locks.rig_lock import RigLock, use_of
from labctl.service.runs.configured_sinks import SinkFactory, configured_sinks
from labctl.service.runs.killed_runs import end_fio_of, end_leftovers
from labctl.service.runs.shipping import LiveShipping

STOPS_WITHIN_S = 15
"""How long the end of a run takes at most on a machine that is not busy, with its report."""


def run(
    rig: Annotated[str | None, RIG] = None,
    plan: Annotated[str | None, PLAN] = None,
    runs: RunsOption = DEFAULT_RUNS,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the phases, time and bytes; touch nothing.")
    ] = False,
    scale: ScaleOption = None,
    yes: YesOption = False,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="RUN", parser=find_run, help="Go on with a run that was cut off."),
    ] = None,
    json_output: JsonOption = False,
) -> int:
    """Run a plan on a rig: record it, report it."""
    if resume is not None:
        if dry_run or (scale is not None and plan is None):
            raise typer.BadParameter("--resume takes no --dry-run, and --scale with a plan alone")
        return resume_and_report(resume, json_output, rig, plan, scale)
    if rig is None or plan is None:
        raise typer.BadParameter("a rig and a plan are needed, or --resume RUN")
    if dry_run:
        print_dry_run(rig, plan, json_output, scale)
        return 0
    return run_and_report(rig, plan, runs, json_output, scale, yes)


def run_and_report(
    rig_name: str,
    plan_name: str,
    runs_root: Path,
    json_output: bool,
    scale: float | None,
    yes: bool,
) -> int:
    """Do the run and make its report; the exit code.

    ``scale`` scales the plan down; ``yes``: do not ask about a large one.
    """

    def do() -> RunOutcome:
        rig = find_rig(rig_name)
        plan, plan_text = load_plan(plan_name, scale)
        work = planned_work(rig, plan)
        ask_first(rig, plan, yes=yes, json_output=json_output, phases=work.phases)
        sinks = configured_sinks(rig.text, rig.path)
        with held(rig, "labctl run") as lock:
            end_leftovers_on(rig)
            return run_plan(rig, plan, plan_text, runs_root, sinks, json_output, lock, work)

    return reported(do, json_output)


def end_leftovers_on(rig: Rig) -> None:
    """End what is left of the last run on this rig, if it was killed."""
    before = use_of(find_home(), rig)
    if before is not None and not before.process.alive:
        for line in end_leftovers(Path(before.run), rig):
            print(f"labctl: {line}", file=sys.stderr)


def resume_and_report(
    path: Path,
    json_output: bool,
    rig_name: str | None,
    plan_name: str | None,
    scale: float | None,
) -> int:
    """Go on with the run in ``path`` and make its report; the exit code.

    With the rig of this machine that is named, or has the name of the run's.
    """

    def do() -> RunOutcome:
        rig = _rig_to_resume(path, rig_name)
        plan = None if plan_name is None else load_plan(plan_name, scale)
        sinks = configured_sinks(rig.text, rig.path)
        with held(rig, "labctl run") as lock:
            kept = resumption(path, rig, plan)
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
    """Do a run and make its report; the exit code."""
    try:
        outcome = do()
        summary = make_report(RunRecord(outcome.path))
    except LabctlError as error:
        if json_output:
            outcome_word = "aborted" if isinstance(error, StoppedBeforehand) else "refused"
            print(json.dumps({"run": None, "outcome": outcome_word, "reason": str(error)}))
        raise
    if json_output:
        print(json.dumps({**outcome.to_json(), "summary": summary.to_json()}))
    else:
        with contextlib.suppress(OSError):  # the terminal may be gone
            print_summary(outcome.path, summary)
    return outcome.exit_code


def run_plan(
    rig: Rig,
    plan: Plan,
    plan_text: str,
    runs_root: Path,
    sinks: Sequence[SinkFactory] = (),
    quiet: bool = False,
    lock: RigLock | None = None,
    work: PlannedWork | None = None,
) -> RunOutcome:
    """Run in this process, shown on the terminal, sent to ``sinks`` meanwhile.

    ``lock`` is that of the rig, where it has one; ``work`` that of the plan, where it is known
    already. Raises LabctlError when it is refused.
    """
    work = work or planned_work(rig, plan)
    return shown_run(partial(Run, rig, plan, plan_text, work, runs_root), sinks, quiet, lock)


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
) -> RunOutcome:
    """Carry out the run that ``make`` makes, shown on the terminal, sent to ``sinks`` meanwhile."""
    console = Terminal(stderr=quiet)
    shipping = LiveShipping(sinks, lambda text: print(f"labctl: {text}", file=sys.stderr))
    try:
        return asyncio.run(_run(make, console, shipping, lock))
    finally:
        shipping.finish()


def stopping_text(path: Path | None) -> str:
    """What happens after Ctrl-C, how long it takes, and how to go on."""
    lines = [
        "",
        "stopping: what was recorded is kept. fio is ended, the meters go local, and",
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
            with contextlib.suppress(OSError):
                console.show_cursor()
                if this_run.path is not None:
                    print(
                        f"\nkilled; what was recorded: labctl report {this_run.path}",
                        file=sys.stderr,
                    )
            os._exit(INTERRUPTED)
        stop.ask(Outcome.ABORTED, reason, INTERRUPTED)
        with contextlib.suppress(OSError):  # the terminal may be gone
            print(stopping_text(this_run.path), file=sys.stderr)

    loop.add_signal_handler(signal.SIGINT, interrupt, "Ctrl-C", True)
    loop.add_signal_handler(signal.SIGTERM, interrupt, "SIGTERM", False)
    loop.add_signal_handler(signal.SIGHUP, interrupt, "the terminal went away", False)
    watch_lifeline(loop, lambda: interrupt("the daemon went away", False))
    with live_view.showing(this_run, console) as shown:
        show.append(shown)
        return await this_run.execute(stop)
