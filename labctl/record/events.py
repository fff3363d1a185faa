"""Events of a run: what happened, as the lines of ``journal.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from labctl.record.json_values import parse_json
from labctl.record.layout import LAST_NS


class EventKind(StrEnum):
    """Every kind of event that labctl writes, as it stands in the journal.

    docs/run-on-disk.md says when each is written and what its data are. The journal of another
    version may have kinds that are not here: a reader passes them over, or shows them as they are.
    """

    RUN_STARTED = "run_started"
    RUN_RESUMED = "run_resumed"
    RUN_ENDED = "run_ended"
    IMPORTED = "imported"
    """The run was made of files that were there: which ones, and how their clocks were aligned."""

    PHASE_STARTED = "phase_started"
    PHASE_ENDED = "phase_ended"
    STEADY_STATE = "steady_state"
    TEMPERATURE_STEADY = "temperature_steady"
    POINT_STATE = "point_state"
    PURGE_STARTED = "purge_started"
    PURGED = "purged"
    COOLED_DOWN = "cooled_down"
    MARK = "mark"
    """A moment with a text: a person's, or a line that a measured program printed."""
    POWER_STATE = "power_state"

    GUARD_TRIPPED = "guard_tripped"
    GUARD_OVER = "guard_over"
    PAUSED = "paused"
    RESUMED = "resumed"
    """The work goes on after a pause; RUN_RESUMED is of a run that was cut off."""

    SETTING_CHANGED = "setting_changed"
    SETTINGS_RESTORED = "settings_restored"
    SETTINGS_FOUND = "settings_found"
    NOT_RESTORED = "not_restored"

    INSTRUMENT_LOST = "instrument_lost"
    INSTRUMENT_BACK = "instrument_back"
    INSTRUMENT_STUCK = "instrument_stuck"
    STATUS_BEGAN = "status_began"
    STATUS = "status"
    """A channel's status is over."""

    WALL_CLOCK_STEP = "wall_clock_step"
    HELD_UP = "held_up"
    """labctl itself was stopped, or not scheduled."""

    HOST_LOST = "host_lost"
    HOST_BACK = "host_back"
    HOST_SESSION = "host_session"
    HOST_CLOCK = "host_clock"
    HOST_CLOCK_STEP = "host_clock_step"
    CPU_TIMES = "cpu_times"

    DRIVE_STATE = "drive_state"
    DRIVE_COUNTERS = "drive_counters"
    DRIVE_POWER = "drive_power"
    DRIVE_MEASUREMENT = "drive_measurement"
    DRIVE_SILENT = "drive_silent"
    DRIVE_BACK = "drive_back"


class Outcome(StrEnum):
    """How a phase or a run ended, as it stands in the journal and in ``summary.json``.

    A phase is completed, interrupted or failed. A run that was stopped by a person or by a limit is
    aborted; one without an end is interrupted (cut off) or still running.
    """

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    ABORTED = "aborted"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, at ``t_ns`` on the run's timebase.

    ``kind`` is an EventKind, or another text where another version wrote the journal.
    """

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


OnEvent = Callable[[EventKind, int, dict[str, Any]], None]
"""Takes an event's kind, its time in ns on the run's timebase, and its data."""
