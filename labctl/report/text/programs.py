"""What measured programs drew, the marks of a run, and a stretch of it, as text of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from labctl.analysis.numbers import (
    duration,
    prefixed,
    significant,
    utc,
    value_only,
    with_uncertainty,
)
from labctl.analysis.run.stretch import StretchResult
from labctl.analysis.run_summary import Mark, RunSummary
from labctl.record.events import Outcome
from labctl.report import key_figures

WIDTH = 80
MOST_MARKS = 20
_GAP = "  "


def program_lines(summary: RunSummary) -> Iterator[str]:
    """A row a measured program: watts of each rail, of all, above idle, and its energy."""
    rails = () if summary.drives else key_figures.rail_names(summary)
    headings = ["", *(f"{name} W" for name in rails)]
    headings += ["total W ± U", "above idle W", "J ± U", "lasted"]
    rows = [headings]
    for result in summary.programs:
        watts = [result.rails[name].watts if name in result.rails else None for name in rails]
        failed = "" if result.outcome == Outcome.COMPLETED else " !"
        rows.append(
            [
                result.phase.label + failed,
                *(value_only(one) for one in watts),
                with_uncertainty(result.watts),
                with_uncertainty(result.marginal_watts),
                with_uncertainty(result.joules),
                f"{significant(result.duration_s)} s",
            ]
        )
    yield from aligned(rows)


def mark_lines(marks: Sequence[Mark], begin_ns: int) -> Iterator[str]:
    """A line a mark, with its seconds since ``begin_ns``; of many the first ones."""
    for mark in marks[:MOST_MARKS]:
        at = f"{(mark.t_ns - begin_ns) / 1e9:>10.3f} s  "
        yield at + textwrap.shorten(mark.text, WIDTH - len(at), placeholder=" …")
    if len(marks) > MOST_MARKS:
        yield f"  and {len(marks) - MOST_MARKS} more: see report.html"


def stretch_text(found: StretchResult, begin_ns: int) -> str:
    """A stretch of a run that began at ``begin_ns``."""
    since = f"{(found.begin_ns - begin_ns) / 1e9:.3f} s to {(found.end_ns - begin_ns) / 1e9:.3f} s"
    clock = f"{utc(found.begin_ns, '%H:%M:%S')} to {utc(found.end_ns, '%H:%M:%S')} UTC"
    lines = [found.run_id, f"{since} after its begin ({clock}), {duration(found.duration_s)}", ""]
    rows = [["", "W ± U", "J ± U", "least W", "most W"]]
    rows += [
        [
            name,
            with_uncertainty(rail.watts),
            with_uncertainty(rail.joules),
            significant(rail.watts_series.min),
            significant(rail.watts_series.max),
        ]
        for name, rail in found.rails.items()
    ]
    series = found.watts_series
    rows.append(
        [
            "total",
            with_uncertainty(found.watts),
            with_uncertainty(found.joules),
            significant(None if series is None else series.min),
            significant(None if series is None else series.max),
        ]
    )
    lines += aligned(rows)
    if found.iops is not None:
        lines.append(f"  {prefixed(found.iops)} IOPS (mean of fio's statuses)")
    lines += [
        f"  {sensor} {significant(one.start, 3)} → {significant(one.end, 3)} °C, "
        f"at most {significant(one.max, 3)} °C"
        for sensor, one in found.temperatures.items()
    ]
    if found.marks:
        lines += ["", "Marks in it:", *mark_lines(found.marks, begin_ns)]
    for note in found.notes:
        lines += ["", *textwrap.wrap(f"Note: {note}", WIDTH)]
    return "\n".join(lines) + "\n"


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The first column to the left, the others to the right."""
    widths = [max(cell_len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        padded = [
            " " * (wide - cell_len(cell)) + cell for cell, wide in zip(row, widths, strict=True)
        ]
        first = row[0] + " " * (widths[0] - cell_len(row[0]))
        yield (_GAP + _GAP.join([first, *padded[1:]])).rstrip()
