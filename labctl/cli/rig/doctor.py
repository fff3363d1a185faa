"""``labctl doctor``: checks a rig, and a plan on it, before a run."""

from __future__ import annotations

import json
import textwrap
from typing import Annotated

import typer
from rich.text import Text

from labctl.cli.terminal.arguments import JsonOption, RigArgument, RunsOption
from labctl.cli.terminal.completion import complete_plans
from labctl.cli.terminal.console import Terminal
from labctl.cli.terminal.held_rig import held
from labctl.cli.terminal.runs_place import runs_place
from labctl.config.find_rig import find_rig
from labctl.config.plan import load_plan
from labctl.config.site import site_store
from labctl.service.doctor.checks import Check, Level
from labctl.service.doctor.examination import Examination, examine
from labctl.service.runs.configured_sinks import configured_sinks

WIDTH = 80
_LEVEL_WIDTH, _SUBJECT_WIDTH = 9, 13
_COLOUR = {Level.OK: "", Level.WARNING: "yellow", Level.TROUBLE: "red"}


def doctor(
    rig: RigArgument,
    plan: Annotated[
        str | None,
        typer.Argument(
            metavar="PLAN", autocompletion=complete_plans, help="A plan that it shall do tonight."
        ),
    ] = None,
    runs: RunsOption = None,
    json_output: JsonOption = False,
) -> int:
    """Check what would go wrong tonight, and say what to do."""
    found = find_rig(rig)
    loaded = load_plan(plan)[0] if plan is not None else None
    configured_sinks(found.text, found.path)  # raises for a mistake in them
    site_store()  # the same
    with held(found, "labctl doctor"):
        examination = examine(found, loaded, runs_place(runs))
    if json_output:
        print(json.dumps(examination.to_json(), indent=1))
    else:
        _print_doctor_checks(examination)
    return examination.exit_code


def _print_doctor_checks(examination: Examination) -> None:
    terminal = Terminal()
    of_plan = f" with {examination.plan_name}" if examination.plan_name else ""
    print(f"{examination.rig_name}{of_plan}: {_doctor_problem_count(examination)}\n")
    for check in examination.checks:
        for number, line in enumerate(lines_of(check)):
            level, rest = line[:_LEVEL_WIDTH], line[_LEVEL_WIDTH:]
            style = _COLOUR[check.level] if number == 0 else ""
            terminal.print(Text.assemble((level, style), rest), soft_wrap=True)


def _doctor_problem_count(examination: Examination) -> str:
    counts = {
        level: sum(check.level is level for check in examination.checks)
        for level in (Level.TROUBLE, Level.WARNING)
    }
    counted = [
        f"{count} {level.value}{'s' if count > 1 else ''}"
        for level, count in counts.items()
        if count
    ]
    return ", ".join(counted) or "nothing would go wrong that can be seen now"


def lines_of(check: Check) -> list[str]:
    """A check on lines of at most 80 columns; what to do comes last, after an arrow, and a line to
    be copied behind it, as it is.

    Words stay whole, so that paths and commands can be copied.
    """
    margin = " " * (_LEVEL_WIDTH + _SUBJECT_WIDTH)
    subject = check.subject
    head = f"{check.level.value:<{_LEVEL_WIDTH}}{subject:<{_SUBJECT_WIDTH}}"
    if len(subject) >= _SUBJECT_WIDTH:
        head += " "
    lines = _wrapped_doctor_lines(check.text, head, margin)
    if check.todo:
        lines += _wrapped_doctor_lines(check.todo, f"{margin}→ ", f"{margin}  ")
    return [*lines, check.paste] if check.paste else lines


def _wrapped_doctor_lines(text: str, first: str, others: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=others,
        break_on_hyphens=False,
        break_long_words=False,
    )
