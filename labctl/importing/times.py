"""Times of a CSV, as people and programs write them, to int64 nanoseconds."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from labctl.record.timebase import NS_PER_S

Ints = NDArray[np.int64]

ISO = "iso"
EPOCHS = {"epoch_s": 1e9, "epoch_ms": 1e6, "epoch_us": 1e3, "epoch_ns": 1.0}
SINCE_START = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0, "min": 60e9}
ROWS = "rows"
"""Of a file without times: rows are equally far apart."""
CLOCK_ONLY = "%H:%M:%S"
"""A time of day without a date: no more than a time since the start."""

_EPOCH_FROM = ((1e17, "epoch_ns"), (1e14, "epoch_us"), (1e11, "epoch_ms"), (1e8, "epoch_s"))
"""A number from here on is no time since a start: 1e8 s are three years. One whose heading says ms
is no count of seconds."""

LEAST_ALIKE = 0.9
"""Share of the sampled times that must have a format."""

_WRITTEN = (
    "%Y/%m/%d %H:%M:%S", "%Y.%m.%d %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%d.%m.%y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%d/%m/%Y %I:%M:%S %p",
    "%d-%m-%Y %H:%M:%S", "%d-%b-%Y %H:%M:%S", "%b %d %Y %H:%M:%S", CLOCK_ONLY,
)  # fmt: skip
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?|\d{8}T\d{6}([.,]\d{1,9})?)"
    r"(\s*(Z|[+-]\d\d(:?\d\d)?))?"
)
_COMPACT = r"^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)"
"""ISO without its separators."""
_FRACTION = r"^(?P<head>.*?\d{1,2}:\d\d:\d\d)(?:[.,:](?P<part>\d{1,9}))?(?P<tail>\s*[AaPp][Mm])?$"
_FIXED = re.compile(r"([+-])(\d\d):?(\d\d)")
_HALF_DAY_NS = 43_200 * NS_PER_S


def is_absolute(time_format: str) -> bool:
    """Whether such times are moments, and not times since an unknown start."""
    return time_format not in SINCE_START and time_format not in (CLOCK_ONLY, ROWS)


def open_zone(time_format: str, zone: str) -> bool:
    """Whether nobody knows in which zone such times are. ``zone``: as a person says it."""
    return is_absolute(time_format) and not zone and time_format not in EPOCHS


def name_their_zone(samples: Sequence[str]) -> bool:
    """Whether each of the times has its own zone behind it."""
    matches = [_ISO.fullmatch(one.strip()) for one in samples if one.strip()]
    return bool(matches) and all(one is not None and one[5] for one in matches)


def guess_format(samples: Sequence[str], decimal: str, unit: str) -> list[str]:
    """Every format that most samples may have (one of them may be a fault); of numbers alone the
    likely one. ``unit``: of the heading."""
    texts = [one.strip() for one in samples if one.strip()]
    least = LEAST_ALIKE * len(texts)
    numbers = [_time_number(one.replace(decimal, ".")) for one in texts]
    numbers = [one for one in numbers if math.isfinite(one)]
    if texts and len(numbers) >= least:
        usual = sorted(numbers)[len(numbers) // 2]
        for from_, name in _EPOCH_FROM:
            if usual >= from_ and EPOCHS[name] <= SINCE_START.get(unit, 1e9):
                return [name]
        return [unit if unit in SINCE_START else "s"]
    if texts and sum(1 for one in texts if _ISO.fullmatch(one)) >= least:
        return [ISO]
    return [
        one
        for one in _WRITTEN
        if texts and sum(1 for text in texts if _is_written(text, one)) >= least
    ]


def _is_written(text: str, time_format: str) -> bool:
    match = re.match(_FRACTION, text)
    if match is None:
        return False
    try:
        datetime.strptime(match["head"] + (match["tail"] or ""), time_format)
    except ValueError:
        return False
    return True


def check_zone(zone: str) -> None:
    """Raises ValueError where there is no such zone."""
    if zone and not _FIXED.fullmatch(zone) and zone != "UTC":
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("no such zone: say UTC, +02:00 or Europe/Berlin") from None


class TimeReader:
    """Turns texts of one file into times, part by part: a time of day goes on after midnight."""

    def __init__(self, time_format: str, decimal: str, zone: str) -> None:
        self._format, self._decimal, self._zone = time_format, decimal, zone
        self._days_ns = 0
        self._last_ns: int | None = None

    def read(self, texts: Any) -> tuple[Ints, NDArray[np.bool_]]:
        """Times in ns, and which of the texts are times; ``texts`` is an array of pyarrow's."""
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = pc.utf8_trim_whitespace(texts)
        if self._format in EPOCHS or self._format in SINCE_START:
            return self._numbers(texts)
        if self._format == ISO:
            found = _iso_stamps(texts)
            return self._one_by_one(texts) if found is None else self._in_zone(found)
        split = pc.extract_regex(texts, _FRACTION)
        head = pc.fill_null(pc.struct_field(split, "head"), "")
        tail = pc.fill_null(pc.struct_field(split, "tail"), "")
        whole = pc.binary_join_element_wise(head, tail, "")
        stamps = pc.strptime(whole, self._format, "s", error_is_null=True)
        part = pc.fill_null(pc.struct_field(split, "part"), "")
        padded = pc.cast(pc.utf8_rpad(part, 9, "0"), pa.int64()).to_numpy(zero_copy_only=False)
        t_ns, good = self._in_zone(pc.cast(stamps, pa.timestamp("ns")))
        t_ns = t_ns + padded
        return (self._over_midnight(t_ns, good) if self._format == CLOCK_ONLY else t_ns), good

    def _numbers(self, texts: Any) -> tuple[Ints, NDArray[np.bool_]]:
        import pyarrow as pa
        import pyarrow.compute as pc

        factor = {**EPOCHS, **SINCE_START}[self._format]
        if self._decimal != ".":
            texts = pc.replace_substring(texts, self._decimal, ".")
        if self._format in EPOCHS:  # a float64 has no room for the nanoseconds of today
            try:
                whole = pc.cast(texts, pa.int64()).to_numpy(zero_copy_only=False)
                fit = np.abs(whole) < 2**62 / factor
                return np.where(fit, whole, 0) * round(factor), fit
            except pa.ArrowInvalid:
                pass
        try:
            values = pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            values = np.array([_time_number(one) for one in texts.to_pylist()])
        good = np.isfinite(values) & (np.abs(values) < 2**62 / factor)
        safe = np.where(good, values, 0.0)
        seconds = np.floor(safe)
        rest = np.rint((safe - seconds) * factor)
        return seconds.astype(np.int64) * round(factor) + rest.astype(np.int64), good

    def _in_zone(self, stamps: Any) -> tuple[Ints, NDArray[np.bool_]]:
        import pyarrow as pa
        import pyarrow.compute as pc

        good = pc.is_valid(stamps).to_numpy(zero_copy_only=False)
        shift_ns, zone = 0, self._zone
        if (fixed := _FIXED.fullmatch(zone)) is not None:
            minutes = int(fixed[2]) * 60 + int(fixed[3])
            shift_ns = -minutes * 60 * NS_PER_S * (1 if fixed[1] == "+" else -1)
        elif zone and stamps.type.tz is None and self._format != CLOCK_ONLY:
            stamps = pc.assume_timezone(stamps, zone, ambiguous="earliest", nonexistent="earliest")
        if stamps.type.tz is not None:
            shift_ns = 0
        counted = pc.fill_null(pc.cast(stamps, pa.int64()), 0).to_numpy(zero_copy_only=False)
        return counted + shift_ns, good

    def _one_by_one(self, texts: Any) -> tuple[Ints, NDArray[np.bool_]]:
        """A part in which a text is no time, or zones come and go."""
        found = [self._iso(one) for one in texts.to_pylist()]
        good = np.array([one is not None for one in found], bool)
        return np.array([one or 0 for one in found], np.int64), good

    def _iso(self, text: str) -> int | None:
        import pyarrow as pa

        found = _iso_stamps(pa.array([text])) if _ISO.fullmatch(text) else None
        if found is None:
            return None
        t_ns, good = self._in_zone(found)
        return int(t_ns[0]) if good[0] else None

    def _over_midnight(self, t_ns: Ints, good: NDArray[np.bool_]) -> Ints:
        seen = t_ns[good]
        if not len(seen):
            return t_ns
        before = np.concatenate([[self._last_ns if self._last_ns is not None else seen[0]], seen])
        back = np.diff(before) < -_HALF_DAY_NS
        days = self._days_ns + np.cumsum(back) * 2 * _HALF_DAY_NS
        self._last_ns, self._days_ns = int(seen[-1]), int(days[-1])
        result = t_ns.copy()
        result[good] = seen + days
        return result


def _iso_stamps(texts: Any) -> Any:
    """Moments of pyarrow's, all in UTC or all without a zone; None where they are neither, or one
    is no time (the 31st of February)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pc.replace_substring(texts, ",", ".")
    text = pc.replace_substring_regex(text, _COMPACT, r"\1-\2-\3T\4:\5:\6")
    for kind in (pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
        try:
            return pc.cast(text, kind)
        except pa.ArrowInvalid:
            continue
    return None


def _time_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
