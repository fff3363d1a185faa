"""The topic tree and the fields of each message, as data; a test compares ``docs/mqtt.md`` with it.

Every topic is below ``<prefix>/<rig>/``. A name in a topic is percent-encoded: what is not a
letter, a digit or one of ``_ . - ~`` becomes ``%XX`` of its UTF-8, so no name adds a level and
each can be decoded. Messages hold the names unencoded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote

from labctl.printable import printable_lines
from labctl.record.timebase import NS_PER_MS, NS_PER_S
from labctl.sinks.mqtt.settings import MqttSettings
from labctl.sinks.schema import SCHEMA, FieldKind, kind_in, shortened

ONLINE, OFFLINE = b"online", b"offline"

LONGEST_LEVEL = 200
"""Characters of a name in a topic; the message holds the whole name."""

_TYPES: Mapping[FieldKind, type] = {
    FieldKind.FLOAT: float,
    FieldKind.INTEGER: int,
    FieldKind.TEXT: str,
}


@dataclass(frozen=True, slots=True)
class Topic:
    """One kind of message.

    ``path`` is below the rig's topic; each level in ``<>`` is a name. ``fields`` are those of its
    JSON object (an unknown value is left out), ``families`` prefixes of fields named after rails
    and sensors. Without fields the payload is a word.
    """

    path: str
    qos: int
    retained: bool
    fields: Mapping[str, type] = field(default_factory=dict)
    families: Mapping[str, type] = field(default_factory=dict)

    def type_of(self, name: str) -> type:
        """The type of a field. Raises KeyError when these messages have no such field."""
        return kind_in(self.fields, self.families, name)


def _topic_fields(measurement: str) -> dict[str, type]:
    return {name: _TYPES[kind] for name, kind in SCHEMA[measurement].fields.items()}


_COMMON: Mapping[str, type] = {"time": str, "t_ns": int, "rig": str, "drive": str, "run": str}
_RIG: Mapping[str, type] = {
    "state": str,
    "queue_length": int,
    "meters_ok": bool,
    "journal_lag_s": float,
    "watts": float,
    "celsius": float,
    "result_text": str,
}
_PHASE: Mapping[str, type] = {
    "index": int,
    "phases": int,
    "label": str,
    "role": str,
    "pattern": str,
    "block_size": str,
    "block_size_bytes": int,
    "queue_depth": int,
    "jobs": int,
    "read_pct": int,
    "power_state": int,
    "power_limit_watts": float,
}
DATABASE_ONLY = ("qd", "throttling_why", "watts_text", "bar_label", "bar_text")
"""Fields of a phase for queries and screens; a message has what they are made of."""

_RESULT = {name: kind for name, kind in _topic_fields("phase").items() if name not in DATABASE_ONLY}
_RESULT_FAMILIES = {name: _TYPES[kind] for name, kind in SCHEMA["phase"].families.items()}

TOPICS: Mapping[str, Topic] = {
    "availability": Topic("availability", qos=1, retained=True),
    "state": Topic(
        "state",
        qos=1,
        retained=True,
        fields={**_COMMON, "state": str, "plan": str, "outcome": str, "reason": str},
    ),
    "last_run": Topic(
        "last_run",
        qos=1,
        retained=True,
        fields={**_COMMON, "plan": str, "outcome": str, "reason": str},
    ),
    "heartbeat": Topic("heartbeat", qos=0, retained=True, fields={**_COMMON, **_RIG}),
    "phase": Topic("phase", qos=1, retained=True, fields={**_COMMON, "active": bool, **_PHASE}),
    "power": Topic(
        "power/<rail>",
        qos=0,
        retained=False,
        fields={**_COMMON, "rail": str, **_topic_fields("power")},
    ),
    "temperature": Topic(
        "temperature/<sensor>",
        qos=0,
        retained=False,
        fields={**_COMMON, "sensor": str, **_topic_fields("temperature")},
    ),
    "io": Topic(
        "io/<op>", qos=0, retained=False, fields={**_COMMON, "op": str, **_topic_fields("io")}
    ),
    "result": Topic(
        "result",
        qos=1,
        retained=False,
        fields={**_COMMON, "id": str, **_PHASE, **_RESULT},
        families=_RESULT_FAMILIES,
    ),
    "drive_io": Topic(
        "drive/<name>/io/<op>",
        qos=0,
        retained=False,
        fields={**_COMMON, "name": str, "op": str, **_topic_fields("io")},
    ),
    "drive_result": Topic(
        "drive/<name>/result",
        qos=1,
        retained=False,
        fields={**_COMMON, "name": str, "id": str, **_PHASE, **_RESULT},
        families=_RESULT_FAMILIES,
    ),
    "event": Topic(
        "event/<kind>",
        qos=1,
        retained=False,
        fields={**_COMMON, "id": str, "kind": str, "severity": str, **_topic_fields("event")},
    ),
}


def level(name: str) -> str:
    """A name as one level of a topic, never empty."""
    return quote(name[:LONGEST_LEVEL], safe="", errors="replace") or "_"


def base_topic(prefix: str, rig: str) -> str:
    """What all topics of a rig begin with."""
    return f"{prefix}/{level(rig)}"


def topic_name(base: str, kind: str, *names: str) -> str:
    """The topic of a message; ``names`` fill the levels in ``<>``, in their order."""
    given = iter(names)
    levels = TOPICS[kind].path.split("/")
    path = "/".join(level(next(given)) if one.startswith("<") else one for one in levels)
    return f"{base}/{path}"


def payload(kind: str, values: Mapping[str, object]) -> bytes:
    """The JSON object of a message; None, NaN and infinite values are left out.

    Raises KeyError for a field that such messages do not have.
    """
    topic = TOPICS[kind]
    written: dict[str, object] = {}
    for name, value in values.items():
        wanted = topic.type_of(name)
        if value is None:
            continue
        if wanted is str:
            written[name] = shortened(printable_lines(str(value)))
        elif wanted is bool or wanted is int or math.isfinite(wanted(value)):
            written[name] = wanted(value)
    return json.dumps(written, ensure_ascii=False, allow_nan=False).encode()


def moment(t_ns: int) -> dict[str, object]:
    """``time`` (ISO 8601, UTC) and ``t_ns``; only ``t_ns`` where the date is out of range."""
    seconds, rest_ns = divmod(t_ns, NS_PER_S)
    try:
        when = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    except (OverflowError, ValueError, OSError):
        return {"t_ns": t_ns}
    return {"time": f"{when.isoformat()}.{rest_ns // NS_PER_MS:03d}Z", "t_ns": t_ns}


def command_topic(settings: MqttSettings, rig: str) -> str:
    """The topic of commands for a rig."""
    return f"{base_topic(settings.prefix, rig)}/command"


def reply_topic(settings: MqttSettings, rig: str) -> str:
    """The topic of the replies to commands for a rig."""
    return f"{base_topic(settings.prefix, rig)}/reply"
