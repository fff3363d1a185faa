"""The state of this machine's rigs: the daemon, what runs, what waits, the last jobs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labctl.capture.meters.live_values import View
from labctl.errors import JournalError
from labctl.record.bounded_read import read_small
from labctl.record.json_values import UNREADABLE
from labctl.service.data_dir import Home
from labctl.service.locks.processes import ProcessIdentity
from labctl.service.locks.rig_lock import RigUse, rigs_in_use
from labctl.service.queue.job import Job, JobState
from labctl.service.queue.schedule import ExpectedTimes, expected_schedule
from labctl.service.queue.store import Queue
from labctl.service.runs.run_view import RunView

LAST_SHOWN = 3
_MOST_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class DaemonInfo:
    """The daemon that was started last, and whether it is alive."""

    pid: int
    alive: bool
    since_s: float
    runs: Path
    rigs: tuple[str, ...]


@dataclass(frozen=True)
class RigStatus:
    """One rig: the run that is on, its newest values, and its jobs."""

    name: str
    paused: bool
    served: bool
    """Whether a running daemon works off its queue."""
    use: RigUse | None = None
    run_view: RunView | None = None
    view: View | None = None
    running: Job | None = None
    waiting: tuple[Job, ...] = ()
    last: tuple[Job, ...] = ()

    @property
    def state(self) -> str:
        """ "running", "interrupted" (the daemon is gone, the next goes on), "paused" or "idle"."""
        if self.use is not None or (self.running is not None and self.served):
            return "running"
        if self.running is not None:
            return "interrupted"
        return "paused" if self.paused else "idle"


@dataclass(frozen=True)
class LocalStatus:
    """The daemon and every rig, at one moment."""

    daemon: DaemonInfo | None
    rigs: tuple[RigStatus, ...]
    expected: dict[int, ExpectedTimes]
    problems: tuple[str, ...] = ()


class StatusReader:
    """Reads the state of a data directory repeatedly; keeps its open runs between the calls."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._queue = Queue(home)
        self._run_views: dict[str, RunView] = {}

    def status(self) -> LocalStatus:
        """The present state. Raises QueueError."""
        jobs = self._queue.jobs()
        uses = {use.rig: use for use in rigs_in_use(self._home)}
        daemon = daemon_info(self._home)
        served = daemon.rigs if daemon is not None and daemon.alive else ()
        names = dict.fromkeys((*served, *uses, *(job.rig for job in jobs)))
        paused = {name for name in names if self._queue.is_paused(name)}
        runs = {use.run for use in uses.values()}
        self._run_views = {run: view for run, view in self._run_views.items() if run in runs}
        rigs = tuple(
            self._rig(name, jobs, uses.get(name), name in paused, name in served) for name in names
        )
        return LocalStatus(
            daemon, rigs, expected_schedule(jobs, time.time(), paused), self._queue.problems
        )

    def _rig(
        self, name: str, jobs: Sequence[Job], use: RigUse | None, paused: bool, served: bool
    ) -> RigStatus:
        mine = [job for job in jobs if job.rig == name]
        run_view = self._run_view(use)
        over = sorted(
            (job for job in mine if job.state.over),
            key=lambda job: (job.last.ended_s or 0.0) if job.last is not None else job.added_s,
        )
        return RigStatus(
            name,
            paused,
            served,
            use,
            run_view,
            None if run_view is None else run_view.view(),
            next((job for job in mine if job.state is JobState.RUNNING), None),
            tuple(job for job in mine if job.state is JobState.QUEUED),
            tuple(over[-LAST_SHOWN:]),
        )

    def _run_view(self, use: RigUse | None) -> RunView | None:
        if use is None:
            return None
        if use.run not in self._run_views:
            try:
                self._run_views[use.run] = RunView(Path(use.run))
            except JournalError:
                return None  # its directory was deleted, or does not exist yet
        return self._run_views[use.run]


def daemon_info(home: Home) -> DaemonInfo | None:
    """The daemon that was started last on a data directory."""
    try:
        data: dict[str, Any] = json.loads(read_small(home.daemon_file, _MOST_BYTES))
        process = ProcessIdentity(int(data["pid"]), int(data["pid_ticks"]), str(data["boot_id"]))
        since_s, runs = float(data["since_s"]), Path(str(data["runs"]))
        return DaemonInfo(process.pid, process.alive, since_s, runs, tuple(map(str, data["rigs"])))
    except (OSError, *UNREADABLE):
        return None
