"""One ssh connection to the drive's host, and the watchdog at its other end (``keeper.sh``).

The ssh process here is the master of the connection: every other session (fio, drive commands)
goes through its control socket. Every second a heartbeat is sent; without heartbeats the watchdog
kills what was started there, also when our machine is dead and no FIN ever came. When this process
dies, the standard input of the keeper ends, and it kills at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Self

from instruments.transports.ssh import CONNECT_TIMEOUT_S, CONNECTION_FAILED, ssh_command
from labctl.capture.host.clock import ClockSample
from labctl.capture.host.drive_host import PIPE_LIMIT
from labctl.capture.host.load import LoadSample
from labctl.capture.host.programs import start_process
from labctl.capture.host.ssh import (
    HostUnreachable,
    shared_command,
    ssh_not_started,
    ssh_script,
    unreachable,
)
from labctl.errors import RunFailed

HEARTBEAT_EVERY_S = 1.0
LOST_AFTER_S = 6
"""Without a heartbeat for this long, the host kills fio; without an answer, it counts as lost."""
READY_WITHIN_S = CONNECT_TIMEOUT_S + 10.0
CLOSE_WITHIN_S = 3.0
CUT_WITHIN_S = 1.0
_MOST_CHARACTERS = 200
_MOST_LINES = 40
"""ssh reports a changed host key in the first of a dozen lines."""
NO_ROOM = 73
"""Exit code of the scripts when they cannot write (EX_CANTCREAT of sysexits.h)."""


_RECEIVE = 'mkdir -m 700 "$1" 2> /dev/null; cat > "$1/$2" || exit 73'


async def _start_keeper_ssh(
    *command: str, stdin: int = asyncio.subprocess.PIPE
) -> asyncio.subprocess.Process:
    """Start ssh, its output in pipes. Raises HostRefused."""
    try:
        return await start_process(
            *command,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=PIPE_LIMIT,
        )
    except OSError as error:
        raise ssh_not_started(error) from error


class Keeper:
    """One connection, from :meth:`start` until :attr:`closed` is set."""

    def __init__(
        self,
        destination: str,
        control: Path,
        process: asyncio.subprocess.Process,
        now_ns: Callable[[], int],
    ) -> None:
        self.closed = asyncio.Event()
        self.reason = ""
        self.boot_id = ""
        self.control = control
        self.directory = ""
        """The one at the other end that has a directory for each process."""
        self._destination = destination
        self._process = process
        self._now_ns = now_ns
        self._stderr_lines: list[str] = []
        self._printed: list[str] = []
        self._asked: dict[str, asyncio.Future[tuple[int, list[str]]]] = {}
        self._count = 0
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def start(
        cls, destination: str, control: Path, token: str, number: int, now_ns: Callable[[], int]
    ) -> Self:
        """Connect and wait until the other end is ready. Raises HostUnreachable, RunFailed."""
        options = ("ControlMaster=yes", f"ControlPath={control}", "ControlPersist=no")
        command = ["exec", "sh", "-c", ssh_script("keeper.sh"), "labctl", token, str(number)]
        process = await _start_keeper_ssh(
            *ssh_command(destination, *options, own_connection=False),
            shlex.join([*command, str(LOST_AFTER_S)]),
        )
        keeper = cls(destination, control, process, now_ns)
        try:
            await keeper._become_ready(f"ready {token} ")
        except BaseException:
            await keeper._end()
            raise
        return keeper

    async def _become_ready(self, sign: str) -> None:
        """Wait for the line that begins with ``sign``; a login may print others before it."""
        assert self._process.stdout is not None
        reading = asyncio.create_task(self._read_stderr(), name="keeper-stderr")
        self._tasks.append(reading)
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                line = await self._process.stdout.readline()
                while line and not line.startswith(sign.encode()):
                    self._printed = [*self._printed[-2:], line.decode("utf-8", "replace").strip()]
                    line = await self._process.stdout.readline()
                if not line:
                    await self._process.wait()
                    await reading
        except TimeoutError:
            raise HostUnreachable(
                f"host {self._destination}: no answer within {READY_WITHIN_S:.0f} s; is it on, "
                "and is its shell a POSIX shell?"
            ) from None
        if not line:
            raise self._failure()
        rest = line.decode("utf-8", "replace").removeprefix(sign).strip()
        self.boot_id, self.directory = rest.split(" ", 1)
        self._tasks += [
            asyncio.create_task(self._read(), name="keeper-stdout"),
            asyncio.create_task(self._send_heartbeats(), name="keeper-heartbeats"),
        ]

    def _failure(self) -> RunFailed:
        stderr = "\n".join(self._stderr_lines)
        code = self._process.returncode
        if code == CONNECTION_FAILED:
            return unreachable(stderr, self._destination)
        if code == NO_ROOM:
            return RunFailed(
                f"host {self._destination}: its directory for temporary files cannot be written "
                f"({stderr.strip() or 'no reason given'}); make room there, or set TMPDIR"
            )
        words = " ".join(f"{stderr} {' '.join(self._printed)}".split())[:_MOST_CHARACTERS]
        return RunFailed(
            f"host {self._destination}: its shell could not do what labctl needs "
            f"({words or f'exit code {code}'}); the account there needs a POSIX shell (not csh, "
            "not a restricted one): chsh -s /bin/sh"
        )

    async def send(self, name: str, source: Path) -> None:
        """Send a file into the directory of the process ``name``, before it is started. Raises
        HostUnreachable, RunFailed, OSError.

        It travels as the standard input of a session of its own, which may be of any size.
        """
        folder = f"{self.directory}/{name}"
        command = shlex.join(["exec", "sh", "-c", _RECEIVE, "sh", folder, source.name])
        with source.open("rb") as content:
            process = await _start_keeper_ssh(*self.session(), command, stdin=content.fileno())
        try:
            _, stderr = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode:
            if self.closed.is_set() or process.returncode == CONNECTION_FAILED:
                raise HostUnreachable(f"host {self._destination}: the connection was lost")
            words = " ".join(stderr.decode("utf-8", "replace").split())[:_MOST_CHARACTERS]
            raise RunFailed(f"host {self._destination}: no {source.name} there ({words})")

    def session(self) -> list[str]:
        """The beginning of the local command line of another session on this connection."""
        return shared_command(self._destination, self.control)

    def command(self, name: str, argv: Sequence[str]) -> list[str]:
        """The local command line that starts ``argv`` over there, in a directory of its own."""
        start = [ssh_script("started.sh"), "labctl", self.directory, name]
        return [*self.session(), shlex.join(["exec", "sh", "-c", *start, *argv])]

    def order(self, *words: str) -> None:
        """Give an order that has no answer (see ``keeper.sh``)."""
        assert self._process.stdin is not None
        if not self.closed.is_set() and not self._process.stdin.is_closing():
            self._process.stdin.write((" ".join(words) + "\n").encode())

    async def sample_clock(self) -> ClockSample | None:
        """Sample the host's clocks once; None when the connection is lost."""
        answer = await self._ask("clock")
        if answer is None:
            return None
        sent_ns, received_ns, (wall, up, *_) = answer
        return ClockSample.parse(sent_ns, received_ns, wall, up)

    async def load(self) -> LoadSample | None:
        """Sample the load of the processors by other work; None when the connection is lost."""
        answer = await self._ask("load")
        if answer is None:
            return None
        sent_ns, received_ns, (waiting, *ticks) = answer
        return LoadSample.parse((sent_ns + received_ns) // 2, waiting, " ".join(ticks))

    async def _ask(self, order: str) -> tuple[int, int, list[str]] | None:
        """When it was asked and answered, and the words of the answer, two at least; None when the
        connection is gone."""
        if self.closed.is_set():
            return None
        self._count += 1
        name = str(self._count)
        answer: asyncio.Future[tuple[int, list[str]]]
        answer = self._asked[name] = asyncio.get_running_loop().create_future()
        sent_ns = self._now_ns()
        self.order(order, name)
        try:
            async with asyncio.timeout(LOST_AFTER_S):
                received_ns, words = await answer
        except TimeoutError:
            self.cut(f"no answer for {LOST_AFTER_S} s")
            return None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self.closed.is_set() and not (task is not None and task.cancelling()):
                return None
            raise
        finally:
            self._asked.pop(name, None)
        return sent_ns, received_ns, words

    def cut(self, reason: str) -> None:
        """End the connection at once, from this side."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._over(reason)

    async def close(self) -> None:
        """End it in order: the other end kills what is left there and cleans up."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_WITHIN_S):
                await self._process.wait()
        await self._end()

    async def _end(self) -> None:
        """Cut it and let go of its pipes, while there is a loop to do it."""
        self.cut("closed")
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CUT_WITHIN_S):
                await self._process.wait()

    async def _send_heartbeats(self) -> None:
        while True:
            self.order("heartbeat")
            await asyncio.sleep(HEARTBEAT_EVERY_S)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            received_ns = self._now_ns()
            words = line.decode("utf-8", "replace").split()
            if len(words) >= 4 and words[0] in ("clock", "load"):
                asked = self._asked.get(words[1])
                if asked is not None and not asked.done():
                    asked.set_result((received_ns, words[2:]))
        await self._process.wait()
        self._over(unreachable("\n".join(self._stderr_lines), self._destination).args[0])

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        while line := await self._process.stderr.readline():
            text = line.decode("utf-8", "replace").rstrip()
            self._stderr_lines = [*self._stderr_lines[1 - _MOST_LINES :], text]

    def _over(self, reason: str) -> None:
        if not self.closed.is_set():
            self.reason = reason
            self.closed.set()
        for answer in self._asked.values():
            answer.cancel()
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()


class RemoteProcess:
    """A process on the drive's host, through the connection of a keeper."""

    def __init__(self, name: str, keeper: Keeper, process: asyncio.subprocess.Process) -> None:
        assert process.stdin and process.stdout and process.stderr
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr
        self.directory = f"{keeper.directory}/{name}"
        self.pid: int | None = None
        self._name = name
        self._keeper = keeper
        self._process = process

    @classmethod
    async def start(
        cls, keeper: Keeper, name: str, argv: Sequence[str], files: Iterable[Path] = ()
    ) -> Self:
        """Start ``argv`` there, with ``files`` in its directory. Raises RunFailed, OSError."""
        for file in files:
            await keeper.send(name, file)
        return cls(name, keeper, await _start_keeper_ssh(*keeper.command(name, argv)))

    @property
    def returncode(self) -> int | None:
        """See :class:`Spawned`; a shell's 128 + n is the signal n."""
        code = self._process.returncode
        return 128 - code if code is not None and 128 < code < CONNECTION_FAILED else code

    @property
    def lost(self) -> str:
        """See :class:`Spawned`."""
        if not self._keeper.closed.is_set():
            return ""
        return f"the connection to its host was lost: {self._keeper.reason}"

    async def wait(self) -> int:
        """See :class:`Spawned`."""
        if await self._process.wait() == CONNECTION_FAILED:
            await self._keeper.sample_clock()  # the connection, or a signal that ended the process?
        else:
            self._keeper.order("drop", self._name)
        code = self.returncode
        assert code is not None
        return code

    def interrupt(self) -> None:
        """See :class:`Spawned`."""
        if self._process.returncode is None:
            self._keeper.order("signal", self._name, "INT")

    def kill(self) -> None:
        """See :class:`Spawned`. Without a connection, the watchdog over there does it."""
        if self._process.returncode is None:
            self._keeper.order("kill", self._name)
            if self._keeper.closed.is_set():
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
