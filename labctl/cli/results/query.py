"""``labctl query``: SQL over the phases of all runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from labctl.analysis.numbers import NOTHING, significant
from labctl.cli.terminal.arguments import JsonOption, RunsToReadOption
from labctl.cli.terminal.console import Terminal
from labctl.cli.terminal.pager import pages
from labctl.cli.terminal.progress_line import ProgressLine
from labctl.cli.terminal.runs_place import places_to_read
from labctl.report.data.query import QueryResult, answer_csv, answer_json, query
from labctl.service.data_dir import cache_of_runs

NARROW = 20
"""A column of more characters may be folded to this width, in characters."""


@pages
def run_query(
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help="SQL over the tables phases, runs, drives.")
    ],
    runs: RunsToReadOption = None,
    csv_output: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    json_output: JsonOption = False,
) -> None:
    """Ask all runs with SQL (DuckDB), as in SELECT * FROM phases."""
    places = places_to_read(runs)
    answer = query(sql, places, cache_of_runs(), ProgressLine("runs are new: reading them"))
    for line in answer.left_out:
        print(f"labctl: left out: {line}", file=sys.stderr)
    if json_output:
        print(answer_json(answer))
    elif csv_output:
        print(answer_csv(answer), end="")
    elif _query_answer_fits(answer, console := Terminal(soft_wrap=False)):
        console.print(_query_answer_table(answer))
    else:
        _print_records(answer)


def _query_answer_fits(answer: QueryResult, console: Console) -> bool:
    """Whether a table can be read: each column whole, or folded to no less than ``NARROW``."""
    columns = zip(
        *([_query_value_text(value) for value in row] for row in answer.rows), strict=True
    )
    texts = list(columns) or [()] * len(answer.columns)
    widths = (
        min(NARROW, max(map(cell_len, (name, *column))))
        for name, column in zip(answer.columns, texts, strict=True)
    )
    return sum(widths) + 2 * len(answer.columns) <= console.width + 2


def _query_answer_table(answer: QueryResult) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in answer.columns:
        table.add_column(name, overflow="fold")
    for row in answer.rows:
        table.add_row(*map(_query_value_text, row))
    return table


def _print_records(answer: QueryResult) -> None:
    """Each value on a line of its own: for results with too many columns for a table."""
    wide = max(map(cell_len, answer.columns))
    for number, row in enumerate(answer.rows):
        if number:
            print()
        for name, value in zip(answer.columns, row, strict=True):
            print(f"{name}{' ' * (wide - cell_len(name))}  {_query_value_text(value)}")


def _query_value_text(value: object) -> str:
    if value is None:
        return NOTHING
    return significant(value, 6) if isinstance(value, float) else str(value)
