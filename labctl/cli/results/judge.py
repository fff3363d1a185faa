"""``labctl judge``: a run against limits of power."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from labctl.analysis.methods.power_verdicts import judge
from labctl.analysis.run.summary import summarise
from labctl.cli.results.gated import FAILED, write_gated_page
from labctl.cli.terminal.arguments import JsonOption
from labctl.cli.terminal.completion import complete_limits
from labctl.cli.terminal.pager import pages
from labctl.cli.terminal.run_names import RunArgument
from labctl.errors import ConfigurationError, Mistake
from labctl.record.json_values import plain_json
from labctl.record.power_limits import built_in_limits, load_limits
from labctl.record.reader import RunRecord
from labctl.report.text.verdicts import judgement_text
from labctl.toml_reading import parse_toml


@pages
def judge_run(
    run: RunArgument,
    limits: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Limits (TOML); else those that its plan names.",
            autocompletion=complete_limits,
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="What is undecided fails, too.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page with pictures here.")] = None,
    json_output: JsonOption = False,
) -> int:
    """Hold a run against limits of power: pass, fail or undecided.

    With the guard band that the uncertainty gives. Exit code 1 when one fails.
    """
    record = RunRecord(run)
    wanted = load_limits(limits or _of_plan(record))
    summary = summarise(record)
    found = judge(record, summary, wanted, strict)
    if html is not None:
        from labctl.report.pages.verdicts import verdicts_page

        write_gated_page(html, verdicts_page(record, summary, found))
    if json_output:
        data = plain_json(found)
        data |= {"verdict": found.verdict.value, "passed": found.passed}
        print(json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False))
    else:
        began_ns = {phase.phase.index: phase.begin_ns for phase in summary.phases}
        print(judgement_text(found, began_ns), end="")
        if html is not None:
            print(f"page: {html}")
    return 0 if found.passed else FAILED


def _of_plan(record: RunRecord) -> str:
    """The limits that the run's plan names. Raises ConfigurationError when it names none."""
    try:
        named = parse_toml(record.header.plan_text, "plan").get("limits")
    except ConfigurationError:
        named = None
    if isinstance(named, str) and named in built_in_limits():
        return named
    known = ", ".join(built_in_limits())
    allowed = f"the run's plan names no limits: --limits FILE, or one of {known}"
    raise ConfigurationError([Mistake("command line", "--limits", None, allowed)])
