"""Records the meters of a rig while nothing runs on it, so that there is always something to see.

An idle record is a run directory without phases, in a folder of its own, a new one each day. The
daemon starts a process of its own for it, which ends before a job begins.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from instruments.reading import Batch
from labctl.capture.host import software
from labctl.capture.meters.acquisition import Acquisition, State
from labctl.capture.phases.stopping import StopRequest
from labctl.capture.run.clock_watch import ClockWatch
from labctl.capture.run.run import CONNECT_WITHIN_S
from labctl.capture.run.run_end import RunEnd
from labctl.config.calibration_file import calibration_in_force
from labctl.config.rig import Rig
from labctl.errors import JournalError
from labctl.record import journal as journals
from labctl.record.events import EventKind, Outcome
from labctl.record.header import DriveInfo, Header
from labctl.record.journal import Journal
from labctl.record.marks import MarkRequests
from labctl.record.timebase import DAY_S, Timebase
from labctl.service.runs.configured_sinks import SinkFactory
from labctl.service.runs.shipping import LiveShipping
from labctl.sinks.sink import ReportLine

IDLE_NAME = "idle"
GRACE_S = 2.0
"""A job waits for the end of the idle record: what is not sent by then is left to labctl ship."""


class _Silent:
    """No live values: an idle record is not shown while it is made."""

    def batch(self, instrument: str, batch: Batch) -> None:
        """Readings came in."""

    def state(self, instrument: str, state: State, reason: str) -> None:
        """An instrument came or went; the owner records it."""


async def record_idle(
    rig: Rig, root: Path, sinks: Sequence[SinkFactory], report_line: ReportLine, stop: asyncio.Event
) -> None:
    """Record until ``stop`` is set, a new record each day. Raises JournalError."""
    while not stop.is_set():
        await _record_idle_day(rig, root, sinks, report_line, stop)


async def _record_idle_day(
    rig: Rig, root: Path, sinks: Sequence[SinkFactory], report_line: ReportLine, stop: asyncio.Event
) -> None:
    timebase = Timebase()
    clocks = ClockWatch(timebase)
    acquisition = Acquisition(rig.create_instruments(timebase.now_ns), timebase.now_ns, _Silent())
    failed = asyncio.Event()
    loop = asyncio.get_running_loop()
    acquisition.start()
    try:
        away = await asyncio.to_thread(acquisition.wait_settled, CONNECT_WITHIN_S)
        path = journals.create(root, _header(rig, timebase, acquisition))

        def journal_failed(message: str) -> None:
            loop.call_soon_threadsafe(failed.set)

        journal = Journal(path, timebase.now_ns, journal_failed)

        def event(kind: EventKind, t_ns: int | None = None, **data: Any) -> None:
            with contextlib.suppress(JournalError):  # reported once, through journal_failed
                journal.event(kind, t_ns, **data)

        shipping = LiveShipping(sinks, report_line)
        end, error = RunEnd(event, StopRequest(), None), None
        try:
            journal.event(EventKind.RUN_STARTED)
            acquisition.record_to(journal)
            for name, reason in away.items():
                journal.event(EventKind.INSTRUMENT_LOST, instrument=name, reason=reason)
            shipping.begin(path)
            watch = _watch_while_idle(clocks, MarkRequests(path, timebase), event)
            await _until_one(stop.wait(), failed.wait(), watch, seconds=DAY_S)
        except BaseException as caught:
            error = caught
            end.because_of(caught)
        await end.meters(acquisition, recorded=True)
        outcome = await end.record(journal)
        await asyncio.to_thread(shipping.finish, GRACE_S)
        if error is not None:
            raise error
        if outcome.outcome is Outcome.FAILED:
            raise JournalError(outcome.reason)
    finally:
        await asyncio.to_thread(acquisition.stop)


async def _watch_while_idle(
    clocks: ClockWatch, marks: MarkRequests, event: Callable[..., object]
) -> None:
    try:
        async for _ in clocks.samples(event):
            marks.record(event)
    finally:
        marks.record(event)


async def _until_one(*works: Coroutine[Any, Any, object], seconds: float) -> None:
    """Until one of them has ended, or the time is over. Raises what it raised."""
    waiting = [asyncio.create_task(work) for work in works]
    done, _ = await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    for task in done:
        task.result()


def _header(rig: Rig, timebase: Timebase, acquisition: Acquisition) -> Header:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    identities = acquisition.identities()
    infos = list(rig.drive_infos().values())
    return Header(
        run_id=f"{stamp}_{rig.name}_{IDLE_NAME}",
        rig_name=rig.name,
        plan_name=IDLE_NAME,
        rig_text=rig.text,
        plan_text="",
        phases=(),
        channels=rig.channel_infos,
        rails=rig.rail_infos(),
        temperatures=rig.temperatures,
        temperature_of=rig.temperature_of(),
        drive=DriveInfo.together(infos) if len(infos) > 1 else infos[0],
        anchor=timebase.anchor,
        versions=software.versions(""),
        identities=identities,
        calibration=calibration_in_force(rig, identities, datetime.now(UTC)),
    )
