"""When each job will begin and end, as far as it can be known."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from labctl.service.queue.job import Job, JobState

BETWEEN_JOBS_S = 5.0
"""Connecting to the meters, and the report of the run before."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Seconds since the epoch; None where it cannot be known (the rig is paused, a job before it
    has no estimate). ``least``: it may well be later (a fill of unknown size)."""

    begin_s: float | None
    end_s: float | None
    least: bool = False


def expect(jobs: Sequence[Job], now_s: float, paused: Collection[str]) -> dict[int, Expected]:
    """Begin and end of every job that runs or waits, by number. ``jobs`` in the queue's order.

    A rig takes the first job that may begin: one that has to wait for its time lets others pass.
    """
    expected: dict[int, Expected] = {}
    for rig in {job.rig for job in jobs}:
        mine = [job for job in jobs if job.rig == rig]
        expected |= _expect_on_one_rig(mine, now_s, rig in paused)
    return expected


def _expect_on_one_rig(jobs: Sequence[Job], now_s: float, paused: bool) -> dict[int, Expected]:
    expected: dict[int, Expected] = {}
    free_s: float | None = now_s
    least = False
    for job in jobs:
        if job.state is JobState.RUNNING and job.last is not None:
            begin_s = job.last.begun_s
            end_s = None if job.estimate_s is None else max(begin_s + job.estimate_s, now_s)
            expected[job.id] = Expected(begin_s, end_s, job.estimate_is_least)
            free_s, least = end_s, job.estimate_is_least
    waiting = [job for job in jobs if job.state is JobState.QUEUED]
    while waiting:
        if paused or free_s is None:
            expected |= {job.id: Expected(None, None) for job in waiting}
            break
        at_s = max(free_s, min(job.after_s or 0.0 for job in waiting))
        job = next(job for job in waiting if (job.after_s or 0.0) <= at_s)
        waiting.remove(job)
        least = least or job.estimate_is_least
        end_s = None if job.estimate_s is None else at_s + job.estimate_s
        expected[job.id] = Expected(at_s, end_s, least)
        free_s = None if end_s is None else end_s + BETWEEN_JOBS_S
    return expected
