"""``labctl doctor``: one page of what would go wrong tonight."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

import typer

from labctl.checks import Check, Level
from labctl.cli.finding import find_rig
from labctl.cli.holding import held
from labctl.plan import load_plan
from labctl.service.doctor import Examination, examine
from labctl.service.shipping import configured_sinks

WIDTH = 80
_LEVEL_WIDTH, _SUBJECT_WIDTH = 9, 13
_COLOUR = {Level.OK: None, Level.WARNING: "yellow", Level.TROUBLE: "red"}


def print_examination(rig_name: str, plan_name: str | None, runs: Path, json_output: bool) -> int:
    """Examine a rig; the exit code. Raises ConfigurationError, RigBusy."""
    rig = find_rig(rig_name)
    plan = load_plan(plan_name)[0] if plan_name is not None else None
    configured_sinks(rig.text, rig.path)
    with held(rig, "labctl doctor"):
        examination = examine(rig, plan, runs)
    if json_output:
        print(json.dumps(examination.to_json(), indent=1))
    else:
        _print(examination)
    return examination.exit_code


def _print(examination: Examination) -> None:
    of_plan = f" with {examination.plan_name}" if examination.plan_name else ""
    print(f"{examination.rig_name}{of_plan}: {_count(examination)}\n")
    for check in examination.checks:
        for number, line in enumerate(lines_of(check)):
            level, rest = line[:_LEVEL_WIDTH], line[_LEVEL_WIDTH:]
            if number == 0 and sys.stdout.isatty():
                level = typer.style(level, fg=_COLOUR[check.level])
            print(level + rest)


def _count(examination: Examination) -> str:
    counts = {
        level: sum(check.level is level for check in examination.checks)
        for level in (Level.TROUBLE, Level.WARNING)
    }
    said = [
        f"{count} {level.value}{'s' if count > 1 else ''}"
        for level, count in counts.items()
        if count
    ]
    return ", ".join(said) or "nothing would go wrong that can be seen now"


def lines_of(check: Check) -> list[str]:
    """A check on lines of at most 80 columns; what to do comes last, after an arrow."""
    margin = " " * (_LEVEL_WIDTH + _SUBJECT_WIDTH)
    subject = check.subject
    head = f"{check.level.value:<{_LEVEL_WIDTH}}{subject:<{_SUBJECT_WIDTH}}"
    if len(subject) >= _SUBJECT_WIDTH:
        head += " "
    lines = textwrap.wrap(
        check.text, WIDTH, initial_indent=head, subsequent_indent=margin, break_on_hyphens=False
    )
    if check.todo:
        lines += textwrap.wrap(
            check.todo, WIDTH, initial_indent=f"{margin}→ ", subsequent_indent=f"{margin}  "
        )
    return lines
