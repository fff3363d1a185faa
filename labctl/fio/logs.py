"""fio's own logs over time: ``write_iops_log``, ``write_bw_log`` and ``write_lat_log``.

A line is the time in ms, the value, the direction, the block size, then as the version and its
options have it the offset, the priority and the issue time (fio's HOWTO, "Log File Formats"; four
fields in fio 2, five to seven in fio 3). Values are IOPS, KiB/s, and ns (fio 2: µs). With
``log_avg_msec`` a line is of the window that ends with it, its block size is 0, and with
``log_window_value=both`` the maximum follows the mean. Without it each I/O has a line (3.33 and
3.42: an IOPS log then has the value 1), which are counted in windows here.

Times are since the job's first counted I/O, behind ``ramp_time``, or with ``log_unix_epoch`` since
1970 (tried with 3.33 and 3.42).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruments.process_environment import environment_without_secrets
from labctl.fio.documents import DIRECTIONS
from labctl.fio.status import LEAST_INTERVAL_MS

Floats = NDArray[np.float64]

LOG_NAME = re.compile(
    r"(?P<prefix>.+)_(?P<kind>iops|bw|lat|clat|slat)(?:\.(?P<thread>\d+))?\.log"
    r"(?:\.(?!fz$)(?P<client>.+?))?(?P<packed>\.fz)?"
)
"""``<prefix>_<kind>.<thread>.log``; no thread with ``per_job_logs=0``, and of client/server output
the client behind it. ``.fz`` is behind a log with ``log_store_compressed=1``."""

PACKED_NOTHING_BYTES = 8
"""Of such a log without a line: what zlib makes of nothing. fio refuses it."""

MOST_INFLATED_BYTES = 1 << 32
"""Of such a log: a hundred million lines. zlib makes a thousand bytes of one."""

WINDOW_MS = 500
"""In which single I/Os are counted: as often as a run of labctl has its IOPS."""

EPOCH_MS = 10**11
"""Times from here on are since 1970 (this is 1973), others since a job's begin."""

SINGLE_IO_MS = 50.0
"""Lines with a block size that follow each other faster than this are single I/Os: fio's own
windows without ``log_avg_msec``, of fio 2, are 500 ms."""

_BLOCK_BYTES = 1 << 22
_KIB = 1024.0


class BadLog(Exception):
    """A file is not what it is called; says why."""


@dataclass(frozen=True, slots=True)
class FioLog:
    """One log: its windows (ms, each behind the one before), and what each direction did in them.

    ``iops``, ``bytes_per_s`` and ``latency_us`` are by direction, and empty where the log does not
    say them. A latency is NaN in a window without I/O.
    """

    kind: str
    thread: int
    client: str
    since_1970: bool
    begin_ms: Floats
    end_ms: Floats
    iops: Mapping[str, Floats] = field(default_factory=dict)
    bytes_per_s: Mapping[str, Floats] = field(default_factory=dict)
    latency_us: Mapping[str, Floats] = field(default_factory=dict)


def read_log(file: Path, *, in_us: bool = False) -> FioLog | None:
    """A log, in bounded memory; None where it has no line. ``in_us``: latencies are µs (fio 2).

    Raises BadLog, OSError.
    """
    match = LOG_NAME.fullmatch(file.name)
    if match is None:
        raise BadLog("is not called as fio calls a log")
    kind, thread, client = match["kind"], int(match["thread"] or 0), match["client"] or ""
    if match["packed"] and file.stat().st_size <= PACKED_NOTHING_BYTES:
        return None
    with _inflated(file) if match["packed"] else nullcontext(file) as text:
        return _read(text, kind, thread, client, in_us=in_us)


@contextmanager
def _inflated(file: Path) -> Iterator[Path]:
    """A log that fio packed, as the text that it would have written: fio alone knows its form,
    records of that fio's memory. Raises BadLog."""
    program = shutil.which("fio")
    if program is None:
        raise BadLog("is packed (log_store_compressed=1), and only fio reads that: install fio")
    with tempfile.TemporaryDirectory(prefix="labctl-log-") as folder:
        text, size = Path(folder) / "log", 0
        asked = [program, f"--inflate-log={file.resolve()}"]
        with (
            subprocess.Popen(
                asked,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment_without_secrets(),
            ) as fio,
            text.open("wb") as copy,
        ):
            assert fio.stdout is not None
            while data := fio.stdout.read(_BLOCK_BYTES):
                size += len(data)
                if size > MOST_INFLATED_BYTES:
                    fio.kill()
                    raise BadLog("is packed, and larger than 4 GiB without that")
                copy.write(data)
        if fio.returncode:
            raise BadLog("is packed (log_store_compressed=1), and fio cannot unpack it")
        yield text


def _read(file: Path, kind: str, thread: int, client: str, *, in_us: bool) -> FioLog | None:
    parts = _parts(file)
    first = next(parts, None)
    if first is None:
        return None
    since_1970 = bool(first[0][0] >= EPOCH_MS)
    own = first[3] > 0
    single = bool(own.any()) and (
        bool((np.diff(first[0]) < SINGLE_IO_MS).mean() > 0.5) if len(first[0]) > 1 else True
    )
    scale = 1.0 if in_us else 1e-3
    if single:
        start = float(first[0][0]) if since_1970 else 0.0
        begin, end, sides = _counted_log_windows(chain([first], parts), start)
        return FioLog(
            kind, thread, client, since_1970, begin, end,
            iops={side: one[0] for side, one in sides.items()},
            bytes_per_s={side: one[1] for side, one in sides.items()},
            latency_us={side: one[2] * scale for side, one in sides.items()}
            if kind in ("lat", "clat", "slat") else {},
        )  # fmt: skip
    t, value, direction, _ = (
        np.concatenate(column) for column in zip(*chain([first], parts), strict=True)
    )
    begin, end, found = _log_windows(t, value, direction, since_1970=since_1970, kind=kind)
    if kind not in ("iops", "bw"):
        found = {side: values * scale for side, values in found.items()}
        return FioLog(kind, thread, client, since_1970, begin, end, latency_us=found)
    if kind == "iops":
        return FioLog(kind, thread, client, since_1970, begin, end, iops=found)
    found = {side: values * _KIB for side, values in found.items()}
    return FioLog(kind, thread, client, since_1970, begin, end, bytes_per_s=found)


def _parts(file: Path) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Time, value, direction and block size of some lines at a time."""
    import pyarrow as pa
    from pyarrow import csv

    with file.open("rb") as stream:
        head = stream.read(4096).split(b"\n")
    lines = [line for line in head[:-1] if line.strip()] or [one for one in head if one.strip()]
    if not lines:
        return
    width = lines[0].count(b",") + 1
    if not 4 <= width <= 8:
        raise BadLog(f"has {width} fields in its first line, where fio's logs have 4 to 8")
    names = [f"f{number}" for number in range(width)]
    place = 2
    if width > 5 and any(int(_log_field(line, 2) or 0) > 2 for line in lines):
        place = 3  # the maximum stands between (log_window_value=both)
    wanted = ["f0", "f1", f"f{place}", f"f{place + 1}"]
    try:
        reader = csv.open_csv(
            file,
            csv.ReadOptions(column_names=names, block_size=_BLOCK_BYTES, use_threads=False),
            csv.ParseOptions(invalid_row_handler=lambda _row: "skip"),
            csv.ConvertOptions(
                include_columns=wanted, column_types=dict.fromkeys(names, pa.int64())
            ),
        )
        for batch in reader:
            if len(batch):
                t, value, direction, size = (one.to_numpy() for one in batch.columns)
                if direction.max(initial=0) > 2 or direction.min(initial=0) < 0:
                    raise BadLog(f"has no direction in field {place + 1}")
                yield t, value, direction, size
    except pa.ArrowInvalid as error:
        raise BadLog(f"is no log of fio: {error}") from error


def _log_field(line: bytes, number: int) -> str:
    text = line.split(b",")[number].strip().decode("ascii", "replace")
    return text if text.isdigit() else ""


def _counted_log_windows(
    parts: Iterator[tuple[Any, Any, Any, Any]], start_ms: float
) -> tuple[Floats, Floats, dict[str, tuple[Floats, Floats, Floats]]]:
    """Windows from ``start_ms`` on, and IOPS, bytes/s and the mean value of each direction."""
    sums: dict[int, list[Floats]] = {}
    last_ms = start_ms
    for t, value, direction, size in parts:
        last_ms = max(last_ms, float(t.max()))
        index = np.maximum((t - start_ms) // WINDOW_MS, 0).astype(np.int64)
        for number in np.unique(direction).tolist():
            own = direction == number
            at, length = index[own], int(index[own].max()) + 1
            new = [
                np.bincount(at, weights=None if what is None else what[own], minlength=length)
                for what in (None, size, value)
            ]
            old = sums.get(number, [np.zeros(0)] * 3)
            sums[number] = [
                _added_log_sums(one, other.astype(float))
                for one, other in zip(old, new, strict=True)
            ]
    count = max((len(one[0]) for one in sums.values()), default=0)
    begin = start_ms + WINDOW_MS * np.arange(count, dtype=float)
    end = begin + WINDOW_MS
    end[-1] = last_ms
    kept = count if end[-1] - begin[-1] >= LEAST_INTERVAL_MS or count == 1 else count - 1
    begin, end = begin[:kept], np.maximum(end[:kept], begin[:kept] + 1.0)
    length_s = (end - begin) / 1000
    found = {}
    for number, own_sums in sums.items():
        if number < len(DIRECTIONS):
            ios, size, value = (_added_log_sums(one, np.zeros(count))[:kept] for one in own_sums)
            mean = np.where(ios > 0, value / np.maximum(ios, 1), np.nan)
            found[DIRECTIONS[number]] = ios / length_s, size / length_s, mean
    return begin, end, found


def _added_log_sums(one: Floats, other: Floats) -> Floats:
    total = np.zeros(max(len(one), len(other)))
    total[: len(one)] += one
    total[: len(other)] += other
    return total


def _log_windows(
    t: Any, value: Any, direction: Any, *, since_1970: bool, kind: str
) -> tuple[Floats, Floats, dict[str, Floats]]:
    """fio's own windows: each ends with its line, and begins with the line before, unless nothing
    was done for longer."""
    usual = _usual_ms(t, direction)
    each = np.unique(t).astype(float)
    apart = np.concatenate([np.diff(each) > usual / 2, [True]])
    end = each[apart]  # directions and workers have their lines some ms apart
    before = np.concatenate([[end[0] - usual], end[:-1]])
    begin = np.where(end - before > 1.5 * usual, end - usual, before)
    if not since_1970 and begin[0] < usual / 2:
        begin[0] = 0.0
    found: dict[str, Floats] = {}
    for number, side in enumerate(DIRECTIONS):
        own = direction == number
        if own.any():
            at = np.searchsorted(end, t[own])
            total: Floats = np.bincount(at, weights=value[own], minlength=len(end)).astype(float)
            lines = np.bincount(at, minlength=len(end))
            if kind not in ("iops", "bw"):
                total = np.where(lines > 0, total / np.maximum(lines, 1), np.nan)
            found[side] = total
    return begin, end, found


def _usual_ms(t: Any, direction: Any) -> float:
    """How long fio's windows are: of one worker, in the direction that has most of them."""
    steps = np.diff(t[direction == np.bincount(direction).argmax()])
    steps = steps[steps > 0]  # several workers in one file stand one after another
    return float(np.median(steps)) if len(steps) else float(WINDOW_MS)


def cut(log: FioLog, begin_ms: float, end_ms: float) -> FioLog:
    """The windows of a log whose middles lie between two times."""
    middles = (log.begin_ms + log.end_ms) / 2
    own = (middles >= begin_ms) & (middles < end_ms)
    return replace(
        log,
        begin_ms=log.begin_ms[own],
        end_ms=log.end_ms[own],
        iops={side: values[own] for side, values in log.iops.items()},
        bytes_per_s={side: values[own] for side, values in log.bytes_per_s.items()},
        latency_us={side: values[own] for side, values in log.latency_us.items()},
    )


def added_up(logs: Sequence[FioLog], quantity: str) -> tuple[Floats, Floats, dict[str, Floats]]:
    """What jobs did together, in the windows of the first of them: begin, end (ms) and by direction
    the sum of ``iops`` or ``bytes_per_s``, or the mean ``latency_us``, of logs that say it.

    A mean of several is weighted with the IOPS of their job where ``logs`` have them.
    """
    having = [one for one in logs if getattr(one, quantity)]
    begin, end = having[0].begin_ms, having[0].end_ms
    sides = [side for side in DIRECTIONS if any(side in getattr(one, quantity) for one in having)]
    if len(having) == 1:
        return begin, end, dict(getattr(having[0], quantity))
    found = {}
    for side in sides:
        values = [
            _mean_over(one, getattr(one, quantity)[side], begin, end)
            for one in having if side in getattr(one, quantity)
        ]  # fmt: skip
        if quantity != "latency_us":
            found[side] = np.nansum(values, axis=0)
            continue
        weights = np.array(
            [_iops_beside(one, logs, side, begin, end) for one in having
             if side in one.latency_us]
        )  # fmt: skip
        weights = np.where(np.isfinite(values) & np.isfinite(weights), weights, 0.0)
        total = weights.sum(axis=0)
        mean = (np.nan_to_num(values) * weights).sum(axis=0) / np.where(total > 0, total, 1.0)
        found[side] = np.where(total > 0, mean, np.nan)
    return begin, end, found


def _iops_beside(
    log: FioLog, logs: Sequence[FioLog], side: str, begin: Floats, end: Floats
) -> Floats:
    """The IOPS of the job that a log of latencies is of; 1 where no log has them."""
    for one in logs:
        if (one.thread, one.client) == (log.thread, log.client) and side in one.iops:
            return _mean_over(one, one.iops[side], begin, end)
    return np.ones(len(begin))


def _mean_over(log: FioLog, values: Floats, begin: Floats, end: Floats) -> Floats:
    """Means of a log's values over other windows; NaN where it has none."""
    good = np.isfinite(values)
    if not good.any():
        return np.full(len(begin), np.nan)
    lengths = (log.end_ms - log.begin_ms)[good]
    at = np.column_stack([log.begin_ms[good], log.end_ms[good]]).ravel()

    def between(amounts: Floats) -> Floats:
        total = np.cumsum(amounts)
        steps = np.column_stack([total - amounts, total]).ravel()
        found: Floats = np.interp(end, at, steps) - np.interp(begin, at, steps)
        return found

    covered = between(lengths)
    return np.where(
        covered > 0, between(values[good] * lengths) / np.where(covered > 0, covered, 1.0), np.nan
    )
