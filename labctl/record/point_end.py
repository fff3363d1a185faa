"""How well the numbers of a point are known while it is measured, and how it ended.

Only of phases that may end before ``duration_s`` (:class:`labctl.record.phase.Until`). What decides
is in :mod:`labctl.analysis.steady_state.enough`; the U of results is made from the readings, later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from labctl.record.json_values import UNREADABLE, is_number, known
from labctl.rounded import rounded


class PointEnding(StrEnum):
    """How a point ended, as it stands in the journal, in tables and in files."""

    SETTLED = "settled"
    TARGET = "target"
    LONGEST = "longest"
    """After ``duration_s``, and its numbers were not good enough yet."""


ENDING_WORDS: Mapping[PointEnding, str] = {
    PointEnding.SETTLED: "settled",
    PointEnding.TARGET: "target reached",
    PointEnding.LONGEST: "longest time, not settled",
}


@dataclass(frozen=True, slots=True)
class PointNumber:
    """How well a number is known, in percent of it (k = 2).

    ``u_pct`` is ``meters_pct``, which no time lowers, together with ``repeats_pct``, which time
    does. ``target_pct``: of ``u_pct`` where the plan gives a target, else of ``repeats_pct``.
    """

    u_pct: float
    meters_pct: float
    repeats_pct: float
    target_pct: float


@dataclass(frozen=True, slots=True)
class PointState:
    """A point at one moment: the numbers that are known by then (of several drives the one known
    least), and what keeps it going, in words; nothing does where it is enough."""

    watts: PointNumber | None = None
    iops: PointNumber | None = None
    keeps: tuple[str, ...] = ()

    @property
    def enough(self) -> bool:
        """Whether the point may end."""
        return not self.keeps

    def numbers(self, settled: bool) -> str:
        """How well each number is known, and where it is going, in at most 79 characters. Where
        the point is to be ``settled``, what time can lower is what goes there."""
        parts = []
        for name, one in (("watts", self.watts), ("IOPS", self.iops)):
            if one is None:
                continue
            u, wants = f"{name} ±{rounded(one.u_pct, 2)}", f"→ {rounded(one.target_pct, 2)}"
            time_part = f" % (time's part {rounded(one.repeats_pct, 2)} {wants})"
            parts.append(u + (time_part if settled else f" {wants} %"))
        return "   ".join(parts)


@dataclass(frozen=True, slots=True)
class PointEnd:
    """How a point ended, and how it stood then."""

    ended: PointEnding
    state: PointState
    kept_s: Mapping[str, float] = field(default_factory=dict)
    """For how many seconds each reason kept it going; several may at the same time. Empty in
    records that do not say it."""

    @property
    def words(self) -> str:
        """For a person: ``settled``, ``longest time, not settled: rises or falls``."""
        why = ", ".join(self.state.keeps) if self.ended is PointEnding.LONGEST else ""
        return ENDING_WORDS[self.ended] + (f": {why}" if why else "")

    @property
    def kept_words(self) -> str:
        """What kept it going longest, in at most three parts: ``throttles for 12.5 s``."""
        longest = sorted(self.kept_s.items(), key=lambda item: -item[1])[:3]
        return ", ".join(f"{why} for {seconds:.1f} s" for why, seconds in longest)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; :meth:`from_json` reads it back."""
        return {"ended": self.ended.value, **asdict(self.state), "kept_s": dict(self.kept_s)}

    @classmethod
    def from_json(cls, data: object) -> PointEnd | None:
        """From the end of a phase in the journal; None where that says nothing of it."""
        state = point_state(data)
        if (
            not isinstance(data, dict)
            or state is None
            or data.get("ended") not in list(PointEnding)
        ):
            return None
        return cls(PointEnding(data["ended"]), state, _point_end_seconds(data.get("kept_s")))


def _point_end_seconds(data: object) -> dict[str, float]:
    if not isinstance(data, dict) or not all(is_number(value) for value in data.values()):
        return {}
    return {str(why): float(value) for why, value in data.items()}


def point_state(data: object) -> PointState | None:
    """What an event says of a point; None where that cannot be read."""
    try:
        return known(PointState, data) if isinstance(data, dict) else None
    except UNREADABLE:
        return None
