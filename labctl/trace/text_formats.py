"""Formats of text: a block of lines becomes the I/Os in it.

fio's iolog (its documentation; version 3: ``log_io_u`` in iolog.c, µs since the job began), MSR
Cambridge (README of the traces: ticks of 100 ns, bytes), CSV with a header line (SNIA IOTTA,
Systor '17 and alike: seconds, bytes), and what blkparse(1) prints by default (512-byte sectors).
"""

from __future__ import annotations

import re

import numpy as np

from labctl.trace.chunks import UNKNOWN, BadLines, Chunk, Op, Since
from labctl.trace.fields import (
    Bytes,
    Ints,
    Lines,
    Mask,
    equal,
    hashes,
    integers,
    nanoseconds,
)

NS_PER_TICK = 100
NS_PER_US = 1000

MSR = {"time": 0, "disk": 2, "op": 3, "offset": 4, "size": 5, "service": 6}
"""Timestamp, Hostname, DiskNumber, Type, Offset, Size, ResponseTime."""
MSR_COLUMNS = 7

SYSTOR = {"time": 0, "service": 1, "op": 2, "disk": 3, "offset": 4, "size": 5}
"""Timestamp, Response, IOType, LUN, Offset, Size."""
SYSTOR_LINE = re.compile(r"\d+\.\d+,(\d+\.\d+)?,[RW]?,\d+,\d+,\d+")

_NAMES = {
    "time": ("timestamp", "time", "arrivaltime", "issuetime"),
    "service": ("response", "responsetime", "servicetime", "latency"),
    "op": ("iotype", "type", "op", "opcode", "operation", "rw"),
    "disk": ("lun", "disknumber", "disk", "device", "volume"),
    "offset": ("offset", "byteoffset", "startoffset"),
    "size": ("size", "iosize", "length", "bytes"),
}


def columns_of(cells: list[str]) -> dict[str, int]:
    """Which column of a CSV is what, by the names in its first line."""
    plain = [cell.lower().replace("_", "").replace(" ", "") for cell in cells]
    found = {}
    for column, names in _NAMES.items():
        at = [number for number, cell in enumerate(plain) if cell in names]
        if at:
            found[column] = at[0]
    return found


class Numbering:
    """Files or devices by number, from 0, in the order in which they came."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def __call__(self, names: Ints) -> Ints:
        """The numbers of names, which are given as their hashes."""
        unique, first, place = np.unique(names, return_index=True, return_inverse=True)
        for at in np.argsort(first).tolist():
            self._numbers.setdefault(int(unique[at]), len(self._numbers))
        numbers = np.array([self._numbers[int(name)] for name in unique], np.int64)
        return numbers[place] if len(names) else names


_FIO_OPS = {"read": Op.READ, "write": Op.WRITE, "trim": Op.TRIM}
_FIO_FLUSHES = ("sync", "datasync")
_FIO_FILES = ("add", "open", "close")


class Iolog:
    """fio's iolog: ``[µs] file action [offset length]``."""

    def __init__(self, *, times: bool) -> None:
        self._times = times
        self._lead = 1 if times else 0
        self._since = Since()
        self._number = Numbering()

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
        disk = self._number(hashes(block, *lines.column(lead, good)))
        for line in np.flatnonzero(~(good | quiet)).tolist():
            why = "no action of fio" if op[line] < 0 else "no numbers where they should be"
            bad.add(number + line, lines.text(line), why)
        count = int(good.sum())
        unknown = np.full(count, UNKNOWN, np.int64)
        t_ns = self._since(t[good], NS_PER_US) if self._times else unknown
        places = np.flatnonzero(good) + number
        return Chunk(t_ns, op[good], offset[good], size[good], unknown, disk, places)


class CsvTrace:
    """A CSV of bytes and seconds, or of bytes and 100 ns ticks (MSR Cambridge)."""

    def __init__(self, columns: dict[str, int], *, ticks: bool) -> None:
        self._columns = columns
        self._ticks = ticks
        self._since = Since()

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

    def _time(self, block: Bytes, begin: Ints, end: Ints) -> tuple[Ints, Mask]:
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


BLKPARSE_LINE = re.compile(r"\s*\d+,\d+\s+\d+\s+\d+\s+\d+\.\d+\s+\d+\s+[A-Za-z]\s")
_DEVICE, _TIME, _ACTION, _RWBS, _SECTOR, _SECTORS = 0, 3, 5, 6, 7, 9
_LONGEST_RWBS = 8
_SECTOR_BYTES = 512


class BlkparseText:
    """``device cpu sequence seconds pid action RWBS sector + sectors [process]``.

    Queue events count, as of a binary blktrace; the sums that blkparse prints at the end are no
    I/Os and not bad, nor is a flush without data.
    """

    def __init__(self) -> None:
        self._since = Since()
        self._number = Numbering()

    def __call__(self, lines: Lines, number: int, bad: BadLines) -> Chunk:
        """The I/Os of a block."""
        block = lines.block
        event = lines.count > 0
        event[event] = np.isin(block[lines.column(_DEVICE, event)[0]], _DIGITS)
        named = event & (lines.count > _RWBS)
        queued = named.copy()
        queued[named] = equal(block, *lines.column(_ACTION, named), "q")
        op = np.full(len(lines), -1, np.int64)
        begin, end = lines.column(_RWBS, queued)
        letters = {name: _text_fields_with_letter(block, begin, end, name) for name in "RWDF"}
        op[queued] = np.select(
            [letters["D"], letters["W"], letters["R"]], [Op.TRIM, Op.WRITE, Op.READ], -1
        )
        flush = np.zeros(len(lines), bool)
        flush[queued] = letters["F"]
        complete = queued & (lines.count > _SECTORS)
        good = complete & (op >= 0)
        t, sector, sectors = (np.zeros(len(lines), np.int64) for _ in range(3))
        for column, values, read in (
            (_TIME, t, nanoseconds), (_SECTOR, sector, integers), (_SECTORS, sectors, integers),
        ):  # fmt: skip
            values[complete], fine = read(block, *lines.column(column, complete))
            good[complete] &= fine
        good &= sectors > 0
        for line in np.flatnonzero((event & ~named) | (queued & ~good & ~flush)).tolist():
            bad.add(number + line, lines.text(line), "no event of blkparse")
        disk = self._number(hashes(block, *lines.column(_DEVICE, good)))
        unknown = np.full(int(good.sum()), UNKNOWN, np.int64)
        return Chunk(
            self._since(t[good], 1), op[good], sector[good] * _SECTOR_BYTES,
            sectors[good] * _SECTOR_BYTES, unknown, disk, np.flatnonzero(good) + number,
        )  # fmt: skip


_DIGITS = np.frombuffer(b"0123456789", np.uint8)


def _text_fields_with_letter(block: Bytes, begin: Ints, end: Ints, letter: str) -> Mask:
    """Which fields have this letter."""
    found = np.zeros(len(begin), bool)
    for place in range(_LONGEST_RWBS):
        inside = begin + place < end
        found |= inside & (block[np.where(inside, begin + place, 0)] == ord(letter))
    return found
