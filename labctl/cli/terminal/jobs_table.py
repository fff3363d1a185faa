"""Jobs of the queue, as a table for a terminal and as JSON for a program."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from labctl.record.timebase import DAY_S
from labctl.service.queue.job import Job, JobState
from labctl.service.queue.schedule import ExpectedTimes

WIDTH = 80
_TITLES = ("job", "state", "rig", "plan", "begin – end")
_STYLES = {
    JobState.RUNNING: "bold green",
    JobState.FAILED: "red",
    JobState.CANCELLED: "dim",
    JobState.DONE: "dim",
}


def jobs_table(
    jobs: Sequence[Job], expected: Mapping[int, ExpectedTimes], *, a_line_each: bool = False
) -> Table:
    """The jobs as a table of at most 80 columns.

    A long remark is folded, or with ``a_line_each`` cut. ``expected`` is by number of the job.
    """
    table = Table(box=None, pad_edge=False, expand=False)
    for index, title in enumerate(_TITLES):
        table.add_column(title, justify="left" if index else "right", no_wrap=True)
    table.add_column("", overflow="fold")
    for job in jobs:
        *cells, remark = map(Text, _jobs_table_row(job, expected))
        if a_line_each:  # set on the text: a column with no_wrap would not become narrower
            remark.no_wrap, remark.overflow = True, "ellipsis"
        table.add_row(*cells, remark, style=_STYLES.get(job.state, ""))
    return table


def jobs_lines(jobs: Sequence[Job], expected: Mapping[int, ExpectedTimes]) -> Iterator[str]:
    """The same table as plain lines, each remark cut: rich takes a millisecond a job."""
    rows = [(*_TITLES, ""), *(_jobs_table_row(job, expected) for job in jobs)]
    *widths, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    left = max(WIDTH - sum(widths) - len(widths), 0)
    for number, *others, remark in rows:
        cells = [number.rjust(widths[0])]
        cells += [cell.ljust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield " ".join([*cells, _job_text_cut(remark, left)])[:WIDTH].rstrip()


def jobs_wait(count: int) -> str:
    """How many jobs wait, as text."""
    return f"{count} {'jobs wait' if count > 1 else 'job waits'}"


def job_json(job: Job, when: ExpectedTimes | None) -> dict[str, Any]:
    """A job as it is stored, with ``expected``: begin and end, in seconds since the epoch."""
    data: dict[str, Any] = job.model_dump(mode="json")
    data["expected"] = (
        None
        if when is None
        else {"begin_s": when.begin_s, "end_s": when.end_s, "at_least": when.least}
    )
    return data


def expected_span(when: ExpectedTimes) -> str:
    """When a job is expected to begin and end, as in ``22:10 – ≥ 23:40``."""
    if when.begin_s is None:
        return "–"
    if when.end_s is None:
        return f"{wall_time(when.begin_s)} – ?"
    end = _jobs_table_clock(when.end_s, when.begin_s)
    return f"{wall_time(when.begin_s)} – {'≥ ' if when.least else ''}{end}"


def wall_time(seconds: float) -> str:
    """The local time of seconds since the epoch; with the day where that is not today."""
    then = time.localtime(seconds)
    pattern = "%H:%M" if then[:3] == time.localtime()[:3] else "%a %d %b %H:%M"
    return time.strftime(pattern, then)


def _jobs_table_row(job: Job, expected: Mapping[int, ExpectedTimes]) -> tuple[str, ...]:
    return (
        str(job.id),
        job.state.value,
        _job_text_cut(job.rig, 14),
        _job_text_cut(job.plan, 18),
        _jobs_table_time(job, expected.get(job.id)),
        _jobs_table_remark(job),
    )


def _jobs_table_time(job: Job, when: ExpectedTimes | None) -> str:
    if when is not None:
        return expected_span(when)
    last = job.last
    if last is None or last.ended_s is None:
        return ""
    return f"{wall_time(last.begun_s)} – {_jobs_table_clock(last.ended_s, last.begun_s)}"


def _jobs_table_clock(seconds: float, begin_s: float) -> str:
    """The time of day of an end; with the day where that is more than a day after the begin."""
    days = abs(seconds - begin_s) > DAY_S
    return time.strftime("%a %H:%M" if days else "%H:%M", time.localtime(seconds))


def _jobs_table_remark(job: Job) -> str:
    parts = []
    if job.repeat[1] > 1:
        parts.append(f"{job.repeat[0]}/{job.repeat[1]}")
    parts += job.tags
    if job.cancel_asked and job.state is JobState.RUNNING:
        parts.append("stopping")
    return " ".join(parts)


def _job_text_cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
