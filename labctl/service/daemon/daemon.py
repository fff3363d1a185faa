"""The daemon: a worker for each rig, notices and the watchdog. All its state is on disk."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labctl.config.rig import Rig
from labctl.errors import LabctlError, MissingPart, RunFailed
from labctl.installed import Extra, need
from labctl.service.daemon import systemd
from labctl.service.daemon.notices import Notices
from labctl.service.daemon.settings import ServiceSettings, service_settings
from labctl.service.daemon.worker import Worker, WorkerContext
from labctl.service.data_dir import Home, write_private
from labctl.service.locks.lock_keys import sharing_meters
from labctl.service.locks.processes import identity_of
from labctl.service.locks.rig_lock import RigBusy, RigLock, holder_of
from labctl.sinks.sink import ReportLine

ORPHANS_WITHIN_S = 45.0
"""A run whose daemon was killed ends itself; its rig is free after that."""
STALLED_AFTER_S = 120.0
"""A worker inactive for so long stops the keep-alive messages to systemd's watchdog."""
FAILED_TASK_AGAIN_S = 10.0

SideTask = Callable[["Daemon"], Coroutine[Any, Any, None]]
"""A task beside the workers (commands over MQTT, the morning summary)."""


@dataclass
class Daemon:
    """Works off the queue on ``rigs``. ``extras`` run beside the workers."""

    home: Home
    rigs: Sequence[Rig]
    runs: Path
    settings: ServiceSettings
    report_line: ReportLine
    extras: Sequence[SideTask] = ()
    workers: list[Worker] = field(default_factory=list)
    notices: Notices = field(init=False)

    def __post_init__(self) -> None:
        self.notices = Notices(
            self.home.notices,
            self.settings.notify,
            _daemon_notice_addresses(self.settings, self.report_line),
            self.report_line,
        )

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT. Raises RigBusy when a rig is taken, HomeUnusable."""
        self.home.make()
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFailed(
                f"{self.runs}: no folder for runs: {error.strerror or error}"
            ) from error
        locks: list[RigLock] = []
        for rig in self.rigs:
            locks.append(await self._lock(rig, locks))
        context = WorkerContext(
            self.home,
            self.runs.absolute(),
            self.report_line,
            self.notices,
            lambda: self.settings.idle,
        )
        turns = self._turns()
        self.workers = [
            Worker(rig, lock, context, turns.get(place))
            for place, (rig, lock) in enumerate(zip(self.rigs, locks, strict=True))
        ]
        self._write_daemon_file()
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        names = ", ".join(rig.name for rig in self.rigs)
        self.report_line(f"labctl daemon (pid {os.getpid()}) works off the queue on {names}")
        systemd.notify("READY=1", f"STATUS=works off the queue on {names}")
        beside = [
            asyncio.create_task(self._restarting(make), name=name)
            for name, make in (
                ("notices", self.notices.deliver),
                ("watchdog", self._watchdog),
                *(
                    (f"extra-{index}", lambda one=one: one(self))
                    for index, one in enumerate(self.extras)
                ),
            )
        ]
        working = [
            asyncio.create_task(self._restarting(worker.work), name=f"worker-{worker.rig.name}")
            for worker in self.workers
        ]
        await stop.wait()
        self.report_line("stopping: runs that are on are ended, their jobs go on next time")
        systemd.notify("STOPPING=1")
        for worker in self.workers:
            worker.stopping.set()
        await asyncio.gather(*working)
        self.notices.close()
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        for lock in locks:
            lock.release()
        self.report_line("stopped")

    def reload(self) -> None:
        """SIGHUP: read rigs and settings again. Runs that are on are not touched."""
        systemd.reloading()
        try:
            self.settings = service_settings()
            self.notices.kinds = frozenset(self.settings.notify)
            self.notices.addresses = _daemon_notice_addresses(self.settings, self.report_line)
        except LabctlError as error:
            self.report_line(f"settings not read again: {error}")
        for worker in self.workers:
            worker.reload()
        systemd.notify("READY=1")
        self.report_line("rigs and settings are read again")

    async def _lock(self, rig: Rig, beside: Sequence[RigLock]) -> RigLock:
        """Lock a rig; the run of a killed daemon gets the time to end itself.

        ``beside``: the locks of its other rigs, whose meters it may have, too.
        """
        deadline = time.monotonic() + ORPHANS_WITHIN_S
        while True:
            try:
                return RigLock.take(self.home, rig, "labctl daemon", beside)
            except RigBusy:
                holder = holder_of(self.home, rig)
                orphaned = (
                    holder is not None
                    and holder.what == "labctl daemon"
                    and not holder.process.alive
                )
                if not orphaned or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.2)

    def _turns(self) -> dict[int, asyncio.Lock]:
        """What those rigs take turns by, by their place, that have meters in common."""
        turns: dict[int, asyncio.Lock] = {}
        for group in sharing_meters(self.rigs):
            names = ", ".join(self.rigs[place].name for place in group)
            self.report_line(f"{names} have a meter in common: one works at a time")
            turns |= dict.fromkeys(group, asyncio.Lock())
        return turns

    async def _restarting(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a task until it returns; an unexpected exception is reported, and it is run again."""
        while True:
            try:
                await make()
                return
            except Exception as error:
                self.report_line(f"unexpected: {type(error).__name__}: {error}; going on")
                await asyncio.sleep(FAILED_TASK_AGAIN_S)

    async def _watchdog(self) -> None:
        interval_s = systemd.watchdog_interval_s()
        while interval_s is not None:
            now = time.monotonic()
            if all(now - worker.last_active_s < STALLED_AFTER_S for worker in self.workers):
                systemd.notify("WATCHDOG=1")
            await asyncio.sleep(interval_s)

    def _write_daemon_file(self) -> None:
        me = identity_of(os.getpid())
        data = {
            "pid": me.pid,
            "pid_ticks": me.ticks,
            "boot_id": me.boot_id,
            "since_s": time.time(),
            "runs": str(self.runs.absolute()),
            "rigs": {rig.name: str(Path(rig.path).absolute()) for rig in self.rigs},
        }
        try:
            write_private(self.home.daemon_file, json.dumps(data, indent=1) + "\n")
        except OSError as error:
            self.report_line(f"{self.home.daemon_file}: {error.strerror or error}")


def _daemon_notice_addresses(settings: ServiceSettings, report_line: ReportLine) -> tuple[str, ...]:
    try:
        addresses = settings.addresses()
    except (OSError, ValueError) as error:
        report_line(f"no notices: {settings.notify_file}: {error}")
        return ()
    try:
        if addresses:
            need(Extra.NOTIFY)
    except MissingPart as missing:
        report_line(f"no notices: {missing}")
        return ()
    return addresses
