"""Periodic tasks of the daemon: the morning summary, and the check of free disk space."""

from __future__ import annotations

import asyncio
import shutil
import time
from typing import TYPE_CHECKING

from labctl.record.timebase import DAY_S
from labctl.service.daemon.notices import NoticeKind
from labctl.service.queue.store import Queue
from labctl.service.runs.retention import bytes_below
from labctl.service.status import morning

if TYPE_CHECKING:
    from labctl.service.daemon.daemon import Daemon

CHECK_EVERY_S = 20.0
DISK_EVERY_S = 600.0
LEAST_FREE_BYTES = 2_000_000_000
"""A night of four channels at 50 readings a second takes 0.1 GB: docs/overnight.md."""


async def send_morning_summaries(daemon: Daemon) -> None:
    """Send the summary of the last day, each day at the time of the site's settings."""
    queue = Queue(daemon.home)
    clock, due_s = None, 0.0
    while True:
        before, clock, now_s = clock, daemon.settings.morning, time.time()
        stepped = abs(due_s - now_s) > 2 * DAY_S  # the wall clock
        if clock is not None and (clock != before or stepped):
            due_s = next_time_s(clock, now_s)
        if clock is not None and now_s >= due_s:
            due_s = next_time_s(clock, now_s)
            jobs = await asyncio.to_thread(queue.jobs)
            found = await asyncio.to_thread(morning.morning, jobs, daemon.runs, now_s - DAY_S)
            daemon.notices.add(
                NoticeKind.MORNING, morning.title(found), "\n".join(morning.lines(found))
            )
        await asyncio.sleep(CHECK_EVERY_S)


async def watch_disk(daemon: Daemon) -> None:
    """Warn once when runs take more than the budget, or the disk is nearly full."""
    warned = False
    while True:
        trouble = await asyncio.to_thread(_disk_trouble, daemon)
        if trouble and not warned:
            daemon.report_line(trouble)
            daemon.notices.add(NoticeKind.DISK, "labctl: little room for runs", trouble)
        warned = bool(trouble)
        await asyncio.sleep(DISK_EVERY_S)


def _disk_trouble(daemon: Daemon) -> str:
    runs, idle = daemon.runs, daemon.home.idle
    try:
        free = shutil.disk_usage(runs).free
        if free < LEAST_FREE_BYTES:
            return f"{runs}: {free / 1e9:.1f} GB are free; labctl tidy makes room"
        budget = daemon.settings.disk_budget
        if budget is None:
            return ""
        taken, beside = bytes_below(runs), bytes_below(idle)
        if taken + beside > budget:
            return (
                f"{runs}: runs take {taken / 1e9:.1f} GB and idle records {beside / 1e9:.1f} GB, "
                f"the budget is {budget / 1e9:.1f} GB; labctl tidy makes room (for idle records "
                f"with --runs {idle})"
            )
    except OSError as error:
        return f"{runs}: {error.strerror or error}"
    return ""


def next_time_s(clock: str, now_s: float) -> float:
    """The next moment at which local clocks show ``clock`` (HH:MM), seconds since the epoch."""
    hour, _, minute = clock.partition(":")
    then = time.localtime(now_s)
    for days in (0, 1, 2):
        moment = time.mktime(
            (then.tm_year, then.tm_mon, then.tm_mday + days, int(hour), int(minute), 0, 0, 0, -1)
        )
        if moment > now_s:
            return moment
    raise ValueError(f"{clock} never comes")
