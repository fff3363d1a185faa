"""The MQTT sink: events until they are acknowledged, and what the rig is doing now.

*Live* (beside a run that is on) it shows everything and stands behind ``availability``; otherwise
it only delivers what was not delivered, and puts right what a broker still says of a run that
ended while it was away.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

import aiomqtt

from labctl.record.events import Event, EventKind
from labctl.record.json_values import UNREADABLE
from labctl.record.reader import RunRecord
from labctl.sinks.follow.cursor import CursorFile
from labctl.sinks.follow.phase_points import started_point
from labctl.sinks.mqtt.connection import MqttPublisher, ReconnectPace
from labctl.sinks.mqtt.home_assistant import discovery
from labctl.sinks.mqtt.messages import Message, RigMessages
from labctl.sinks.mqtt.settings import MQTT, MqttSettings
from labctl.sinks.mqtt.topics import topic_name
from labctl.sinks.schema import Point, run_tags
from labctl.sinks.sink import Cursor, SinkReport, Slice

MOST_WAITING = 1_000
"""Messages that wait for their acknowledgement before no more are taken."""

RUNNING, IDLE = "running", "idle"


class MqttSink:
    """Tells one broker of one run.

    The cursor moves when all messages before it are acknowledged, so each is told at least once;
    one that is told again has the same id. Of live values only the newest is ever kept.
    """

    def __init__(
        self,
        run: Path,
        settings: MqttSettings,
        tell: Callable[[str], None],
        *,
        live: bool,
        from_start: bool = False,
        pace: ReconnectPace | None = None,
    ) -> None:
        """``tell`` gets sentences for a person, from the loop. Raises JournalError (no run)."""
        self.name = MQTT
        self._run = run
        self._settings = settings
        self._tell = tell
        self._live = live
        self._from_start = from_start
        record = RunRecord(run)
        self._header = record.header
        self._messages = RigMessages.of_run(settings.prefix, record.header)
        self._publisher = MqttPublisher(
            settings,
            tell,
            availability=self._messages.availability if live else None,
            greet=self._announce if live else self._look,
            heard=self._heard,
            pace=pace,
        )
        self._file: CursorFile | None = None
        self._cursor = Cursor(settings.destination, settings.bin_ns)
        self._marks: deque[tuple[int, Cursor]] = deque()
        self._shown_ns: dict[str, int] = {}
        self._state: tuple[str, str | None] | None = None
        self._phase: Point | None = None
        self._found_state: bytes | None = None
        self._take_up(record)

    @property
    def cursor(self) -> Cursor:
        """From where on the journal is wanted."""
        return self._cursor

    async def __aenter__(self) -> MqttSink:
        """Take the cursor and begin to connect. Raises SinkBusy, LabctlError."""
        self._file = CursorFile(self._run, self.name, self._tell)
        if not self._from_start:
            self._cursor, why = self._file.load(self._settings.destination, self._settings.bin_ns)
            if why:
                self._tell(why)
        self._publisher.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop at once; the cursor says from where the next one goes on."""
        await self._publisher.stop()
        self._move_cursor()
        assert self._file is not None
        self._file.close()

    async def put(self, part: Slice) -> None:
        """Take a slice; waits while too much waits for its acknowledgement."""
        self._publisher.deliver(list(self._to_deliver(part.points)))
        if self._live:
            for series in part.series:
                self._show(*self._messages.newest(series))
        mark = (self._publisher.accepted, part.cursor)
        if self._marks and self._marks[-1][0] == mark[0]:
            self._marks[-1] = mark
        else:
            self._marks.append(mark)
        await self._publisher.until_below(MOST_WAITING)
        self._move_cursor()

    async def flush(self) -> None:
        """Everything taken is on its way already."""
        self._move_cursor()

    async def drain(self) -> None:
        """Wait until everything is sent and acknowledged, and keep the cursor."""
        if not self._live:
            await self._publisher.until_greeted()
            self._put_right()
        await self._publisher.until_sent()
        self._move_cursor()
        assert self._file is not None
        self._file.save()

    async def beat(self, point: Point) -> None:
        """A sign of life."""
        self._show(point.t_ns, self._messages.heartbeat(point))
        self._show_state(point.t_ns, str(point.fields["state"]))

    def report(self) -> SinkReport:
        """What was done so far."""
        return SinkReport(
            name=self.name,
            destination=self._settings.destination,
            sent=self._publisher.delivered,
            rejected=0,
            trouble=self._publisher.trouble,
        )

    def _to_deliver(self, points: Iterable[Point]) -> Iterable[Message]:
        for point in points:
            if point.measurement == "event":
                yield self._messages.event(point)
                if self._live:
                    self._follow(point.tags["kind"], point.t_ns)
            elif "outcome" in point.fields:
                yield self._messages.result(point)
            elif self._messages.is_of_all(point.tags):
                self._phase = point
                if self._live:
                    self._show_phase(point.t_ns, active=True)

    def _show(self, t_ns: int, message: Message) -> None:
        """Show it unless something newer was shown there before."""
        if t_ns >= self._shown_ns.get(message.topic, t_ns):
            self._shown_ns[message.topic] = t_ns
            self._publisher.show(message)

    def _show_phase(self, t_ns: int, active: bool) -> None:
        if self._phase is not None:
            self._show(t_ns, self._messages.phase(self._phase, t_ns, active))

    def _show_state(self, t_ns: int, state: str) -> None:
        """What the rig is doing, when that changed."""
        end = None if state == RUNNING else RunRecord(self._run).end
        outcome, reason = _outcome(end)
        if (state, outcome) != self._state:
            self._state = (state, outcome)
            self._show(t_ns, self._messages.state(t_ns, state, outcome, reason))

    def _follow(self, kind: str, t_ns: int) -> None:
        if kind in (EventKind.RUN_STARTED, EventKind.RUN_RESUMED):
            self._show_state(t_ns, RUNNING)
        elif kind == EventKind.RUN_ENDED:
            self._show_state(t_ns, IDLE)
        if kind in (EventKind.RUN_ENDED, EventKind.PHASE_ENDED):
            self._show_phase(t_ns, active=False)

    def _take_up(self, record: RunRecord) -> None:
        """How things stand: where the journal is taken up, what says so may lie before."""
        phases = {phase.index: phase for phase in self._header.phases}
        for event in record.events:
            phase = phases.get(event.data.get("index", -1))
            if event.kind == EventKind.PHASE_STARTED and phase is not None:
                self._phase = started_point(phase, event.t_ns, run_tags(self._header))
            if self._live:
                self._follow(event.kind, event.t_ns)
                if event.kind == EventKind.PHASE_STARTED:
                    self._show_phase(event.t_ns, active=True)

    async def _announce(self, client: aiomqtt.Client) -> None:
        if self._settings.home_assistant:
            for message in discovery(self._header, self._messages.base, self._settings):
                await client.publish(message.topic, message.payload, message.qos, message.retain)

    async def _look(self, client: aiomqtt.Client) -> None:
        """See what the broker says of the rig: it comes before the second answer."""
        topic = self._state_topic()
        self._found_state = None
        await client.subscribe(topic, qos=0)
        await client.unsubscribe(topic)

    def _heard(self, topic: str, content: bytes) -> None:
        if topic == self._state_topic():
            self._found_state = content

    def _state_topic(self) -> str:
        return topic_name(self._messages.base, "state")

    def _put_right(self) -> None:
        """What the broker keeps of this run's rig, unless somebody newer stands behind it."""
        end = RunRecord(self._run).end
        if end is None or _is_of_another_run(self._found_state, self._header.run_id, end.t_ns):
            return
        self._show_state(end.t_ns, IDLE)
        self._show_phase(end.t_ns, active=False)
        self._publisher.show(self._messages.availability.offline)

    def _move_cursor(self) -> None:
        assert self._file is not None
        while self._marks and self._marks[0][0] <= self._publisher.delivered:
            self._file.keep(self._marks.popleft()[1])


def _outcome(end: Event | None) -> tuple[str | None, str | None]:
    if end is None:
        return None, None
    return str(end.data.get("outcome") or ""), str(end.data.get("reason") or "")


def _is_of_another_run(found: bytes | None, run: str, ended_ns: int) -> bool:
    """Whether a retained state was told by a run later than the one that ended then."""
    try:
        state = json.loads(found or b"{}")
        return state.get("run", run) != run and int(state.get("t_ns", 0)) > ended_ns
    except UNREADABLE:
        return False
