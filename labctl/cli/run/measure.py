"""``labctl measure``: any program, and what the rig drew while it ran."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from labctl.capture.host.ssh import LOCAL
from labctl.capture.phases.program import Program
from labctl.capture.run.expand import PlannedWork, size_of_drives
from labctl.capture.run.run import Run
from labctl.capture.run.run_end import RunOutcome
from labctl.cli.run.run import end_leftovers_on, reported, shown_run
from labctl.cli.terminal.arguments import JsonOption, RigArgument, RunsOption
from labctl.cli.terminal.held_rig import held
from labctl.cli.terminal.printer import Printer
from labctl.cli.terminal.runs_place import place_of_new_runs
from labctl.config.find_rig import find_rig
from labctl.config.sweeps import Resume, WhenPhaseFails
from labctl.errors import ConfigurationError, Mistake
from labctl.printable import printable
from labctl.record.events import Event
from labctl.record.phase import Pattern, Phase, Role
from labctl.service.runs.configured_sinks import configured_sinks

IDLE_S = 5.0
MOST_COMMAND = 2_000
"""Characters of a command line that a record keeps."""
MOST_NAME = 40
MOST_S = 1e7


@dataclass(frozen=True, slots=True)
class MeasureRules:
    """What a run of a program goes by: it is done once, in one piece."""

    name: str
    governor: str = ""
    resume: Resume = "forbid"
    when_phase_fails: WhenPhaseFails = "go_on"
    scale: float = 1.0


def measure(
    rig: RigArgument,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND", help="The program and its arguments.")
    ],
    name: Annotated[str, typer.Option(help="What the report calls it.")] = "",
    idle: Annotated[
        float,
        typer.Option(min=0, max=MOST_S, help="Seconds at rest before it, for watts above idle."),
    ] = IDLE_S,
    limit: Annotated[
        float, typer.Option(min=0, max=MOST_S, help="End it after so many seconds (0: never).")
    ] = 0.0,
    marks: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="Lines that match (a regular expression) are marks."),
    ] = None,
    runs: RunsOption = None,
    json_output: JsonOption = False,
) -> int:
    """Run any program, and give the watts and joules that it took.

    It is started on the machine that the drive is in, and ended with all that it started.
    """

    def do() -> RunOutcome:
        found = find_rig(rig)
        local = found.file.host == LOCAL
        printer = Printer(stderr=json_output)  # standard output is for the JSON
        program = _program_to_measure(command, marks, local=local, shown_on=printer.line)
        shown_name = printable(name or Path(command[0]).name)[:MOST_NAME]
        work = PlannedWork(
            _phases_to_measure(program, shown_name, idle, limit), size_of_drives(found)
        )
        rules = MeasureRules(_run_name(shown_name))
        sinks = configured_sinks(found.text, found.path)

        def make(on_event: Callable[[Event], None]) -> Run:
            return Run(found, rules, "", work, root, on_event, program=program)

        with held(found, "labctl measure") as lock:
            root = place_of_new_runs(runs)
            end_leftovers_on(found)
            return shown_run(make, sinks, json_output, lock, printer)

    return reported(do, json_output)


def _program_to_measure(
    command: list[str], marks: str | None, *, local: bool, shown_on: Callable[[str], None]
) -> Program:
    """The program of a command line. Raises ConfigurationError where it cannot be started."""
    mistakes = []
    if local and shutil.which(command[0]) is None:
        allowed = "is no program that can be started here"
        mistakes.append(Mistake("command line", "COMMAND", command[0], allowed))
    pattern = None
    try:
        pattern = None if marks is None else re.compile(marks)
    except re.error as error:
        allowed = f"is no regular expression: {error}"
        mistakes.append(Mistake("command line", "--marks", marks, allowed))
    if mistakes:
        raise ConfigurationError(mistakes)
    return Program(tuple(command), Path.cwd(), pattern, shown_on)


def _phases_to_measure(
    program: Program, name: str, idle_s: float, limit_s: float
) -> tuple[Phase, ...]:
    idle = [Phase(0, Role.IDLE_BEFORE, "idle", Pattern.IDLE, idle_s)] if idle_s else []
    line = printable(shlex.join(program.command))[:MOST_COMMAND]
    work = Phase(len(idle), Role.MEASURE, name, Pattern.PROGRAM, limit_s, command=line)
    return (*idle, work)


def _run_name(name: str) -> str:
    words = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")
    return f"measure-{words}" if words else "measure"
