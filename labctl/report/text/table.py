"""The table of a run for a terminal: one row a measured phase, whole at 80 columns."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.text import Text

from labctl.analysis import numbers
from labctl.analysis.latency import latency_mean_us, latency_percentile_us
from labctl.analysis.numbers import (
    NOTHING,
    duration,
    prefixed,
    prefixed_value,
    scaled,
    significant,
    value_only,
    with_uncertainty,
)
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run import drives
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.throttling.verdict import OPEN
from labctl.record.events import Outcome
from labctl.report import key_figures, slow_stretches
from labctl.report.panels import Panel, panels
from labctl.report.text.host_power import host_tables
from labctl.report.text.programs import mark_lines, program_lines

THROTTLED = "T"
OTHER_SLOWDOWN = "s"
NOT_EXCLUDED = "?"
NOT_COMPLETED = "!"

_OUTCOME_STYLE: dict[str, str] = {Outcome.COMPLETED: "bold green", Outcome.RUNNING: "bold cyan"}
_GAP = 2
_INDENT = 2


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the table: a point, or what one of several drives did in it."""

    name: str
    result: PhaseResult
    summary: RunSummary


@dataclass(frozen=True, slots=True)
class _Column:
    """``rank``: in a narrow terminal the columns of the highest rank are left out first."""

    heading: str
    cell: Callable[[_Line], str]
    rank: int = 0


def run_table(summary: RunSummary, width: int = 80) -> RenderableType:
    """The whole table with its heading and what a reader must know, at most ``width`` wide."""
    parts: list[RenderableType] = [_run_table_heading(summary)]
    found = panels(summary.points)
    sections = [
        _Section(summary, tuple(group), _run_table_columns(summary, in_bytes))
        for in_bytes, group in groupby(found, key=lambda panel: panel.in_bytes)
    ]
    shown = _that_fit(sections, width)
    for section in sections:
        parts.extend((Text(), section.drawn(shown)))
    if summary.programs:
        head, *rows = program_lines(summary)
        parts.extend((Text(), Text(head, style="dim"), *map(Text, rows)))
    elif not found:
        parts.extend((Text(), Text("No phase was measured.", style="bold")))
    for head, *rows in host_tables(summary):
        parts.extend((Text(), Text(head, style="dim"), *map(Text, rows)))
    parts.extend(_run_table_footnotes(summary, _hidden_table_columns(sections, shown)))
    return Group(*parts)


def table_text(summary: RunSummary, width: int = 80) -> str:
    """The table as plain text, for a file, a pipe or a mail."""
    console = Console(
        file=io.StringIO(),
        width=width,
        color_system=None,
        force_terminal=False,
        legacy_windows=False,
        markup=False,
    )
    with console.capture() as capture:
        console.print(run_table(summary, width))
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _run_table_heading(summary: RunSummary) -> Text:
    first = Text()
    first.append(summary.plan_name, style="bold")
    first.append(" on ")
    first.append(summary.rig_name, style="bold")
    first.append("  ")
    first.append(summary.outcome, style=_OUTCOME_STYLE.get(summary.outcome, "bold red"))
    if summary.reason:
        first.append(f" ({summary.reason})")
    drive = " ".join(part for part in (summary.drive_model, summary.drive_serial) if part)
    lasted = (summary.end_ns - summary.begin_ns) / 1e9
    second = (
        f"{drive or 'drive not named'}, {numbers.utc(summary.begin_ns)} UTC, {duration(lasted)}"
    )
    figures = [
        f"idle {with_uncertainty(summary.idle_watts)} W"
        if summary.idle_watts is not None
        else "idle not measured"
    ]
    if summary.gap_median_ms is not None:
        figures.append(f"gap between phases {significant(summary.gap_median_ms, 3)} ms (median)")
    worst = key_figures.worst_alignment_ms(summary.measured)
    if worst is not None:
        figures.append(f"alignment ≤ {significant(worst, 2)} ms")
    return Text("\n").join([first, Text(second), Text(", ".join(figures))])


def _run_table_columns(summary: RunSummary, in_bytes: bool) -> tuple[_Column, ...]:
    rails = key_figures.rail_names(summary)
    return (
        _Column("", lambda point: point.name),
        *(
            _Column(f"{name} W", lambda point, name=name: _rail_watts(point.result, name), 1)  # type: ignore[misc]
            for name in (() if summary.drives else rails)
        ),
        _Column("total W ± U", lambda point: with_uncertainty(point.result.watts)),
        *(_BYTES if in_bytes else _OPERATIONS),
        _Column("mean µs", lambda point: significant(latency_mean_us(point.result), 3), 4),
        _Column(
            "p99 µs", lambda point: significant(latency_percentile_us(point.result, "99"), 3), 3
        ),
        _Column("°C", lambda point: _run_table_celsius(point.result), 2),
        _Column("", lambda point: _run_table_mark(point.summary, point.result)),
    )


_OPERATIONS = (
    _Column("IOPS", lambda point: prefixed(point.result.iops)),
    _Column("IOPS/W", lambda point: prefixed_value(point.result.iops_per_watt)),
)
_BYTES = (
    _Column("MB/s", lambda point: _run_table_megabytes(point.result.bytes_per_s)),
    _Column("MB/J", lambda point: value_only(scaled(point.result.bytes_per_joule, 1e-6))),
)


def _run_table_megabytes(bytes_per_s: float | None) -> str:
    return NOTHING if bytes_per_s is None else significant(bytes_per_s / 1e6)


def _rail_watts(result: PhaseResult, name: str) -> str:
    rail = result.rails.get(name)
    return NOTHING if rail is None else value_only(rail.watts)


def _run_table_celsius(result: PhaseResult) -> str:
    return NOTHING if result.celsius_max is None else f"{result.celsius_max:.0f}"


def _run_table_mark(summary: RunSummary, result: PhaseResult) -> str:
    marks = NOT_COMPLETED if result.outcome != Outcome.COMPLETED else ""
    if result.throttled:
        marks += THROTTLED
    elif slow_stretches.causes_in(summary, result):
        marks += OTHER_SLOWDOWN
    elif result.throttling is not None and result.throttling.verdict == OPEN:
        marks += NOT_EXCLUDED
    return marks


@dataclass(frozen=True, slots=True)
class _Section:
    """Panels under one heading. All sections of a table have as many columns."""

    summary: RunSummary
    group: tuple[Panel, ...]
    columns: tuple[_Column, ...]

    def width(self, number: int) -> int:
        """Characters that a column needs."""
        column = self.columns[number]
        cells = (column.cell(line) for panel in self.group for line in self._lines(panel))
        return max(cell_len(column.heading), *map(cell_len, cells))

    def drawn(self, widths: dict[int, int]) -> Text:
        """The lines of the section with the columns of ``widths``."""
        columns = [self.columns[number] for number in widths]
        wide = list(widths.values())
        lines = [Text(_run_table_row([column.heading for column in columns], wide), style="dim")]
        for panel in self.group:
            lines.append(Text(panel.title, style="bold"))
            for line in self._lines(panel):
                row = _run_table_row([column.cell(line) for column in columns], wide)
                lines.append(Text(row, style="red" if line.result.throttled else ""))
        section = Text("\n").join(lines)
        section.no_wrap = True
        section.overflow = "ellipsis"
        return section

    def _lines(self, panel: Panel) -> Iterator[_Line]:
        """Each point, and below it what each of several drives did."""
        for point in panel.points:
            yield _Line(point.name, point.result, self.summary)
            for drive, one, result in drives.by_drive(self.summary, point.result):
                yield _Line(f"  {drive}", result, one)


def _that_fit(sections: Sequence[_Section], width: int) -> dict[int, int]:
    """The columns that fit, with their widths; those of the highest rank go first."""
    if not sections:
        return {}
    columns = sections[0].columns
    widths = {
        number: max(section.width(number) for section in sections) for number in range(len(columns))
    }
    for rank in sorted({column.rank for column in columns if column.rank}, reverse=True):
        if _INDENT + sum(widths.values()) + _GAP * (len(widths) - 1) <= width:
            break
        widths = {number: wide for number, wide in widths.items() if columns[number].rank != rank}
    return widths


def _hidden_table_columns(sections: Sequence[_Section], shown: dict[int, int]) -> list[str]:
    """Headings of the columns for which there was no room."""
    columns = sections[0].columns if sections else ()
    return [column.heading for number, column in enumerate(columns) if number not in shown]


def _run_table_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The first cell to the left, the others to the right under their headings."""
    padded = [
        " " * (wide - cell_len(cell)) + cell for cell, wide in zip(cells, widths, strict=True)
    ]
    first = cells[0] + " " * (widths[0] - cell_len(cells[0]))
    return " " * _INDENT + (" " * _GAP).join([first, *padded[1:]])


def _run_table_footnotes(summary: RunSummary, hidden: Sequence[str]) -> Iterator[RenderableType]:
    marks = "".join(_run_table_mark(summary, result) for result in summary.measured)
    lines: list[tuple[str, str]] = []
    if THROTTLED in marks:
        lines.append((f"{THROTTLED}  the drive throttled", "red"))
    if OTHER_SLOWDOWN in marks:
        lines.append((f"{OTHER_SLOWDOWN}  slower for another reason", ""))
    if NOT_EXCLUDED in marks:
        lines.append((f"{NOT_EXCLUDED}  throttling cannot be excluded", ""))
    if NOT_COMPLETED in marks:
        lines.append((f"{NOT_COMPLETED}  the phase did not complete", "red"))
    lines.extend((f"Mark {one.strip()}", "") for one in mark_lines(summary.marks, summary.begin_ns))
    lines.extend((f"{one}.", "" if one.reached else "yellow") for one in summary.steady_rounds)
    if ended := key_figures.points_ended(summary):
        lines.append((ended, ""))
    for item in slow_stretches.slow_stretches(summary.throttling):
        times = f" in {item.count} stretches, the first" if item.count > 1 else ""
        what = f"{item.cause.words}, {duration(item.seconds)}{times}"
        lines.append(
            (f"{_run_table_phase_label(summary, item.phase_index)}: {what}: {item.evidence}", "")
        )
    lines.extend((line, "") for line in _table_unthrottled_lines(summary))
    lines.extend((line, "") for line in _not_excluded(summary))
    if hidden:
        columns = ", ".join(hidden)
        lines.append((f"No room for {columns}: see phases.csv or a wider terminal.", "dim"))
    notes = key_figures.shared_notes(summary)
    lines.extend((_run_table_note(summary, note, about), "") for note, about in notes.items())
    lines.extend((f"Problem: {problem}", "yellow") for problem in summary.problems)
    if lines:
        yield Text()
    for line, style in lines:
        yield Text(line, style=style)


def _table_unthrottled_lines(summary: RunSummary) -> Iterator[str]:
    """What throttled phases did while they did not throttle."""
    for result in summary.measured:
        if not result.throttled:
            continue
        if result.watts_unthrottled is None and result.iops_unthrottled is None:
            yield f"{result.phase.label}: too little of it was not throttled to give numbers for"
            continue
        watts = with_uncertainty(result.watts_unthrottled)
        iops = prefixed_value(result.iops_unthrottled)
        left = duration(result.unthrottled_s or 0.0)
        yield f"{result.phase.label}: the {left} not throttled: {watts} W, {iops} IOPS"


def _not_excluded(summary: RunSummary) -> Iterator[str]:
    """Why throttling cannot be excluded, each reason once."""
    reasons: dict[str, list[str]] = {}
    for result in summary.measured:
        if (
            _run_table_mark(summary, result).endswith(NOT_EXCLUDED)
            and result.throttling is not None
        ):
            reasons.setdefault(result.throttling.why, []).append(result.phase.label)
    for why, labels in reasons.items():
        more = f" and {len(labels) - 2} more" if len(labels) > 2 else ""
        yield f"{', '.join(labels[:2])}{more}: {why}"


def _run_table_phase_label(summary: RunSummary, phase_index: int) -> str:
    labels = (item.phase.label for item in summary.phases if item.phase.index == phase_index)
    return next(labels, f"phase {phase_index}")


def _run_table_note(summary: RunSummary, note: str, about: Sequence[int]) -> str:
    if len(about) >= len(summary.measured) > 1:
        return f"Note: {note}"
    some = ", ".join(_run_table_phase_label(summary, index) for index in about[:3])
    more = f" and {len(about) - 3} more" if len(about) > 3 else ""
    return f"Note ({some}{more}): {note}"
