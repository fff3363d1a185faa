"""Long-lived processes on the machine that the drive is in, and that machine's wall clock.

:class:`DriveHost` is what a run needs of the drive's host; :class:`LocalHost` is this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from labctl.capture.host.cpu import STAT
from labctl.capture.host.load import PRESSURE, LoadSample
from labctl.capture.host.machine import LocalMachine, Machine
from labctl.capture.host.programs import AFTER_KILL_S, kill_session, start_process, tied
from labctl.errors import RunFailed
from labctl.record.timebase import Timebase

PIPE_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class HostMoment:
    """A reading of the host's wall clock on the timebase, in ns.

    ``t_ns`` is on the run's timebase, known to ± ``u_ns`` so far. ``clock_ns`` is the device time
    that the recorded samples of this clock map (None: it is this machine's own clock).
    """

    t_ns: int
    u_ns: int = 0
    clock_ns: int | None = None

    def before(self, elapsed_ns: int) -> HostMoment:
        """The moment so much earlier."""
        clock_ns = None if self.clock_ns is None else self.clock_ns - elapsed_ns
        return HostMoment(self.t_ns - elapsed_ns, self.u_ns, clock_ns)


class Spawned(Protocol):
    """A process on the drive's host, its three pipes here.

    ``directory``: the one over there that it was started in, whose file "pid" has its number where
    ``pid`` is None.
    """

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    directory: str
    pid: int | None

    @property
    def returncode(self) -> int | None:
        """None while it lives; negative: the signal that ended it."""

    @property
    def lost(self) -> str:
        """Why nothing is known of it any more (the connection is gone), or an empty text."""

    async def wait(self) -> int:
        """Wait for its end; the return code."""

    def interrupt(self) -> None:
        """SIGINT, if it is still there."""

    def kill(self) -> None:
        """SIGKILL, if it is still there."""


class DriveHost(Protocol):
    """The machine that the drive is in."""

    @property
    def machine(self) -> Machine:
        """For programs that end by themselves, and small files."""

    @property
    def boot_id(self) -> str:
        """Which start of the machine this is; empty where it cannot be started anew under us."""

    async def connect(self) -> None:
        """Be ready for the first process. Raises RunFailed, with what to do about it."""

    async def wait_back(self) -> None:
        """Wait until the connection is there (again), for a limited time. Raises RunFailed."""

    async def spawn(
        self, argv: Sequence[str], directory: Path, files: Sequence[str] = ()
    ) -> Spawned:
        """Start a process that dies with us, in a directory that has ``files`` of ``directory``.

        Raises RunFailed.
        """

    def moment_of(self, wall_ns: int) -> HostMoment:
        """A recent time of the host's wall clock, as fio prints it."""

    async def sample_load(self) -> LoadSample | None:
        """What other work its processors have; None while it is away."""

    def kill(self) -> None:
        """SIGKILL to all that was started there, for good or to its end."""

    async def close(self) -> None:
        """End what is left there and the connection; takes a few seconds at most."""


async def _wide_pipe() -> tuple[asyncio.StreamReader, int]:
    """What fio prints, and where to: it goes on for some seconds when nobody reads (labctl is
    stopped). A fio whose pipe is full neither ends nor prints its results.

    With a pipe of asyncio's a process would count as there for as long as anybody has that open.
    """
    reading, writing = os.pipe()
    with contextlib.suppress(OSError):  # more than this user may have: then the usual size
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_LIMIT)
    reader = asyncio.StreamReader(limit=PIPE_LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb")
    )
    return reader, writing


class LocalProcess:
    """A process of this machine."""

    lost = ""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
        directory: Path,
    ) -> None:
        assert process.stdin
        self.stdin, self.stdout, self.stderr = process.stdin, stdout, stderr
        self.directory = str(directory.absolute())
        self.pid: int | None = process.pid
        self._process = process

    @property
    def returncode(self) -> int | None:
        """See :class:`Spawned`."""
        return self._process.returncode

    async def wait(self) -> int:
        """See :class:`Spawned`."""
        return await self._process.wait()

    def interrupt(self) -> None:
        """See :class:`Spawned`."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """See :class:`Spawned`. With all that it has started: a "fio" may be a script."""
        if self._process.returncode is None:
            kill_session(self._process.pid)


class LocalHost:
    """This machine."""

    boot_id = ""

    def __init__(self, timebase: Timebase, tools: str = "") -> None:
        """``tools``: a folder whose programs come before those on PATH."""
        self._own = LocalMachine(tools)
        self.machine: Machine = self._own
        self._timebase = timebase
        self._spawned: list[LocalProcess] = []

    async def connect(self) -> None:
        """Nothing to connect."""

    async def wait_back(self) -> None:
        """It is never away."""

    async def spawn(
        self, argv: Sequence[str], directory: Path, files: Sequence[str] = ()
    ) -> LocalProcess:
        """See :class:`DriveHost`. The kernel kills it when this process dies."""
        with contextlib.ExitStack() as started:
            pipes = []
            for _ in range(2):
                pipes.append(await _wide_pipe())
                started.callback(os.close, pipes[-1][1])
            (stdout, to_stdout), (stderr, to_stderr) = pipes
            try:
                process = await start_process(
                    *tied(argv),
                    cwd=directory,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=to_stdout,
                    stderr=to_stderr,
                )
            except OSError as error:
                reason = f"{argv[0]} cannot be started: {error.strerror or error}"
                raise RunFailed(reason) from error
        spawned = LocalProcess(process, stdout, stderr, directory)
        self._spawned = [one for one in self._spawned if one.returncode is None] + [spawned]
        return spawned

    def moment_of(self, wall_ns: int) -> HostMoment:
        """See :class:`DriveHost`."""
        return HostMoment(self._timebase.from_wall_ns(wall_ns))

    async def sample_load(self) -> LoadSample:
        """See :class:`DriveHost`. Two small files of the kernel: a thread would cost more."""
        texts = self.machine.read_texts([PRESSURE, STAT])
        pressure, stat = texts.get(PRESSURE, ""), texts.get(STAT, "")
        return LoadSample.parse(self._timebase.now_ns(), pressure, stat)

    def kill(self) -> None:
        """See :class:`DriveHost`."""
        for process in self._spawned:
            process.kill()
        self._own.kill()

    async def close(self) -> None:
        """See :class:`DriveHost`."""
        self.kill()
        self._own.kill(for_good=True)
        ending = [asyncio.create_task(process.wait()) for process in self._spawned]
        if ending:
            await asyncio.wait(ending, timeout=AFTER_KILL_S)
