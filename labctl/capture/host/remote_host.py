"""The drive's host behind ssh, for a whole run: connected, watched, and connected again.

A lost connection ends every fio there (the watchdog of :mod:`labctl.capture.host.keeper` sees to
it). The loss is recorded as ``host_lost``; a new connection is tried with growing waits, and
recorded as ``host_back``. A caller that starts a process waits for it, for a limited time.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instruments.driver_kit.counter_polling import CounterPolling
from instruments.reading import ClockPair
from labctl.capture.host.clock import ClockSample, HostWallClock
from labctl.capture.host.drive_host import DriveHost, HostMoment, LocalHost
from labctl.capture.host.keeper import Keeper, RemoteProcess
from labctl.capture.host.load import LoadSample
from labctl.capture.host.machine import Machine
from labctl.capture.host.ssh import (
    LOCAL,
    HostAway,
    HostUnreachable,
    SharedConnection,
    SshMachine,
)
from labctl.errors import JournalError, RunFailed
from labctl.record.events import EventKind
from labctl.record.journal import Journal
from labctl.record.layout import HOST_INSTRUMENT
from labctl.record.timebase import NS_PER_S, Timebase

FIRST_RETRY_S = 0.5
LAST_RETRY_S = 8.0
BACK_WITHIN_S = 600.0
"""A run waits this long for a lost host: time for it to restart. The firmware of a server alone may
take minutes."""
SAMPLE_EVERY_S = 2.0
SAMPLES_A_ROUND = 3
FIRST_ROUNDS = 12
"""Rounds of samples of the clock in quick succession, when a connection begins and at the end."""


TOKEN_BYTES = 6
TOKEN = re.compile(rf"[0-9a-f]{{{2 * TOKEN_BYTES}}}")
"""A token names a folder on the host, which is removed: a record may come from anywhere, so nothing
else is taken for one."""


@dataclass(frozen=True, slots=True)
class HostSession:
    """What a resumed run needs of its host: the token there, and how many connections and clock
    epochs there may have been."""

    token: str
    connections: int
    epochs: int


class RemoteHost:
    """A host behind ssh. What happens before :meth:`record_to` is recorded then."""

    def __init__(
        self,
        destination: str,
        now_ns: Callable[[], int],
        tools: str = "",
        before: HostSession | None = None,
    ) -> None:
        """``before``: what an earlier process of the same run left there is ended by this one."""
        before = before or HostSession(secrets.token_hex(TOKEN_BYTES), 0, 0)
        self._ssh = SshMachine(destination, self._shared, tools)
        self.machine: Machine = self._ssh
        self._loop: asyncio.AbstractEventLoop | None = None
        self._destination = destination
        self._now_ns = now_ns
        self._clock = HostWallClock(self._on_pair, self._on_event, before.epochs)
        self._token = before.token
        self._sockets = Path(tempfile.mkdtemp(prefix="labctl-ssh-"))
        self._connections = before.connections
        self._processes = 0
        self._keeper: Keeper | None = None
        self._back = asyncio.Event()
        self._gone: RunFailed | None = None
        self._task: asyncio.Task[None] | None = None
        self._journal: Journal | None = None
        self._record_event: Callable[..., None] | None = None
        self._pairs: list[ClockPair] = []
        self._events: list[tuple[str, int, dict[str, Any]]] = []

    @property
    def boot_id(self) -> str:
        """See :class:`DriveHost`."""
        return self._keeper.boot_id if self._keeper is not None else ""

    async def connect(self) -> None:
        """Connect and measure the clock. Raises HostUnreachable, RunFailed."""
        self._loop = asyncio.get_running_loop()
        await self._connect()
        self._task = asyncio.create_task(self._keep(), name="drive-host")

    def record_to(self, journal: Journal, on_event: Callable[..., None]) -> None:
        """From now on samples of the clock go to ``journal`` and events to ``on_event``."""
        self._journal, self._record_event = journal, on_event
        on_event(EventKind.HOST_SESSION, token=self._token)
        for kind, t_ns, data in self._events:
            on_event(kind, t_ns, **data)
        self._record(self._pairs)
        self._events, self._pairs = [], []

    async def wait_back(self) -> None:
        """See :class:`DriveHost`."""
        while True:
            await self._back.wait()
            if self._gone is not None:
                raise self._gone
            assert self._keeper is not None
            if await self._keeper.sample_clock() is not None and not self._keeper.closed.is_set():
                return
            await asyncio.sleep(FIRST_RETRY_S)

    async def spawn(
        self, argv: Sequence[str], directory: Path, files: Sequence[str] = ()
    ) -> RemoteProcess:
        """See :class:`DriveHost`."""
        await self.wait_back()
        assert self._keeper is not None
        self._processes += 1
        paths = [directory / name for name in files]
        return await RemoteProcess.start(self._keeper, f"p{self._processes}", argv, paths)

    def moment_of(self, wall_ns: int) -> HostMoment:
        """See :class:`DriveHost`."""
        return self._clock.moment_of(wall_ns)

    async def sample_load(self) -> LoadSample | None:
        """See :class:`DriveHost`."""
        return None if self._keeper is None else await self._keeper.load()

    def kill(self) -> None:
        """See :class:`DriveHost`. Without a connection, the watchdog over there does it."""
        if self._keeper is not None:
            self._keeper.order("kill-all")
        self._ssh.kill()

    async def close(self) -> None:
        """See :class:`DriveHost`. The clock is measured once more, if the host is there."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        keeper, self._keeper = self._keeper, None
        try:
            if keeper is not None:
                if not keeper.closed.is_set():
                    with contextlib.suppress(RunFailed):  # its clock cannot be read any more
                        await self._sample(keeper, FIRST_ROUNDS // 2)
                await keeper.close()
        finally:
            self._ssh.kill(for_good=True)
            shutil.rmtree(self._sockets, ignore_errors=True)

    def _shared(self) -> SharedConnection | None:
        """The connection for programs that end by themselves; None while it is lost."""
        keeper, loop = self._keeper, self._loop
        if keeper is None or loop is None or keeper.closed.is_set():
            return None

        def kill(name: str) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and the keeper with it
                loop.call_soon_threadsafe(keeper.order, "kill", name)
                loop.call_soon_threadsafe(keeper.order, "drop", name)

        return SharedConnection(keeper.control, keeper.directory, kill)

    async def _connect(self) -> None:
        self._connections += 1
        control = self._sockets / str(self._connections)
        keeper = await Keeper.start(
            self._destination, control, self._token, self._connections, self._now_ns
        )
        try:
            self._clock.booted(keeper.boot_id)
            await self._sample(keeper, FIRST_ROUNDS)
            if keeper.closed.is_set():
                raise HostUnreachable(keeper.reason)
        except BaseException:
            await keeper.close()
            raise
        self._keeper = keeper
        self._back.set()

    async def _keep(self) -> None:
        """Watch the connection until :meth:`close`; an error here is raised in whoever waits."""
        try:
            await self._keep_connected()
        except Exception as error:
            self._gone = RunFailed(
                f"host {self._destination}: its connection is not watched any more: {error!r}"
            )
            self._back.set()

    async def _keep_connected(self) -> None:
        """Sample the clock while the host is connected; connect again when it is lost."""
        while self._keeper is not None:
            await self._follow(self._keeper)
            lost_ns = self._now_ns()
            self._back.clear()
            boot_id = self._keeper.boot_id
            self._on_event(EventKind.HOST_LOST, host=self._destination, reason=self._keeper.reason)
            await self._connect_again(lost_ns)
            if self._gone is not None:
                return
            data = {"gap_s": round((self._now_ns() - lost_ns) / NS_PER_S, 3)}
            rebooted = self._keeper.boot_id != boot_id
            self._on_event(EventKind.HOST_BACK, host=self._destination, rebooted=rebooted, **data)

    async def _connect_again(self, lost_ns: int) -> None:
        """Try until it is connected or has been away for too long, whatever an attempt raises."""
        retry_s = FIRST_RETRY_S
        while not self._back.is_set():
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, LAST_RETRY_S)
            try:
                await self._connect()
            except Exception as error:
                if self._now_ns() - lost_ns > BACK_WITHIN_S * NS_PER_S:
                    words = str(error) if isinstance(error, RunFailed) else repr(error)
                    self._gone = HostAway(f"not back within {BACK_WITHIN_S:.0f} s: {words}")
                    self._back.set()

    async def _follow(self, keeper: Keeper) -> None:
        phasing = CounterPolling(SAMPLE_EVERY_S)
        while not keeper.closed.is_set():
            sample = await self._sample(keeper)
            wait_s = SAMPLE_EVERY_S
            if sample is not None and sample.tick_ns >= NS_PER_S:
                # A clock of whole seconds is known best just before its value changes.
                count = sample.wall_ns // sample.tick_ns
                phasing.add_poll(count, sample.tick_ns, sample.sent_ns, sample.received_ns)
                now_ns = self._now_ns()
                wait_s = (phasing.next_poll_ns(now_ns, sample.tick_ns) - now_ns) / NS_PER_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await keeper.closed.wait()

    async def _sample(self, keeper: Keeper, rounds: int = 1) -> ClockSample | None:
        """Sample the clock and take the shortest sample of each round; gives the last taken."""
        best = None
        for _ in range(rounds):
            samples = []
            for _ in range(SAMPLES_A_ROUND):
                sample = await keeper.sample_clock()
                if keeper.closed.is_set():
                    return None
                samples += [sample] if sample is not None else []
                if sample is not None and sample.tick_ns >= NS_PER_S:
                    break
            best = min(samples, key=lambda sample: sample.round_trip_ns, default=None)
            if best is None:
                raise RunFailed(
                    f"host {self._destination}: its clock cannot be read (date +%s says no number)"
                )
            self._clock.take(best)
        return best

    def _on_pair(self, pair: ClockPair) -> None:
        if self._journal is None:
            self._pairs.append(pair)
        else:
            self._record([pair])

    def _record(self, pairs: Sequence[ClockPair]) -> None:
        assert self._journal is not None
        with contextlib.suppress(JournalError):  # reported once, by the journal
            self._journal.clock_pairs(HOST_INSTRUMENT, pairs)

    def _on_event(self, kind: EventKind, **data: Any) -> None:
        if self._record_event is None:
            self._events.append((kind, self._now_ns(), data))
        else:
            self._record_event(kind, self._now_ns(), **data)


def host_at(
    where: str, timebase: Timebase, tools: str, before: HostSession | None = None
) -> DriveHost:
    """The drive's host that a rig's ``host`` names, not connected yet. ``tools``: a folder there
    whose programs come before those on PATH. ``before``: see :class:`RemoteHost`."""
    if where == LOCAL:
        return LocalHost(timebase, tools)
    return RemoteHost(where, timebase.now_ns, tools, before)
