"""When each job may begin, and when it will begin and end as far as that can be known."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from labctl.service.queue.job import Job, JobState

BETWEEN_JOBS_S = 5.0
"""Connecting to the meters, and the report of the run before."""


@dataclass(frozen=True, slots=True)
class ExpectedTimes:
    """Seconds since the epoch; None where it cannot be known (the rig is paused, a job before it
    has no estimate). ``least``: it may well be later (a fill of unknown size)."""

    begin_s: float | None
    end_s: float | None
    least: bool = False


def may_begin(job: Job, now_s: float) -> bool:
    """Whether a queued job's time has come.

    A pause after an attempt holds for the clock that it was measured with: where that was set back
    behind the attempt's end, the pause is over.
    """
    last = job.last
    set_back = last is not None and last.ended_s is not None and now_s < last.ended_s
    return job.after_s is None or job.after_s <= now_s or set_back


def expected_schedule(
    jobs: Sequence[Job], now_s: float, paused: Collection[str]
) -> dict[int, ExpectedTimes]:
    """Begin and end of every job that runs or waits, by number. ``jobs`` in the queue's order.

    A rig takes the first job that may begin: one that has to wait for its time lets others pass.
    """
    by_rig: dict[str, list[Job]] = {}
    for job in jobs:
        by_rig.setdefault(job.rig, []).append(job)
    expected: dict[int, ExpectedTimes] = {}
    for rig, mine in by_rig.items():
        expected |= _expect_on_one_rig(mine, now_s, rig in paused)
    return expected


def _expect_on_one_rig(jobs: Sequence[Job], now_s: float, paused: bool) -> dict[int, ExpectedTimes]:
    expected: dict[int, ExpectedTimes] = {}
    free_s: float | None = now_s
    least = False
    for job in jobs:
        if job.state is JobState.RUNNING and job.last is not None:
            begin_s = job.last.begun_s
            end_s = None if job.estimate_s is None else max(begin_s + job.estimate_s, now_s)
            expected[job.id] = ExpectedTimes(begin_s, end_s, job.estimate_is_least)
            free_s, least = end_s, job.estimate_is_least
    waiting = [job for job in jobs if job.state is JobState.QUEUED]
    later = [(job.after_s or 0.0, place) for place, job in enumerate(waiting)]
    heapq.heapify(later)
    ready: list[int] = []  # places of those whose time has come; the first is the next one's
    while later or ready:
        if paused or free_s is None:
            left = [*ready, *(place for _, place in later)]
            expected |= {waiting[place].id: ExpectedTimes(None, None) for place in left}
            break
        at_s = free_s if ready else max(free_s, later[0][0])
        while later and later[0][0] <= at_s:
            heapq.heappush(ready, heapq.heappop(later)[1])
        job = waiting[heapq.heappop(ready)]
        least = least or job.estimate_is_least
        end_s = None if job.estimate_s is None else at_s + job.estimate_s
        expected[job.id] = ExpectedTimes(at_s, end_s, least)
        free_s = None if end_s is None else end_s + BETWEEN_JOBS_S
    return expected
