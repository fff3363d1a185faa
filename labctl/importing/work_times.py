"""When a phase of fio's began and ended, and how sure that is.

fio says when a job began only from 3.36 on (``job_start``), behind its ``ramp_time``: there it
begins to count anew, and takes the time again (3.42: ``reset_all_stats``). Otherwise a phase ends
at the moment that the document was printed, and began its runtime earlier; with
``--status-interval`` every document but the last gives the begin, as the difference of its own two
times. Logs with times since 1970 bound both from within.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labctl.fio.documents import number
from labctl.fio.status import status_of
from labctl.importing.work_axes import fio_mistake, ramp_ns, work_options
from labctl.importing.work_documents import is_work_of_clients, longest_ms, starts_ms
from labctl.printable import printable
from labctl.record.timebase import NS_PER_MS, NS_PER_S

STAMP_U_NS = 2 * NS_PER_MS
"""fio cuts its times to milliseconds, and reads its two clocks within about one of each other."""

PRINTED_AFTER_NS = 100 * NS_PER_MS
PRINTED_U_NS = 150 * NS_PER_MS
"""How long after its last I/O fio prints its last document: between nothing and a quarter second,
while it reaps its workers (50 to 80 ms with 1 and 4 workers of fio 3.33)."""

WHOLE_SECOND_NS = NS_PER_S // 2
"""Half of the resolution of ``timestamp``, where there is no ``timestamp_ms``."""

BY_END = "its end less its runtime"

FEWEST_FOR_RATE = 4
"""Statuses from which it is seen how fast fio's clock runs."""

CLIENT_AHEAD_NS = 1500 * NS_PER_MS
"""A client's first job begins between nothing and three seconds behind the whole second that its
document has: 1.2 to 1.6 s of fio 3.33 and 3.42 with the server on the same machine."""

BETWEEN_JOBS_NS = 150 * NS_PER_MS
"""Half of how long fio may take from one job to the next that waited for it."""


def printed_ns(file: Path, document: dict[str, Any]) -> tuple[int, int]:
    """When a document was printed, ns since the Unix epoch, and what is unknown of it."""
    in_ms, in_s = number(document.get("timestamp_ms")), number(document.get("timestamp"))
    if in_ms:
        return int(in_ms) * NS_PER_MS, STAMP_U_NS
    if in_s:
        return int(in_s) * NS_PER_S + WHOLE_SECOND_NS, WHOLE_SECOND_NS
    version = printable(str(document.get("fio version", "this fio")))
    raise fio_mistake(file, f"{version} prints no time: when it worked is not known (fio 3 does)")


@dataclass(frozen=True, slots=True)
class When:
    """Begin and end of a phase, ns since the Unix epoch; half-width of their doubt; in words, how
    they are known."""

    begin_ns: int
    end_ns: int
    u_ns: int
    how: str


def times_of(
    file: Path,
    document: dict[str, Any],
    groups: Sequence[Sequence[dict[str, Any]]],
    printed: tuple[int, int],
    statuses: Sequence[Sequence[dict[str, Any]]],
    bounds_ns: Sequence[tuple[int, int] | None],
) -> list[When]:
    """When each group of jobs worked.

    ``statuses``: of each, what was printed on the way; ``bounds_ns``: its earliest and its latest
    begin, as far as its logs say it.

    Raises ConfigurationError where a group did nothing.
    """
    printed_ns, printed_u_ns = printed
    lengths = [longest_ms(jobs) * NS_PER_MS for jobs in groups]
    for jobs, length in zip(groups, lengths, strict=True):
        if not length:
            name = printable(str(jobs[0].get("jobname", "a job")))
            raise fio_mistake(file, f"{name} says no runtime, or did nothing")
    starts = [starts_ms(jobs) for jobs in groups]
    near_ms = 400 * 86_400_000  # farther: of a clock that does not count since 1970
    if all(own and abs(printed_ns / NS_PER_MS - min(own)) < near_ms for own in starts):
        clients = is_work_of_clients(document)
        return [
            _from_starts(own, length)
            if clients
            else _from_start(round(min(own) * NS_PER_MS), length, printed_ns, printed_u_ns)
            for own, length in zip(starts, lengths, strict=True)
        ]
    if is_work_of_clients(document):
        ramps = [ramp_ns(work_options(document, jobs[0])) for jobs in groups]
        return _behind_client(printed_ns - printed_u_ns, lengths, ramps, bounds_ns)
    end_ns, u_ns = printed_ns - PRINTED_AFTER_NS, printed_u_ns + PRINTED_U_NS
    how = BY_END
    found = []
    for at in reversed(range(len(groups))):
        when = _by_statuses(statuses[at], lengths[at]) or When(
            end_ns - lengths[at], end_ns, u_ns, how
        )
        when = _narrowed_work_times(when, bounds_ns[at])
        found.append(when)
        end_ns = when.begin_ns - ramp_ns(work_options(document, groups[at][0])) - BETWEEN_JOBS_NS
        u_ns = when.u_ns + BETWEEN_JOBS_NS
        how = "the end of all jobs less their runtimes"
    return found[::-1]


def _by_statuses(statuses: Sequence[dict[str, Any]], length_ns: int) -> When | None:
    """By the documents that were printed while the jobs worked."""
    each = [(number(one.get("timestamp_ms")), status_of(one)) for one in statuses]
    points = [
        (int(at), one.runtime_ms)
        for at, one in each  # a job that waits for others counts its runtime, without any I/O
        if at and one.total_ios and 0 < one.runtime_ms * NS_PER_MS < length_ns
    ]
    if not points:
        return None
    at_ms, ran_ms = np.array(points, dtype=np.int64).T
    since_ms = at_ms - at_ms[0]
    rate, rate_u = 1.0, 0.0
    if len(points) >= FEWEST_FOR_RATE:
        fit, covariance = np.polyfit(since_ms, ran_ms, 1, cov=True)
        u = 4 * math.sqrt(float(covariance[0, 0])) + 4 / float(np.ptp(since_ms))
        if abs(float(fit[0]) - 1.0) > u:
            rate, rate_u = float(fit[0]), u
    begins = since_ms - ran_ms / rate
    begin_ns = int(at_ms[0]) * NS_PER_MS + round(float(np.median(begins)) * NS_PER_MS)
    u_ns = STAMP_U_NS + round(float(np.ptp(begins)) / 2 * NS_PER_MS)
    u_ns += round(length_ns * rate_u / 2)
    end_ns = begin_ns + round(length_ns / rate)
    return When(begin_ns, end_ns, u_ns, "the times of its statuses")


def _from_start(begin_ns: int, length_ns: int, printed_ns: int, printed_u_ns: int) -> When:
    """By ``job_start``. A job that counts more time than there was until it was printed has a clock
    of its own: its end is then the printed one."""
    end_ns = begin_ns + length_ns
    over_ns = end_ns - printed_ns - printed_u_ns
    if over_ns > STAMP_U_NS:
        u_ns = printed_u_ns + PRINTED_U_NS
        return When(begin_ns, printed_ns - PRINTED_AFTER_NS, u_ns, "job_start and the printed end")
    return When(begin_ns, end_ns, STAMP_U_NS, "job_start")


def _from_starts(starts: Sequence[float], length_ns: int) -> When:
    """By the ``job_start`` of clients, each by the clock of its machine."""
    low, high = round(min(starts) * NS_PER_MS), round(max(starts) * NS_PER_MS)
    begin_ns, u_ns = (low + high) // 2, STAMP_U_NS + (high - low) // 2
    return When(begin_ns, begin_ns + length_ns, u_ns, "job_start, by the clocks of the clients")


def _behind_client(
    stamp_ns: int,
    lengths: Sequence[int],
    ramps: Sequence[int],
    bounds_ns: Sequence[tuple[int, int] | None],
) -> list[When]:
    """A ``fio --client`` prints the second in which it was started itself."""
    begin_ns, u_ns = stamp_ns + CLIENT_AHEAD_NS, CLIENT_AHEAD_NS
    found = []
    for length, ramp, bounds in zip(lengths, ramps, bounds_ns, strict=True):
        begin_ns += ramp
        when = When(begin_ns, begin_ns + length, u_ns, "the second in which the client was started")
        found.append(_narrowed_work_times(when, bounds))
        begin_ns = found[-1].end_ns + BETWEEN_JOBS_NS
        u_ns = found[-1].u_ns + BETWEEN_JOBS_NS
    return found


def _narrowed_work_times(when: When, bounds_ns: tuple[int, int] | None) -> When:
    """The same, closer where its logs say so. Bounds that contradict it are of other logs."""
    if bounds_ns is None:
        return when
    low = max(bounds_ns[0] - STAMP_U_NS, when.begin_ns - when.u_ns)
    high = min(bounds_ns[1] + STAMP_U_NS, when.begin_ns + when.u_ns)
    u_ns = (high - low + 1) // 2
    if u_ns < 0 or u_ns >= when.u_ns:
        return when
    begin_ns = (low + high) // 2
    return When(begin_ns, begin_ns + when.end_ns - when.begin_ns, u_ns, "the times of its logs")
