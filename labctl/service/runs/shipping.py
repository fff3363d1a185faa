"""Ships runs to their sinks: beside a run while it is on, or any run at any time.

Live shipping runs in a thread of its own with its own event loop. It reads the run directory as
any other process would, so nothing that happens to a sink can reach the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from labctl.errors import ConfigurationError, LabctlError, Mistake
from labctl.installed import Extra, need
from labctl.record.layout import CHANNELS_DIR, EVENTS_FILE
from labctl.record.reader import RunRecord
from labctl.record.timebase import Anchor
from labctl.service.data_dir import find_home
from labctl.service.queue.job import JobState
from labctl.service.queue.store import Queue
from labctl.sinks.influxdb.settings import InfluxSettings, cursor_name, influx_settings
from labctl.sinks.mqtt.settings import MqttSettings, mqtt_settings
from labctl.sinks.schema import Point, rig_point

if TYPE_CHECKING:
    from labctl.sinks.follow.follower import Follower
    from labctl.sinks.sink import Sink, SinkReport

POLL_S = 0.2
"""How often a run that is on is looked at. The journal is written within 30 ms."""

BEAT_S = 5.0
GRACE_S = 10.0
"""How long a run that has ended waits for its last points to be stored."""

CLOSED_AFTER_S = 1.0
"""After the ``run_ended`` event the journal hands over its last readings."""

WRITTEN_WITHIN_S = 5.0
"""A run without an end whose files changed this recently is still on."""


@dataclass(frozen=True, slots=True)
class Shipped:
    """What came of shipping one run to one sink. ``complete``: everything recorded is stored;
    ``problem`` is why the run's phases are not, in words."""

    run: Path
    report: SinkReport
    complete: bool
    problem: str = ""


Tell = Callable[[str], None]
SinkFactory = Callable[[Path, Tell], "Sink"]
"""Makes a sink for a run, in the event loop that will use it."""

Progress = Callable[[str, float, float, int], None]
"""Called with the sink's name, seconds of the run sent, seconds there are, lines stored."""


def _no_progress(name: str, done_s: float, total_s: float, sent: int) -> None:
    """Nobody is looking."""


class RunClock:
    """The present moment on the timebase of a run, as far as it can be known."""

    def __init__(self, anchor: Anchor) -> None:
        same_boot = Anchor.take().boot_id == anchor.boot_id and anchor.boot_id != ""
        self._anchor = anchor if same_boot else None

    def now_ns(self) -> int:
        """Now; by the wall clock when the run was recorded under another boot."""
        if self._anchor is None:
            return time.time_ns()
        return self._anchor.from_monotonic_ns(time.monotonic_ns())


def is_on(record: RunRecord) -> bool:
    """Whether somebody is still writing this run."""
    if record.end is not None:
        return False
    files = [record.path / EVENTS_FILE, *(record.path / CHANNELS_DIR).iterdir()]
    newest = max((file.stat().st_mtime for file in files if file.exists()), default=0.0)
    return abs(time.time() - newest) < WRITTEN_WITHIN_S  # ahead of now: the clock was set back


async def ship(
    path: Path,
    sinks: Sequence[Sink],
    *,
    over: asyncio.Event | None = None,
    beats: bool = True,
    progress: Progress = _no_progress,
) -> list[Shipped]:
    """Send a run to each sink from its cursor.

    With ``over`` the run is followed while it is on, until ``over`` is set or the journal says
    that it ended, with heartbeats of its rig if ``beats``; without, what is there is sent. Comes
    back when all is stored. Raises JournalError when this is no run, LabctlError when a sink
    cannot be opened.
    """
    record = RunRecord(path)
    results = await asyncio.gather(
        *(_to(record, sink, over, beats, progress) for sink in sinks), return_exceptions=True
    )
    shipped = []
    for result in results:  # one sink that cannot be opened does not hold up the others
        if isinstance(result, BaseException):
            raise result
        shipped.append(result)
    return shipped


async def _to(
    record: RunRecord,
    sink: Sink,
    over: asyncio.Event | None,
    beats: bool,
    progress: Progress,
) -> Shipped:
    from labctl.sinks.follow.follower import Follower

    async with sink:
        follower = Follower(record.path, sink.cursor)
        if over is not None:
            await _live(follower, sink, over, beats)
        still_on = over is None and is_on(record)
        now = RunClock(record.anchor).now_ns
        while (part := follower.advance(now() if still_on else None)) is not None:
            await sink.put(part)
            progress(sink.name, *follower.progress(), sink.report().sent)
        await sink.drain()
        progress(sink.name, *follower.progress(), sink.report().sent)
        complete = not still_on and not follower.problem
        return Shipped(record.path, sink.report(), complete, follower.problem)


async def _live(follower: Follower, sink: Sink, over: asyncio.Event, beats: bool) -> None:
    clock = RunClock(follower.record.anchor)
    rig = follower.header.rig_name
    queue = await asyncio.to_thread(_queue)
    next_beat = 0.0
    ended_at: float | None = None
    while not over.is_set():
        while (part := follower.advance(clock.now_ns())) is not None:
            await sink.put(part)
        now = time.monotonic()
        if beats and now >= next_beat and not follower.ended:
            next_beat = now + BEAT_S
            state = "running" if follower.header.phases else "idle"  # a record of the meters alone
            waiting = await asyncio.to_thread(_waiting, queue, rig)
            await sink.beat(_beat(follower, clock.now_ns(), state, waiting, alive=True))
        await sink.flush()
        if follower.ended:
            ended_at = ended_at or now
            if now - ended_at >= CLOSED_AFTER_S:
                break
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await over.wait()
    if beats:
        waiting = await asyncio.to_thread(_waiting, queue, rig)
        await sink.beat(_beat(follower, clock.now_ns(), "idle", waiting, alive=False))


def _queue() -> Queue | None:
    """The queue of this data directory; None where there is none."""
    home = find_home()
    try:
        return Queue(home) if home.queue.is_dir() else None
    except LabctlError:
        return None


def _waiting(queue: Queue | None, rig: str) -> int | None:
    """How many jobs wait for a rig; None where that is not known."""
    try:
        jobs = [] if queue is None else queue.jobs()
    except LabctlError:
        return None
    return sum(job.rig == rig and job.state is JobState.QUEUED for job in jobs)


def _beat(
    follower: Follower, now_ns: int, state: str, waiting: int | None, *, alive: bool
) -> Point:
    """A sign of life of a rig."""
    return rig_point(
        follower.header.rig_name,
        now_ns,
        state,
        queue_length=waiting,
        meters_ok=not follower.lost_instruments,
        journal_lag_s=follower.lag_s(),
        alive=alive,
    )


def influx_sink(
    settings: InfluxSettings,
    *,
    to: str | None = None,
    full_rate: bool = False,
    from_start: bool = False,
) -> SinkFactory:
    """Makes the sink for an InfluxDB. Raises MissingPart when its client is not installed."""
    need(Extra.INFLUX)

    def make(run: Path, tell: Tell) -> Sink:
        from labctl.sinks.influxdb.sink import InfluxSink

        return InfluxSink(
            run,
            cursor_name(settings, to, full_rate),
            settings,
            tell,
            full_rate=full_rate,
            from_start=from_start,
        )

    return make


def mqtt_sink(settings: MqttSettings, *, live: bool, from_start: bool = False) -> SinkFactory:
    """Makes the sink for an MQTT broker; ``live``: beside a run that is on.

    Raises MissingPart when its client is not installed.
    """
    need(Extra.MQTT)

    def make(run: Path, tell: Tell) -> Sink:
        from labctl.sinks.mqtt.sink import MqttSink

        return MqttSink(run, settings, tell, live=live, from_start=from_start)

    return make


def configured_sinks(rig_text: str, rig_name: str) -> list[SinkFactory]:
    """What a rig, or the site file, says its runs are sent to while they are on.

    Raises ConfigurationError with every mistake, MissingPart.
    """
    influx, mqtt, mistakes = None, None, dict[Mistake, None]()
    try:
        influx = influx_settings(rig_text, rig_name)
    except ConfigurationError as error:
        mistakes |= dict.fromkeys(error.mistakes)
    try:
        mqtt = mqtt_settings(rig_text, rig_name)
    except ConfigurationError as error:
        mistakes |= dict.fromkeys(error.mistakes)
    if mistakes:
        raise ConfigurationError(tuple(mistakes))
    configured = ((influx, Extra.INFLUX), (mqtt, Extra.MQTT))
    need(*(extra for settings, extra in configured if settings is not None))
    sinks = [] if influx is None else [influx_sink(influx)]
    return sinks if mqtt is None else [*sinks, mqtt_sink(mqtt, live=True)]


class LiveShipping:
    """Ships a run while it is on, in a thread of its own. Nothing here raises into the run."""

    def __init__(self, factories: Sequence[SinkFactory], tell: Tell, *, beats: bool = True) -> None:
        """``tell`` gets sentences for a person, from the shipping thread.

        ``beats`` is for a run on its own; a daemon gives its rig's heartbeats itself.
        """
        self._beats = beats
        self._factories = tuple(factories)
        self._tell = tell
        self._path: Path | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._over: asyncio.Event | None = None
        self._ready = threading.Event()
        self._complete = False

    def begin(self, path: Path) -> None:
        """The run's directory is there: follow it."""
        if not self._factories:
            return
        self._path = path
        self._thread = threading.Thread(target=self._run, name="shipping", daemon=True)
        self._thread.start()

    def finish(self, grace_s: float = GRACE_S) -> bool:
        """The run is over: send the rest, for at most ``grace_s``; whether all of it is stored.

        What is missing then, ``labctl ship`` sends.
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
            self._tell(f"not everything is sent yet; labctl ship {self._path} sends the rest")
        return self._complete

    def _call(self, action: Callable[[], object]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop ended by itself just now
                self._loop.call_soon_threadsafe(action)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except asyncio.CancelledError:
            return  # the grace is over
        except LabctlError as error:
            self._tell(str(error))
        except Exception as error:  # a bug in a sink must not take the run down
            self._tell(f"shipping stopped: {type(error).__name__}: {error}")
        finally:
            self._ready.set()

    async def _main(self) -> None:
        assert self._path is not None
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._task = asyncio.current_task()
        self._ready.set()
        sinks = [make(self._path, self._tell) for make in self._factories]
        shipped = await ship(self._path, sinks, over=self._over, beats=self._beats)
        self._complete = all(one.complete for one in shipped)
        for problem in {one.problem for one in shipped if one.problem}:
            self._tell(problem)
