"""The marks of a run, and the moments of a run that a person means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from labctl.analysis.run_summary import Mark
from labctl.record.events import EventKind
from labctl.record.reader import RunRecord
from labctl.record.timebase import NS_PER_S

_OFFSET = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h|)")
_UNITS_S = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0}
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(\.\d+)?)?\s*(Z|UTC)?")
_OF_A_MARK = "mark:"
MOST_NAMED = 5


def marks_of(record: RunRecord) -> tuple[Mark, ...]:
    """The marks of a run, in the order of time."""
    found = [
        Mark(event.t_ns, str(event.data.get("text") or ""), str(event.data.get("source") or ""))
        for event in record.events
        if event.kind == EventKind.MARK
    ]
    return tuple(sorted(found, key=lambda mark: mark.t_ns))


def moment_of(text: str, begin_ns: int, marks: Sequence[Mark], zone: tzinfo | None = None) -> int:
    """The moment of a run that ``text`` means, ns on its timebase.

    A number is seconds since the run began at ``begin_ns`` (``90``, ``90s``, ``1.5min``, ``2h``);
    ``12:03:04`` the first time that a clock in ``zone`` (None: this machine's) showed that since
    then, ``12:03:04Z`` one in UTC; any other text is the mark that has it, as ``mark:TEXT`` always
    is. Raises ValueError, which says what is wrong.
    """
    text = text.strip()
    if offset := _OFFSET.fullmatch(text):
        return begin_ns + round(float(offset[1]) * _UNITS_S[offset[2]] * NS_PER_S)
    if clock := _CLOCK.fullmatch(text):
        return _on_the_clock(clock, begin_ns, UTC if clock[5] else zone)
    return _of_mark(text.removeprefix(_OF_A_MARK), begin_ns, marks)


def _on_the_clock(clock: re.Match[str], begin_ns: int, zone: tzinfo | None) -> int:
    hours, minutes, seconds = int(clock[1]), int(clock[2]), int(clock[3] or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError("no clock shows that")
    shown_ns = 1 if clock[4] else NS_PER_S
    begin = datetime.fromtimestamp(begin_ns // NS_PER_S, zone)
    today = begin.replace(hour=hours, minute=minutes, second=seconds, microsecond=0)
    # a clock that is set back shows a moment twice, one that is set forward does not show it
    for moment in (
        day.replace(fold=fold) for day in (today, today + timedelta(days=1)) for fold in (0, 1)
    ):
        second = round(moment.timestamp())
        t_ns = second * NS_PER_S + round(float(clock[4] or 0) * NS_PER_S)
        shown = datetime.fromtimestamp(second, zone) == moment
        if shown and t_ns + shown_ns > begin_ns:
            return max(t_ns, begin_ns)
    raise ValueError("no clock shows that from the run's begin to the end of the next day")


def _of_mark(text: str, begin_ns: int, marks: Sequence[Mark]) -> int:
    named = [mark for mark in marks if mark.text == text]
    named = named or [mark for mark in marks if text and text in mark.text]
    if len(named) == 1:
        return named[0].t_ns
    if not named:
        known = ", ".join(repr(mark.text) for mark in marks[:MOST_NAMED]) or "none"
        more = f" and {len(marks) - MOST_NAMED} more" if len(marks) > MOST_NAMED else ""
        raise ValueError(
            "is no time (seconds since the begin, 90s, 2min, 12:03:04, 12:03:04Z) and no mark of "
            f"the run (it has {known}{more})"
        )
    times = ", ".join(f"{(mark.t_ns - begin_ns) / NS_PER_S:.3f}" for mark in named[:MOST_NAMED])
    raise ValueError(f"names {len(named)} marks: say which by its seconds: {times}")
