"""The condition of a rig that an MQTT broker tells of, in one word: first those that need somebody.

What is retained is the last word of a rig, which may be dead since: a run that is said to be on
while nobody publishes for the rig any more was lost.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum

from labctl.record.events import Outcome
from labctl.record.timebase import NS_PER_S
from labctl.service.status.broker_rigs import RemoteRig

SILENT_AFTER_S = 15.0
"""Two heartbeats of 5 s are missing by then, as on the dashboards. The clocks have to agree."""


class Condition(StrEnum):
    """What a rig does or what is wrong with it, the most urgent first."""

    LOST = "lost"
    SILENT = "silent"
    FAILED = "failed"
    ABORTED = "aborted"
    NO_METER = "no meter"
    RUNNING = "running"
    IDLE = "idle"
    OFFLINE = "offline"


NEED_SOMEBODY = (
    *(Condition.LOST, Condition.SILENT, Condition.FAILED, Condition.ABORTED, Condition.NO_METER),
)


@dataclass(frozen=True, slots=True)
class FoundCondition:
    """The condition of a rig; ``why`` is empty where nobody is needed."""

    condition: Condition
    why: str = ""

    @property
    def rank(self) -> int:
        """0 for the most urgent."""
        return list(Condition).index(self.condition)


def condition_of(rig: RemoteRig, now_ns: int | None = None) -> FoundCondition:
    """The condition of a rig at ``now_ns`` (ns since the epoch; the present moment)."""
    now_ns = time.time_ns() if now_ns is None else now_ns
    running = rig.state.get("state") == Outcome.RUNNING
    if not rig.online and running:
        return FoundCondition(
            Condition.LOST, f"it went away while a run was on{_since_heartbeat(rig)}"
        )
    late = bool(rig.heartbeat) and now_ns - rig.heartbeat_ns > SILENT_AFTER_S * NS_PER_S
    if rig.online and late and not rig.heard_now:
        return FoundCondition(Condition.SILENT, f"no heartbeat{_since_heartbeat(rig)}")
    if rig.online and rig.heartbeat.get("meters_ok") is False:
        return FoundCondition(Condition.NO_METER, "a meter gives no readings")
    if rig.online and running:
        return FoundCondition(Condition.RUNNING)
    outcome, reason = rig.last_outcome
    if outcome in (Outcome.FAILED, Outcome.ABORTED):
        return FoundCondition(Condition(outcome), reason or f"its last run {outcome}")
    return FoundCondition(Condition.IDLE if rig.online else Condition.OFFLINE)


def _since_heartbeat(rig: RemoteRig) -> str:
    if not rig.heartbeat_ns:
        return ""
    then = time.localtime(rig.heartbeat_ns / NS_PER_S)
    return time.strftime(" since %a %d %b %H:%M:%S", then)
