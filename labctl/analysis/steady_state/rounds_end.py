"""Rounds of a sweep: what each did, and when they end.

They end when the tracked points are steady, when the drive was written over often enough (the write
saturation test of SNIA PTS 2.0.2), or with the last of them. The values here only decide how long a
run goes on; its results are made from the journal.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from labctl.analysis.steady_state.rule import WINDOW
from labctl.analysis.steady_state.tracking import CELSIUS, PTS, SteadyLimits
from labctl.record.phase import Phase
from labctl.record.timebase import NS_PER_S


class RoundsEnd(StrEnum):
    """Why no further round is done."""

    STEADY = "steady"
    WRITTEN = "written"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class PointValues:
    """What a phase did: IOPS, mean watts and last °C, as far as they are known; and for how long:
    None: as its plan says."""

    iops: float
    watts: float | None = None
    celsius: float | None = None
    lasted_s: float | None = None

    def to_json(self) -> dict[str, float]:
        """Those that are known, beside the begin and end of the phase."""
        found = {name: value for name, value in asdict(self).items() if value is not None}
        found.pop("lasted_s", None)
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PointValues | None:
        """From the end of a phase in the journal; None where it has no IOPS."""
        known = {
            name: float(data[name])
            for name in ("iops", "watts", "celsius")
            if isinstance(data.get(name), int | float)
        }
        begin_ns, end_ns = data.get("begin_ns"), data.get("end_ns")
        if isinstance(begin_ns, int) and isinstance(end_ns, int):
            known["lasted_s"] = (end_ns - begin_ns) / NS_PER_S
        return cls(**known) if "iops" in known else None


LIMITS: Mapping[str, SteadyLimits] = {"iops": PTS, "watts": PTS, "celsius": CELSIUS}


def later_rounds(phases: Sequence[Phase], last: Phase) -> list[int]:
    """The phases of the rounds that come after the one that ``last`` ends, by index."""
    later = itertools.takewhile(
        lambda phase: phase.round > last.round and phase.sweep_number == last.sweep_number,
        phases[last.index + 1 :],
    )
    return [phase.index for phase in later]


def rounds_end(
    phases: Sequence[Phase], values: Mapping[int, PointValues], last: Phase, drives: int = 1
) -> RoundsEnd | None:
    """Why the rounds end with the one that ``last`` ends; None when the next one follows.

    ``values`` are of all ``drives`` together, the limits of bytes are of each.
    """
    written = _written_bytes(phases, values, last) / drives
    if written >= last.steady_from_bytes and _is_steady(phases, values, last):
        return RoundsEnd.STEADY
    enough = last.rounds_until_bytes
    if enough is not None and written >= enough and last.round >= WINDOW:
        return RoundsEnd.WRITTEN
    return None if later_rounds(phases, last) else RoundsEnd.LAST


def _is_steady(phases: Sequence[Phase], values: Mapping[int, PointValues], last: Phase) -> bool:
    """Whether every tracked point was steady over the last rounds, in all that is asked of it."""
    points: dict[Phase, list[PointValues]] = {}
    for phase in _of_series(phases, last):
        if phase.tracked and phase.index in values:
            points.setdefault(phase.point, []).insert(0, values[phase.index])
    if last.round < WINDOW or not points:
        return False
    for rounds in points.values():
        if len(rounds) < last.round:
            return False
        for quantity in last.steady_on:
            series = [getattr(one, quantity) for one in rounds[-WINDOW:]]
            if None in series or not LIMITS[quantity].verdict(series).steady:
                return False
    return True


def _written_bytes(
    phases: Sequence[Phase], values: Mapping[int, PointValues], last: Phase
) -> float:
    """What the rounds so far wrote, from their IOPS and times."""
    return sum(
        values[phase.index].iops
        * _lasted_s(phase, values[phase.index])
        * phase.block_size_bytes
        * (1 - phase.read_pct / 100 if phase.pattern.mixed else 1)
        for phase in _of_series(phases, last)
        if phase.writes and phase.index in values
    )


def _lasted_s(phase: Phase, did: PointValues) -> float:
    """How long a phase worked: it may have ended before its time."""
    return phase.duration_s if did.lasted_s is None else did.lasted_s


def _of_series(phases: Sequence[Phase], last: Phase) -> Iterator[Phase]:
    """The I/O of the rounds up to ``last``, latest first: those of one sweep or precondition alone.

    Every series of rounds counts from 1 and is one stretch of phases. Preconditions belong to no
    sweep and have one name, so that only their rounds tell them apart.
    """
    later = last
    for phase in reversed(phases[: last.index + 1]):
        same = (phase.sweep, phase.sweep_number) == (last.sweep, last.sweep_number)
        if not (same and 0 < phase.round <= later.round):
            return
        later = phase
        if phase.pattern.io:
            yield phase
