"""A table of many rows: columns as wide as their longest text, in time that does not count."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from labctl.cli.terminal.console import Terminal
from labctl.printable import printable

_GAP = 2


def print_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below their headings.

    Where a line fits the terminal, each is written as it is: rich lays out ten thousand rows in
    five seconds. Where it does not, rich folds the texts.
    """
    console = Terminal(soft_wrap=False)
    shown = [tuple(map(printable, row)) for row in rows]
    columns = list(zip(names, *shown, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    if sum(widths) + _GAP * (len(widths) - 1) <= console.width:
        console.print(Text(_plain_table_line(names, widths), style="table.header"))
        print("\n".join(_plain_table_line(row, widths) for row in shown))
        return
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    for row in shown:
        table.add_row(*row)
    console.print(table)


def _plain_table_line(texts: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        text + " " * (width + _GAP - cell_len(text))
        for text, width in zip(texts, widths, strict=True)
    )
    return "".join(padded).rstrip()
