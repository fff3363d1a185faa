"""One phase is one fio process, started early and held until it is its turn.

fio needs about a quarter of a second from start to its first I/O. So the fio of the next phase is
started while the present one still works, and waits in ``exec_prerun`` for one newline a job on
its standard input. Released, it does its first I/O within milliseconds. ``exec_postrun`` tells
when a job has done its last. If labctl dies, the pipe closes and a held fio gives up without any
I/O, while a working one gets SIGKILL from the kernel (``setpriv --pdeathsig``); ``thread=1``
keeps all jobs in that one process.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Self

from labctl.errors import JournalError, RunFailed
from labctl.fio_output import DocumentStream, Status, status_of
from labctl.plan import Phase
from labctl.rig import Drive
from labctl.timebase import NS_PER_MS, NS_PER_S, Timebase

STATUS_EVERY_MS = 500
HELD_WITHIN_S = 30.0
"""fio opens its target before it is held; a remote or sleeping drive may take a while."""
LATE_BY_S = 30.0
"""How long past its runtime a phase may go on before it counts as hung."""
NO_PROGRESS_S = 120.0
"""A fill, whose length is bytes and not time, counts as hung after this long without a byte."""
EARLY_BY_S = 0.5
"""A phase that ends this much before its time ended badly: fio gives up after an I/O error."""
EXIT_WITHIN_S = 20.0
READ_OUT_WITHIN_S = 5.0
STARTED_WITHIN_MS = 2.0
"""fio prints milliseconds, and takes its clock readings within about one of each other."""

HELD = b"labctl-held"
DONE = b"labctl-done"
JOB_FILE = "job.fio"
STDOUT_FILE = "stdout"
STDERR_FILE = "stderr"

_HARMLESS = ("fio: connected to NBD server",)

PERCENTILES = "50:90:95:99:99.9:99.99:99.999"


def job_file(phase: Phase, drive: Drive) -> str:
    """The fio job of a phase on a drive, as text. ``;`` would begin a comment: ``&&`` is used."""
    lines = ["[global]", f"ioengine={drive.engine}", "thread=1", "group_reporting=1"]
    if drive.engine == "nbd":
        lines.append(f"uri={drive.target}")
    else:
        lines += [f"filename={_escaped(drive.target)}", "direct=1"]
        if drive.size_bytes and not Path(drive.target).is_block_device():
            lines.append(f"filesize={drive.size_bytes}")
    lines += [
        f"rw={phase.pattern}",
        f"bs={phase.block_size_bytes}",
        f"iodepth={phase.queue_depth}",
        f"numjobs={phase.jobs}",
        "norandommap=1",
        "randrepeat=0",
        "refill_buffers=1",
        "lat_percentiles=1",
        f"percentile_list={PERCENTILES}",
    ]
    if phase.pattern.mixed:
        lines.append(f"rwmixread={phase.read_pct}")
    if phase.buffer_compress_pct:
        lines.append(f"buffer_compress_percentage={phase.buffer_compress_pct}")
    lines += _span_lines(phase, drive)
    if not phase.fills:
        lines += ["time_based=1", f"runtime={round(phase.duration_s * 1000)}ms"]
    lines += [
        f"exec_prerun=echo {HELD.decode()} >&2 && read _",
        f"exec_postrun=echo {DONE.decode()} >&2 && :",
        "[phase]",
        "",
    ]
    return "\n".join(lines)


def _escaped(path: str) -> str:
    """fio splits file names at colons."""
    return path.replace(":", r"\:")


def _span_lines(phase: Phase, drive: Drive) -> list[str]:
    """Where on the drive. Sequential jobs get a part each: on the same part they would only
    measure the drive's cache."""
    span = phase.span_bytes or drive.size_bytes
    if span is None:
        return []
    if phase.jobs > 1 and not phase.pattern.random:
        part = span // phase.jobs // phase.block_size_bytes * phase.block_size_bytes
        return [f"size={part}", f"offset_increment={part}"]
    return [f"size={span}"]


@dataclass(frozen=True, slots=True)
class Window:
    """When a phase really worked: first and last I/O, and the half-width of the doubt."""

    begin_ns: int
    end_ns: int
    u_ns: int


def _ending(code: int | None) -> str:
    """How a process ended, in words."""
    return f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"


class _Kept:
    """A file for what fio says. On a full disk it stops, and the journal tells of it."""

    def __init__(self, path: Path) -> None:
        self._file: FileIO | None = FileIO(path, "w")

    def write(self, data: bytes) -> None:
        if self._file is not None:
            try:
                self._file.write(data)
            except OSError:
                self.__exit__()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class FioProcess:
    """The fio of one phase: ``start``, ``release``, ``wait_done``, ``finish``."""

    def __init__(
        self,
        phase: Phase,
        process: asyncio.subprocess.Process,
        directory: Path,
        timebase: Timebase,
        on_status: Callable[[Status], None],
    ) -> None:
        self.phase = phase
        self.release_ns: int | None = None
        self.done_ns: int | None = None
        self.last_status: Status | None = None
        self._stopped_ns: int | None = None
        self._process = process
        self._timebase = timebase
        self._on_status = on_status
        self._directory = directory
        self._held = asyncio.Event()
        self._done = asyncio.Event()
        self._held_jobs = 0
        self._done_jobs = 0
        self._began_ns: list[int] = []
        self._complaints: list[str] = []
        self._readers = (
            asyncio.create_task(self._read_stdout(), name=f"fio-stdout-{phase.index}"),
            asyncio.create_task(self._read_stderr(), name=f"fio-stderr-{phase.index}"),
        )

    @classmethod
    async def start(
        cls,
        phase: Phase,
        drive: Drive,
        directory: Path,
        timebase: Timebase,
        on_status: Callable[[Status], None],
    ) -> FioProcess:
        """Start fio for ``phase`` in ``directory``; it will hold before its first I/O."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            (directory / JOB_FILE).write_text(job_file(phase, drive), encoding="utf-8")
        except OSError as error:
            raise JournalError(f"cannot write {directory}: {error.strerror or error}") from error
        process = await asyncio.create_subprocess_exec(
            *("setpriv", "--pdeathsig", "KILL", "fio", JOB_FILE, "--output-format=json"),
            f"--status-interval={STATUS_EVERY_MS}ms",
            cwd=directory,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=1 << 20,
        )
        return cls(phase, process, directory, timebase, on_status)

    async def wait_held(self) -> None:
        """Wait until every job is ready to begin. Raises RunFailed with fio's own words."""
        await self._wait_for(self._held, HELD_WITHIN_S, "did not get ready")

    def release(self) -> int:
        """Let every job begin now; the time of it."""
        assert self._process.stdin is not None
        self.release_ns = self._timebase.now_ns()
        self._process.stdin.write(b"\n" * self.phase.jobs)
        return self.release_ns

    async def wait_done(self) -> None:
        """Wait for the last I/O of the last job. Raises RunFailed when it ends badly or hangs."""
        if not self.phase.fills:
            await self._wait_for(self._done, self.phase.duration_s + LATE_BY_S, "did not end")
        else:
            await self._wait_while_it_progresses()
        assert self.release_ns is not None and self.done_ns is not None
        worked_s = (self.done_ns - self.release_ns) / NS_PER_S
        if worked_s < self.phase.duration_s - EARLY_BY_S:
            problem = await self.finish()
            raise RunFailed(problem or self._complaint(f"ended after {worked_s:.1f} s"))

    async def finish(self) -> str:
        """Wait for fio to exit; what went wrong, or an empty text."""
        try:
            async with asyncio.timeout(EXIT_WITHIN_S):
                code = await self._process.wait()
        except TimeoutError:
            self.kill()
            return f"fio did not exit within {EXIT_WITHIN_S:.0f} s and was killed"
        await self._read_out()
        errors = self.last_status.errors if self.last_status else ()
        if code or errors:
            return self._complaint(_ending(code))
        return ""

    async def stop(self) -> None:
        """End it: politely first, so that its totals are kept, then for good.

        The shell that holds a job outlives its fio until standard input closes.
        """
        self._stopped_ns = self._timebase.now_ns()
        self._close_stdin()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)
            try:
                async with asyncio.timeout(3.0):
                    if self.release_ns is None:
                        self.kill()
                    await self._process.wait()
            except TimeoutError:
                self.kill()
                await self._process.wait()
        await self._read_out()

    @property
    def iops(self) -> float:
        """I/Os per second since its first one, as far as fio has told."""
        if self.last_status is None or not self.last_status.runtime_ms:
            return 0.0
        ios = sum(totals.ios for totals in self.last_status.totals.values())
        return ios / self.last_status.runtime_ms * 1000

    def kill(self) -> None:
        """SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def window(self) -> Window | None:
        """First and last I/O on the timebase, from fio's own runtime and from our signals.

        fio prints wall clock and time since its first I/O together; their difference is when it
        began. It must lie after the release, and the last I/O before the "done" signal. A phase
        that was stopped ends when it was told to: then it was surely still at work.
        """
        if self.release_ns is None:
            return None
        ends = [at_ns for at_ns in (self.done_ns, self._stopped_ns) if at_ns is not None]
        latest = min(ends, default=self._timebase.now_ns())
        if self.last_status is None or not self._began_ns:
            return Window(self.release_ns, latest, round(5 * NS_PER_MS))
        began_ns = round(statistics.median(self._began_ns))
        begin_ns = min(max(began_ns, self.release_ns), latest)
        end_ns = min(begin_ns + self.last_status.runtime_ms * NS_PER_MS, latest)
        return Window(begin_ns, max(end_ns, begin_ns), round(STARTED_WITHIN_MS * NS_PER_MS))

    async def _wait_while_it_progresses(self) -> None:
        written = 0
        while not await self._happened(self._done, NO_PROGRESS_S):
            self._raise_if_gone()
            totals = self.last_status.totals.values() if self.last_status else ()
            before, written = written, sum(total.bytes for total in totals)
            if before == written:
                self.kill()
                raise RunFailed(
                    f"fio for {self.phase.label} wrote nothing for {NO_PROGRESS_S:.0f} s; is the "
                    "drive still there?"
                )

    async def _wait_for(self, event: asyncio.Event, timeout_s: float, failing: str) -> None:
        if await self._happened(event, timeout_s):
            return
        self._raise_if_gone()
        self.kill()
        raise RunFailed(f"fio for {self.phase.label} {failing} within {timeout_s:.0f} s")

    async def _happened(self, event: asyncio.Event, timeout_s: float) -> bool:
        """Wait for ``event``, for fio to be gone, or for the time; whether it was the event."""
        waiting = asyncio.create_task(event.wait())
        exiting = asyncio.create_task(self._process.wait())
        try:
            await asyncio.wait(
                (waiting, exiting), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not waiting.done() and exiting.done():
                await self._read_out()
            return event.is_set()
        finally:
            waiting.cancel()
            exiting.cancel()

    def _raise_if_gone(self) -> None:
        if self._process.returncode is not None:
            raise RunFailed(self._complaint(_ending(self._process.returncode)))

    def _complaint(self, how: str) -> str:
        said = "; ".join([how, *self._complaints[:3]])
        return f"fio for {self.phase.label}: {said} (see {STDERR_FILE} in {self._directory})"

    def _close_stdin(self) -> None:
        """Let go of the shells that hold the jobs: they outlive their fio otherwise."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def _read_out(self) -> None:
        """fio is gone: read what is left in its pipes, for a limited time."""
        self._close_stdin()
        _, late = await asyncio.wait(self._readers, timeout=READ_OUT_WITHIN_S)
        for reader in late:
            reader.cancel()

    async def _read_stdout(self) -> None:
        assert self._process.stdout is not None
        stream = DocumentStream()
        with _Kept(self._directory / STDOUT_FILE) as kept:
            while chunk := await self._process.stdout.read(1 << 16):
                kept.write(chunk)
                text = chunk.decode("utf-8", errors="replace")
                self._complaints += [
                    line
                    for line in text.splitlines()
                    if line.startswith("fio:") and line not in _HARMLESS
                ][: 10 - len(self._complaints)]
                for document in stream.feed(text):
                    self._take(status_of(document))
        for document in stream.finish():
            self._take(status_of(document))

    def _take(self, status: Status) -> None:
        """Keep a status; what fio printed while it was held says nothing."""
        if self.release_ns is None or not any(totals.ios for totals in status.totals.values()):
            return
        if status.wall_ms is not None:
            shown_ns = self._timebase.from_wall_ns(status.wall_ms * NS_PER_MS)
            began_ns = shown_ns - status.runtime_ms * NS_PER_MS
            if began_ns < self.release_ns - round(STARTED_WITHIN_MS * NS_PER_MS):
                return  # printed across the release: its runtime is of the time it was held
            self._began_ns.append(began_ns)
        self.last_status = status
        self._on_status(status)

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        with _Kept(self._directory / STDERR_FILE) as kept:
            while line := await self._process.stderr.readline():
                now_ns = self._timebase.now_ns()
                word = line.strip()
                if word == HELD:
                    self._held_jobs += 1
                    if self._held_jobs == self.phase.jobs:
                        self._held.set()
                elif word == DONE:
                    self._done_jobs += 1
                    if self._done_jobs == self.phase.jobs:
                        self.done_ns = now_ns
                        self._done.set()
                else:
                    kept.write(line)
                    if word and len(self._complaints) < 10:
                        self._complaints.append(word.decode("utf-8", errors="replace"))
