"""What the drive itself counted about heat and power, as the journal's events say.

``drive_state`` has the whole SMART log in ``smart``; ``drive_counters`` what moved since the look
before it, and all ``counters``; ``power_state`` the ``state`` (feature 02h) that was set, and its
``max_watts`` where they are known. Counters have the names of the NVMe specification (Base
Specification 2.0, figure 207, SMART / Health Information), all optional: ``thm_temp1_trans_count``,
``thm_temp2_trans_count`` (times the drive went over to light and heavy thermal management),
``thm_temp1_total_time``, ``thm_temp2_total_time`` (s), ``warning_temp_time``,
``critical_comp_time`` (minutes), ``critical_warning`` (bit 1: over a temperature threshold). A
drive with log page C0h of OCP (Datacenter NVMe SSD Specification 2.0 to 2.7) counts, too, the
``thermal_throttling_events``, and says the ``thermal_throttling_level`` that it is at, 0 for none.

A counter that moved is a proof. One that stands still is none: many drives never count, and the
``thm_temp`` ones count host-controlled thermal management only; an event may go on for long.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from labctl.record.drive_state import counter_words
from labctl.record.events import Event, EventKind
from labctl.record.json_values import is_number

EVENTS = "thermal_throttling_events"
MOST_EVENTS = 255
"""At which its one byte may stay."""
TRANSITIONS = ("thm_temp1_trans_count", "thm_temp2_trans_count", EVENTS)
SECONDS = ("thm_temp1_total_time", "thm_temp2_total_time")
MINUTES = ("warning_temp_time", "critical_comp_time")
THROTTLE_COUNTERS = (*TRANSITIONS, *SECONDS)
"""Those that move only when the drive holds itself back; ``MINUTES`` tell of heat alone."""

LEVEL = "thermal_throttling_level"

POWER_STATE = "power_state"
MAX_WATTS = "power_state_max_watts"
LIMIT_WATTS = "power_limit_watts"
_SET = (POWER_STATE, LIMIT_WATTS)
_KNOWN = (*THROTTLE_COUNTERS, LEVEL, *MINUTES, "critical_warning", *_SET, MAX_WATTS)

ALL_THE_TIME = 0.9
"""Share of a stretch that its seconds counter must have run for it to be throttled throughout
(it counts whole seconds, and is read a little before or after)."""

UNCOUNTED_S = 1.0
"""Whole seconds: what is counted may be this much short of what was."""

CLOSE_NS = 5_000_000_000

CLOSE_LOOKS_S = 30.0
"""Between two samples no further apart it is known which of the changes of IOPS was counted."""

BESIDE_NS = 1_000_000_000
"""A reading this close to an edge of a stretch counts as taken at the edge."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The counters at a moment; those that were not read are absent."""

    t_ns: int
    values: dict[str, float]


@dataclass(frozen=True, slots=True)
class Counters:
    """All readings of a run, in order of time."""

    readings: tuple[Reading, ...] = ()

    @classmethod
    def of(cls, events: Iterable[Event]) -> Counters:
        """From a run's events; what is no number is left out."""
        found = [reading for event in events for reading in _readings(event) if reading.values]
        return cls(tuple(sorted(found, key=lambda reading: reading.t_ns)))

    @property
    def count(self) -> bool:
        """Whether the drive was ever seen to count throttling at all: any such counter not 0."""
        return any(
            reading.values.get(name, 0) > 0
            for reading in self.readings
            for name in THROTTLE_COUNTERS
        )

    def moved(self, begin_ns: int, end_ns: int, closely: bool = False) -> str | None:
        """In words, the throttle counters that moved around a stretch; None when none did.

        The readings next to the stretch on either side count, however far they are; ``closely``
        those only that leave no doubt that it was in this stretch.
        """
        before, after = self._around(begin_ns, end_ns)
        if before is None or after is None:
            return None
        if closely and max(begin_ns - before.t_ns, after.t_ns - end_ns) > CLOSE_NS:
            return None
        words = [
            counter_words(name, before.values[name], after.values[name])
            for name in THROTTLE_COUNTERS
            if name in before.values and after.values.get(name, 0) > before.values[name]
        ]
        return ", ".join(words) or None

    def stood_still(self, begin_ns: int, end_ns: int) -> bool:
        """Whether a drive that does count did not in a stretch."""
        before, after = self._around(begin_ns, end_ns)
        if before is None or after is None or not self.count:
            return False
        throttled = any(self._levels(before.t_ns, after.t_ns))
        return not throttled and self.moved(begin_ns, end_ns) is None

    def said(self, begin_ns: int, end_ns: int) -> str | None:
        """In words, that the drive said in a stretch that it throttles; None if it did not."""
        level = max(self._levels(begin_ns, end_ns), default=0)
        if level > 0:
            return f"the drive said that it throttles (level {level:.0f})"
        before, after = self._around(begin_ns, end_ns)
        return None if before is None or after is None else self._held(before, after)

    def throttled_throughout(self, begin_ns: int, end_ns: int) -> str | None:
        """In words, that the drive counted (nearly) all seconds of a stretch, or said that it
        throttles around and in it without a new event; None if not so."""
        before, after = self._around(begin_ns, end_ns)
        if before is None or after is None:
            return None
        counted = sum(_smart_counter_moved(before, after, name) for name in SECONDS)
        apart_s = (after.t_ns - before.t_ns) / 1e9
        # Seconds counted outside the stretch must not make up for seconds missing inside it.
        inside_s = counted - (apart_s - (end_ns - begin_ns) / 1e9)
        needed = max(ALL_THE_TIME * (end_ns - begin_ns) / 1e9 - 1.0, 2.0)
        if inside_s < needed:
            return self._held(before, after)
        return f"the drive counted {counted:.0f} s of throttling in {apart_s:.0f} s"

    def throttled_inside(self, begin_ns: int, end_ns: int) -> str | None:
        """In words, that a drive counted all seconds between its first and last look in a stretch,
        or said at all of them that it throttles, without a new event; None if not so."""
        inside = [one for one in self.readings if begin_ns <= one.t_ns <= end_ns]
        if len(inside) < 2:
            return None
        apart_s = (inside[-1].t_ns - inside[0].t_ns) / 1e9
        counted = sum(_smart_counter_moved(inside[0], inside[-1], name) for name in SECONDS)
        if counted < max(apart_s - UNCOUNTED_S, UNCOUNTED_S):
            return self._held(inside[0], inside[-1])
        return f"the drive counted {counted:.0f} s of throttling in {apart_s:.0f} s"

    def began(self, moment_ns: int) -> tuple[int, int] | None:
        """The looks on either side of a moment, if they are close and the drive began to throttle
        between them: it went over to throttling, and had not throttled all the time."""
        counting = [one for one in self.readings if any(name in one.values for name in TRANSITIONS)]
        at = bisect(counting, moment_ns, key=lambda one: one.t_ns)
        if not 0 < at < len(counting):
            return None
        before, after = counting[at - 1], counting[at]
        began = any(_smart_counter_moved(before, after, name) > 0 for name in TRANSITIONS)
        apart_s = (after.t_ns - before.t_ns) / 1e9
        throughout = (
            sum(_smart_counter_moved(before, after, name) for name in SECONDS)
            > apart_s - UNCOUNTED_S
        )
        close = apart_s <= CLOSE_LOOKS_S
        return (before.t_ns, after.t_ns) if close and began and not throughout else None

    def power_limit(self, moment_ns: int) -> tuple[str, float | None] | None:
        """The power state other than 0 and the power limit in effect at a moment, in words, and
        the lower of their watts."""
        said = [one for one in self.readings if one.t_ns <= moment_ns and POWER_STATE in one.values]
        last = said[-1].values if said else {}
        state, most, limit = (last.get(name) for name in (POWER_STATE, MAX_WATTS, LIMIT_WATTS))
        words, watts = [], []
        if state:
            words.append(f"power state {state:.0f}{_at_most_watts(most)}")
            watts.append(most)
        if limit is not None:
            words.append(f"power limit {limit:g} W")
            watts.append(limit)
        known = [one for one in watts if one is not None]
        return (", ".join(words), min(known, default=None)) if words else None

    def changes_of_state(self) -> tuple[int, ...]:
        """Moments between which power state or limit were seen to change: the later of each two."""
        said = [one for one in self.readings if POWER_STATE in one.values]
        return tuple(
            after.t_ns
            for before, after in pairwise(said)
            if any(before.values.get(one) != after.values.get(one) for one in _SET)
        )

    def _levels(self, begin_ns: int, end_ns: int) -> list[float]:
        between = (one.values for one in self.readings if begin_ns <= one.t_ns <= end_ns)
        return [values[LEVEL] for values in between if LEVEL in values]

    def _held(self, first: Reading, last: Reading) -> str | None:
        """In words, that the drive throttled from one look to another: it said so at all of them,
        and letting go would have made the next an event. None if not so."""
        if last.t_ns <= first.t_ns:  # both beside a stretch shorter than ``BESIDE_NS``
            return None
        levels = self._levels(first.t_ns, last.t_ns)
        events = first.values.get(EVENTS), last.values.get(EVENTS)
        if not all((*levels, LEVEL in first.values, LEVEL in last.values)):
            return None
        if events[0] != events[1] or events[0] in (None, MOST_EVENTS):
            return None
        apart_s = (last.t_ns - first.t_ns) / 1e9
        level = f"level {max(levels):.0f}"
        return f"the drive said for {apart_s:.0f} s that it throttles ({level})"

    def _around(self, begin_ns: int, end_ns: int) -> tuple[Reading | None, Reading | None]:
        counting = [
            one for one in self.readings if any(name in one.values for name in THROTTLE_COUNTERS)
        ]
        before = [one for one in counting if one.t_ns <= begin_ns + BESIDE_NS]
        after = [one for one in counting if one.t_ns >= end_ns - BESIDE_NS]
        return (before[-1] if before else None), (after[0] if after else None)


def _at_most_watts(watts: float | None) -> str:
    return "" if watts is None else f", at most {watts:g} W"


def _smart_counter_moved(before: Reading, after: Reading, name: str) -> float:
    """By how much a counter moved; 0 when it was not read at both."""
    values = before.values.get(name), after.values.get(name)
    return 0.0 if values[0] is None or values[1] is None else values[1] - values[0]


def _readings(event: Event) -> Iterator[Reading]:
    """What an event tells: counters that moved were still the old ones at the look before."""
    data = event.data
    if event.kind == EventKind.DRIVE_STATE:
        yield Reading(event.t_ns, _known_smart_counters(data.get("smart")))
    elif event.kind == EventKind.DRIVE_COUNTERS:
        counters, moved = _known_smart_counters(data.get("counters")), data.get("moved")
        since_ns = data.get("since_ns")
        if isinstance(since_ns, int) and isinstance(moved, dict):
            old = {name: pair[0] for name, pair in moved.items() if isinstance(pair, list) and pair}
            yield Reading(since_ns, counters | _known_smart_counters(old))
        yield Reading(event.t_ns, counters)
    elif event.kind == EventKind.POWER_STATE:
        state = {
            POWER_STATE: data.get("state"),
            MAX_WATTS: data.get("max_watts"),
            LIMIT_WATTS: data.get("limit_watts"),
        }
        yield Reading(event.t_ns, _known_smart_counters(state))


def _known_smart_counters(data: object) -> dict[str, float]:
    if not isinstance(data, dict):
        return {}
    return {name: data[name] for name in _KNOWN if is_number(data.get(name))}
