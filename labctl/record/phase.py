"""Phases: what a plan expands to. One workload, or one step of preparation, at one point of the
axes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import PurePath
from typing import Any

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?", re.IGNORECASE)
_LONGEST_NAME = 255
"""Bytes of a file's name (limits.h, NAME_MAX): a trace's name alone may be as long."""
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str | int) -> int:
    """Bytes of a size as people write it: ``4096``, ``"4k"``, ``"128 KiB"``, ``"16g"``.

    The letters are powers of 1024, as in fio. Raises ValueError.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = _SIZE.fullmatch(str(text).strip())
    if match is None or len(match[1]) > 18:
        raise ValueError("a size such as 4096, '4k', '128k' or '16g' (powers of 1024)")
    return int(float(match[1]) * 1024 ** _POWERS[match[2].lower()])


def format_size(size_bytes: int) -> str:
    """A size as people write it: 4096 → ``4k``, 0.5 KiB → ``512``."""
    for letter, power in (("t", 4), ("g", 3), ("m", 2), ("k", 1)):
        if size_bytes and size_bytes % 1024**power == 0:
            return f"{size_bytes // 1024**power}{letter}"
    return str(size_bytes)


class Pattern(StrEnum):
    """What the host asks of the drive: fio's ``rw=`` names, a trace, nothing, preparation, or
    what a measured program does."""

    IDLE = "idle"
    COOL = "cool_down"
    PURGE = "purge"
    READ = "read"
    WRITE = "write"
    RANDREAD = "randread"
    RANDWRITE = "randwrite"
    RW = "rw"
    RANDRW = "randrw"
    REPLAY = "replay"
    PROGRAM = "program"

    @property
    def mixed(self) -> bool:
        """Whether a read share applies."""
        return self in (Pattern.RW, Pattern.RANDRW, Pattern.REPLAY)

    @property
    def random(self) -> bool:
        """Whether addresses are random."""
        return self.value.startswith("rand")

    @property
    def io(self) -> bool:
        """Whether fio does it."""
        return self not in (Pattern.IDLE, Pattern.COOL, Pattern.PURGE, Pattern.PROGRAM)


class Role(StrEnum):
    """What a phase is for: only ``measure`` phases are results."""

    IDLE_BEFORE = "idle_before"
    PREPARE = "prepare"
    MEASURE = "measure"
    IDLE_AFTER = "idle_after"


@dataclass(frozen=True, slots=True)
class Replay:
    """A trace to replay. ``disk`` picks one of several in it; ``wrap`` folds I/Os that lie beyond
    the drive's end onto it. Not ``stalls``: each I/O as soon as there is room in the queue."""

    trace: str
    disk: int | None = None
    wrap: bool = False
    stalls: bool = True

    @property
    def name(self) -> str:
        """The trace's name, without its folder."""
        return PurePath(self.trace).name + ("" if self.stalls else " flat out")


@dataclass(frozen=True, slots=True)
class Until:
    """When a phase ends before its ``duration_s``: once its numbers are good enough.

    ``watts_pct`` and ``iops_pct``: when each is known so well, as a property of the point (k = 2).
    With neither: when more time would not help. ``min_duration_s``: not before; None: what the
    readings of the rig need.
    """

    watts_pct: float | None = None
    iops_pct: float | None = None
    min_duration_s: float | None = None

    @property
    def settled(self) -> bool:
        """Whether it ends when more time would not help, and not at a target."""
        return self.watts_pct is None and self.iops_pct is None

    @property
    def words(self) -> str:
        """For a person: ``settled``, ``watts to 0.5 %, IOPS to 1 %``."""
        targets = [("watts", self.watts_pct), ("IOPS", self.iops_pct)]
        parts = [f"{name} to {pct:g} %" for name, pct in targets if pct is not None]
        return ", ".join(parts) or "settled"


@dataclass(frozen=True, slots=True)
class Phase:
    """One workload at one point of the axes: one fio process; or one step of preparation.

    ``index`` counts from 0, ``sweep_number`` from 1 (0: of no sweep). ``round`` counts from 1
    where the points of a sweep come again until the drive is steady (0: they do not);
    ``tracked``: its IOPS count for that. ``duration_s`` of a cool-down or a purge is its limit.
    """

    index: int
    role: Role
    sweep: str
    pattern: Pattern
    duration_s: float
    block_size_bytes: int = 0
    queue_depth: int = 0
    jobs: int = 0
    read_pct: int = 100
    span_bytes: int | None = None
    buffer_compress_pct: int = 0
    fill_bytes: int | None = None
    sweep_number: int = 0
    round: int = 0
    tracked: bool = True
    steady_on: tuple[str, ...] = ("iops",)
    """What of the tracked points must be steady: "iops", "watts", "celsius"."""
    steady_from_bytes: int = 0
    """Steady counts from when the rounds have written this much."""
    rounds_until_bytes: int | None = None
    """The rounds end, steady or not, when they have written this much."""
    steady_temperature_s: float = 0.0
    """It ends before ``duration_s`` once its drive's temperature was steady so long (0: no)."""
    until: Until | None = None
    """It ends before ``duration_s`` once its numbers are good enough (None: it does not)."""
    power_state: int | None = None
    power_limit_watts: float | None = None
    until_celsius: float | None = None
    purge_method: str = ""
    replay: Replay | None = None
    """Then ``duration_s`` is how long the trace is, as far as that is known."""
    command: str = ""
    """The command line of a measured program, to be read and never run. Then ``duration_s`` is its
    limit of time (0: none)."""

    @property
    def writes(self) -> bool:
        """Whether it writes to the drive."""
        if self.pattern.mixed:
            return self.read_pct < 100
        return self.pattern in (Pattern.WRITE, Pattern.RANDWRITE, Pattern.PURGE)

    @property
    def point(self) -> Phase:
        """The same for every round of it."""
        return replace(self, index=0, round=0)

    @property
    def fills(self) -> bool:
        """Whether it ends with the last byte of its span, and not after a time."""
        return self.pattern.io and self.duration_s == 0 and self.replay is None

    @property
    def planned_s(self) -> float:
        """How long it takes by plan: 0 of what has a limit alone."""
        limited = (Pattern.COOL, Pattern.PURGE, Pattern.PROGRAM)
        return 0.0 if self.pattern in limited else self.duration_s

    @property
    def least_s(self) -> float:
        """How long it takes by plan at least."""
        return self.steady_temperature_s or self.planned_s

    @property
    def timed(self) -> bool:
        """Whether its work ends after a time, and not when all of it is done."""
        return not self.fills and self.replay is None

    def same_round(self, other: Phase) -> bool:
        """Whether ``other`` is a point of the same round of the same sweep."""
        return (self.sweep, self.sweep_number, self.round) == (
            other.sweep, other.sweep_number, other.round,
        )  # fmt: skip

    @property
    def directions(self) -> tuple[str, ...]:
        """ "read", "write", both or neither."""
        if not self.pattern.io:
            return ()
        reads = self.read_pct > 0 if self.pattern.mixed else not self.writes
        return ("read",) * reads + ("write",) * self.writes

    @property
    def label(self) -> str:
        """A short name for a person: ``randread 4k QD8``."""
        if self.pattern is Pattern.IDLE and self.role is not Role.PREPARE:
            state = "" if self.power_state is None else f" PS{self.power_state}"
            return self.role.value.replace("_", " ") + state
        if self.pattern is Pattern.COOL and self.until_celsius is not None:
            return f"cool to {self.until_celsius:g} °C"
        if self.pattern is Pattern.PURGE and self.purge_method:
            return f"purge ({self.purge_method})"
        if not self.pattern.io:  # of a phase that is known by its topics alone, no more is known
            named = self.pattern in (Pattern.IDLE, Pattern.PROGRAM) and self.sweep
            return self.sweep if named else self.pattern.value.replace("_", " ")
        size = self.replay.name if self.replay else format_size(self.block_size_bytes)
        parts = [self.pattern.value, size, f"QD{self.queue_depth}"]
        if self.pattern.mixed:
            parts.append(f"{self.read_pct}% read")
        if self.jobs > 1:
            parts.append(f"×{self.jobs} jobs")
        if self.buffer_compress_pct:
            parts.append(f"{self.buffer_compress_pct}% compressible")
        if self.power_state is not None:
            parts.append(f"PS{self.power_state}")
        if self.power_limit_watts is not None:
            parts.append(f"≤{self.power_limit_watts:g} W")
        if self.round:
            parts.append(f"round {self.round}")
        return " ".join(parts)

    @property
    def slug(self) -> str:
        """A folder name that sorts in order: ``003_randread-4k-qd8``, as long as Linux allows."""
        words = re.sub(r"[^a-z0-9]+", "-", self.label.lower().replace("×", "x")).strip("-")
        return f"{self.index:03d}_{words}"[:_LONGEST_NAME]

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; :func:`labctl.record.json_values.known` reads it back."""
        return asdict(self)


def planned_s(phases: Sequence[Phase]) -> float | None:
    """How long phases take by plan, in seconds; None where a program decides it."""
    if any(phase.pattern is Pattern.PROGRAM for phase in phases):
        return None
    return sum(phase.planned_s for phase in phases)
