"""What the fio of a phase prints: kept in files as it comes, and read while fio works.

Of its latency bins those of the last document alone are kept: that stands twice at the end, first
without and then with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from labctl.capture.host.drive_host import DriveHost, Spawned
from labctl.capture.phases.fio_clock import FASTEST, FioClock, PrintedTimes, fio_clock
from labctl.capture.phases.fio_job import DISK, DONE, HELD, busy_ms_of
from labctl.capture.phases.fio_window import is_early
from labctl.capture.phases.kept_output import KeptFile
from labctl.capture.phases.slim_output import SlimOutput
from labctl.errors import error_line
from labctl.fio.documents import DocumentStream, documents
from labctl.fio.status import FioStatus, comes_back_empty, status_of
from labctl.record.phase import Phase
from labctl.record.timebase import NS_PER_MS, NS_PER_S, Timebase

STDOUT_FILE = "stdout"
STDERR_FILE = "stderr"
READ_OUT_WITHIN_S = 5.0
SECTOR_BYTES = 512
MOST_COMPLAINTS = 10
FIT_AGAIN = 1.2
"""The rate of fio's clock is learned anew with so many times more statuses than before."""
READ_LATE_NS = 2 * NS_PER_S
NO_STATUS_MS = 1_000
"""A status that was read so late, and then none for so long, twice the usual: the pipe was full."""
LATE_END_MS = 100
"""How long after its time a phase may end although fio could not print then."""

_HARMLESS = ("fio: connected to NBD server",)


class FioOutput:
    """Reads standard output and standard error of one fio until both end.

    ``held`` is set when all ``jobs`` wait for their release, ``done`` (at ``done_ns``) when all
    have done their last I/O. Times are in ns on the timebase.
    """

    def __init__(
        self,
        phase: Phase,
        process: Spawned,
        jobs: int,
        host: DriveHost,
        timebase: Timebase,
        on_status: Callable[[FioStatus, int], None],
        stdout: KeptFile,
        stderr: KeptFile,
    ) -> None:
        """``on_status`` takes each status since the release, and when it was true. ``stdout`` and
        ``stderr`` take what fio prints; ``read_out`` closes them."""
        self.held = asyncio.Event()
        self.done = asyncio.Event()
        self.done_ns: int | None = None
        self.release_ns: int | None = None
        """To be set at the release: what fio prints before it does not concern the phase."""
        self.ended_early = False
        """To be set before fio is asked to end a phase before its time."""
        self.last_status: FioStatus | None = None
        self.printed_at: list[PrintedTimes] = []
        """The times of each status that the wall clock can be trusted in."""
        self.clock_rate = 1.0
        """Seconds that fio's clock counts in a second, as far as its statuses show by now."""
        self.complaints: list[str] = []
        """The first lines with errors of fio."""
        self.errors: tuple[int | str, ...] = ()
        """The error numbers of its jobs, from its last document that has some."""
        self.given_up = ""
        """Why the output is worthless, for which fio was killed; empty while it is good."""
        self._phase = phase
        self._process = process
        self._jobs = jobs
        self._host = host
        self._timebase = timebase
        self._on_status = on_status
        self._stdout, self._stderr = stdout, stderr
        self._held_jobs = 0
        self._done_jobs = 0
        self._fitted = 0
        self._busy_ms: list[int] = []
        self._stdout_bytes = 0
        self._last_printed: FioStatus | None = None
        self._read_late = False
        self._blocked_to_ms: int | None = None
        self._readers = (
            asyncio.create_task(self._read_stdout(), name=f"fio-stdout-{phase.index}"),
            asyncio.create_task(self._read_stderr(), name=f"fio-stderr-{phase.index}"),
        )
        for reader in self._readers:
            reader.add_done_callback(self._reader_ended)

    @property
    def printed(self) -> dict[str, int]:
        """What shows a reader whether the kept output is whole: how many bytes of what fio printed
        were to be kept, and the runtime and the I/Os of both directions in its last document (0
        without one)."""
        last = self._last_printed
        return {
            "stdout_bytes": self._stdout_bytes,
            "runtime_ms": 0 if last is None else last.runtime_ms,
            "total_ios": 0 if last is None else last.total_ios,
        }

    @property
    def end_unknown(self) -> bool:
        """Whether fio could not print when it ended, since nobody read what it had printed.

        Its jobs wait for that before they tell that they are done, and it takes that time for time
        at work (3.33: ``stat_sem``).
        """
        last = self.last_status
        if last is None or last.runtime_ms != self._blocked_to_ms:
            return False
        phase = self._phase
        if self.ended_early or not phase.timed:
            return True
        return last.runtime_ms > phase.duration_s * 1000 + LATE_END_MS

    @property
    def iops(self) -> float:
        """I/Os per second since the first one, by the newest status; 0 without one."""
        if self.last_status is None or not self.last_status.runtime_ms:
            return 0.0
        return self.last_status.total_ios / self.last_status.runtime_ms * 1000 * self.clock_rate

    @property
    def disk_busy_s(self) -> float | None:
        """For how long the drive had I/O in flight, by the kernel's count; None if not printed."""
        if len(self._busy_ms) < 2:
            return None
        return (max(self._busy_ms) - min(self._busy_ms)) / 1000

    async def read_out(self) -> None:
        """fio is gone: read what is left in its pipes, for a limited time, and close the files."""
        _, late = await asyncio.wait(self._readers, timeout=READ_OUT_WITHIN_S)
        for reader in late:
            reader.cancel()
            self._give_up("its output did not end when it did")
        for kept in (self._stdout, self._stderr):
            await asyncio.to_thread(kept.close)
            self._give_up(kept.problem)

    def _reader_ended(self, reader: asyncio.Task[None]) -> None:
        if not reader.cancelled() and (error := reader.exception()) is not None:
            self._give_up(f"its output is not read any more: {error_line(error)}")

    def check_last_status(self) -> None:
        """Give up when the newest status counts I/Os without their bytes."""
        if self.last_status is not None:
            self._check_bytes(self.last_status, self.last_status)

    def _give_up(self, reason: str) -> None:
        """Kill fio for ``reason``, unless that is empty."""
        if reason:
            self.given_up = self.given_up or reason
            self._process.kill()

    async def _read_stdout(self) -> None:
        stream, slim = DocumentStream(), SlimOutput()
        while chunk := await self._process.stdout.read(1 << 16):
            self._take_lines(slim.feed(chunk), stream)
            await asyncio.sleep(0)  # a read of what is there already lets nobody else work
        self._take_lines(slim.finish(), stream)
        for document in stream.finish():
            self._take(status_of(document))
        last = slim.last_document()
        whole = documents(last.decode("utf-8", errors="replace"))
        if any(status_of(document) == self._last_printed for document in whole):
            self._keep(b"\n" + last)

    def _take_lines(self, lines: bytes, stream: DocumentStream) -> None:
        """Keep lines without bins, and look for complaints and documents in them."""
        self._keep(lines)
        text = lines.decode("utf-8", errors="replace")
        if "fio:" in text:
            self.complaints += [
                line
                for line in text.splitlines()
                if line.startswith("fio:") and line not in _HARMLESS
            ][: MOST_COMPLAINTS - len(self.complaints)]
        for document in stream.feed(text):
            self._take(status_of(document))

    def _keep(self, data: bytes) -> None:
        """Put ``data`` into the file of standard output."""
        self._stdout_bytes += len(data)
        self._stdout.write(data)
        self._give_up(self._stdout.problem)

    def _take(self, status: FioStatus) -> None:
        self._last_printed = status
        self.errors = status.errors or self.errors
        if self.release_ns is None or not status.total_ios:
            return
        if self.last_status is not None:
            self._check_bytes(self.last_status, status)
        if self.given_up:
            return
        read_ns = shown_ns = self._timebase.now_ns()
        if status.wall_ms is not None:
            shown = self._host.moment_of(status.wall_ms * NS_PER_MS)
            times = PrintedTimes(status.runtime_ms, shown)
            # what was printed across the release has a runtime that counts from before it; no
            # clock is so fast
            across = is_early(times.began(FASTEST), self.release_ns)
            if across and not self.printed_at:
                return
            ahead = shown.t_ns - shown.u_ns > shown_ns + NS_PER_MS
            if not (across or ahead):  # else the wall clock was set after fio printed it
                shown_ns = shown.t_ns
                self.printed_at.append(times)
                self._fit_clock()
        before_ms = 0 if self.last_status is None else self.last_status.runtime_ms
        if self._read_late and status.runtime_ms - before_ms > NO_STATUS_MS:
            self._blocked_to_ms = status.runtime_ms
        self._read_late = read_ns - shown_ns > READ_LATE_NS
        self.last_status = status
        self._on_status(replace(status, clock_rate=self.clock_rate), shown_ns)

    def fio_clock(self) -> FioClock | None:
        """How fast fio's clock runs, by the statuses so far; None where they do not show it.

        Those of a paced replay do not: fio notes its runtime, then waits for workers that sleep
        until the trace's next I/O (3.33), and prints it late.
        """
        replay = self._phase.replay
        return None if replay is not None and replay.stalls else fio_clock(self.printed_at)

    def _fit_clock(self) -> None:
        """Learn the rate of fio's clock anew, the more seldom the better it is known."""
        if len(self.printed_at) < FIT_AGAIN * self._fitted:
            return
        self._fitted = len(self.printed_at)
        clock = self.fio_clock()
        if clock is not None and clock.matters(self.printed_at[-1].runtime_ms * NS_PER_MS):
            self.clock_rate = clock.rate

    def _check_bytes(self, before: FioStatus, now: FioStatus) -> None:
        """Give up when the drive completes I/Os without data."""
        in_flight = self._phase.queue_depth * self._phase.jobs
        least_bytes = SECTOR_BYTES if self._phase.replay else self._phase.block_size_bytes
        if comes_back_empty(before, now, least_bytes, in_flight):
            self._give_up("what it reads comes back empty; is the drive still there, and as large?")

    async def _read_stderr(self) -> None:
        while line := await self._process.stderr.readline():
            now_ns = self._timebase.now_ns()
            word = line.strip()
            if word == HELD:
                self._held_jobs += 1
                if self._held_jobs == self._jobs:
                    self.held.set()
            elif word == DONE:
                self._done_jobs += 1
                if self._done_jobs == self._jobs:
                    self.done_ns = now_ns
                    self.done.set()
            elif word.startswith(DISK):
                busy_ms = busy_ms_of(word)
                self._busy_ms += [busy_ms] if busy_ms is not None else []
            else:
                self._stderr.write(line)
                self._give_up(self._stderr.problem)
                if word and len(self.complaints) < MOST_COMPLAINTS:
                    self.complaints.append(word.decode("utf-8", errors="replace"))
