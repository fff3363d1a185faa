"""One phase is one fio process, started early and held until it is its turn.

Several drives are jobs of that one process, so that all begin together.

fio needs about a quarter of a second from start to its first I/O. So the fio of the next phase is
started while the present one still works, and waits in ``exec_prerun`` for one newline a job on
its standard input. Released, it does its first I/O within milliseconds. ``exec_postrun`` signals
when a job has done its last. If labctl dies, the pipe closes and a held fio gives up without any
I/O, while a working one is killed by the drive's host (:mod:`labctl.capture.host.drive_host`);
``thread=1`` keeps all jobs in that one process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from labctl.capture.host.drive_host import DriveHost, LocalHost, Spawned
from labctl.capture.host.ssh import HostUnreachable
from labctl.capture.identity.files_fio_opened import ComparedFiles
from labctl.capture.identity.node import DrivePlace
from labctl.capture.identity.opened_target import (
    NOT_WHAT_WAS_CHECKED,
    Filling,
    OpenedTarget,
    given,
    opening,
)
from labctl.capture.phases.fio_job import (
    JOB_FILE,
    REPLAY_FILE,
    write_job_files,
)
from labctl.capture.phases.fio_output import STDERR_FILE, STDOUT_FILE, FioOutput
from labctl.capture.phases.fio_window import FioWindow, window_between
from labctl.capture.phases.kept_output import KeptFile
from labctl.config.rig_file import Drive
from labctl.errors import JournalError, Refused, RunFailed
from labctl.fio.status import FioStatus
from labctl.record.phase import Phase
from labctl.record.timebase import NS_PER_S, Timebase

STATUS_EVERY_MS = 500
HELD_WITHIN_S = 30.0
"""fio asks its target for its size before it is held; a remote or sleeping drive may take a while.
For its I/O it opens once more, when it begins, what it was given as an open file."""
FILLED_BYTES_PER_S = 20e6
"""At which it fills a scratch file and, for writes, the buffers of all I/Os in flight at least,
both before it is held (3.33): buffers at 330 MB/s on a quiet machine, 150 MB/s on one with four
busy loops on two processors."""
LATE_BY_S = 30.0
"""How long past its runtime a phase may go on before it counts as hung, beside what its drive needs
for the I/Os in flight."""
SLOWEST_BYTES_PER_S = 1e6
"""What a drive writes at least: hot and collecting garbage a few MB/s. At the end of its runtime
fio waits for all I/Os in flight at once and reports nothing meanwhile (fio 3.33), so that 32 MiB of
them may look like half a minute of nothing."""
NO_PROGRESS_S = 120.0
"""A fill, whose length is bytes and not time, counts as hung after this long without a byte."""
EARLY_BY_S = 0.5
"""A phase that ends this much before its time, by fio's own clock, ended badly: fio gives up after
an I/O error."""
EXIT_WITHIN_S = 20.0
ENDED_BY_SIGNAL = 128
"""Exit code of a fio that SIGINT made do its last I/Os, where nothing else was wrong (3.33)."""


def _fio_process_ending(code: int | None) -> str:
    """How a process ended, in words."""
    return f"killed by signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _fio_error_words(error: int | str) -> str:
    return f"error {error} ({os.strerror(error)})" if isinstance(error, int) else f"error {error}"


class FioProcess:
    """The fio of one phase: ``start``, ``release``, ``wait_done``, ``finish``."""

    def __init__(
        self,
        phase: Phase,
        process: Spawned,
        directory: Path,
        timebase: Timebase,
        on_status: Callable[[FioStatus, int], None],
        host: DriveHost,
        jobs: int,
        opened: Mapping[str, OpenedTarget],
        stdout: KeptFile,
        stderr: KeptFile,
    ) -> None:
        """``jobs``: how many there are in all, each of which is held. ``opened``: all that it may
        open of the host's devices and files, by the drive's name. ``stdout`` and ``stderr`` take
        what it prints, and are closed with it."""
        self.phase = phase
        self.output = FioOutput(
            phase, process, jobs, host, timebase, self._on_output, stdout, stderr
        )
        self._jobs = jobs
        self._stopped_ns: int | None = None
        self._ended_early = False
        self._process = process
        self._timebase = timebase
        self._on_status = on_status
        self._directory = directory
        self._files = ComparedFiles(process, opened, host.machine)
        self._comparing: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        phase: Phase,
        drives: Mapping[str, Drive],
        directory: Path,
        timebase: Timebase,
        on_status: Callable[[FioStatus, int], None],
        host: DriveHost | None = None,
        places: Mapping[str, DrivePlace] | None = None,
    ) -> FioProcess:
        """Start fio for ``phase`` on ``host`` (None: this machine); it will hold before its first
        I/O. What it prints is kept in ``directory``.

        ``drives`` by name: a single one has an empty name. ``places``: what each was when it was
        checked, and shall still be (None: nobody checked them).

        ``on_status`` takes each status, and when it was, in ns on the timebase.
        """
        host = host or LocalHost(timebase)
        opened = await asyncio.to_thread(given, drives, places, host.machine)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            await asyncio.to_thread(write_job_files, phase, drives, opened, directory)
            stdout = KeptFile(directory / STDOUT_FILE)
            stderr = KeptFile(directory / STDERR_FILE)
        except OSError as error:
            raise JournalError(f"cannot write {directory}: {error.strerror or error}") from error
        status_every = f"--status-interval={STATUS_EVERY_MS}ms"
        fio = ("fio", JOB_FILE, "--output-format=json+", status_every)
        filling: Filling = "data" if "read" in phase.directions else "room"
        try:
            process = await host.spawn(
                opening(opened.values(), fio, filling) if opened else fio,
                directory,
                (JOB_FILE, REPLAY_FILE) if phase.replay is not None else (JOB_FILE,),
            )
        except BaseException:
            stdout.close()
            stderr.close()
            raise
        jobs = phase.jobs * len(drives)
        return cls(
            phase, process, directory, timebase, on_status, host, jobs, opened, stdout, stderr
        )

    @property
    def release_ns(self) -> int | None:
        """When it was released, in ns on the timebase; None before."""
        return self.output.release_ns

    @property
    def lost(self) -> str:
        """Why it is lost with the connection to its host, or an empty text."""
        return self._process.lost

    async def wait_held(self) -> None:
        """Wait until every job is ready to begin. Raises RunFailed with fio's own words, Refused
        when it has something else open than was checked."""
        filled_bytes = self._files.missing_bytes + self._in_flight_bytes
        within_s = HELD_WITHIN_S + filled_bytes / FILLED_BYTES_PER_S
        failing = f"did not get ready within {within_s:.0f} s"
        await self._wait_for(self.output.held, within_s, failing)
        await self._files.compare(must_be_there=True)
        self._raise_if_different()

    def refuse_others(self, places: Mapping[str, DrivePlace]) -> None:
        """Raise Refused where a target has become something else since this fio was started."""
        self._files.refuse_others(places)

    def release(self) -> int:
        """Let every job begin now; the time of it."""
        release_ns = self._timebase.now_ns()
        self.output.release_ns = release_ns
        self._process.stdin.write(b"\n" * self._jobs)
        return release_ns

    async def wait_done(self) -> None:
        """Wait for the last I/O of the last job. Raises RunFailed when it ends badly or hangs,
        Refused when it works on something else than was checked."""
        if self.phase.timed:
            await self._wait_its_time()
        else:
            await self._wait_while_it_progresses()
        await self._compared()
        release_ns, done_ns = self.release_ns, self.output.done_ns
        assert release_ns is not None and done_ns is not None
        worked_s = (done_ns - release_ns) / NS_PER_S
        least_s = self.phase.duration_s - EARLY_BY_S
        if not self.phase.timed or worked_s * self.output.clock_rate >= least_s:
            return
        problem = await self.finish()  # only its last document says how long it was by its clock
        if problem or self.output.printed["runtime_ms"] / 1000 < least_s:
            raise RunFailed(problem or self._complaint(f"ended after {worked_s:.1f} s"))

    async def end_early(self) -> None:
        """Have every job do its last I/O now, and wait for that as :meth:`wait_done` does: the
        phase is done, however long it was to be. What fio prints last comes as of any other."""
        self._ended_early = self.output.ended_early = True
        self._process.interrupt()
        failing = f"did not end within {self._last_ios_within_s:.0f} s, as it was asked to"
        await self._wait_for(self.output.done, self._last_ios_within_s, failing)
        await self._compared()

    async def finish(self) -> str:
        """Wait for fio to exit; what went wrong, or an empty text."""
        try:
            async with asyncio.timeout(EXIT_WITHIN_S):
                code = await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._read_out()
            return f"fio did not exit within {EXIT_WITHIN_S:.0f} s and was killed"
        await self._read_out()
        if self._files.difference:
            return self._complaint(self._files.difference)
        if code == ENDED_BY_SIGNAL and self._ended_early:
            code = 0
        if not code:
            self.output.check_last_status()
        if code or self.output.given_up:
            return self._complaint(self.lost or self._ended())
        if self.output.errors:
            errors = ", ".join(map(_fio_error_words, self.output.errors))
            return self._complaint(f"exit code 0, yet it reports {errors}")
        if self.output.end_unknown:
            return self._complaint("when it ended is not known: nobody read what it printed")
        if self.release_ns is not None and self.output.last_status is None:
            return self._complaint(f"exit code 0, yet nothing in {STDOUT_FILE} tells of any I/O")
        return ""

    async def stop(self) -> str:
        """End it: politely first, so that its totals are kept, then for good. Why what it printed
        is no good, or an empty text.

        The shell that holds a job outlives its fio until standard input closes.
        """
        self._stopped_ns = self._timebase.now_ns()
        if self._comparing is not None:
            self._comparing.cancel()
        self._close_stdin()
        if self._process.returncode is None:
            self._process.interrupt()
            try:
                async with asyncio.timeout(3.0):
                    if self.release_ns is None:
                        self.kill()
                    await self._process.wait()
            except TimeoutError:
                self.kill()
                await self._process.wait()
        await self._read_out()
        return self._complaint(self.output.given_up) if self.output.given_up else ""

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()

    def window(self) -> FioWindow | None:
        """First and last I/O on the timebase; None before its release."""
        if self.release_ns is None:
            return None
        ends = [at_ns for at_ns in (self.output.done_ns, self._stopped_ns) if at_ns is not None]
        latest_ns = min(ends, default=self._timebase.now_ns())
        runtime_ms = 0 if self.output.last_status is None else self.output.last_status.runtime_ms
        printed, clock = self.output.printed_at, self.output.fio_clock()
        return window_between(self.release_ns, latest_ns, runtime_ms, printed, clock)

    @property
    def _in_flight_bytes(self) -> int:
        """What all its jobs may have in flight, and buffers for."""
        return self._jobs * self.phase.queue_depth * self.phase.block_size_bytes

    @property
    def _last_ios_within_s(self) -> float:
        """How long a drive may take for all that is in flight when the time is over."""
        return LATE_BY_S + self._in_flight_bytes / SLOWEST_BYTES_PER_S

    async def _compared(self) -> None:
        """Raise Refused when it works on something else than was checked."""
        if self._comparing is not None:
            await self._comparing
            self._raise_if_different()

    async def _wait_while_it_progresses(self) -> None:
        written = 0
        # a trace has the pauses of the machine that it was recorded on
        patience_s = NO_PROGRESS_S + (self.phase.duration_s if self.phase.replay else 0.0)
        while not await self._happened(self.output.done, patience_s):
            self._raise_if_gone()
            totals = self.output.last_status.totals.values() if self.output.last_status else ()
            before, written = written, sum(total.bytes for total in totals)
            if before == written:
                self.kill()
                raise RunFailed(
                    f"fio for {self.phase.label} moved nothing for {patience_s:.0f} s; is the "
                    "drive still there?"
                )

    async def _wait_its_time(self) -> None:
        """Wait for the end of a timed phase, whose time is over by fio's clock."""
        within_s = self.phase.duration_s + self._last_ios_within_s
        if await self._happened(self.output.done, within_s):
            return
        slower_s = max(self.phase.duration_s * (1.0 / self.output.clock_rate - 1.0), 0.0)
        failing = f"did not end within {within_s + slower_s:.0f} s"
        await self._wait_for(self.output.done, slower_s, failing)

    async def _wait_for(self, event: asyncio.Event, timeout_s: float, failing: str) -> None:
        if await self._happened(event, timeout_s):
            return
        self._raise_if_gone()
        self.kill()
        raise RunFailed(f"fio for {self.phase.label} {failing}")

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

    def _on_output(self, status: FioStatus, t_ns: int) -> None:
        self._on_status(status, t_ns)
        if self._comparing is None:
            comparing = self._compare_at_work()
            self._comparing = asyncio.create_task(comparing, name=f"files-{self.phase.index}")

    async def _compare_at_work(self) -> None:
        with contextlib.suppress(HostUnreachable):  # a lost host is reported elsewhere
            await self._files.compare(must_be_there=False)

    def _raise_if_different(self) -> None:
        if self._files.difference:
            raise Refused(self._complaint(f"{self._files.difference}; it was killed"))

    def _raise_if_gone(self) -> None:
        self._raise_if_different()
        if self._process.returncode == NOT_WHAT_WAS_CHECKED and self.release_ns is None:
            raise Refused(self._complaint("it was not started"))
        if self._process.returncode is not None or self.lost:
            kind = HostUnreachable if self.lost else RunFailed
            raise kind(self._complaint(self.lost or self._ended()))

    def _ended(self) -> str:
        """Why fio is gone, in words."""
        return self.output.given_up or _fio_process_ending(self._process.returncode)

    def _complaint(self, how: str) -> str:
        message = self._files.named("; ".join([how, *self.output.complaints[:3]]))
        return f"fio for {self.phase.label}: {message} (see {STDERR_FILE} in {self._directory})"

    def _close_stdin(self) -> None:
        """Let go of the shells that hold the jobs: they outlive their fio otherwise."""
        self._process.stdin.close()

    async def _read_out(self) -> None:
        self._close_stdin()
        await self.output.read_out()
