"""A comparison for a terminal (80 columns) and as CSV."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from labctl.analysis.compare.comparison import (
    Change,
    ComparedCell,
    ComparedRow,
    ComparedRun,
    Comparison,
)
from labctl.analysis.compare.gate import GateResult
from labctl.analysis.compare.planning import MOST_REPEATS, RepeatsPlan
from labctl.analysis.compare.points import QUANTITIES
from labctl.analysis.compare.repeats import Basis
from labctl.analysis.estimate import Estimate
from labctl.analysis.numbers import MINUS, NOTHING, prefixed, repeatable_text, significant
from labctl.report.csv_text import csv_text
from labctl.rounded import rounded

WIDTH = 80
_GAP = 2

MARKS = {
    Change.SIGNIFICANT: "*",
    Change.NOT_DISTINGUISHABLE: "=",
    Change.ONE_RUN_EACH: "~",
    Change.UNKNOWN: "?",
    Change.MISSING: " ",
}
_SHOWN = ("watts", "iops", "iops_per_watt", "latency_p99_us", "celsius_max")
"""The data rate follows from the IOPS; it is in the CSV."""


def comparison_text(found: Comparison, gate: GateResult | None = None) -> str:
    """The comparison at 80 columns: who is who, a table a quantity, and what the marks mean."""
    lines = _comparison_run_lines(found.runs)
    for quantity in QUANTITIES:
        rows = found.quantity(quantity.name)
        if rows and quantity.name in _SHOWN:
            unit = "" if quantity.unit in quantity.title else f" ({quantity.unit})"
            lines += ["", f"{quantity.title}{unit}", *_comparison_text_table(rows)]
    lines += ["", "* differs   = cannot be told apart   ? no scatter known   T throttled"]
    if any(cell.difference is Change.ONE_RUN_EACH for row in found.rows for cell in row.cells):
        lines.append("~ beyond the scatter within the runs: cannot be told from one run each")
    lines += [
        part
        for line in _comparison_throttled_lines(found)
        for part in _folded_comparison_text(line)
    ]
    for point, names in found.only_in.items():
        lines += _folded_comparison_text(f"{point}: only in {', '.join(names)}")
    for note in found.notes:
        lines += _folded_comparison_text(note)
    if gate is not None:
        lines += ["", *gate_lines(gate)]
    return "\n".join(lines) + "\n"


def _comparison_throttled_lines(found: Comparison) -> Iterator[str]:
    """What throttled phases did while they did not throttle: a line for each phase of a run."""
    throttled: dict[tuple[str, str], list[str]] = {}
    for row in found.rows:
        for cell in row.cells:
            if cell.throttled and row.quantity in ("watts", "iops"):
                figures = throttled.setdefault((cell.run, row.point), [])
                if cell.unthrottled is not None:
                    figures.append(f"{repeatable_text(cell.unthrottled)} {row.unit}")
    for (run, point), figures in throttled.items():
        words = ", ".join(figures) or "too little is left to give numbers for"
        yield f"{run} {point} throttled; while it did not: {words}"


def gate_lines(gate: GateResult) -> list[str]:
    """The result of a gate: its failures, what is undecided, and the verdict."""
    shown = [check for check in gate.checks if check in gate.failures or check.verdict != "passed"]
    lines = [part for check in shown for part in _folded_comparison_text(str(check))]
    failed = len(gate.failures)
    verdict = "passed" if gate.passed else f"FAILED ({failed} of {len(gate.checks)} checks)"
    if gate.passed and gate.undecided:
        verdict += f" ({len(gate.undecided)} of {len(gate.checks)} checks undecided)"
    return [*lines, f"gate: {verdict}"]


def _comparison_run_lines(runs: Sequence[ComparedRun]) -> list[str]:
    """A line for each run; two where the drive of any of them does not fit."""
    parts = []
    for run in runs:
        record = f"{run.run_id}:{run.drive}" if run.drive else run.run_id
        record += f" at scale {run.scale:g}" if run.scale != 1 else ""
        drive = " ".join(filter(None, (run.drive_model, run.drive_serial)))
        parts.append((f"{run.name}  {record}", drive))
    if all(cell_len(f"{record}  {drive}") <= WIDTH for record, drive in parts):
        return [f"{record}  {drive}".rstrip() for record, drive in parts]
    return [
        line
        for record, drive in parts
        for line in (record, *_folded_comparison_text(f"   {drive}"))
    ]


def _folded_comparison_text(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="    ", break_long_words=True)


def _comparison_text_table(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """A row a point; runs for which there is no room follow in a table below."""
    names = [row.point for row in rows]
    first = [_comparison_text_value(row.quantity, row.cells[0]) for row in rows]
    columns = [
        (
            row_cells[0].run,
            [
                f"{_comparison_text_value(row.quantity, cell)} {_change(row, cell)}"
                for row, cell in zip(rows, row_cells, strict=True)
            ],
        )
        for row_cells in zip(*(row.cells[1:] for row in rows), strict=True)
    ]
    base = max(map(cell_len, [*first, rows[0].cells[0].run]))
    widest = max(cell_len(text) for head, texts in columns for text in (head, *texts))
    room = WIDTH - 2 - 2 * _GAP - base - widest
    label = min(max(map(cell_len, names)), max(room, 30))
    left = 2 + label + _GAP + base
    part: list[tuple[str, list[str]]] = []
    used = left
    for column in columns:
        wide = max(cell_len(text) for text in (column[0], *column[1]))
        if part and used + _GAP + wide > WIDTH:
            yield from _table_lines(names, label, (rows[0].cells[0].run, first), part)
            part, used = [], left
        part.append(column)
        used += _GAP + wide
    yield from _table_lines(names, label, (rows[0].cells[0].run, first), part)


def _table_lines(
    names: Sequence[str],
    label: int,
    base: tuple[str, list[str]],
    part: Sequence[tuple[str, list[str]]],
) -> Iterator[str]:
    columns = [base, *part]
    widths = [max(cell_len(text) for text in (head, *texts)) for head, texts in columns]
    for number in range(-1, len(names)):
        name = "" if number < 0 else names[number]
        if cell_len(name) > label:  # its two ends are what is unique
            name = f"{name[: label // 2 - 1]}…{name[-(label - label // 2) :]}"
        cells = [head if number < 0 else texts[number] for head, texts in columns]
        padded = [
            " " * (wide - cell_len(cell)) + cell for cell, wide in zip(cells, widths, strict=True)
        ]
        yield (
            "  "
            + name
            + " " * (label - cell_len(name))
            + "".join(f"{'':{_GAP}}{c}" for c in padded)
        ).rstrip()


def _comparison_text_value(quantity: str, cell: ComparedCell) -> str:
    if cell.value is None:
        return NOTHING
    throttled = "T" if cell.throttled else ""
    if cell.value.repeatability is None:
        number = significant(cell.value.value, 3)
        if quantity in ("iops", "iops_per_watt"):
            number = prefixed(cell.value.value)
        return throttled + number
    return throttled + repeatable_text(cell.value)


def _change(row: ComparedRow, cell: ComparedCell) -> str:
    mark = MARKS[cell.difference or Change.MISSING]
    text = NOTHING if cell.change is None else change_text(row, cell.change.value)
    return f"{text:>7}{mark}"


def change_text(row: ComparedRow, change: float) -> str:
    """A change as a person reads it: ``+1.2%``, ``+1613%``, ``−0.4 K``."""
    if not row.in_parts:
        text = f"{change:+.1f} K"
    else:
        text = f"{change:+.1%}" if abs(change) < 10 else f"{change:+.0%}"
    return text.replace("-", MINUS)


def width_text(row: ComparedRow, width: float) -> str:
    """What a change must exceed: ``1.2%``, ``0.4 K``."""
    return f"{rounded(width, 2)} K" if not row.in_parts else f"{significant(width * 100, 2)}%"


def comparison_csv(found: Comparison) -> str:
    """One row a point, quantity and side; changes are parts (0.01 is 1 %), of temperatures K.

    ``value_u`` is of the phase, ``value_repeatability`` how it would come out again, and
    ``change_u`` what a change must exceed to count (each about 95 %); ``change_repeatability`` is
    that without the limits of instruments that the sides do not share. Of a side of several runs
    the columns about runs name each.
    """
    heading = (
        "run", "run_id", "drive", "drive_model", "drive_serial", "point", "quantity", "unit",
        "value", "value_u", "value_repeatability", "change", "change_u", "change_repeatability",
        "difference", "basis", "repeats", "p", "completed", "throttled",
        "unthrottled", "unthrottled_u", "unthrottled_repeatability",
    )  # fmt: skip
    runs: dict[str, list[ComparedRun]] = {}
    for run in found.runs:
        runs.setdefault(run.side, []).append(run)
    who = {side: _comparison_side_names(each) for side, each in runs.items()}
    rows = [
        (cell.run, *who[cell.run], row.point, row.quantity, row.unit,
         *_csv_estimate(cell.value), *_csv_estimate(cell.change),
         cell.difference or "", cell.basis or "",
         len(cell.repeats) or None, cell.p, cell.completed, cell.throttled,
         *_csv_estimate(cell.unthrottled))
        for row in found.rows
        for cell in row.cells
    ]  # fmt: skip
    return csv_text(heading, rows)


def _comparison_side_names(runs: Sequence[ComparedRun]) -> tuple[str, ...]:
    """Of the runs of a side: their names, drives, models and serial numbers, each once."""
    columns = zip(
        *((run.run_id, run.drive, run.drive_model, run.drive_serial) for run in runs), strict=True
    )
    return tuple(" ".join(dict.fromkeys(column)) for column in columns)


def _csv_estimate(
    estimate: Estimate | None,
) -> tuple[float | None, float | None, float | None]:
    if estimate is None:
        return None, None, None
    return (
        _comparison_csv_number(estimate.value),
        _comparison_csv_number(estimate.u),
        _comparison_csv_number(estimate.repeatability),
    )


def _comparison_csv_number(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


_SCATTER_OF = {
    Basis.REPEATS: "{repeats} runs, from run to run",
    Basis.ROUNDS: "one run, between its {repeats} rounds",
    Basis.SINGLE: "one run, within it: runs differ by more, so these are the fewest",
}


def repeats_text(plan: RepeatsPlan) -> str:
    """How many repeats a side tell a change, a line a quantity, at 80 columns."""
    lines = [
        f"scatter of {_SCATTER_OF[plan.basis].format(repeats=plan.repeats)}",
        *_folded_comparison_text(
            f"repeats a side that tell a change of {plan.change * 100:g} % in 95 of 100 comparisons"
        ),
        "",
        f"{'':16}{'scatter':>10}{'largest':>10}{'anywhere':>10}{'everywhere':>12}",
    ]
    for one in plan.needed:
        least = ["> " + str(MOST_REPEATS) if n is None else str(n) for n in (one.some, one.every)]
        spread = [f"{significant(part * 100, 2)} %" for part in (one.median, one.largest)]
        lines.append(f"{one.title:16}{spread[0]:>10}{spread[1]:>10}{least[0]:>10}{least[1]:>12}")
    lines += [
        "",
        *_folded_comparison_text(
            "anywhere: at one point or more, where all points change; everywhere: at "
            "each point. The scatter is the standard deviation at the middle point, "
            "and at that with the largest"
        ),
    ]
    return "\n".join(lines) + "\n"
