"""Events of a run: kinds that others read, and one event."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from labctl.record.json_values import parse_json
from labctl.record.layout import LAST_NS

RESUMED = "run_resumed"
"""The event with which a second process goes on with a run that was cut off."""

HELD_UP = "held_up"
"""The event of labctl itself having stood still: stopped, or not scheduled."""

CPU_TIMES = "cpu_times"
"""The event of a look at what each core of the drive's host did so far."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, at ``t_ns`` on the run's timebase."""

    t_ns: int
    kind: str
    data: dict[str, Any]

    def to_line(self) -> str:
        """One line of ``journal.jsonl``, with its newline."""
        return json.dumps({"t": self.t_ns, "kind": self.kind, **self.data}) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Event:
        """The event of one line, its texts printable. Raises one of UNREADABLE when it is none."""
        data = parse_json(line)
        t_ns = int(data.pop("t"))
        if not 0 <= t_ns < LAST_NS:
            raise ValueError("a time that is none")
        return cls(t_ns=t_ns, kind=str(data.pop("kind")), data=data)
