"""A trend for a terminal (80 columns) and as CSV."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Iterator, Sequence

from labctl.analysis.compare.gate import GateResult, GateVerdict
from labctl.analysis.compare.series_table import WATCHED
from labctl.analysis.compare.trend_results import LevelChange, Trend, TrendSeries, TrendVerdict
from labctl.analysis.numbers import NOTHING, significant
from labctl.analysis.stats.rotation import LEVEL
from labctl.analysis.stats.series_candidates import FEWEST_RUNS, CandidateKind
from labctl.report.csv_text import csv_text
from labctl.report.text.comparison import WIDTH, gate_lines
from labctl.report.trend_words import (
    by_quantity,
    chance,
    change_heading,
    outlier_text,
    percent,
    points_of,
    reasons_of,
    span_of,
    title_of,
    trend_words_with_u,
)

_INDENT = "   "
_MOST_UNDECIDED = 5
"""Checks of a gate that are printed one by one; the others are counted."""


def trend_text(found: Trend, gate: GateResult | None = None) -> str:
    """Every series at 80 columns: what moved, what is out of line, and what the runs would tell."""
    lines: list[str] = []
    for series in found.series:
        lines += [*_series_lines(series), ""]
    if any(series.verdict is not TrendVerdict.TOO_FEW for series in found.series):
        lines += _folded_trend_text(
            "± is about 95 %. p is the chance of such a change anywhere in its series, were there "
            f"none: of series in which nothing happened about one in {1 / LEVEL:.0f} shows any"
        )
    if gate is not None:
        lines += ["", *_trend_short_gate(gate)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _series_lines(series: TrendSeries) -> Iterator[str]:
    yield from _folded_trend_text(title_of(series))
    yield span_of(series)
    if series.verdict is TrendVerdict.TOO_FEW:
        yield from _folded_trend_text(
            f"undecided: too few runs, {FEWEST_RUNS} of one drive, rig and plan are needed. "
            "A change that is known is told by fewer: labctl compare A1 A2 A3 --against B1 B2 B3"
        )
        return
    if series.verdict is TrendVerdict.NOTHING:
        yield "nothing moved"
    for number, change in enumerate(series.changes, start=1):
        yield ""
        yield from _change_lines(number, change, series)
    if series.outliers:
        yield ""
        for one in series.outliers:
            yield from _folded_trend_text(outlier_text(one, series))
    yield ""
    yield from _scatter_lines(series)
    for note in series.notes:
        yield from _folded_trend_text(note)


def _change_lines(number: int, change: LevelChange, series: TrendSeries) -> Iterator[str]:
    yield from _folded_trend_text(f"{number}  {change_heading(change, series)}")
    if change.kind is CandidateKind.STEP:
        yield from _folded_trend_text(f"{_INDENT}{change.run_id}")
    for reason in reasons_of(change):
        yield from _folded_trend_text(f"{_INDENT}{reason}")
    yield f"{_INDENT}{'':14}{'points':>8}{'middle':>9}{'largest':>16}{'p':>8}  where"
    for quantity, points in by_quantity(change):
        middle = statistics.median(one.change.value for one in points)
        many = f"{len(points)}/{points_of(series, quantity)}"
        small = min(one.p for one in points)
        row = f"{_INDENT}{WATCHED[quantity].title:14}{many:>8}{percent(middle):>9}"
        row += f"{trend_words_with_u(points[0]):>16}{chance(small):>8}  "
        yield row + _cut_trend_text(points[0].point, WIDTH - len(row))


def _cut_trend_text(name: str, room: int) -> str:
    if len(name) <= room:
        return name
    return f"{name[: room // 2 - 1]}…{name[-(room - room // 2) :]}"


def _scatter_lines(series: TrendSeries) -> Iterator[str]:
    newest = series.newest_state
    now = f"last {newest}" if newest else "last half"
    yield f"{'':14}{'runs scatter':>14}{'beyond own':>12}{'told in the middle':>20}{now:>12}"
    for name, quantity in WATCHED.items():
        rows = [row for row in series.rows if row.quantity == name and row.scatter is not None]
        if rows:
            told = [row.newest.u for row in rows if row.newest is not None and not row.moved]
            cells = (
                _trend_median_text([row.scatter for row in rows]),
                _trend_median_text([row.dark for row in rows]),
                _trend_median_text([row.tells for row in rows]),
                _trend_median_text(told),
            )
            one, two, three, four = cells
            yield f"{quantity.title:14}{one:>14}{two:>12}{three:>20}{four:>12}"
    yield from _folded_trend_text(
        "At the middle point: the standard deviation from run to run, what of it is not in the "
        "runs themselves, the step half way that is found in 95 of 100 series, and what a step "
        + (f"at the last {newest} runs" if newest else "half way")
        + " must exceed to count"
    )


def _trend_median_text(values: Sequence[float | None]) -> str:
    known = [one for one in values if one is not None and math.isfinite(one)]
    return f"{significant(statistics.median(known) * 100.0, 2)}%" if known else NOTHING


def _trend_short_gate(gate: GateResult) -> list[str]:
    """As of a comparison; of what is undecided and passes only the first few."""
    undecided = [one for one in gate.undecided if one not in gate.failures]
    hidden = undecided[_MOST_UNDECIDED:]
    shown = GateResult(tuple(one for one in gate.checks if one not in hidden), gate.strict)
    lines = gate_lines(shown)[:-1]
    if hidden:
        lines.append(f"… and {len(hidden)} more that are {GateVerdict.UNDECIDED}")
    return [*lines, gate_lines(gate)[-1]]


def _folded_trend_text(text: str) -> list[str]:
    indent = _INDENT if text[:1].isspace() or text[:1].isdigit() else ""
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent or "    ", break_long_words=True)


def trend_csv(found: Trend) -> str:
    """One row a run, point and quantity: the value, and the level that it belongs to."""
    heading = (
        "rig", "plan", "scale", "plan_version", "drive_model", "drive_serial", "run", "run_id",
        "begin_ns", "point", "quantity", "unit", "value", "level", "moved",
    )  # fmt: skip
    rows = [
        (series.rig, series.plan, series.scale, series.plan_version, series.drive_model,
         series.drive_serial, run.number, run.run_id, run.begin_ns, row.point, row.quantity,
         row.unit, value, level, row.moved)
        for series in found.series
        for row in series.rows
        for run, value, level in zip(series.runs, row.values, row.levels, strict=True)
    ]  # fmt: skip
    return csv_text(heading, rows)
