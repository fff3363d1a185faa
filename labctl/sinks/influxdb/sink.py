"""The InfluxDB sink: sends slices in batches; its cursor never runs ahead of what is stored."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from labctl.sinks.cursor import Cursor
from labctl.sinks.follow.cursor_file import SINKS_DIR, CursorFile
from labctl.sinks.influxdb.line_protocol import line, lines
from labctl.sinks.influxdb.settings import InfluxSettings
from labctl.sinks.influxdb.writer import InfluxWriter, WritePace
from labctl.sinks.schema import SCHEMA_VERSION, Point
from labctl.sinks.sink import ReportLine, SinkReport, Slice

BATCH_LINES = 5_000
IN_FLIGHT = 4


@dataclass(slots=True)
class _Batch:
    """Lines being sent; ``cursor`` is valid once they and all before them are stored."""

    cursor: Cursor | None
    stored: bool = False


class InfluxSink:
    """Ships one run to one InfluxDB.

    At most ``IN_FLIGHT`` batches are under way, in any order: sending twice changes nothing. One of
    a run that is on goes alone, since what comes after it may replace points in it. The
    cursor moves when all batches before it are stored. Memory does not grow while the
    server is away: ``put`` waits.
    """

    def __init__(
        self,
        run: Path,
        name: str,
        settings: InfluxSettings,
        report_line: ReportLine,
        *,
        full_rate: bool = False,
        from_start: bool = False,
        pace: WritePace | None = None,
    ) -> None:
        """``name`` is the cursor's; ``report_line`` gets sentences for a person, from the loop."""
        self.name = name
        self._run = run
        self._settings = settings
        self._report_line = report_line
        self._bin_ns = 0 if full_rate else settings.bin_ns
        self._from_start = from_start
        self._rejects = run / SINKS_DIR / f"{name}.rejected.lp"
        self._writer = InfluxWriter(settings, self._rejects, report_line, pace)
        self._file: CursorFile | None = None
        self._cursor = Cursor(settings.destination, self._bin_ns)
        self._buffer: list[str] = []
        self._buffer_cursor: Cursor | None = None
        self._buffer_live = self._sent_live = False
        self._under_way: deque[_Batch] = deque()
        self._places = asyncio.Semaphore(IN_FLIGHT)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def cursor(self) -> Cursor:
        """The cursor from which the journal is to be sent."""
        return self._cursor

    async def __aenter__(self) -> InfluxSink:
        """Take the cursor and connect. Raises SinkBusy, LabctlError."""
        self._file = CursorFile(self._run, self.name, self._report_line)
        try:
            if self._from_start:
                self._rejects.unlink(missing_ok=True)
            else:
                self._cursor, why = self._file.load(
                    self._settings.destination, self._bin_ns, SCHEMA_VERSION
                )
                if why:
                    self._report_line(why)
            await self._writer.__aenter__()
        except BaseException:
            self._file.close()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop at once; the next sink continues from the cursor."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        assert self._file is not None
        self._file.close()
        await self._writer.__aexit__(*exc)

    async def put(self, part: Slice) -> None:
        """Take a slice; waits while ``IN_FLIGHT`` batches are under way."""
        if part.replaces:
            await self._wait_until_stored()
        for stored in part.replaces:
            why = await self._writer.remove(stored)
            if why:
                self._report_line(
                    f"InfluxDB {self._settings.destination} removes nothing ({why}): what the "
                    f"whole run {stored.run} withdrew of its {stored.measurement}s stays stored"
                )
                break
        self._buffer_live |= part.live
        self._buffer += [text for text in map(line, part.points) if text is not None]
        await self._send_full()
        for series in part.series:
            self._buffer += lines(series)
            await self._send_full()
        self._buffer_cursor = part.cursor

    async def _send_full(self) -> None:
        """Send each full batch. It may carry the cursor of the previous slice, of which all lines
        are in this batch or an earlier one."""
        while len(self._buffer) >= BATCH_LINES:
            batch, self._buffer = self._buffer[:BATCH_LINES], self._buffer[BATCH_LINES:]
            cursor, self._buffer_cursor = self._buffer_cursor, None
            await self._send(batch, cursor)

    async def heartbeat(self, point: Point) -> None:
        """Send a heartbeat, unless the server is busy or away: it is of no use later. But for the
        last one: without it a rig that ended in order is silent."""
        text, last = line(point), point.fields.get("alive") == 0
        ready = not self._places.locked() and not self._writer.trouble
        if text is not None and (ready or last):
            self._buffer.append(text)

    async def flush(self) -> None:
        """Send the buffered lines, however few."""
        if self._buffer or self._buffer_cursor is not None:
            batch, cursor = self._buffer, self._buffer_cursor
            self._buffer, self._buffer_cursor = [], None
            await self._send(batch, cursor)

    async def drain(self) -> None:
        """Wait until everything is stored, and save the cursor."""
        await self._wait_until_stored()
        assert self._file is not None
        self._file.save()

    async def _wait_until_stored(self) -> None:
        await self.flush()
        await self._wait_for_all()

    async def _wait_for_all(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)
            self._raise_failure()

    def report(self) -> SinkReport:
        """What has been sent so far."""
        return SinkReport(
            name=self.name,
            destination=self._settings.destination,
            sent=self._writer.stored,
            rejected=self._writer.rejected,
            trouble=self._writer.trouble,
        )

    async def _send(self, batch: list[str], cursor: Cursor | None) -> None:
        if self._buffer_live or self._sent_live:
            await self._wait_for_all()
        self._sent_live = self._buffer_live
        self._buffer_live = self._buffer_live and bool(self._buffer)
        await self._places.acquire()
        self._raise_failure()
        entry = _Batch(cursor)
        self._under_way.append(entry)
        task = asyncio.create_task(self._deliver(batch, entry), name=f"{self.name}-batch")
        self._tasks.add(task)
        task.add_done_callback(self._done)
        await asyncio.sleep(0)  # the task begins to send while further lines are made

    async def _deliver(self, batch: list[str], entry: _Batch) -> None:
        try:
            if batch:
                await self._writer.store(batch)
            entry.stored = True
            self._move_cursor()
        finally:
            self._places.release()

    def _done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            self._tasks.discard(task)

    def _raise_failure(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    def _move_cursor(self) -> None:
        assert self._file is not None
        while self._under_way and self._under_way[0].stored:
            entry = self._under_way.popleft()
            if entry.cursor is not None:
                self._file.keep(entry.cursor)
