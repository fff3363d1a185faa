"""The MQTT sink: delivers events and results, and publishes the rig's state and live values.

*Live* (beside a run that is on) it publishes everything, ``availability`` too; otherwise it only
delivers what was not delivered yet, and corrects the retained state of a run that ended while the
broker was away.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import aiomqtt

from labctl.record.events import Event, EventKind
from labctl.record.json_values import UNREADABLE
from labctl.record.reader import RunRecord
from labctl.sinks.cursor import Cursor
from labctl.sinks.follow.cursor_file import CursorFile
from labctl.sinks.follow.phase_points import started_point
from labctl.sinks.mqtt.connection import MqttPublisher, ReconnectPace
from labctl.sinks.mqtt.home_assistant import discovery
from labctl.sinks.mqtt.messages import Message, RigMessages
from labctl.sinks.mqtt.settings import MQTT, MqttSettings
from labctl.sinks.mqtt.topics import topic_name
from labctl.sinks.schema import Point, run_tags
from labctl.sinks.sink import ReportLine, SinkReport, Slice

MOST_WAITING = 1_000
"""Messages that wait for their acknowledgement before no more are taken."""

RUNNING, IDLE = "running", "idle"


class MqttSink:
    """Sends one run to one broker.

    The cursor moves when all messages before it are acknowledged, so each is delivered at least
    once; one delivered again has the same id. Of live values only the newest is kept.
    """

    def __init__(
        self,
        run: Path,
        settings: MqttSettings,
        report_line: ReportLine,
        *,
        live: bool,
        from_start: bool = False,
        pace: ReconnectPace | None = None,
    ) -> None:
        """``report_line`` gets sentences for a person, from the event loop.

        Raises JournalError when ``run`` is no run.
        """
        self.name = MQTT
        self._run = run
        self._settings = settings
        self._report_line = report_line
        self._live = live
        self._from_start = from_start
        record = RunRecord(run)
        self._header = record.header
        self._messages = RigMessages.of_run(settings.prefix, record.header)
        self._publisher = MqttPublisher(
            settings,
            report_line,
            availability=self._messages.availability if live else None,
            on_connect=self._announce if live else self._read_state,
            on_message=self._on_message,
            pace=pace,
        )
        self._file: CursorFile | None = None
        self._cursor = Cursor(settings.destination, settings.bin_ns)
        self._marks: deque[tuple[int, Cursor]] = deque()
        self._shown_ns: dict[str, int] = {}
        self._state: tuple[str, str | None] | None = None
        self._phase: Point | None = None
        self._retained: dict[str, bytes] = {}
        self._replay_events(record)

    @property
    def cursor(self) -> Cursor:
        """The cursor from which the journal is to be sent."""
        return self._cursor

    async def __aenter__(self) -> MqttSink:
        """Take the cursor and begin to connect. Raises SinkBusy, LabctlError."""
        self._file = CursorFile(self._run, self.name, self._report_line)
        if not self._from_start:
            self._cursor, why = self._file.load(self._settings.destination, self._settings.bin_ns)
            if why:
                self._report_line(why)
        self._publisher.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop at once; the next sink continues from the cursor."""
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
        """Nothing is held back: only the cursor moves."""
        self._move_cursor()

    async def drain(self) -> None:
        """Wait until everything is sent and acknowledged, and keep the cursor."""
        if not self._live:
            await self._publisher.until_connected()
            self._correct_retained()
        await self._publisher.until_sent()
        self._move_cursor()
        assert self._file is not None
        self._file.save()

    async def heartbeat(self, point: Point) -> None:
        """Publish a heartbeat, and the state where it changed."""
        self._show(point.t_ns, self._messages.heartbeat(point))
        self._show_state(point.t_ns, str(point.fields["state"]))

    def report(self) -> SinkReport:
        """What has been delivered so far."""
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
            elif point.measurement != "phase":
                continue  # for queries of a database
            elif "outcome" in point.fields:
                yield self._messages.result(point)
            elif self._messages.is_of_all(point.tags):
                self._phase = point
                if self._live:
                    self._show_phase(point.t_ns, active=True)

    def _show(self, t_ns: int, message: Message) -> None:
        """Publish a live message, unless a newer one of its topic was published before."""
        if t_ns >= self._shown_ns.get(message.topic, t_ns):
            self._shown_ns[message.topic] = t_ns
            self._publisher.show(message)

    def _show_phase(self, t_ns: int, active: bool) -> None:
        if self._phase is not None:
            self._show(t_ns, self._messages.phase(self._phase, t_ns, active))

    def _show_state(self, t_ns: int, state: str) -> None:
        """Publish the state of the rig, where it changed."""
        end = None if state == RUNNING else RunRecord(self._run).end
        outcome, reason = _mqtt_sink_outcome(end)
        if (state, outcome) != self._state:
            self._state = (state, outcome)
            self._show(t_ns, self._messages.state(t_ns, state, outcome, reason))

    def _show_last_run(self, t_ns: int) -> None:
        """Publish how the run ended. A record of meters while nothing ran is no run."""
        if self._header.phases:
            outcome = _mqtt_sink_outcome(RunRecord(self._run).end)
            self._show(t_ns, self._messages.last_run(t_ns, *outcome))

    def _follow(self, kind: str, t_ns: int) -> None:
        if kind in (EventKind.RUN_STARTED, EventKind.RUN_RESUMED):
            self._show_state(t_ns, RUNNING if self._header.phases else IDLE)
        elif kind == EventKind.RUN_ENDED:
            self._show_state(t_ns, IDLE)
            self._show_last_run(t_ns)
        if kind in (EventKind.RUN_ENDED, EventKind.PHASE_ENDED):
            self._show_phase(t_ns, active=False)

    def _replay_events(self, record: RunRecord) -> None:
        """State and phase at the cursor: the events that set them may come before it."""
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

    async def _read_state(self, client: aiomqtt.Client) -> None:
        """Read the retained state: it arrives before the acknowledgement of ``unsubscribe``."""
        self._retained.clear()
        for kind in ("state", "last_run"):
            topic = topic_name(self._messages.base, kind)
            await client.subscribe(topic, qos=0)
            await client.unsubscribe(topic)

    def _on_message(self, topic: str, content: bytes) -> None:
        self._retained[topic.rpartition("/")[2]] = content

    def _correct_retained(self) -> None:
        """Replace the retained state of this run's rig, unless a later run published it."""
        end = RunRecord(self._run).end
        if end is None:
            return
        if not self._is_of_a_later_run("last_run", end):
            self._show_last_run(end.t_ns)
        if self._is_of_a_later_run("state", end):
            return
        self._show_state(end.t_ns, IDLE)
        self._show_phase(end.t_ns, active=False)
        self._publisher.show(self._messages.availability.offline)

    def _is_of_a_later_run(self, kind: str, end: Event) -> bool:
        """Whether a retained message is of a run later than this, which ended then."""
        try:
            found = json.loads(self._retained.get(kind, b"{}"))
            of_another = found.get("run", self._header.run_id) != self._header.run_id
            return of_another and int(found.get("t_ns", 0)) > end.t_ns
        except UNREADABLE:
            return False

    def _move_cursor(self) -> None:
        assert self._file is not None
        while self._marks and self._marks[0][0] <= self._publisher.delivered:
            self._file.keep(self._marks.popleft()[1])


def _mqtt_sink_outcome(end: Event | None) -> tuple[str | None, str | None]:
    if end is None:
        return None, None
    return str(end.data.get("outcome") or ""), str(end.data.get("reason") or "")
