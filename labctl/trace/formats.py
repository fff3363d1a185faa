"""Readers of traces: each gives chunks of arrays and notes the lines that it cannot read.

| format | from | times | service times |
|---|---|---|---|
| fio iolog version 2 | fio's documentation | – | – |
| fio iolog version 3 | fio ≥ 3.31 (``log_io_u`` in iolog.c: µs since the job began) | yes | – |
| blktrace, binary | linux/blktrace_api.h; the queue events, which fio replays, too | yes | – |
| MSR Cambridge CSV | README of the traces: 100 ns ticks, bytes | yes | yes |
| CSV with a header line | SNIA IOTTA (Systor '17 and alike): seconds, bytes | yes | where given |

Any of them may be compressed by gzip.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import IO

import numpy as np

from labctl.errors import LabctlError
from labctl.trace.blktrace import RECORD_BYTES, queue_events, starts_as_blktrace
from labctl.trace.fields import (
    Ints,
    Lines,
    Mask,
    equal,
    hashes,
    integers,
    nanoseconds,
    split_blanks,
    split_commas,
)

BLOCK_BYTES = 1 << 22
"""How much of a file is looked at together: a few 100,000 lines."""

LONGEST_LINE = 1 << 16
SHOWN_BAD = 10
GZIP_MAGIC = b"\x1f\x8b"

UNKNOWN = -1
"""Stands for a time that a format has not."""

NS_PER_TICK = 100
NS_PER_US = 1000


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
    shown: list[str] = field(default_factory=list)

    def add(self, number: int, text: str, why: str) -> None:
        """Count a line, and keep it while there are few."""
        self.count += 1
        if len(self.shown) < SHOWN_BAD:
            short = text if len(text) <= 60 else f"{text[:59]}…"
            self.shown.append(f"line {number}: {why}: {short!r}")


@dataclass(slots=True)
class Trace:
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


Parser = Callable[[Lines, int, BadLines], Chunk]


def open_trace(path: Path) -> Trace:
    """A trace in the format that its first bytes show.

    Raises TraceError when it cannot be read or is none that is known.
    """
    try:
        with _opened(path) as stream:
            head = stream.read(LONGEST_LINE)
    except (OSError, EOFError) as error:
        raise TraceError(f"{path} cannot be read: {error}") from error
    if not head:
        raise TraceError(f"{path} is empty")
    bad, lines = BadLines(), [0]
    if starts_as_blktrace(head):
        chunks = _guarded(path, _binary_chunks(path, bad, lines))
        return Trace(path, "blktrace", True, chunks, bad, lines)
    first = head.split(b"\n", 1)[0].decode("utf-8", "replace").strip().lstrip("\ufeff")
    name, has_times, split, parser, skip = _text_format(path, first)
    chunks = _guarded(path, _text_chunks(path, split, parser, skip, bad, lines))
    return Trace(path, name, has_times, chunks, bad, lines)


def _text_format(
    path: Path, first: str
) -> tuple[str, bool, Callable[[NDBytes], Lines], Parser, int]:
    if first == "fio version 2 iolog":
        return "fio iolog v2", False, split_blanks, _Iolog(times=False), 1
    if first == "fio version 3 iolog":
        return "fio iolog v3", True, split_blanks, _Iolog(times=True), 1
    cells = [cell.strip().strip('"') for cell in first.split(",")]
    if len(cells) == _MSR_COLUMNS and cells[3].lower() in ("read", "write") and cells[0].isdigit():
        return "MSR Cambridge CSV", True, split_commas, _Csv(dict(_MSR), ticks=True), 0
    columns = _columns(cells)
    missing = {"op", "offset", "size"} - columns.keys()
    if not missing:
        ticks = "hostname" in (cell.lower() for cell in cells)
        name = "MSR Cambridge CSV" if ticks else "CSV with a header"
        return name, "time" in columns, split_commas, _Csv(columns, ticks=ticks), 1
    raise TraceError(
        f"{path} is no trace that is known: a fio iolog (version 2 or 3), a binary blktrace, an "
        "MSR Cambridge CSV, or a CSV whose first line names at least its columns of type, offset "
        f"and size; it begins with {first[:60]!r}"
    )


NDBytes = np.ndarray[tuple[int], np.dtype[np.uint8]]

_MSR = {"time": 0, "disk": 2, "op": 3, "offset": 4, "size": 5, "service": 6}
"""Timestamp, Hostname, DiskNumber, Type, Offset, Size, ResponseTime."""
_MSR_COLUMNS = 7

_NAMES = {
    "time": ("timestamp", "time", "arrivaltime", "issuetime"),
    "service": ("response", "responsetime", "servicetime", "latency"),
    "op": ("iotype", "type", "op", "opcode", "operation", "rw"),
    "disk": ("lun", "disknumber", "disk", "device", "volume"),
    "offset": ("offset", "byteoffset", "startoffset"),
    "size": ("size", "iosize", "length", "bytes"),
}


def _columns(cells: list[str]) -> dict[str, int]:
    plain = [cell.lower().replace("_", "").replace(" ", "") for cell in cells]
    found = {}
    for column, names in _NAMES.items():
        at = [number for number, cell in enumerate(plain) if cell in names]
        if at:
            found[column] = at[0]
    return found


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as stream:
        packed = stream.read(2) == GZIP_MAGIC
    return gzip.open(path, "rb") if packed else path.open("rb")  # type: ignore[return-value]


def _guarded(path: Path, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    try:
        yield from chunks
    except (OSError, EOFError) as error:
        raise TraceError(f"{path} cannot be read to its end: {error}") from error


def _text_chunks(
    path: Path,
    split: Callable[[NDBytes], Lines],
    parser: Parser,
    skip: int,
    bad: BadLines,
    counted: list[int],
) -> Iterator[Chunk]:
    rest = b""
    number = 1
    with _opened(path) as stream:
        while True:
            data = stream.read(BLOCK_BYTES)
            text = rest + data
            if not text:
                return
            cut = text.rfind(b"\n") + 1 if data else len(text)
            block, rest = text[:cut], text[cut:]
            if not data and not block.endswith(b"\n"):
                block += b"\n"
            if len(rest) > LONGEST_LINE + BLOCK_BYTES:
                raise TraceError(f"{path}: line {number} is longer than {LONGEST_LINE} bytes")
            if number == 1 and skip and block:
                block = block.split(b"\n", 1)[1]
                number += skip
            if block:
                lines = split(np.frombuffer(block, np.uint8))
                counted[0] += len(lines)
                yield parser(lines, number, bad)
                number += len(lines)
            if not data:
                return


class _Since:
    """Times since the first I/O of a trace."""

    def __init__(self) -> None:
        self._first: int | None = None

    def __call__(self, ticks: Ints, ns_per_tick: int) -> Ints:
        if self._first is None and len(ticks):
            self._first = int(ticks[0])
        since: Ints = (ticks - (self._first or 0)) * ns_per_tick
        return since


_FIO_OPS = {"read": Op.READ, "write": Op.WRITE, "trim": Op.TRIM}
_FIO_FLUSHES = ("sync", "datasync")
_FIO_FILES = ("add", "open", "close")


class _Iolog:
    """fio's iolog: ``[µs] file action [offset length]``."""

    def __init__(self, *, times: bool) -> None:
        self._times = times
        self._lead = 1 if times else 0
        self._since = _Since()
        self._files: dict[int, int] = {}

    def __call__(self, lines: Lines, number: int, bad: BadLines) -> Chunk:
        """The I/Os of a block; a "wait", and what is done to a file, are none and not bad."""
        lead, block = self._lead, lines.block
        named = lines.count >= 2 + lead
        op = np.full(len(lines), -1, np.int64)
        quiet = lines.count == 0
        action = np.zeros((2, len(lines)), np.int64)
        if named.any():
            action[:, named] = lines.column(1 + lead, named)
            words = [*_FIO_OPS, *_FIO_FLUSHES, *_FIO_FILES, "wait"]
            for word in words:
                same = named & equal(block, action[0], action[1], word)
                if word in _FIO_FILES:
                    quiet |= same & (lines.count == 2 + lead)
                elif word == "wait":
                    quiet |= same & (lines.count == 4) & (not self._times)
                else:
                    op[same] = _FIO_OPS.get(word, Op.FLUSH)
        complete = (op >= 0) & (lines.count == 4 + lead)
        offset, size, t = (np.zeros(len(lines), np.int64) for _ in range(3))
        good = complete.copy()
        numbers = [(2 + lead, offset), (3 + lead, size)]
        for column, values in [*numbers, (0, t)] if self._times else numbers:
            values[complete], fine = integers(block, *lines.column(column, complete))
            good[complete] &= fine
        good &= (size > 0) | (op == Op.FLUSH)
        disk = self._numbered(hashes(block, *lines.column(lead, good)))
        for line in np.flatnonzero(~(good | quiet)).tolist():
            why = "no action of fio" if op[line] < 0 else "no numbers where they should be"
            bad.add(number + line, lines.text(line), why)
        count = int(good.sum())
        unknown = np.full(count, UNKNOWN, np.int64)
        t_ns = self._since(t[good], NS_PER_US) if self._times else unknown
        places = np.flatnonzero(good) + number
        return Chunk(t_ns, op[good], offset[good], size[good], unknown, disk, places)

    def _numbered(self, names: Ints) -> Ints:
        """Files by number, from 0, in the order in which they came."""
        unique, first, place = np.unique(names, return_index=True, return_inverse=True)
        for at in np.argsort(first).tolist():
            self._files.setdefault(int(unique[at]), len(self._files))
        numbers = np.array([self._files[int(name)] for name in unique], np.int64)
        return numbers[place] if len(names) else names


class _Csv:
    """A CSV of bytes and seconds, or of bytes and 100 ns ticks (MSR Cambridge)."""

    def __init__(self, columns: dict[str, int], *, ticks: bool) -> None:
        self._columns = columns
        self._ticks = ticks
        self._since = _Since()

    def __call__(self, lines: Lines, number: int, bad: BadLines) -> Chunk:
        """The I/Os of a block."""
        columns, block = self._columns, lines.block
        blank = (lines.count == 1) & (lines.line_end - lines.line_begin <= 1)
        whole = lines.count > max(columns.values())
        op = np.full(int(whole.sum()), -1, np.int64)
        at = lines.column(columns["op"], whole)
        for word, code in (
            ("read", Op.READ), ("write", Op.WRITE), ("r", Op.READ), ("w", Op.WRITE),
            ("trim", Op.TRIM), ("flush", Op.FLUSH),
        ):  # fmt: skip
            op[equal(block, *at, word)] = code
        offset, offset_good = integers(block, *lines.column(columns["offset"], whole))
        size, size_good = integers(block, *lines.column(columns["size"], whole))
        fine = offset_good & size_good & ((size > 0) | (op == Op.FLUSH))
        t = np.full(len(op), UNKNOWN, np.int64)
        service = np.full(len(op), UNKNOWN, np.int64)
        if "time" in columns:
            t, time_good = self._time(block, *lines.column(columns["time"], whole))
            fine &= time_good
        if "service" in columns:
            begin, end = lines.column(columns["service"], whole)
            values, service_good = self._time(block, begin, end)
            service = np.where(service_good, values * (NS_PER_TICK if self._ticks else 1), UNKNOWN)
            fine &= service_good | (begin == end)
        disk = np.zeros(len(op), np.int64)
        if "disk" in columns:
            disk, disk_good = integers(block, *lines.column(columns["disk"], whole))
            fine &= disk_good
        self._name_bad(lines, number, bad, whole, blank, op, fine)
        keep = fine & (op >= 0)
        t_ns = t[keep]
        if "time" in columns:
            t_ns = self._since(t_ns, NS_PER_TICK if self._ticks else 1)
        places = np.flatnonzero(whole) + number
        return Chunk(
            t_ns, op[keep], offset[keep], size[keep], service[keep], disk[keep], places[keep]
        )

    def _time(self, block: NDBytes, begin: Ints, end: Ints) -> tuple[Ints, Mask]:
        return integers(block, begin, end) if self._ticks else nanoseconds(block, begin, end)

    @staticmethod
    def _name_bad(
        lines: Lines, number: int, bad: BadLines, whole: Mask, blank: Mask, op: Ints, fine: Mask
    ) -> None:
        for line in np.flatnonzero(~whole & ~blank).tolist():
            bad.add(number + line, lines.text(line), "too few columns")
        places = np.flatnonzero(whole).tolist()
        for row in np.flatnonzero(~fine | (op < 0)).tolist():
            line = places[row]
            why = "neither read nor write" if op[row] < 0 else "no numbers where they should be"
            bad.add(number + line, lines.text(line), why)


def _binary_chunks(path: Path, bad: BadLines, counted: list[int]) -> Iterator[Chunk]:
    """Queue events of a binary blktrace."""
    since = _Since()
    rest = b""
    with _opened(path) as stream:
        while True:
            data = stream.read(BLOCK_BYTES)
            rest += data
            if not rest:
                return
            events, used, torn = queue_events(rest, last=not data)
            if torn:
                bad.add(counted[0] + len(events.t_ns) + 1, torn, "no record of blktrace")
            unknown = np.full(len(events.t_ns), UNKNOWN, np.int64)
            op = np.where(events.write, Op.WRITE, Op.READ)
            op = np.where(events.discard, Op.TRIM, op).astype(np.int64)
            lines = counted[0] + 1 + np.arange(len(events.t_ns))
            counted[0] += len(events.t_ns)
            yield Chunk(
                since(events.t_ns, 1), op, events.sector * 512, events.size, unknown,
                events.device, lines,
            )  # fmt: skip
            rest = rest[used:]
            if not data or torn:
                return
            assert len(rest) < RECORD_BYTES + (1 << 16)
