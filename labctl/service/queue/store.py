"""The queue on disk: one small file a job, each replaced in one step, under one lock.

A process that changes something holds ``queue/lock``; reading needs no lock, since each file is
replaced atomically. A job exists once its file is renamed and file and folder are synced: after a
loss of power it exists or does not, never in part.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from labctl.errors import LabctlError
from labctl.record.bounded_read import read_small
from labctl.record.layout import NAME_PATTERN
from labctl.service.data_dir import Home, make_folder, write_private
from labctl.service.queue.job import (
    MOST_JOB_BYTES,
    Attempt,
    AttemptOutcome,
    Job,
    JobState,
    begun,
    cancelled,
    ended,
    may_begin,
    noted,
)

LOCK_WITHIN_S = 10.0
LOCK_RETRY_S = 0.01
MOST_JOBS = 10_000
MOST_WAITING = 2_000
MOST_FINISHED = 1_000
"""Older finished jobs are forgotten; their runs are not touched."""
MOST_ORDER_BYTES = 1 << 18

_JOB_FILE = re.compile(r"\d{6}\.json")
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
        """Make its folders when they are missing. Raises HomeUnusable."""
        home.make()
        self._jobs = home.queue / "jobs"
        self._paused = home.queue / "paused"
        for folder in (self._jobs, self._paused):
            make_folder(folder)
        self._lock_file = home.queue / "lock"
        self._order_file = home.queue / "order.json"
        self._cache: dict[str, tuple[tuple[int, int, int], Job]] = {}
        self.problems: tuple[str, ...] = ()
        """Job files that could not be read by the last call of :meth:`jobs`, in words."""

    def jobs(self) -> list[Job]:
        """Every job: by number those that run or are over, then those that wait, in their order.

        Raises QueueError.
        """
        found: list[Job] = []
        problems: list[str] = []
        cache: dict[str, tuple[tuple[int, int, int], Job]] = {}
        try:
            names = sorted(self._names())
        except OSError as error:
            raise QueueError(f"{self._jobs}: {error.strerror or error}") from error
        for name in names[-MOST_JOBS:]:
            try:
                job, stamp = self._read(name)
            except FileNotFoundError:
                continue  # forgotten just now
            except (OSError, ValueError) as error:
                problems.append(f"{self._jobs / name} cannot be used: {_first_line(error)}")
                continue
            cache[name] = (stamp, job)
            found.append(job)
        self._cache, self.problems = cache, tuple(problems)
        place = {number: index for index, number in enumerate(self._order())}

        def turn(job: Job) -> tuple[int, int]:
            waits = job.state is JobState.QUEUED
            return (place.get(job.id, len(place)) if waits else -1), job.id

        return sorted(found, key=turn)

    def job(self, number: int) -> Job:
        """One job. Raises NoSuchJob, QueueError."""
        try:
            return self._read(f"{number:06d}.json")[0]
        except FileNotFoundError:
            raise NoSuchJob(f"there is no job {number}: labctl queue list shows them") from None
        except (OSError, ValueError) as error:
            raise QueueError(f"job {number} cannot be read: {_first_line(error)}") from error

    def add(self, make: Callable[[int], Job], count: int = 1) -> list[Job]:
        """Add ``count`` jobs; ``make`` gets the number of each. Raises QueueFull, QueueError."""
        with self._changing():
            jobs = self.jobs()
            waiting = sum(not job.state.over for job in jobs)
            if waiting + count > MOST_WAITING:
                raise QueueFull(
                    f"{waiting} jobs wait and {MOST_WAITING} are the most: cancel some first"
                )
            number = self._highest()
            added = [make(number + 1 + index) for index in range(count)]
            for job in added:
                self._write(job)
            over = [job for job in jobs if job.state.over]
            for job in sorted(over, key=lambda job: job.id)[:-MOST_FINISHED]:
                self._path(job.id).unlink(missing_ok=True)
            return added

    def claim(self, rig: str, attempt: Attempt) -> Job | None:
        """Take the next job of a rig that may begin now, marked as running; None: there is none.

        Raises QueueError.
        """
        with self._changing():
            if self.is_paused(rig):
                return None
            now_s = time.time()
            mine = [job for job in self.jobs() if job.rig == rig]
            if any(job.state is JobState.RUNNING for job in mine):
                return None
            for job in mine:
                if job.state is JobState.QUEUED and may_begin(job, now_s):
                    return self._write(begun(job, attempt))
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
        with self._changing():
            self.job(number)
            waiting = [job for job in self.jobs() if job.state is JobState.QUEUED]
            moved = [job for job in waiting if job.id == number]
            if not moved:
                raise NoSuchJob(f"job {number} does not wait: only waiting jobs can be moved")
            rest = [job for job in waiting if job.id != number]
            index = min(max(position - 1, 0), len(rest))
            order = [*rest[:index], *moved, *rest[index:]]
            with self._reporting_errors():
                write_private(self._order_file, json.dumps([job.id for job in order]) + "\n")
            return order

    def pause(self, rig: str) -> None:
        """Begin no further job on a rig. Raises QueueError, ValueError (no name of a rig)."""
        with self._reporting_errors():
            write_private(self._paused / _rig_name(rig), "")

    def resume(self, rig: str) -> None:
        """Begin jobs again. Raises QueueError, ValueError (no name of a rig)."""
        with self._reporting_errors():
            (self._paused / _rig_name(rig)).unlink(missing_ok=True)

    def is_paused(self, rig: str) -> bool:
        """Whether this rig begins no further job."""
        return (self._paused / _rig_name(rig)).exists()

    def stamp(self) -> tuple[int, ...]:
        """Changes whenever something in the queue did. Raises QueueError."""
        try:
            found = [self._jobs.stat().st_mtime_ns, self._paused.stat().st_mtime_ns]
            if self._order_file.exists():
                found.append(self._order_file.stat().st_mtime_ns)
            return tuple(found)
        except OSError as error:
            raise QueueError(f"{self._jobs}: {error.strerror or error}") from error

    def _change(self, number: int, change: Callable[[Job], Job]) -> Job:
        with self._changing():
            return self._write(change(self.job(number)))

    def _path(self, number: int) -> Path:
        return self._jobs / f"{number:06d}.json"

    def _read(self, name: str) -> tuple[Job, tuple[int, int, int]]:
        """A job file. Raises OSError, ValueError when it is none."""
        path = self._jobs / name
        found = path.stat()
        stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
        known = self._cache.get(name)
        if known is not None and known[0] == stamp:
            return known[1], stamp
        try:
            job = Job.model_validate_json(read_small(path, MOST_JOB_BYTES))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            key = ".".join(map(str, first["loc"])) or "(whole file)"
            raise ValueError(f"{key}: {first['msg']}") from error
        if job.id != int(name.partition(".")[0]):
            raise ValueError(f"it says that it is job {job.id}")
        return job, stamp

    def _write(self, job: Job) -> Job:
        text = job.model_dump_json() + "\n"
        if len(text.encode()) > MOST_JOB_BYTES:
            raise QueueError(f"job {job.id} is too large to be kept")
        with self._reporting_errors():
            write_private(self._path(job.id), text)
        return job

    def _highest(self) -> int:
        """The highest number that any job file has, readable or not."""
        return max((int(name[:6]) for name in self._names()), default=0)

    def _names(self) -> list[str]:
        return [path.name for path in self._jobs.iterdir() if _JOB_FILE.fullmatch(path.name)]

    def _order(self) -> Sequence[int]:
        try:
            found = json.loads(read_small(self._order_file, MOST_ORDER_BYTES))
        except (OSError, ValueError, RecursionError):
            return ()  # none was given
        if not isinstance(found, list):
            return ()
        return tuple(number for number in found if isinstance(number, int))

    @contextlib.contextmanager
    def _reporting_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise QueueError(
                f"cannot write the queue ({error.strerror or error}): {self._jobs.parent}"
            ) from error

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """Nobody else changes the queue meanwhile. Raises QueueError."""
        with self._reporting_errors():
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self._lock_file, flags, 0o600)
        try:
            deadline = time.monotonic() + LOCK_WITHIN_S
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise QueueError(
                            f"somebody has held {self._lock_file} for {LOCK_WITHIN_S:.0f} s: "
                            "try again"
                        ) from None
                    time.sleep(LOCK_RETRY_S)
            self._cache = {}  # what is changed is read anew: file times are too coarse to show it
            yield
        finally:
            os.close(descriptor)


def _rig_name(rig: str) -> str:
    if not _RIG_NAME.fullmatch(rig):
        raise ValueError(f"{rig!r} is no name of a rig")
    return rig


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
