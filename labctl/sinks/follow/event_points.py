"""Events of the journal as points, with title and text for a line in a chart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from labctl.analysis.throttle_result import THROTTLING, Cause, ThrottleInterval
from labctl.record.drive_state import counter_words
from labctl.record.events import Event, EventKind, Outcome
from labctl.record.json_values import is_number
from labctl.record.phase import Phase
from labctl.record.timebase import NS_PER_MS, NS_PER_S
from labctl.sinks.schema import Point, Value

THROTTLE = "throttle"
INFO, WARNING, ERROR = "info", "warning", "error"

_SEVERITIES: dict[str, str] = {
    EventKind.INSTRUMENT_LOST: WARNING,
    EventKind.INSTRUMENT_STUCK: ERROR,
    EventKind.STATUS_BEGAN: WARNING,
    EventKind.STATUS: WARNING,
    EventKind.WALL_CLOCK_STEP: WARNING,
    EventKind.HELD_UP: WARNING,
    EventKind.DRIVE_COUNTERS: WARNING,
    EventKind.DRIVE_SILENT: WARNING,
    EventKind.PAUSED: WARNING,
    EventKind.RUN_RESUMED: WARNING,
    EventKind.NOT_RESTORED: ERROR,
}
NOT_SHOWN = (
    EventKind.DRIVE_POWER,
    EventKind.CPU_TIMES,
    EventKind.SETTINGS_FOUND,
    EventKind.POINT_STATE,
)
"""Readings among the events: for the analysis, not for a line in a chart."""
_BAD_WORDS: dict[str, str] = {
    Outcome.FAILED: ERROR,
    Outcome.ABORTED: ERROR,
    Outcome.INTERRUPTED: WARNING,
}
_TROUBLE_WORDS = {"fail": ERROR, "error": ERROR, "trip": ERROR, "lost": WARNING, "warn": WARNING}

_THROTTLE_TITLES = {
    Cause.THERMAL: "throttled: hot",
    Cause.POWER_LIMIT: "throttled: power limit",
}

WITHDRAWN = "no throttling after all"


def event_point(event: Event, phases: Mapping[int, Phase], tags: Mapping[str, str]) -> Point:
    """The point of an event; one of an unknown kind shows its data as it is."""
    title, text, duration_s = _title_and_text(event, phases)
    fields: dict[str, Value] = {"title": title, "text": text}
    if duration_s is not None:
        fields["duration_s"] = duration_s
    marks = {"kind": event.kind, "severity": severity_of(event)}
    return Point("event", {**tags, **marks}, event.t_ns, fields)


def severity_of(event: Event) -> str:
    """ "info", "warning" or "error"; an event may state its own."""
    own = event.data.get("severity")
    if own in (INFO, WARNING, ERROR):
        return str(own)
    if "outcome" in event.data:
        return _BAD_WORDS.get(str(event.data["outcome"]), INFO)
    if event.kind in _SEVERITIES:
        return _SEVERITIES[event.kind]
    return next((mark for word, mark in _TROUBLE_WORDS.items() if word in event.kind), INFO)


def _title_and_text(event: Event, phases: Mapping[int, Phase]) -> tuple[str, str, float | None]:
    """Title, text and duration."""
    data = event.data
    reason = str(data.get("reason") or "")
    match event.kind:
        case EventKind.RUN_STARTED:
            scale = _event_number(data.get("scale"))
            return "run started", "" if scale is None else f"at scale {scale:g} of the plan", None
        case EventKind.RUN_RESUMED:
            return "run resumed", "it had been cut off", _event_number(data.get("gap_s"))
        case EventKind.RUN_ENDED:
            return f"run {data.get('outcome', 'ended')}", reason, None
        case EventKind.PHASE_STARTED:
            return _phase_title(data, phases), "", None
        case EventKind.PHASE_ENDED:
            title = f"{_phase_title(data, phases)} {data.get('outcome', 'ended')}"
            return title, reason, _event_seconds(data)
        case EventKind.MARK:
            return str(data.get("text") or "mark"), "", None
        case EventKind.INSTRUMENT_LOST:
            return f"meter lost: {data.get('instrument')}", reason, None
        case EventKind.INSTRUMENT_BACK:
            return f"meter back: {data.get('instrument')}", "", _event_number(data.get("gap_s"))
        case EventKind.STATUS_BEGAN | EventKind.STATUS:
            title = f"{data.get('channel')}: {data.get('status')}"
            return title, str(data.get("detail") or ""), _event_seconds(data)
        case EventKind.WALL_CLOCK_STEP:
            return "wall clock stepped", f"by {data.get('seconds')} s", None
        case EventKind.HELD_UP:
            return "labctl stood still", "", _event_number(data.get("seconds"))
        case EventKind.DRIVE_STATE:
            return f"drive{_drive_name(data)} asked {data.get('when')} the run", "", None
        case EventKind.DRIVE_COUNTERS:
            return (
                f"the drive{_drive_name(data)}'s thermal counters moved",
                _event_point_moved_counters(data),
                None,
            )
        case EventKind.DRIVE_SILENT:
            return f"the drive{_drive_name(data)} does not tell its SMART", reason, None
        case EventKind.DRIVE_BACK:
            title = f"the drive{_drive_name(data)} tells its SMART again"
            return title, "", _event_number(data.get("gap_s"))
    return (
        event.kind.replace("_", " "),
        _plain_event_text(data),
        _event_number(data.get("duration_s")),
    )


def _event_point_moved_counters(data: Mapping[str, Any]) -> str:
    moved = data.get("moved")
    pairs = moved.items() if isinstance(moved, dict) else ()
    return ", ".join(
        counter_words(name, *values)
        for name, values in pairs
        if isinstance(values, list) and len(values) == 2 and all(map(is_number, values))
    )


def _plain_event_text(data: Mapping[str, Any]) -> str:
    text = data.get("text") or data.get("message") or data.get("reason")
    if isinstance(text, str):
        return text
    return json.dumps(dict(data), ensure_ascii=False) if data else ""


def _phase_title(data: Mapping[str, Any], phases: Mapping[int, Phase]) -> str:
    index = data.get("index")
    phase = phases.get(index) if isinstance(index, int) else None
    if phase is None:
        return f"phase {index}"
    return f"phase {phase.index + 1}/{len(phases)} {phase.label}"


def _event_seconds(data: Mapping[str, Any]) -> float | None:
    begin, end = data.get("begin_ns"), data.get("end_ns")
    if not isinstance(begin, int) or not isinstance(end, int):
        return None
    return (end - begin) / NS_PER_S


def _event_number(value: object) -> float | None:
    return float(value) if is_number(value) else None


def _drive_name(data: Mapping[str, Any]) -> str:
    """A space and the name of the drive, in a run with several; else empty."""
    return f" {data['drive']}" if data.get("drive") else ""


def throttle_point(interval: ThrottleInterval, label: str, tags: Mapping[str, str]) -> Point:
    """A throttle interval, at its begin, in the phase with this label."""
    fields: dict[str, Value] = {
        "title": _THROTTLE_TITLES.get(interval.cause, interval.cause.words),
        "text": interval.evidence,
        "phase": label,
        "duration_s": interval.duration_s,
        "end_ms": interval.end_ns // NS_PER_MS,
    }
    severity = WARNING if interval.cause in THROTTLING else INFO
    marks = {"kind": THROTTLE, "severity": severity}
    return Point("event", {**tags, **marks}, interval.begin_ns, fields)


def withdrawn_point(t_ns: int, severity: str, tags: Mapping[str, str]) -> Point:
    """Replaces a throttle interval sent during the run that the whole run does not confirm: a
    point cannot be deleted, but its fields can be replaced."""
    fields: dict[str, Value] = {"title": WITHDRAWN, "text": "", "duration_s": 0.0}
    fields["end_ms"] = t_ns // NS_PER_MS
    return Point("event", {**tags, "kind": THROTTLE, "severity": severity}, t_ns, fields)
