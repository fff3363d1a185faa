"""The MQTT messages of a rig and of a run: state, heartbeat, phase, result, event, live values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from labctl.record.header import Header
from labctl.sinks.mqtt.topics import (
    DATABASE_ONLY,
    OFFLINE,
    ONLINE,
    TOPICS,
    base_topic,
    moment,
    payload,
    topic_name,
)
from labctl.sinks.schema import Point, PointSeries, drive_tags, run_tags

NAMED_BY: Mapping[str, str] = {"power": "rail", "temperature": "sensor", "io": "op"}
"""The tag that names a series of a measurement."""


@dataclass(frozen=True, slots=True)
class Message:
    """One MQTT message; with ``qos`` 1 it is sent until the broker acknowledges it."""

    topic: str
    payload: bytes
    qos: int
    retain: bool


@dataclass(frozen=True, slots=True)
class Availability:
    """Published on connecting; on disconnecting, or as the last will when the connection breaks."""

    online: Message
    offline: Message


class RigMessages:
    """Makes the messages of a rig, or of one run on it."""

    def __init__(
        self,
        prefix: str,
        tags: Mapping[str, str],
        plan: str | None = None,
        phases: int = 0,
        drives: Mapping[str, str] | None = None,
    ) -> None:
        """``tags`` are in each message; ``rig`` is among them. ``drives``: of several drives the
        name in the rig, by the value of the points' tag ``drive``."""
        self.base = base_topic(prefix, tags["rig"])
        self._tags = dict(tags)
        self._drives = dict(drives or {})
        self._plan = plan
        self._phases = phases

    @classmethod
    def of_run(cls, prefix: str, header: Header) -> RigMessages:
        """The messages of one run."""
        drives = {tags["drive"]: name for name, tags in drive_tags(header).items()}
        return cls(prefix, run_tags(header), header.plan_title, len(header.phases), drives)

    @property
    def availability(self) -> Availability:
        """Whether a process publishes for this rig now."""
        topic = TOPICS["availability"]
        name = topic_name(self.base, "availability")
        online, offline = (
            Message(name, word, topic.qos, topic.retained) for word in (ONLINE, OFFLINE)
        )
        return Availability(online, offline)

    def is_of_all(self, tags: Mapping[str, str]) -> bool:
        """Whether tags are of all drives together, not of one of several."""
        return tags.get("drive") not in self._drives

    def state(self, t_ns: int, state: str, outcome: str | None, reason: str | None) -> Message:
        """The state of the rig, and the outcome of its last run."""
        values = {"state": state, "plan": self._plan, "outcome": outcome, "reason": reason}
        return self._message("state", t_ns, values)

    def last_run(self, t_ns: int, outcome: str | None, reason: str | None) -> Message:
        """How the run ended."""
        values = {"plan": self._plan, "outcome": outcome, "reason": reason}
        return self._message("last_run", t_ns, values)

    def heartbeat(self, point: Point) -> Message:
        """A heartbeat."""
        known = TOPICS["heartbeat"].fields
        values = {name: value for name, value in point.fields.items() if name in known}
        return self._message("heartbeat", point.t_ns, values)

    def phase(self, point: Point, t_ns: int, active: bool) -> Message:
        """The phase that is on, or was the last."""
        return self._message("phase", t_ns, {"active": active, **self._of_phase(point)})

    def result(self, point: Point) -> Message:
        """The numbers of a phase that ended; of several drives, all of them or one of them."""
        index = point.fields["index"]
        if self.is_of_all(point.tags):
            values = {"id": self._identity("result", index), **self._of_phase(point)}
            return self._message("result", point.t_ns, values)
        name = self._drives[point.tags["drive"]]
        values = {
            "id": self._identity("result", index, name),
            "name": name,
            **self._of_phase(point),
            "drive": point.tags["drive"],
        }
        return self._message("drive_result", point.t_ns, values, name)

    def event(self, point: Point) -> Message:
        """An event. Sent again it has the same id."""
        kind, severity = point.tags["kind"], point.tags["severity"]
        title = point.fields.get("title")
        values = {
            "id": self._identity("event", point.t_ns, kind, severity, title),
            "kind": kind,
            "severity": severity,
            **_drive_tag(point.tags),
            **point.fields,
        }
        return self._message("event", point.t_ns, values, kind)

    def newest(self, series: PointSeries) -> tuple[int, Message]:
        """The newest values of a series, and their time (ns)."""
        kind, tag = series.measurement, NAMED_BY[series.measurement]
        t_ns = int(series.t_ns[-1])
        columns = {name: column[-1] for name, column in series.columns.items()}
        values = {tag: series.tags[tag], **_drive_tag(series.tags), **series.constants, **columns}
        if kind != "io" or self.is_of_all(series.tags):
            return t_ns, self._message(kind, t_ns, values, series.tags[tag])
        name = self._drives[series.tags["drive"]]
        values["name"] = name
        return t_ns, self._message("drive_io", t_ns, values, name, series.tags[tag])

    def _message(self, kind: str, t_ns: int, values: Mapping[str, object], *names: str) -> Message:
        topic = TOPICS[kind]
        content = payload(kind, {**moment(t_ns), **self._tags, **values})
        return Message(topic_name(self.base, kind, *names), content, topic.qos, topic.retained)

    def _of_phase(self, point: Point) -> dict[str, object]:
        fields = {name: value for name, value in point.fields.items() if name not in DATABASE_ONLY}
        if "jobs" in fields:  # fio has a queue; an idle phase has none
            fields["queue_depth"] = point.fields["qd"]
        return {**fields, "phases": self._phases}

    def _identity(self, *parts: object) -> str:
        text = json.dumps([self._tags["rig"], self._tags["run"], *parts])
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _drive_tag(tags: Mapping[str, str]) -> dict[str, str]:
    """The tag ``drive``, where it is there."""
    return {"drive": tags["drive"]} if "drive" in tags else {}
