"""``labctl compare``: runs or repeats side by side, and a gate against regressions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from labctl.analysis.compare.comparison import compare_sides
from labctl.analysis.compare.gate import check_gate
from labctl.analysis.compare.points import AnalysedRun
from labctl.analysis.run.drives import record_at, runs_of_drives
from labctl.analysis.run.summary import summarise
from labctl.cli.results.gated import (
    GateFileOption,
    exit_code,
    gate_of,
    print_json,
    write_gated_page,
)
from labctl.cli.terminal.arguments import JsonOption
from labctl.cli.terminal.completion import complete_runs
from labctl.cli.terminal.pager import pages
from labctl.cli.terminal.run_names import find_run
from labctl.errors import ConfigurationError, Mistake
from labctl.record.reader import RunRecord
from labctl.report.text.comparison import comparison_csv, comparison_text

AGAINST = "--against"
_BETWEEN = "\0"
"""Between the runs of a side: no path has it."""


class SidesCommand(TyperCommand):
    """A command in which ``--against`` takes every run up to the next option: shells expand
    ``--against ~/labctl-runs/new-*`` to several."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments, the runs behind each ``--against`` joined to one value."""
        joined: list[str] = []
        side: list[str] | None = None
        for text in [*args, "--"]:
            if side is not None and text.startswith("-"):
                joined += [AGAINST, _BETWEEN.join(side)] if side else [AGAINST]
                side = None
            if text == AGAINST:
                side = []
            elif side is not None:
                side.append(text)
            else:
                joined.append(text)
        return super().parse_args(ctx, joined[:-1])


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("compare", cls=SidesCommand)
@pages
def compare_runs(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            parser=find_run,
            autocompletion=complete_runs,
            help="Runs, by directory or name; RUN:DRIVE is one of several drives.",
        ),
    ],
    gate_file: GateFileOption = None,
    allowances: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="QUANTITY=PERCENT",
            help="How much worse; celsius_max=K; repeatable.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="A limit within the uncertainty fails, too.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(help="Write a page here: charts with all drives."),
    ] = None,
    csv_output: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    json_output: JsonOption = False,
    against: Annotated[
        list[str] | None,
        typer.Option(
            AGAINST,
            metavar="RUN",
            autocompletion=complete_runs,
            help="Repeats that the runs before it, as repeats of each other, are compared with.",
        ),
    ] = None,
) -> int:
    """Compare runs with the first one, or repeats with repeats.

    A B C: each with A. A1 A2 A3 --against B1 B2 B3: three repeats a side, which tell whether a
    change is more than runs differ anyway. A single run of several drives is compared drive by
    drive. Exit code 1 when a gate fails.
    """
    gate = gate_of(gate_file, allowances or (), strict)
    sides = [_analysed_to_compare(side) for side in _sides(runs, against or ())]
    found = compare_sides(sides)
    result = check_gate(found, gate) if gate is not None else None
    if html is not None:
        from labctl.analysis.methods.method_results import methods_of
        from labctl.report.pages.comparison import comparison_page
        from labctl.report.pages.review import review_figures

        figures = [
            review_figures(record, summary, methods_of(record, summary))
            for (record, summary), *_ in sides
        ]
        write_gated_page(html, comparison_page(found, sides[0][0][1], result, figures))
    if json_output:
        print_json(found, result)
    elif csv_output:
        print(comparison_csv(found), end="")
    else:
        print(comparison_text(found, result), end="")
        if html is not None:
            print(f"page: {html}")
    return exit_code(result)


def _sides(runs: Sequence[Path], against: Sequence[str]) -> list[list[RunRecord]]:
    """The records of each side. Raises ConfigurationError when there is nothing to compare."""
    if against:
        named = [list(runs), *([find_run(text) for text in one.split(_BETWEEN)] for one in against)]
        for side in named:
            twice = next((path for path in side if side.count(path) > 1), None)
            if twice is not None:
                allowed = "a run is no repeat of itself: name it once a side"
                raise ConfigurationError([Mistake("command line", "RUN", str(twice), allowed)])
        return [[record_at(path) for path in side] for side in named]
    records = [record_at(path) for path in runs]
    if len(records) == 1:
        records = list(runs_of_drives(records[0]).values())
    if len(records) < 2:
        allowed = "name at least two runs to compare, or one of several drives"
        raise ConfigurationError([Mistake("command line", "RUN", None, allowed)])
    return [[record] for record in records]


def _analysed_to_compare(records: Sequence[RunRecord]) -> list[AnalysedRun]:
    return [(record, summarise(record)) for record in records]
