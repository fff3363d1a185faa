"""Ships runs to their sinks: beside a run while it is on, or any run at any time.

Live shipping runs in a thread of its own with its own event loop. It reads the run directory as
any other process would, so nothing that happens to a sink can reach the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from labctl.analysis.numbers import duration, significant
from labctl.capture.meters.live_values import View
from labctl.errors import LabctlError
from labctl.record.journal import is_held
from labctl.record.reader import RunRecord
from labctl.record.timebase import NS_PER_S
from labctl.rounded import rounded
from labctl.service.data_dir import find_home
from labctl.service.queue.job import JobState
from labctl.service.queue.store import Queue
from labctl.service.runs.configured_sinks import SinkFactory
from labctl.service.runs.run_clock import RunClock
from labctl.service.runs.run_view import RunView
from labctl.sinks.schema import Point, Value, rig_point
from labctl.sinks.sink import ReportLine

if TYPE_CHECKING:
    from labctl.sinks.follow.follower import Follower
    from labctl.sinks.sink import Sink, SinkReport

POLL_S = 0.2
"""How often the journal of a run is read while the run is on; it is written within 60 ms."""

HEARTBEAT_EVERY_S = 5.0
GRACE_S = 10.0
"""How long the process of a run that has ended waits for its last points to be stored."""

CLOSED_AFTER_S = 1.0
"""After the ``run_ended`` event the last readings are written to the journal."""


@dataclass(frozen=True, slots=True)
class Shipped:
    """The result of shipping one run to one sink."""

    run: Path
    report: SinkReport
    complete: bool
    """Whether everything recorded is stored."""
    problem: str = ""
    """Why the results of the run's phases are not stored, in words."""


Progress = Callable[[str, float, float, int], None]
"""Called with the sink's name, seconds of the run sent, seconds recorded, lines stored."""


def _no_progress(name: str, done_s: float, total_s: float, sent: int) -> None:
    """No progress is shown."""


async def ship(
    path: Path,
    sinks: Sequence[Sink],
    *,
    over: asyncio.Event | None = None,
    progress: Progress = _no_progress,
) -> list[Shipped]:
    """Send a run to each sink from its cursor.

    With ``over`` the run is followed while it is on, until ``over`` is set or the journal has
    its end, with heartbeats of its rig; without, what is recorded by now is sent. Returns
    when all is stored. Raises JournalError when this is no run, LabctlError when a sink
    cannot be opened.
    """
    record = RunRecord(path)
    results = await asyncio.gather(
        *(_ship_to_sink(record, sink, over, progress) for sink in sinks), return_exceptions=True
    )
    shipped = []
    for result in results:  # the others are sent although one sink cannot be opened
        if isinstance(result, BaseException):
            raise result
        shipped.append(result)
    return shipped


async def _ship_to_sink(
    record: RunRecord,
    sink: Sink,
    over: asyncio.Event | None,
    progress: Progress,
) -> Shipped:
    from labctl.sinks.follow.follower import Follower

    async with sink:
        follower = Follower(record.path, sink.cursor)
        if over is not None:
            await _ship_live(follower, sink, over)
        still_on = over is None and is_held(record.path)
        now = RunClock(record.anchor).now_ns
        while (part := follower.advance(now() if still_on else None)) is not None:
            await sink.put(part)
            progress(sink.name, *follower.progress(), sink.report().sent)
        await sink.drain()
        progress(sink.name, *follower.progress(), sink.report().sent)
        complete = not still_on and not follower.problem
        return Shipped(record.path, sink.report(), complete, follower.problem)


async def _ship_live(follower: Follower, sink: Sink, over: asyncio.Event) -> None:
    clock = RunClock(follower.record.anchor)
    view = RunView(follower.record.path)
    rig = follower.header.rig_name
    queue = await asyncio.to_thread(_queue_while_shipping)
    next_heartbeat_s = 0.0
    ended_at: float | None = None
    while not over.is_set():
        while (part := follower.advance(clock.now_ns())) is not None:
            await sink.put(part)
        now = time.monotonic()
        if now >= next_heartbeat_s and not follower.ended:
            next_heartbeat_s = now + HEARTBEAT_EVERY_S
            state = "running" if follower.header.phases else "idle"  # an idle record has no phases
            waiting = await asyncio.to_thread(_shipped_queue_length, queue, rig)
            doing = _now_at_work(follower, view)
            await sink.heartbeat(
                _shipping_heartbeat(follower, clock.now_ns(), state, waiting, doing)
            )
        await sink.flush()
        if follower.ended:
            ended_at = ended_at or now
            if now - ended_at >= CLOSED_AFTER_S:
                break
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await over.wait()
    waiting = await asyncio.to_thread(_shipped_queue_length, queue, rig)
    await sink.heartbeat(_shipping_heartbeat(follower, clock.now_ns(), "idle", waiting))
    await sink.drain()  # before results are computed, for which this loop stands still


def _queue_while_shipping() -> Queue | None:
    """The queue of this data directory; None where there is none."""
    home = find_home()
    try:
        return Queue(home) if home.queue.is_dir() else None
    except LabctlError:
        return None


def _shipped_queue_length(queue: Queue | None, rig: str) -> int | None:
    """How many jobs wait for a rig; None where that is not known."""
    try:
        jobs = [] if queue is None else queue.jobs()
    except LabctlError:
        return None
    return sum(job.rig == rig and job.state is JobState.QUEUED for job in jobs)


def _shipping_heartbeat(
    follower: Follower,
    now_ns: int,
    state: str,
    waiting: int | None,
    at_work: Mapping[str, Value | None] | None = None,
) -> Point:
    """A heartbeat of the rig; without ``at_work`` the last one before an orderly end."""
    return rig_point(
        follower.header.rig_name,
        now_ns,
        state,
        queue_length=waiting,
        meters_ok=not follower.lost_instruments,
        journal_lag_s=follower.lag_s(),
        alive=at_work is not None,
        at_work=at_work,
    )


def _now_at_work(follower: Follower, run_view: RunView) -> dict[str, Value | None]:
    """What the run does at this moment, as fields of a heartbeat."""
    view = run_view.view()
    left_ns = None if view.ends_ns is None else max(view.ends_ns - run_view.now_ns(), 0)
    left_s = None if left_ns is None else left_ns / NS_PER_S
    doing = at_work(view, follower.tags, follower.header.plan_name, left_s)
    return doing | {"result_text": follower.result_text or None}


def at_work(
    view: View, tags: Mapping[str, str], plan: str, left_s: float | None
) -> dict[str, Value | None]:
    """Fields of a heartbeat: what a run does, of which these are the tags. ``left_s``: the seconds
    until its planned end."""
    known: dict[str, Value | None] = {
        "run": tags["run"],
        "drive": tags["drive"] or None,
        "plan": plan or None,
        "watts": view.watts,
        "celsius": max(view.celsius.values(), default=None),
        "left_s": left_s,
    }
    if view.phase is not None:
        known |= {
            "phase": view.phase.label,
            "phase_number": view.phase.index + 1,
            "phases": view.phases_total,
            "qd": view.phase.queue_depth,
        }
    return known | {
        "load_text": _load_text(view),
        "progress_text": _shipped_progress_text(view, left_s),
    }


def _shipped_progress_text(view: View, left_s: float | None) -> str:
    """The number of the phase and the time left, in whole minutes from two on."""
    parts = []
    if view.phase is not None:
        parts.append(f"{view.phase.index + 1}/{view.phases_total}")
    if left_s is not None:
        most = "" if view.phase is None or view.phase.until is None else "at most "
        shown = duration(60 * round(left_s / 60) if left_s >= 120 else left_s)
        parts.append(f"{most}{shown} left")
    if view.point is not None and view.point.watts is not None:
        parts.append(f"W ±{rounded(view.point.watts.u_pct, 2)} %")
    return ", ".join(parts)


def _load_text(view: View) -> str:
    """Queue depth (or the phase without one), watts and degrees, as far as they are known."""
    phase, celsius = view.phase, max(view.celsius.values(), default=None)
    parts = (
        "" if phase is None else f"QD{phase.queue_depth}" if phase.queue_depth else phase.label,
        "" if view.watts is None else f"{significant(view.watts, 3)} W",
        "" if celsius is None else f"{celsius:.0f} °C",
    )
    return " ".join(filter(None, parts))


class LiveShipping:
    """Ships a run while it is on, in a thread of its own. Nothing here raises into the run."""

    def __init__(self, factories: Sequence[SinkFactory], report_line: ReportLine) -> None:
        """``report_line`` gets sentences for a person, from the shipping thread."""
        self._factories = tuple(factories)
        self._report_line = report_line
        self._path: Path | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._over: asyncio.Event | None = None
        self._ready = threading.Event()
        self._complete = False

    def begin(self, path: Path) -> None:
        """Begin to ship: the run's directory exists."""
        if not self._factories:
            return
        self._path = path
        self._thread = threading.Thread(target=self._run, name="shipping", daemon=True)
        self._thread.start()

    def finish(self, grace_s: float = GRACE_S) -> bool:
        """Send the rest of a run that has ended, for at most ``grace_s``; whether all is stored.

        ``labctl ship`` sends what is missing then.
        """
        if self._thread is None or self._path is None:
            return True
        self._ready.wait(grace_s)
        self._call(lambda: self._over.set() if self._over else None)
        self._thread.join(grace_s)
        if self._thread.is_alive():
            self._call(lambda: self._task.cancel() if self._task else None)
            self._thread.join(GRACE_S)
        if not self._complete:
            self._report_line(
                f"not everything is sent yet; labctl ship {self._path} sends the rest"
            )
        return self._complete

    def _call(self, action: Callable[[], object]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop ended by itself just now
                self._loop.call_soon_threadsafe(action)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except asyncio.CancelledError:
            return  # grace_s has passed
        except LabctlError as error:
            self._report_line(str(error))
        except Exception as error:  # a bug in a sink must not take the run down
            self._report_line(f"shipping stopped: {type(error).__name__}: {error}")
        finally:
            self._ready.set()

    async def _main(self) -> None:
        assert self._path is not None
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._task = asyncio.current_task()
        self._ready.set()
        sinks = [make(self._path, self._report_line) for make in self._factories]
        shipped = await ship(self._path, sinks, over=self._over)
        self._complete = all(one.complete for one in shipped)
        for problem in {one.problem for one in shipped if one.problem}:
            self._report_line(problem)
