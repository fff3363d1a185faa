"""What fio printed, as phases: when each began and ended, what it did, and how sure that is.

Jobs that waited for each other (``stonewall``) are phases one after another, never a sum.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from labctl.errors import ConfigurationError, Mistake
from labctl.fio.documents import documents, jobs_of
from labctl.fio.status import status_of
from labctl.importing.work import Work
from labctl.importing.work_axes import axes_of, fio_mistake, log_window_ms, work_options
from labctl.importing.work_documents import (
    Document,
    alone,
    by_fio,
    groups_of,
    with_jobs,
)
from labctl.importing.work_logs import (
    LogFiles,
    bounds_ns,
    fitting,
    is_log,
    logs_of,
    traces,
)
from labctl.importing.work_order import in_turn
from labctl.importing.work_times import printed_ns, times_of
from labctl.printable import printable

SUFFIXES = (".json", ".out", ".txt")
"""Files of a folder that are looked into; a file that is named may be called anything."""

LARGEST_FILE = 1 << 28
"""Bytes of a file: half a day of statuses each second."""


def read_workload(paths: Sequence[Path]) -> tuple[Work, ...]:
    """The phases of files, and of all files in folders that fio wrote, in the order of their time.

    Raises ConfigurationError, with every mistake: what is no output of fio, says no time, or worked
    at the same time as another.
    """
    mistakes: list[Mistake] = []
    found: list[Work] = []
    files = list(_workload_files(paths, mistakes))
    there = LogFiles(file for file, _ in files if is_log(file))
    for file, named in files:
        if is_log(file):
            continue
        try:
            found += _workload_of_file(file, named, there)
        except ConfigurationError as error:
            mistakes += error.mistakes
    if not mistakes and not found:
        where = ", ".join(map(str, paths))
        mistakes.append(Mistake(where, "fio", None, "there is no output of fio in it"))
    if mistakes:
        raise ConfigurationError(mistakes)
    return in_turn(found)


def is_fio_output(file: Path) -> bool:
    """Whether a file begins as what fio prints as JSON."""
    with file.open("rb") as stream:
        return b'"fio version"' in stream.read(4096)


def _workload_files(paths: Iterable[Path], mistakes: list[Mistake]) -> Iterator[tuple[Path, bool]]:
    """Each file, and whether it was named itself."""
    for path in paths:
        if path.is_dir():
            files = sorted(path.rglob("*"))
            known = (one for one in files if one.suffix in SUFFIXES or is_log(one))
            yield from ((one, False) for one in known if one.is_file())
        elif path.is_file():
            yield path, True
        else:
            mistakes.append(Mistake(str(path), "fio", None, "there is no such file or folder"))


def _workload_of_file(file: Path, named: bool, there: LogFiles) -> list[Work]:
    if file.stat().st_size > LARGEST_FILE:
        raise fio_mistake(file, "is larger than 256 MB: no output of fio is")
    try:
        text = file.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise fio_mistake(file, error.strerror or str(error)) from error
    found = [one for one in documents(text) if jobs_of(one)]
    if not found:
        if not named:
            return []
        empty = "is empty" if not text.strip() else "has no document of fio"
        raise fio_mistake(file, f"{empty}: run fio with --output-format=json (or json+)")
    fios = by_fio(found)
    works: list[Work] = []
    for own in fios:
        works += _works_of(file, own, there, whole=len(fios) == 1)
    return works


def _works_of(
    file: Path, found: Sequence[Document], there: LogFiles, *, whole: bool
) -> Iterator[Work]:
    """The phases of one fio, which printed these documents. ``whole``: the file has no others."""
    last = found[-1]
    groups = groups_of(last)
    statuses = [[alone(one, jobs) for one in found[:-1]] for jobs in groups]
    ends = [status_of(with_jobs(last, jobs)) for jobs in groups]
    axes = [axes_of(file, last, jobs) for jobs in groups]
    notes: list[str] = []
    logs = logs_of(file, last, groups, there, notes)
    windows_ms = [log_window_ms(work_options(last, jobs[0])) for jobs in groups]
    bounds = [
        bounds_ns(own, end.runtime_ms, window_ms)
        for own, end, window_ms in zip(logs, ends, windows_ms, strict=True)
    ]
    times = times_of(file, last, groups, printed_ns(file, last), statuses, bounds)
    several = len(groups) > 1
    for number, (jobs, end, when) in enumerate(zip(groups, ends, times, strict=True)):
        document = with_jobs(last, jobs) if several else last
        name = ", ".join(dict.fromkeys(str(job.get("jobname", number)) for job in jobs))
        seconds = max(end.runtime_ms, 1) / 1000
        rates = {side: one.ios / seconds for side, one in end.totals.items()}
        own = fitting(logs[number], when, end.runtime_ms, rates, notes)
        yield Work(
            file=file,
            place=str(file) if whole and not several else f"{file}, {printable(name)}",
            **axes[number],
            begin_ns=when.begin_ns,
            end_ns=when.end_ns,
            boundary_u_ns=when.u_ns,
            timed_by=when.how,
            output=None if whole and not several else json.dumps(document, indent=1) + "\n",
            runtime_ms=end.runtime_ms,
            total_ios=end.total_ios,
            error=", ".join(f"fio error {code}" for code in end.errors),
            statuses=(*map(status_of, statuses[number]), end) if statuses[number] else (),
            logs=own.files,
            traces=traces(own, when.begin_ns),
            notes=tuple(notes),
        )
        notes.clear()
