"""How long points took in earlier runs of a rig that ended them when they were good enough."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from labctl.errors import JournalError
from labctl.record.events import EventKind, Outcome
from labctl.record.phase import Phase
from labctl.record.point_end import PointEnd
from labctl.record.reader import RunRecord, runs_in
from labctl.record.timebase import NS_PER_S

MOST_RUNS = 5
"""The newest runs that are asked."""
MOST_LOOKED_AT = 200
"""So many of the newest runs of all rigs are looked at for them."""


@dataclass(frozen=True, slots=True)
class EarlierPoints:
    """Seconds that each work took, by the work, and in how many runs."""

    seconds: Mapping[Phase, Sequence[float]]
    runs: int

    def expected_s(self, phase: Phase, least_s: float) -> float | None:
        """What a point takes that ends with its numbers: as the same work did (the median), within
        its limits. None of what was not done before, and of other phases."""
        found = self.seconds.get(work_of(phase)) if phase.until is not None else None
        return min(max(statistics.median(found), least_s), phase.duration_s) if found else None

    def known(self, phases: Iterable[Phase]) -> int:
        """How many of ``phases`` that end with their numbers were done before."""
        return sum(phase.until is not None and work_of(phase) in self.seconds for phase in phases)


def work_of(phase: Phase) -> Phase:
    """The same for every phase of this work that ends alike, whatever its plan and its limits."""
    until = None if phase.until is None else replace(phase.until, min_duration_s=None)
    return replace(
        phase.point, sweep="", sweep_number=0, duration_s=0.0, until=until, tracked=True,
        steady_on=(), steady_from_bytes=0, rounds_until_bytes=None,
    )  # fmt: skip


def earlier_points(places: Sequence[Path], rig_name: str) -> EarlierPoints:
    """What the newest runs of a rig in ``places`` tell. Runs that cannot be read tell nothing."""
    found: dict[Phase, list[float]] = {}
    runs = 0
    for path in runs_in(places)[: -MOST_LOOKED_AT - 1 : -1]:
        try:
            record = RunRecord(path)
            ended = _earlier_point_seconds(record) if record.header.rig_name == rig_name else {}
        except JournalError:
            continue
        for work, seconds in ended.items():
            found.setdefault(work, []).extend(seconds)
        runs += bool(ended)
        if runs == MOST_RUNS:
            break
    return EarlierPoints(found, runs)


def _earlier_point_seconds(record: RunRecord) -> dict[Phase, list[float]]:
    """Seconds of the completed points of a run that could end early, by their work."""
    phases = {phase.index: phase for phase in record.header.phases if phase.until is not None}
    found: dict[Phase, list[float]] = {}
    for event in record.events if phases else ():
        data = event.data
        phase = phases.get(data.get("index", -1)) if event.kind == EventKind.PHASE_ENDED else None
        times = data.get("begin_ns"), data.get("end_ns")
        if phase is None or data.get("outcome") != Outcome.COMPLETED:
            continue
        if PointEnd.from_json(data.get("point")) is None:
            continue
        if isinstance(times[0], int) and isinstance(times[1], int):
            seconds = (times[1] - times[0]) / NS_PER_S
            found.setdefault(work_of(phase), []).append(seconds)
    return found
