"""Fields of text lines as arrays: millions of lines without a Python loop over them.

A block is a piece of a file that ends with a line feed, as an array of bytes. Every function looks
at all fields of a column at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

LINE_FEED, COMMA, DOT = 10, 44, 46
_BLANKS = (9, 13, 32)
_ZERO = 48

MOST_DIGITS = 18
"""More may not fit an int64."""


@dataclass(frozen=True, slots=True)
class Lines:
    """The fields of every line: those of line i are ``first[i]`` to ``first[i] + count[i]``."""

    block: Bytes
    begin: Ints
    end: Ints
    first: Ints
    count: Ints
    line_begin: Ints
    line_end: Ints

    def __len__(self) -> int:
        return len(self.first)

    def column(self, number: int, lines: Mask) -> tuple[Ints, Ints]:
        """Begin and end of one field of the chosen lines, which must have it."""
        at = self.first[lines] + number
        return self.begin[at], self.end[at]

    def text(self, line: int) -> str:
        """A line as text, whatever stands in it."""
        raw = self.block[self.line_begin[line] : self.line_end[line]].tobytes()
        return raw.decode("utf-8", "replace").rstrip("\r")


def split_commas(block: Bytes) -> Lines:
    """Lines of a CSV file without quotes; a field may be empty. A carriage return is cut off."""
    stops = np.flatnonzero((block == COMMA) | (block == LINE_FEED)).astype(np.int64)
    begin = np.concatenate([[0], stops[:-1] + 1]).astype(np.int64)
    last = block[stops] == LINE_FEED
    end = stops.copy()
    returned = last & (end > begin) & (block[np.maximum(end - 1, 0)] == 13)
    end[returned] -= 1
    lasts = np.flatnonzero(last).astype(np.int64)
    first = np.concatenate([[0], lasts[:-1] + 1]).astype(np.int64)
    return Lines(block, begin, end, first, lasts - first + 1, begin[first], stops[lasts])


def split_blanks(block: Bytes) -> Lines:
    """Lines whose fields are separated by any number of blanks."""
    ends = block == LINE_FEED
    solid = ~(ends | np.isin(block, _BLANKS))
    change = np.diff(solid.astype(np.int8), prepend=0, append=0)
    begin = np.flatnonzero(change == 1).astype(np.int64)
    end = np.flatnonzero(change == -1).astype(np.int64)
    line_end = np.flatnonzero(ends).astype(np.int64)
    line_begin = np.concatenate([[0], line_end[:-1] + 1]).astype(np.int64)
    first = np.searchsorted(begin, line_begin).astype(np.int64)
    after = np.searchsorted(begin, line_end).astype(np.int64)
    return Lines(block, begin, end, first, after - first, line_begin, line_end)


def integers(block: Bytes, begin: Ints, end: Ints) -> tuple[Ints, Mask]:
    """Whole numbers ≥ 0 of fields, and which fields are one."""
    length = end - begin
    good = (length > 0) & (length <= MOST_DIGITS)
    values = np.zeros(len(begin), np.int64)
    for place in range(int(length[good].max()) if good.any() else 0):
        inside = good & (place < length)
        digit = block[np.where(inside, begin + place, 0)].astype(np.int64) - _ZERO
        bad = inside & ((digit < 0) | (digit > 9))
        good &= ~bad
        values = np.where(inside & ~bad, values * 10 + digit, values)
    return values, good


def nanoseconds(block: Bytes, begin: Ints, end: Ints) -> tuple[Ints, Mask]:
    """Seconds with or without decimals, as ns since 0; digits beyond ns are dropped."""
    dots = np.flatnonzero(block == DOT).astype(np.int64)
    if not len(dots):
        whole, good = integers(block, begin, end)
        return whole * 1_000_000_000, good & (whole < 9_000_000_000)
    place = np.searchsorted(dots, begin)
    dot = dots[np.minimum(place, len(dots) - 1)]
    has = (place < len(dots)) & (dot < end)
    whole, good = integers(block, begin, np.where(has, dot, end))
    decimals = np.minimum(np.where(has, end - dot - 1, 0), 9)
    part, part_good = integers(block, dot + 1, dot + 1 + decimals)
    good &= (whole < 9_000_000_000) & (~has | part_good | (decimals == 0))
    scale = 10 ** (9 - decimals)
    return whole * 1_000_000_000 + np.where(has & (decimals > 0), part * scale, 0), good


def equal(block: Bytes, begin: Ints, end: Ints, word: str) -> Mask:
    """Which fields are this word, whatever the case of its letters."""
    good: Mask = end - begin == len(word)
    for place, letter in enumerate(word.lower().encode()):
        at = block[np.where(good, begin + place, 0)]
        same = at == letter
        if chr(letter).isalpha():
            same |= at == letter - 32
        good &= same
    return good


def hashes(block: Bytes, begin: Ints, end: Ints) -> Ints:
    """A number for each field, the same for the same text."""
    length = end - begin
    values = np.zeros(len(begin), np.uint64)
    for place in range(int(length.max()) if len(length) else 0):
        inside = place < length
        at = block[np.where(inside, begin + place, 0)].astype(np.uint64)
        values = np.where(inside, values * np.uint64(1_000_003) + at + np.uint64(1), values)
    return values.astype(np.int64)
