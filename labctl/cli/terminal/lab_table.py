"""All rigs of a lab, a line each in 80 columns; those that need somebody first, with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size

from labctl.analysis.numbers import significant
from labctl.cli.terminal.jobs_table import WIDTH, jobs_wait, wall_time
from labctl.record.timebase import NS_PER_S
from labctl.service.status.broker_rigs import RemoteRig
from labctl.service.status.condition import NEED_SOMEBODY, Condition, FoundCondition, condition_of

TITLES = ("rig", "state", "run", "wait", "W", "°C", "last result")
NUMBERS = ("wait", "W", "°C")
MOST_NAME, MOST_RUN, MOST_NUMBER = 16, 18, 6
"""Columns of a name, of a plan with the number of its phase, and of a number."""
_NOW = (Condition.NO_METER, Condition.RUNNING, Condition.IDLE)
"""Conditions in which the last heartbeat says how it is now."""


def lab_lines(rigs: Sequence[RemoteRig], now_ns: int, width: int = WIDTH) -> Iterator[str]:
    """The rigs as lines of at most ``width`` columns; nothing where there is none."""
    if not rigs:
        return
    known = [(condition_of(rig, now_ns), rig) for rig in rigs]
    known.sort(key=lambda one: (one[0].rank, one[1].name))
    yield _lab_summary(known)
    rows = [TITLES, *(_lab_table_row(found, rig) for found, rig in known)]
    *widths, _ = (max(map(cell_len, column)) for column in zip(*rows, strict=True))
    left = width - sum(widths) - len(widths)
    whys = ["", *(found.why for found, _ in known)]
    for (*cells, last), why in zip(rows, whys, strict=True):
        padded = [
            _right_in_lab_table(cell, width) if title in NUMBERS else set_cell_size(cell, width)
            for title, cell, width in zip(TITLES, cells, widths, strict=False)
        ]
        yield " ".join([*padded, _lab_text_cut(last, left)]).rstrip()
        if why:
            yield _lab_text_cut(f"  {why}", width)


def _lab_summary(known: Sequence[tuple[FoundCondition, RemoteRig]]) -> str:
    count = Counter(
        "in trouble" if found.condition in NEED_SOMEBODY else found.condition.value
        for found, _ in known
    )
    order = ("in trouble", Condition.RUNNING, Condition.IDLE, Condition.OFFLINE)
    words = ", ".join(f"{count[word]} {word}" for word in order if count[word])
    waiting = sum(rig.waiting for _, rig in known)
    jobs = f"; {jobs_wait(waiting)}" if waiting else ""
    return f"{len(known)} {'rigs' if len(known) > 1 else 'rig'}: {words}{jobs}"


def _lab_table_row(found: FoundCondition, rig: RemoteRig) -> tuple[str, ...]:
    now = found.condition in _NOW
    watts, celsius = (rig.now(name) if now else None for name in ("watts", "celsius"))
    state = found.condition.value
    return (
        _cut_inside(rig.name, MOST_NAME),
        state.upper() if found.why else state,
        _lab_run_cell(rig),
        _lab_text_cut(f"{rig.waiting}" if rig.waiting else "", MOST_NUMBER),
        _lab_text_cut("–" if watts is None else significant(watts, 4), MOST_NUMBER),
        _lab_text_cut("–" if celsius is None else f"{celsius:.0f}", MOST_NUMBER),
        _lab_last_cell(rig),
    )


def _lab_run_cell(rig: RemoteRig) -> str:
    """The plan of a run that is on, and which of its phases."""
    if rig.state.get("state") != Condition.RUNNING:
        return ""
    phase = rig.phase_number
    place = f" {phase[0]}/{phase[1]}" if phase else ""
    return _lab_text_cut(str(rig.state.get("plan") or ""), MOST_RUN - len(place)) + place


def _lab_last_cell(rig: RemoteRig) -> str:
    """The last point of the run that is on; else how and when the last run ended."""
    text = rig.heartbeat.get("result_text")
    if text and rig.state.get("state") == Condition.RUNNING:
        return str(text)
    outcome, _ = rig.last_outcome
    ended_ns = rig.last_run_ended_ns
    if not outcome:
        return "–"
    return f"{outcome} {wall_time(ended_ns / NS_PER_S)}" if ended_ns else outcome


def _right_in_lab_table(text: str, cells: int) -> str:
    return " " * (cells - cell_len(text)) + text


def _lab_text_cut(text: str, cells: int) -> str:
    """A text of at most so many cells, its end left out."""
    return text if cell_len(text) <= cells else f"{set_cell_size(text, cells - 1).rstrip()}…"


def _cut_inside(text: str, cells: int) -> str:
    """A name of at most so many cells, its middle left out: rigs differ in their last letters."""
    if cell_len(text) <= cells:
        return text
    behind = text[-(cells // 2) :]
    while cell_len(behind) > cells // 2:
        behind = behind[1:]
    return f"{set_cell_size(text, cells - 1 - cell_len(behind))}…{behind}"
