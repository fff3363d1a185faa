"""Stretches in which a drive did less, their causes, and the verdict of a phase: plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """Why a drive did less than just before; its text is what ``summary.json`` holds."""

    words: str
    """The cause as a person reads it."""

    THERMAL = "thermal", "thermal throttling"
    POWER_LIMIT = "power_limit", "power limit"
    WRITE_CACHE = "write_cache", "write cache full"
    GARBAGE_COLLECTION = "garbage_collection", "garbage collection"
    HOST_STALL = "host_stall", "host busy or stalled"
    UNKNOWN = "unknown", "slower, cause unknown"

    def __new__(cls, text: str, words: str) -> Cause:
        """A member whose value is ``text``."""
        member = str.__new__(cls, text)
        member._value_ = text
        member.words = words
        return member


THROTTLING = (Cause.THERMAL, Cause.POWER_LIMIT)
"""The causes by which a drive holds itself back; the others are not throttling."""


@dataclass(frozen=True, slots=True)
class ThrottleInterval:
    """A stretch in which the drive did less than it did just before.

    ``evidence``: what was seen, in words and numbers.
    """

    begin_ns: int
    end_ns: int
    phase_index: int
    cause: Cause
    evidence: str
    iops_before: float
    iops_during: float
    watts_before: float | None
    watts_during: float | None
    celsius: float | None
    period_s: float | None = None
    """Of dips that come again: seconds from the begin of one to that of the next."""
    drive: str = ""
    """Which of several drives did less."""
    counters_moved: bool = False
    """The drive's own thermal counters moved in just this stretch."""
    costly: bool = False
    """Each operation took more energy than before."""

    @property
    def duration_s(self) -> float:
        """Seconds from begin to end."""
        return (self.end_ns - self.begin_ns) / 1e9

    @property
    def depth(self) -> float:
        """By what share IOPS fell; NaN when the level before is not known."""
        return 1 - self.iops_during / self.iops_before if self.iops_before else float("nan")

    @property
    def unproven(self) -> bool:
        """Whether heat may be behind it: neither a cause nor energy tells otherwise."""
        return self.cause in (Cause.UNKNOWN, Cause.WRITE_CACHE) and not self.costly


@dataclass(frozen=True, slots=True)
class ThrottleVerdict:
    """Whether the drive throttled in a phase: "none seen", "throttled" or "cannot be excluded".

    ``why``: what decided it, in words.
    """

    verdict: str
    why: str


def throttled_stretches(
    intervals: Sequence[ThrottleInterval], index: int
) -> tuple[tuple[int, int], ...]:
    """Stretches (ns) of a phase in which the drive held itself back, in order and apart.

    ``THROTTLING`` causes only.
    """
    stretches = sorted(
        (item.begin_ns, item.end_ns)
        for item in intervals
        if item.phase_index == index and item.cause in THROTTLING
    )
    apart: list[tuple[int, int]] = []
    for begin_ns, end_ns in stretches:
        if apart and begin_ns <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(apart[-1][1], end_ns))
        else:
            apart.append((begin_ns, end_ns))
    return tuple(apart)


def throttled_s(intervals: Sequence[ThrottleInterval], index: int) -> float:
    """Seconds of a phase in which the drive held itself back (``THROTTLING`` causes only)."""
    return sum(end - begin for begin, end in throttled_stretches(intervals, index)) / 1e9
