"""fio's documents of a file, by the fio that printed them and by the jobs that worked together.

A file may hold the statuses of one fio (``--status-interval``), what several fios printed one after
another (``fio … >> all.json``), jobs that waited for each other, and jobs of several clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labctl.fio.documents import jobs_of as jobs_to_sum
from labctl.fio.documents import number, number_at
from labctl.fio.job_values import job_sections, job_total_ios, runtime_ms
from labctl.importing.work_axes import ramp_ns, work_options
from labctl.record.timebase import NS_PER_S

Document = dict[str, Any]
Jobs = list[dict[str, Any]]

STATUS_LATE_S = 1.5
"""How much later than its runtime says a status of the same fio may come: between jobs that wait
for each other, and while workers are reaped."""

ELAPSED_U_S = 0.2
"""``elapsed`` is how long a fio ran, in seconds and rounded up (3.33)."""

_ALL_CLIENTS = "All clients"


def is_work_of_clients(document: Document) -> bool:
    """Whether a ``fio --client`` printed it."""
    return isinstance(document.get("client_stats"), list)


def entries_of(document: Document) -> Jobs:
    """Every job of a document; of clients each, and not the sum that stands behind them."""
    if not is_work_of_clients(document):
        return jobs_to_sum(document)
    alone = [one for one in document["client_stats"] if isinstance(one, dict)]
    alone = [one for one in alone if one.get("jobname") != _ALL_CLIENTS]
    return jobs_to_sum({"jobs": alone}) or jobs_to_sum(document)


def with_jobs(document: Document, jobs: Sequence[dict[str, Any]]) -> Document:
    """A document with some of its jobs alone."""
    return {**document, "client_stats" if is_work_of_clients(document) else "jobs": list(jobs)}


def worker_of(job: dict[str, Any]) -> tuple[Any, ...]:
    """What tells a job from others: on which client, of which group, its name."""
    return tuple(job.get(key) for key in ("hostname", "port", "groupid", "jobname"))


def starts_ms(jobs: Sequence[dict[str, Any]]) -> list[float]:
    """When jobs began, ms since the Unix epoch, of those that say it."""
    return [start for job in jobs if (start := number(job.get("job_start")))]


def longest_ms(jobs: Sequence[dict[str, Any]]) -> int:
    """The longest runtime of jobs."""
    return max((runtime_ms(job) for job in jobs), default=0)


def by_fio(found: Sequence[Document]) -> list[list[Document]]:
    """The documents of each fio: its statuses, and what it printed last."""
    result: list[list[Document]] = []
    for document in found:
        if result and _goes_on(result[-1][-1], document):
            result[-1].append(document)
        else:
            result.append([document])
    return result


def _goes_on(before: Document, after: Document) -> bool:
    """Whether two documents are of one fio: the same jobs, none with less than before, and as much
    later as they worked longer."""
    then, now = entries_of(before), entries_of(after)
    if [worker_of(one) for one in then] != [worker_of(one) for one in now]:
        return False
    if not any(map(_worked_ms, then)):
        return True
    if before.get("global options") != after.get("global options"):
        return False
    ran_ms = 0
    for one, other in zip(then, now, strict=True):
        started, restarted = number(one.get("job_start")), number(other.get("job_start"))
        if one.get("job options") != other.get("job options"):
            return False
        if started and restarted and started != restarted and _worked_ms(one):
            return False
        if _worked_ms(other) < _worked_ms(one) or _work_document_ios(other) < _work_document_ios(
            one
        ):
            return False
        ran_ms += _worked_ms(other) - _worked_ms(one)
    ramps_s = sum(ramp_ns(work_options(after, jobs[0])) for jobs in groups_of(after)) / NS_PER_S
    late_s = min(STATUS_LATE_S, max(0.5, max(map(_worked_ms, now)) / 2000))  # of a short job less
    return _stamp_s(after) - _stamp_s(before) < ran_ms / 1000 + ramps_s + late_s


def _worked_ms(job: dict[str, Any]) -> int:
    """Its runtime. ``job_runtime`` of a job which waits for others counts, too (3.33): without any
    I/O, and still beside the first one, whose own runtime is 0."""
    sides = [side for side in job_sections(job).values() if job_total_ios(side)]
    if sides and all(number(side.get("runtime")) == 0 for side in sides):
        return 0
    return runtime_ms(job) if sides else 0


def _stamp_s(document: Document) -> float:
    return number_at(document, "timestamp_ms") / 1000 or number_at(document, "timestamp")


def _work_document_ios(job: dict[str, Any]) -> int:
    return sum(job_total_ios(side) for side in job_sections(job).values())


def groups_of(document: Document) -> list[Jobs]:
    """Jobs that worked side by side, together. Each that waited for others begins a new one."""
    groups: dict[int, Jobs] = {}
    for job in entries_of(document):
        groups.setdefault(int(number_at(job, "groupid")), []).append(job)
    elapsed_s = max((number_at(job, "elapsed") for job in entries_of(document)), default=0.0)
    in_turn_s = sum(longest_ms(group) for group in groups.values()) / 1000
    if elapsed_s and in_turn_s > elapsed_s + ELAPSED_U_S:  # more than there was time for
        return [entries_of(document)]
    result: list[Jobs] = []
    for group in groups.values():  # new_group without stonewall: they work at the same time
        begun, before = starts_ms(group), starts_ms(result[-1]) if result else []
        if begun and before and min(begun) < max(before) + longest_ms(result[-1]) / 2:
            result[-1] += group
        else:
            result.append(list(group))
    return result


def alone(document: Document, jobs: Sequence[dict[str, Any]]) -> Document:
    """A status with those of its jobs alone."""
    workers = {worker_of(job) for job in jobs}
    return with_jobs(document, [one for one in entries_of(document) if worker_of(one) in workers])
