"""I/Os of a trace as arrays, and the lines of it that are none."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from labctl.errors import LabctlError
from labctl.trace.fields import Ints, Mask

SHOWN_BAD = 10

UNKNOWN = -1
"""Stands for a time that a format has not."""


class TraceError(LabctlError):
    """A trace that cannot be read or replayed."""

    exit_code = 2


class Op(IntEnum):
    """What an I/O does."""

    READ = 0
    WRITE = 1
    TRIM = 2
    FLUSH = 3


@dataclass(frozen=True, slots=True)
class Chunk:
    """I/Os in the order of the file. Times are ns since the first I/O, −1 where not known.

    ``disk`` tells devices of one trace apart; ``line`` is where each stands (from 1).
    """

    t_ns: Ints
    op: Ints
    offset: Ints
    size: Ints
    service_ns: Ints
    disk: Ints
    line: Ints

    def __len__(self) -> int:
        return len(self.op)

    def only(self, keep: Mask) -> Chunk:
        """Some of the I/Os."""
        return Chunk(
            self.t_ns[keep], self.op[keep], self.offset[keep], self.size[keep],
            self.service_ns[keep], self.disk[keep], self.line[keep],
        )  # fmt: skip


@dataclass(slots=True)
class BadLines:
    """Lines that are no I/O although they should be: how many, and the first of them."""

    count: int = 0
    _first: list[tuple[int, str]] = field(default_factory=list)

    def add(self, number: int, text: str, why: str) -> None:
        """Count a line, and keep it when it is one of the first: within a piece of the trace they
        come in the order of what is wrong with them."""
        self.count += 1
        if len(self._first) < SHOWN_BAD or number < self._first[-1][0]:
            short = text if len(text) <= 60 else f"{text[:59]}…"
            bisect.insort(self._first, (number, f"line {number}: {why}: {short!r}"))
            del self._first[SHOWN_BAD:]

    @property
    def shown(self) -> tuple[str, ...]:
        """The first of them in words, by their numbers."""
        return tuple(words for _, words in self._first)


@dataclass(slots=True)
class IoTrace:
    """An open trace. ``chunks`` can be gone through once; ``bad`` and ``lines`` fill meanwhile."""

    path: Path
    format: str
    has_times: bool
    chunks: Iterator[Chunk]
    bad: BadLines
    lines: list[int] = field(default_factory=lambda: [0])

    @property
    def line_count(self) -> int:
        """Lines (or records) that were read so far."""
        return self.lines[0]


class Since:
    """Times since the first I/O of a trace."""

    def __init__(self) -> None:
        self._first: int | None = None

    def __call__(self, ticks: Ints, ns_per_tick: int) -> Ints:
        """``ticks`` in ns since the first that was ever given."""
        if self._first is None and len(ticks):
            self._first = int(ticks[0])
        since: Ints = (ticks - (self._first or 0)) * ns_per_tick
        return since
