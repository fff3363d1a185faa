"""``labctl query``: SQL over the phases of all runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from labctl.query import answer_csv, answer_json, query
from labctl.report.numbers import NOTHING, significant


def run_query(sql: str, roots: Sequence[Path], csv_output: bool, json_output: bool) -> None:
    """Print what a query gives. Raises ConfigurationError for SQL that is none."""
    answer = query(sql, roots)
    for line in answer.left_out:
        print(f"labctl: left out: {line}", file=sys.stderr)
    if json_output:
        print(answer_json(answer))
    elif csv_output:
        print(answer_csv(answer), end="")
    else:
        table = Table(box=None, pad_edge=False)
        for name in answer.columns:
            table.add_column(name, overflow="fold")
        for row in answer.rows:
            table.add_row(*(_shown(value) for value in row))
        Console(soft_wrap=False).print(table)


def _shown(value: object) -> str:
    if value is None:
        return NOTHING
    return significant(value, 6) if isinstance(value, float) else str(value)
