"""The queue on disk: a SQLite database, in which every change is made whole or not at all.

One connection a call, so that any thread and any process may call. A change is durable when its
call returns (``synchronous = EXTRA``: file and folder are synced), and one that was cut off by a
kill or a loss of power is taken back by whoever opens the database next.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from labctl.errors import LabctlError
from labctl.record.bounded_read import read_small
from labctl.record.layout import NAME_PATTERN
from labctl.service.data_dir import Home
from labctl.service.queue.job import (
    MOST_JOB_BYTES,
    Attempt,
    AttemptOutcome,
    Job,
    JobState,
    begun,
    cancelled,
    ended,
    noted,
)
from labctl.service.queue.schedule import may_begin

WITHIN_S = 10.0
"""So long a call waits for another process that changes the queue."""
MOST_WAITING = 10_000
MOST_FINISHED = 1_000
"""Older finished jobs are forgotten; their runs are not touched."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER PRIMARY KEY, rig TEXT NOT NULL, state TEXT NOT NULL, place INTEGER,
    job TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS by_state ON jobs (state, rig);
CREATE TABLE IF NOT EXISTS paused (rig TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS changes (number INTEGER NOT NULL);
"""
"""``job`` is the job as JSON, ``rig`` and ``state`` are from it. ``place`` is the order that a
person gave those that wait; without one they come last, by number."""
_OVER = tuple(state.value for state in JobState if state.over)
_COLUMNS = "id, rig, state, job"
_IN_ORDER = "ORDER BY place IS NULL, place, id"
_FILE = re.compile(r"\d{6}\.json")
_RIG_NAME = re.compile(NAME_PATTERN)


class QueueError(LabctlError):
    """The queue cannot be read or written now."""


class QueueFull(LabctlError):
    """No further job is taken."""

    exit_code = 2


class NoSuchJob(LabctlError):
    """There is no job of that number."""

    exit_code = 2


class Queue:
    """The queue of a data directory. Any number of processes may use it at once."""

    def __init__(self, home: Home) -> None:
        """Make what is missing. Raises HomeUnusable, QueueError."""
        home.make()
        self._file = home.queue / "jobs.sqlite"
        self.problems: tuple[str, ...] = ()
        """Jobs that could not be read by the last call of :meth:`jobs`, in words."""
        if not self._file.exists():
            with self._reporting_errors():
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                os.close(os.open(self._file, flags, 0o600))
        if not self._file.stat().st_size:
            with self._changing() as database:
                for statement in _SCHEMA.split(";"):
                    database.execute(statement)
                database.execute("INSERT INTO changes SELECT 0 WHERE NOT EXISTS "
                                 "(SELECT * FROM changes)")  # fmt: skip
                self._take_over(database, home.queue / "jobs")

    def jobs(self) -> list[Job]:
        """Every job: by number those that run or are over, then those that wait, in their order.

        Raises QueueError.
        """
        with self._open() as database:
            rows = database.execute(
                f"SELECT {_COLUMNS} FROM jobs ORDER BY state = 'queued', "
                "CASE WHEN state = 'queued' THEN place IS NULL END, "
                "CASE WHEN state = 'queued' THEN place END, id"
            ).fetchall()
        found: list[Job] = []
        problems: list[str] = []
        for row in rows:
            try:
                found.append(_job_of(row))
            except ValueError as error:
                problems.append(f"{self._file}: job {row[0]} cannot be used: {_first_line(error)}")
        self.problems = tuple(problems)
        return found

    def job(self, number: int) -> Job:
        """One job. Raises NoSuchJob, QueueError."""
        with self._open() as database:
            return self._read(database, number)

    def add(self, make: Callable[[int], Job], count: int = 1) -> list[Job]:
        """Add ``count`` jobs, all of them or none; ``make`` gets the number of each.

        Raises QueueFull, QueueError, and what ``make`` raises.
        """
        with self._changing() as database:
            over = f"state IN {_OVER}"
            (waiting,) = database.execute(f"SELECT count(*) FROM jobs WHERE NOT {over}").fetchone()
            if waiting + count > MOST_WAITING:
                raise QueueFull(
                    f"{waiting} jobs wait and {MOST_WAITING} are the most: cancel some first"
                )
            (highest,) = database.execute("SELECT max(id) FROM jobs").fetchone()
            added = [make((highest or 0) + 1 + index) for index in range(count)]
            rows = [(job.id, job.rig, job.state.value, _text_of(job)) for job in added]
            database.executemany("INSERT INTO jobs (id, rig, state, job) VALUES (?, ?, ?, ?)", rows)
            database.execute(
                f"DELETE FROM jobs WHERE {over} AND id NOT IN "
                f"(SELECT id FROM jobs WHERE {over} ORDER BY id DESC LIMIT ?)",
                [MOST_FINISHED],
            )
            return added

    def claim(self, rig: str, attempt: Attempt) -> Job | None:
        """Take the next job of a rig that may begin now, marked as running; None: there is none.

        Raises QueueError.
        """
        with self._changing() as database:
            now_s = time.time()
            mine = f"SELECT {_COLUMNS} FROM jobs WHERE rig = ? AND state = ?"
            if (
                database.execute("SELECT * FROM paused WHERE rig = ?", [rig]).fetchone()
                or database.execute(mine, [rig, JobState.RUNNING]).fetchone()
            ):
                return None
            for job in _intact_stored_jobs(
                database.execute(f"{mine} {_IN_ORDER}", [rig, JobState.QUEUED])
            ):
                if may_begin(job, now_s):
                    return self._write(database, begun(job, attempt))
            return None

    def note(self, number: int, **values: object) -> Job:
        """Keep more about the present attempt. Raises NoSuchJob, WrongState, QueueError."""
        return self._change(number, lambda job: noted(job, **values))

    def end(
        self,
        number: int,
        outcome: AttemptOutcome,
        reason: str,
        phases_done: int = 0,
        blameless: bool = False,
    ) -> Job:
        """The present attempt is over. Raises NoSuchJob, WrongState, QueueError."""
        return self._change(
            number,
            lambda job: ended(job, outcome, reason, time.time(), phases_done, blameless),
        )

    def cancel(self, number: int) -> Job:
        """Cancel a job. Raises NoSuchJob, WrongState, QueueError."""
        return self._change(number, cancelled)

    def move(self, number: int, position: int) -> list[Job]:
        """Put a waiting job at a place among those that wait, counted from 1; the new order.

        Raises NoSuchJob, QueueError.
        """
        with self._changing() as database:
            self._read(database, number)
            asked = f"SELECT {_COLUMNS} FROM jobs WHERE state = ? {_IN_ORDER}"
            waiting = list(_intact_stored_jobs(database.execute(asked, [JobState.QUEUED])))
            moved = [job for job in waiting if job.id == number]
            if not moved:
                raise NoSuchJob(f"job {number} does not wait: only waiting jobs can be moved")
            rest = [job for job in waiting if job.id != number]
            index = min(max(position - 1, 0), len(rest))
            order = [*rest[:index], *moved, *rest[index:]]
            database.execute("UPDATE jobs SET place = NULL")
            places = [(place, job.id) for place, job in enumerate(order)]
            database.executemany("UPDATE jobs SET place = ? WHERE id = ?", places)
            return order

    def pause(self, rig: str) -> None:
        """Begin no further job on a rig. Raises QueueError, ValueError (no name of a rig)."""
        with self._changing() as database:
            database.execute("INSERT OR IGNORE INTO paused VALUES (?)", [_rig_name(rig)])

    def resume(self, rig: str) -> None:
        """Begin jobs again. Raises QueueError, ValueError (no name of a rig)."""
        with self._changing() as database:
            database.execute("DELETE FROM paused WHERE rig = ?", [_rig_name(rig)])

    def is_paused(self, rig: str) -> bool:
        """Whether this rig begins no further job. Raises QueueError, ValueError (no name)."""
        with self._open() as database:
            values = [_rig_name(rig)]
            found = database.execute("SELECT * FROM paused WHERE rig = ?", values).fetchone()
            return found is not None

    def stamp(self) -> int:
        """A number that is another one after every change of the queue. Raises QueueError."""
        with self._open() as database:
            return int(database.execute("SELECT number FROM changes").fetchone()[0])

    def _change(self, number: int, change: Callable[[Job], Job]) -> Job:
        with self._changing() as database:
            return self._write(database, change(self._read(database, number)))

    def _read(self, database: sqlite3.Connection, number: int) -> Job:
        asked = f"SELECT {_COLUMNS} FROM jobs WHERE id = ?"
        row = database.execute(asked, [number]).fetchone()
        if row is None:
            raise NoSuchJob(f"there is no job {number}: labctl queue list shows them")
        try:
            return _job_of(row)
        except ValueError as error:
            raise QueueError(f"job {number} cannot be read: {_first_line(error)}") from error

    def _write(self, database: sqlite3.Connection, job: Job) -> Job:
        values = [job.rig, job.state.value, _text_of(job), job.id]
        database.execute("UPDATE jobs SET rig = ?, state = ?, job = ? WHERE id = ?", values)
        return job

    def _take_over(self, database: sqlite3.Connection, folder: Path) -> None:
        """Take jobs over that an older labctl left as files, in the order of their numbers."""
        for path in sorted(folder.glob("*.json")):
            with contextlib.suppress(OSError, ValueError):  # a damaged one stays where it is
                if _FILE.fullmatch(path.name):
                    job = _checked_stored_job(int(path.stem), read_small(path, MOST_JOB_BYTES))
                    values = [job.id, job.rig, job.state.value, _text_of(job)]
                    database.execute("INSERT OR IGNORE INTO jobs VALUES (?, ?, ?, NULL, ?)", values)

    @contextlib.contextmanager
    def _reporting_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise QueueError(
                f"the queue ({self._file}): {_queue_store_error_text(error)}"
            ) from error

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own. Raises QueueError."""
        with self._reporting_errors():
            database = sqlite3.connect(self._file, timeout=WITHIN_S, isolation_level=None)
            with contextlib.closing(database):
                yield database

    @contextlib.contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """Nobody else changes the queue meanwhile; all that is changed counts, or nothing does.

        Raises QueueError.
        """
        with self._open() as database:
            database.execute("PRAGMA synchronous = EXTRA")
            database.execute("BEGIN IMMEDIATE")
            before = database.total_changes
            try:
                yield database
                if database.total_changes != before:
                    database.execute("UPDATE changes SET number = number + 1")
                database.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    database.execute("ROLLBACK")
                raise


def _intact_stored_jobs(rows: Iterable[Sequence[Any]]) -> Iterator[Job]:
    """The jobs of rows; which of them are damaged, :meth:`Queue.jobs` tells."""
    for row in rows:
        with contextlib.suppress(ValueError):
            yield _job_of(row)


def _job_of(row: Sequence[Any]) -> Job:
    """The job of a row (``_COLUMNS``). Raises ValueError when it is none."""
    number, rig, state, text = row
    if not isinstance(text, str):
        raise ValueError("no text")
    job = _checked_stored_job(number, text)
    if (job.rig, job.state) != (rig, state):
        raise ValueError(f"it says that it is {job.state} on {job.rig}")
    return job


def _checked_stored_job(number: int, text: str) -> Job:
    try:
        job = Job.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"])) or "(all of it)"
        raise ValueError(f"{key}: {first['msg']}") from error
    if job.id != number:
        raise ValueError(f"it says that it is job {job.id}")
    return job


def _text_of(job: Job) -> str:
    text = job.model_dump_json()
    if len(text.encode()) > MOST_JOB_BYTES:
        raise QueueError(f"job {job.id} is too large to be kept")
    return text


def _rig_name(rig: str) -> str:
    if not _RIG_NAME.fullmatch(rig):
        raise ValueError(f"{rig!r} is no name of a rig")
    return rig


def _queue_store_error_text(error: Exception) -> str:
    """An error in the words of the system, with what to do."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    name = str(getattr(error, "sqlite_errorname", ""))
    if name.startswith("SQLITE_FULL"):
        return "No space left on the disk"
    if name.startswith("SQLITE_READONLY"):
        return "Read-only file system, or a file that may not be written"
    if name.startswith("SQLITE_BUSY"):
        return f"somebody has held it for {WITHIN_S:.0f} s: try again"
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return (
            f"it is damaged ({error}): put it aside, and take what is intact over with "
            "sqlite3 OLD .recover | sqlite3 NEW"
        )
    return str(error)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
