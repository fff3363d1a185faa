"""A phase that measures a person's program: started with it, and ended with all that it started.

The program leads a session and a process group in which a small shell waits on a pipe of labctl's.
A line on that pipe is a signal for the group; when the pipe closes, because the phase is over or
because labctl died, however it did, the whole session is killed. So nothing that the program
started outlives its phase, also in a group of its own (timeout, job control), unless it left the
session on purpose (setsid).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labctl.capture.host.drive_host import DriveHost, Spawned
from labctl.capture.phases.kept_output import KeptFile
from labctl.errors import JournalError, error_line
from labctl.printable import printable
from labctl.record.timebase import NS_PER_MS, Timebase

STDOUT_FILE = "program.stdout"
STDERR_FILE = "program.stderr"
STOP_WITHIN_S = 10.0
"""A program may take this long to end itself after SIGINT; then it is killed."""
READ_OUT_WITHIN_S = 5.0
CHUNK_BYTES = 8_192
"""The event loop stands still while the lines of one are looked at: a few milliseconds."""
MOST_LINE_BYTES = 4_096
"""Of a line: the rest of a longer one is a line of its own."""
MOST_KEPT_BYTES = 64 << 20
"""Of each stream; what comes after that is shown, not kept."""
MOST_MARKS = 1_000
"""Lines that become marks in one phase."""
MOST_LAST_WORDS = 200
"""Characters of a program's last line that tell why it failed."""

_IGNORED = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
_LED = f"""
exec 3<&0
( trap '' {" ".join(str(int(one)) for one in sorted(_IGNORED))}
  ( while read -r signal <&3; do kill -s "$signal" 0; done
    read -r self rest < /proc/self/stat
    killed=" $self "
    for pass in 1 2 3 4 5 6 7 8 9 10; do
        before=$killed
        for stat in /proc/[0-9]*/stat; do
            read -r line < "$stat" || continue
            set -- ${{line##*) }}
            [ "$4" = $$ ] || continue
            case $killed in *" ${{line%% *}} "*) continue ;; esac
            kill -s KILL "${{line%% *}}"
            killed="$killed${{line%% *}} "
        done
        [ "$killed" != "$before" ] || break
    done
    kill -s KILL 0 ) > /dev/null 2>&1 & )
exec "$@" 3<&- < /dev/null
"""
"""The shell that waits is nobody's child, so that a program which waits for all its children ends.
It ignores what the program sends to its own group. The session of a process is the fourth word
behind its name in /proc/PID/stat (proc(5)); what is started while they are looked through is found
the next time. The program's standard input is empty."""
_LINE_END = re.compile(rb"[\r\n]+")


@dataclass(frozen=True, slots=True)
class Program:
    """A program to be measured: its command line, and what is made of what it prints.

    ``folder``: where it is started, on this machine. A line that ``mark_lines`` is found in becomes
    a mark. ``on_line`` takes each line, printable, without its end.
    """

    command: tuple[str, ...]
    folder: Path
    mark_lines: re.Pattern[str] | None = None
    on_line: Callable[[str], None] = field(default=lambda line: None)


class ProgramProcess:
    """The program of one phase: ``start``, ``wait``, ``stop``.

    ``begin_ns`` is when it was started, on the timebase, known to ± ``begin_u_ns``.
    """

    def __init__(
        self,
        program: Program,
        process: Spawned,
        kept: Sequence[KeptFile],
        on_mark: Callable[[str], None],
        timebase: Timebase,
        begin_u_ns: int,
    ) -> None:
        self.begin_ns, self.begin_u_ns = timebase.now_ns(), begin_u_ns
        self._end_ns: int | None = None
        self._program = program
        self._timebase = timebase
        self._process = process
        self._on_mark = on_mark
        self._marks = 0
        self._last_line = ""
        self._cut = False
        self._unread = ""
        self._kept = kept
        self._readers = [
            asyncio.create_task(self._read(stream, file))
            for stream, file in zip((process.stdout, process.stderr), kept, strict=True)
        ]
        for reader in self._readers:
            reader.add_done_callback(self._reader_ended)

    @classmethod
    async def start(
        cls,
        program: Program,
        directory: Path,
        timebase: Timebase,
        host: DriveHost,
        on_mark: Callable[[str], None],
    ) -> ProgramProcess:
        """Start ``program`` on ``host``. What it prints is kept in ``directory``.

        ``on_mark`` takes the text of each line that is a mark. Raises RunFailed, JournalError.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
            kept = [KeptFile(directory / name) for name in (STDOUT_FILE, STDERR_FILE)]
        except OSError as error:
            raise JournalError(f"cannot write {directory}: {error.strerror or error}") from error
        before_ns = timebase.now_ns()
        try:
            command = ("/bin/sh", "-c", _LED, "labctl", *program.command)
            process = await host.spawn(command, program.folder)
        except BaseException:
            for file in kept:
                file.close()
            raise
        u_ns = max(timebase.now_ns() - before_ns, NS_PER_MS)
        return cls(program, process, kept, on_mark, timebase, u_ns)

    @property
    def ended(self) -> bool:
        """Whether it has ended, and :meth:`wait` has seen it."""
        return self._end_ns is not None

    @property
    def end_ns(self) -> int:
        """When it ended, on the timebase; now, while it has not."""
        return self._timebase.now_ns() if self._end_ns is None else self._end_ns

    async def wait(self) -> None:
        """Wait for its end."""
        await self._process.wait()
        self._end_ns = self._timebase.now_ns()

    async def stop(self) -> None:
        """End it: politely first, then for good. It counts as ended from now on."""
        self._end_ns = self.end_ns
        if self._process.returncode is None and not self.lost:
            self._process.stdin.write(b"INT\n")
            if await self._gone_within(STOP_WITHIN_S):
                return
            self._process.stdin.close()  # the shell that waits kills the session
            if not await self._gone_within(READ_OUT_WITHIN_S):
                self._process.kill()
                await self._gone_within(READ_OUT_WITHIN_S)  # what waits for a dead drive stays

    async def _gone_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._process.wait()
        return self._process.returncode is not None

    async def finish(self) -> None:
        """End what it left behind, and keep what it printed."""
        self._process.stdin.close()
        _, late = await asyncio.wait(self._readers, timeout=READ_OUT_WITHIN_S)
        for reader in late:
            reader.cancel()
            self._cut = True
        for file in self._kept:
            await asyncio.to_thread(file.close)

    @property
    def lost(self) -> str:
        """Why nothing is known of it any more (the connection is gone), or an empty text."""
        return self._process.lost

    @property
    def problem(self) -> str:
        """What is wrong with how it ended, with its last words; empty where nothing is."""
        code = self._process.returncode
        if self.lost or self._unread:
            return self.lost or self._unread
        if not code:
            return ""
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        words = self._last_line[:MOST_LAST_WORDS]
        return f"{how}; its last words: {words}" if words else how

    @property
    def printed(self) -> dict[str, Any]:
        """What the record says of its end: its exit code (negative: the signal that ended it), and
        whether all that it printed is kept."""
        whole = not (self._cut or self._unread or any(file.problem for file in self._kept))
        return {"exit_code": self._process.returncode, "output_whole": whole}

    def _reader_ended(self, reader: asyncio.Task[None]) -> None:
        if not reader.cancelled() and (error := reader.exception()) is not None:
            self._unread = f"its output is not read any more: {error_line(error)}"
            self._process.kill()

    async def _read(self, stream: asyncio.StreamReader, file: KeptFile) -> None:
        rest, kept = b"", 0
        while data := await stream.read(CHUNK_BYTES):
            file.write(data[: max(MOST_KEPT_BYTES - kept, 0)])
            kept += len(data)
            self._cut = self._cut or kept > MOST_KEPT_BYTES
            *lines, rest = _LINE_END.split(rest + data)
            while len(rest) > MOST_LINE_BYTES:
                lines.append(rest[:MOST_LINE_BYTES])
                rest = rest[MOST_LINE_BYTES:]
            for line in lines:
                self._take(line)
            await asyncio.sleep(0)  # a read of what is there already lets nobody else work
        self._take(rest)

    def _take(self, line: bytes) -> None:
        text = printable(line[:MOST_LINE_BYTES].decode("utf-8", "replace").rstrip())
        if not text:
            return
        self._last_line = text
        self._program.on_line(text)
        pattern = self._program.mark_lines
        if pattern is None or self._marks > MOST_MARKS or not pattern.search(text):
            return
        self._marks += 1
        more = self._marks > MOST_MARKS
        self._on_mark(f"more than {MOST_MARKS} lines: no further marks" if more else text)
