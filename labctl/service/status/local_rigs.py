"""How things stand on this machine: daemon, rigs, what runs, what waits, what came of the rest."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labctl.capture.meters.live_values import View
from labctl.errors import JournalError
from labctl.service.data_dir import Home, find_home, read_small
from labctl.service.locks.processes import ProcessIdentity
from labctl.service.locks.rig_lock import RigUse, rigs_in_use
from labctl.service.queue.job import Job, JobState
from labctl.service.queue.schedule import Expected, expect
from labctl.service.queue.store import Queue
from labctl.service.runs.run_view import RunView

LAST_SHOWN = 3
_MOST_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class DaemonInfo:
    """The daemon that was started last, and whether it still is there."""

    pid: int
    alive: bool
    since_s: float
    runs: Path
    rigs: tuple[str, ...]


@dataclass(frozen=True)
class RigStatus:
    """One rig. ``run`` is the run that is on, ``view`` the look at it."""

    name: str
    paused: bool
    served: bool
    """Whether a daemon works off its queue."""
    use: RigUse | None = None
    look: RunView | None = None
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
    """Everything, at one moment."""

    daemon: DaemonInfo | None
    rigs: tuple[RigStatus, ...]
    expected: dict[int, Expected]
    problems: tuple[str, ...] = ()


class StatusReader:
    """Looks at a data directory again and again; keeps the runs open that it looks at."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._queue = Queue(home)
        self._looks: dict[str, RunView] = {}

    def status(self) -> LocalStatus:
        """How things stand now. Raises QueueError."""
        jobs = self._queue.jobs()
        uses = {use.rig: use for use in rigs_in_use(self._home)}
        daemon = daemon_info(self._home)
        served = daemon.rigs if daemon is not None and daemon.alive else ()
        names = dict.fromkeys((*served, *uses, *(job.rig for job in jobs)))
        paused = {name for name in names if self._queue.is_paused(name)}
        self._looks = {key: look for key, look in self._looks.items() if key in _runs(uses)}
        rigs = tuple(
            self._rig(name, jobs, uses.get(name), name in paused, name in served) for name in names
        )
        return LocalStatus(daemon, rigs, expect(jobs, time.time(), paused), self._queue.problems)

    def _rig(
        self, name: str, jobs: Sequence[Job], use: RigUse | None, paused: bool, served: bool
    ) -> RigStatus:
        mine = [job for job in jobs if job.rig == name]
        look = self._look(use)
        over = sorted(
            (job for job in mine if job.state.over),
            key=lambda job: (job.last.ended_s or 0.0) if job.last is not None else job.added_s,
        )
        return RigStatus(
            name,
            paused,
            served,
            use,
            look,
            None if look is None else look.view(),
            next((job for job in mine if job.state is JobState.RUNNING), None),
            tuple(job for job in mine if job.state is JobState.QUEUED),
            tuple(over[-LAST_SHOWN:]),
        )

    def _look(self, use: RigUse | None) -> RunView | None:
        if use is None:
            return None
        if use.run not in self._looks:
            try:
                self._looks[use.run] = RunView(Path(use.run))
            except JournalError:
                return None  # its directory is gone, or not there yet
        return self._looks[use.run]


def daemon_info(home: Home) -> DaemonInfo | None:
    """The daemon that was started last on a data directory."""
    try:
        data: dict[str, Any] = json.loads(read_small(home.daemon_file, _MOST_BYTES))
        process = ProcessIdentity(int(data["pid"]), int(data["pid_ticks"]), str(data["boot_id"]))
        since_s, runs = float(data["since_s"]), Path(str(data["runs"]))
        return DaemonInfo(process.pid, process.alive, since_s, runs, tuple(map(str, data["rigs"])))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _runs(uses: dict[str, RigUse]) -> set[str]:
    return {use.run for use in uses.values()}


def runs_root(runs: Path | None) -> Path:
    """Where the daemon's runs are."""
    if runs is not None:
        return runs
    home = find_home()
    daemon = daemon_info(home)
    return daemon.runs if daemon is not None else home.runs
