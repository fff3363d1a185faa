"""Opens traces: each format gives chunks of arrays and notes the lines that it cannot read.

| format | times | service times |
|---|---|---|
| fio iolog version 2 | – | – |
| fio iolog version 3 (fio ≥ 3.31) | yes | – |
| blktrace, binary: the queue events, which fio replays, too | yes | – |
| blkparse text: the same | yes | – |
| MSR Cambridge CSV | yes | yes |
| CSV with a header line | yes | where given |

Any of them may be compressed by gzip.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from labctl.trace.blktrace import RECORD_BYTES, queue_events, starts_as_blktrace
from labctl.trace.chunks import UNKNOWN, BadLines, Chunk, IoTrace, Op, Since, TraceError
from labctl.trace.fields import Bytes, Lines, split_blanks, split_commas
from labctl.trace.text_formats import (
    BLKPARSE_LINE,
    MSR,
    MSR_COLUMNS,
    SYSTOR,
    SYSTOR_LINE,
    BlkparseText,
    CsvTrace,
    Iolog,
    columns_of,
)

BLOCK_BYTES = 1 << 22
"""How much of a file is read together: a few 100,000 lines."""

LONGEST_LINE = 1 << 16
GZIP_MAGIC = b"\x1f\x8b"

Parser = Callable[[Lines, int, BadLines], Chunk]


def open_trace(path: Path) -> IoTrace:
    """A trace in the format that its first bytes show.

    Raises TraceError when it cannot be read or is none that is known.
    """
    try:
        with _opened_trace_file(path) as stream:
            head = stream.read(LONGEST_LINE)
    except (OSError, EOFError) as error:
        raise TraceError(f"{path} cannot be read: {_trace_error_text(error)}") from error
    if not head:
        raise TraceError(f"{path} is empty")
    bad, lines = BadLines(), [0]
    if starts_as_blktrace(head):
        chunks = _guarded_format_chunks(path, _binary_chunks(path, bad, lines))
        return IoTrace(path, "blktrace", True, chunks, bad, lines)
    first = head.split(b"\n", 1)[0].decode("utf-8", "replace").strip().lstrip("\ufeff")
    name, has_times, split, parser, skip = _text_format(path, first)
    chunks = _guarded_format_chunks(path, _text_chunks(path, split, parser, skip, bad, lines))
    return IoTrace(path, name, has_times, chunks, bad, lines)


def _text_format(path: Path, first: str) -> tuple[str, bool, Callable[[Bytes], Lines], Parser, int]:
    if first == "fio version 2 iolog":
        return "fio iolog v2", False, split_blanks, Iolog(times=False), 1
    if first == "fio version 3 iolog":
        return "fio iolog v3", True, split_blanks, Iolog(times=True), 1
    if BLKPARSE_LINE.match(first):
        return "blkparse text", True, split_blanks, BlkparseText(), 0
    if SYSTOR_LINE.fullmatch(first):  # one of the pieces of a trace that was split
        return "SNIA Systor '17 CSV", True, split_commas, CsvTrace(dict(SYSTOR), ticks=False), 0
    cells = [cell.strip().strip('"') for cell in first.split(",")]
    if len(cells) == MSR_COLUMNS and cells[3].lower() in ("read", "write") and cells[0].isdigit():
        return "MSR Cambridge CSV", True, split_commas, CsvTrace(dict(MSR), ticks=True), 0
    columns = columns_of(cells)
    missing = {"op", "offset", "size"} - columns.keys()
    if not missing:
        ticks = "hostname" in (cell.lower() for cell in cells)
        name = "MSR Cambridge CSV" if ticks else "CSV with a header"
        return name, "time" in columns, split_commas, CsvTrace(columns, ticks=ticks), 1
    raise TraceError(
        f"{path} is no trace that is known: a fio iolog (version 2 or 3), a binary blktrace, what "
        "blkparse prints, an MSR Cambridge CSV, or a CSV whose first line names at least its "
        f"columns of type, offset and size; it begins with {first[:60]!r}"
    )


def _opened_trace_file(path: Path) -> IO[bytes]:
    with path.open("rb") as stream:
        packed = stream.read(2) == GZIP_MAGIC
    return gzip.open(path, "rb") if packed else path.open("rb")  # type: ignore[return-value]


def _trace_error_text(error: OSError | EOFError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _guarded_format_chunks(path: Path, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    try:
        yield from chunks
    except (OSError, EOFError) as error:
        raise TraceError(f"{path} cannot be read to its end: {_trace_error_text(error)}") from error


def _text_chunks(
    path: Path,
    split: Callable[[Bytes], Lines],
    parser: Parser,
    skip: int,
    bad: BadLines,
    counted: list[int],
) -> Iterator[Chunk]:
    rest = b""
    number = 1
    with _opened_trace_file(path) as stream:
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


def _binary_chunks(path: Path, bad: BadLines, counted: list[int]) -> Iterator[Chunk]:
    """Queue events of a binary blktrace."""
    since = Since()
    rest = b""
    with _opened_trace_file(path) as stream:
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
