"""The result of a phase that has just ended, while the run is on: the report's analysis on a part.

Rails are read in that phase and the one before it only; temperatures and fio's values, which are
few, over the whole run so far, because throttling is judged by them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.run.summary import summarise
from labctl.analysis.throttle_result import ThrottleInterval
from labctl.record.events import Event, EventKind
from labctl.record.layout import READING
from labctl.record.reader import RunRecord
from labctl.sinks.follow.growing_channel import GrowingChannel


class _PartOfRun(RunRecord):
    """A run with some of its channels cut to a range of readings."""

    def __init__(
        self, record: RunRecord, events: tuple[Event, ...], cuts: dict[str, tuple[int, int]]
    ) -> None:
        self.path = record.path
        self.header = record.header
        self.problems = []
        self.events = events
        self._cuts = cuts

    def readings(self, name: str) -> NDArray[np.void]:
        readings = super().readings(name)
        if name not in self._cuts:
            return readings
        low, high = self._cuts[name]
        return readings[low:high] if high > low else np.empty(0, READING)


def ended_phase(
    record: RunRecord,
    events: tuple[Event, ...],
    ended: Event,
    channels: Iterable[GrowingChannel],
) -> tuple[dict[str, PhaseResult], tuple[ThrottleInterval, ...]]:
    """The result of the phase that ``ended`` ends, and the throttling in it.

    Results by the name of the drive; that of all drives together, or of the only one, by "".

    ``events`` are those of the phases so far; ``channels`` those of the rails and sensors.
    """
    index = int(ended.data["index"])
    begin_ns = int(ended.data.get("begin_ns", ended.t_ns))
    before = [
        int(event.data.get("begin_ns", event.t_ns))
        for event in events
        if event.kind == EventKind.PHASE_ENDED and event.data.get("index") == index - 1
    ]
    begin_ns = min([begin_ns, *before])
    end_ns = int(ended.data.get("end_ns", ended.t_ns))
    of_rails = {name for rail in record.header.rails for name in (rail.voltage, rail.current)}
    cuts = {
        channel.info.name: channel.records_between(begin_ns, end_ns)
        for channel in channels
        if channel.info.name in of_rails
    }
    so_far = tuple(event for event in events if event.data.get("index", index) <= index)
    summary = summarise(_PartOfRun(record, so_far, cuts), running=True)
    results = {
        drive: item
        for drive, one in {"": summary, **summary.drives}.items()
        for item in one.phases
        if item.phase.index == index
    }
    return results, tuple(item for item in summary.throttling if item.phase_index == index)
