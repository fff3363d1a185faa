"""Which of fio's own logs are of which phase, and what they say over time.

A log is found by its name, ``<prefix>_<kind>.<number>.log``: the prefix as the job's options say it
(else the job's name, or that of the document), the number as fio counts its workers over all jobs
of a document.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from labctl.fio.logs import LOG_NAME, BadLog, FioLog, added_up, cut, read_log
from labctl.importing.work_axes import count_of, work_options
from labctl.importing.work_documents import worker_of
from labctl.importing.work_times import When
from labctl.record.timebase import NS_PER_MS
from labctl.rounded import rounded

_OPTION = {"iops": "write_iops_log", "bw": "write_bw_log"} | dict.fromkeys(
    ("lat", "clat", "slat"), "write_lat_log"
)
_CHANNELS = {"iops": "iops", "bytes_per_s": "bytes_per_s", "latency_us": "latency_mean_us"}

LATE_MS = 1500
"""What a log may reach beyond its phase: its last window, and fio's end."""

APART = 0.25
"""A log whose mean IOPS differ by more than this share from what fio printed is of another run: it
may lack a window at both ends, not more."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A figure of a phase over time: at the middles of its windows, on fio's clock."""

    channel: str
    """Of the run, without ``fio.``: ``read.iops``."""
    t_ns: Any
    values: Any
    interval_s: float


@dataclass(frozen=True, slots=True)
class PhaseLogs:
    """The logs of a phase that were found and fit it."""

    files: tuple[Path, ...] = ()
    logs: tuple[FioLog, ...] = ()
    shared: frozenset[Path] = frozenset()
    """Those that other phases are in as well (``per_job_logs=0``, with times since 1970)."""


class LogFiles:
    """The logs that there are, by name."""

    def __init__(self, files: Iterable[Path]) -> None:
        """``files``: those that were named, or lie in folders that were."""
        self._named: dict[str, list[Path]] = {}
        for file in files:
            self._named.setdefault(file.name, []).append(file)
        self._beside: dict[Path, dict[str, Path]] = {}

    def around(self, folder: Path) -> dict[str, Path]:
        """Logs by name, as a document in ``folder`` sees them: its neighbours first."""
        if folder not in self._beside:
            self._beside[folder] = {one.name: one for one in folder.iterdir() if is_log(one)}
        alone = {name: files[0] for name, files in self._named.items() if len(files) == 1}
        return alone | self._beside[folder]


def is_log(file: Path) -> bool:
    """Whether a file is called as fio calls a log."""
    return LOG_NAME.fullmatch(file.name) is not None and file.is_file()


def logs_of(
    file: Path,
    document: dict[str, Any],
    groups: Sequence[Sequence[dict[str, Any]]],
    there: LogFiles,
    notes: list[str],
) -> list[PhaseLogs]:
    """The logs of each group of jobs; ``notes`` gets a line for each that cannot be used."""
    found = there.around(file.parent)
    if not found:
        return [PhaseLogs()] * len(groups)
    workers = _work_log_workers(document, groups)
    chosen = [
        [one for name, one in sorted(found.items()) if _is_of(name, document, jobs, numbers, stem)]
        for jobs, numbers, stem in zip(groups, workers, _stems(file, groups), strict=True)
    ]
    users = Counter(itertools.chain.from_iterable(chosen))
    read: dict[Path, FioLog | None] = {}
    result = []
    for jobs, own in zip(groups, chosen, strict=True):
        for one in own:
            if one not in read:
                read[one] = _read_work_log(one, document, jobs, notes)
            log = read[one]
            if log is not None and users[one] > 1 and not log.since_1970:
                notes.append(f"{one.name}: of several phases at once (per_job_logs=0); left out")
                read[one] = None
        logs = [(one, log) for one in own if (log := read[one]) is not None]
        result.append(
            PhaseLogs(
                tuple(one for one, _ in logs),
                tuple(log for _, log in logs),
                frozenset(one for one in own if users[one] > 1),
            )
        )
    return result


def _stems(file: Path, groups: Sequence[Any]) -> list[str]:
    """What logs may be called after the document alone: nothing, where it has several phases."""
    return [file.stem if len(groups) == 1 else ""] * len(groups)


def _work_log_workers(
    document: dict[str, Any], groups: Sequence[Sequence[dict[str, Any]]]
) -> list[range]:
    """The numbers of each group's workers, from 1 on; each client counts its own."""
    found = []
    first = 1
    for jobs in groups:
        own = [job for job in jobs if worker_of(job)[:2] == worker_of(jobs[0])[:2]]
        names = [worker_of(job) for job in own]
        count = 0
        for name in dict.fromkeys(names):
            declared = count_of(work_options(document, own[names.index(name)]), "numjobs", 1)
            count += max(declared, names.count(name))
        found.append(range(first, first + count))
        first += count
    return found


def _is_of(
    name: str,
    document: dict[str, Any],
    jobs: Sequence[dict[str, Any]],
    workers: range,
    stem: str,
) -> bool:
    match = LOG_NAME.fullmatch(name)
    if match is None:
        return False
    prefixes = {stem}
    for job in jobs:
        said = work_options(document, job).get(_OPTION[match["kind"]])
        prefixes.add(PurePath(str(said)).name if said else str(job.get("jobname", "")))
    if match["prefix"] not in prefixes:
        return False
    thread = match["thread"]
    return thread is None or int(thread) in workers


def _read_work_log(
    file: Path, document: dict[str, Any], jobs: Sequence[dict[str, Any]], notes: list[str]
) -> FioLog | None:
    options = work_options(document, jobs[0])
    if str(options.get("log_max_value", "0")) == "1" or options.get("log_window_value") == "max":
        notes.append(f"{file.name}: has maxima, not means (log_window_value); left out")
        return None
    version = str(document.get("fio version", ""))
    try:
        log = read_log(file, in_us=version.startswith("fio-2"))
    except BadLog as bad:
        notes.append(f"{file.name}: {bad}; left out")
        return None
    except OSError as error:
        notes.append(f"{file.name}: {error.strerror or error}; left out")
        return None
    return log


def fitting(
    found: PhaseLogs,
    when: When,
    runtime_ms: int,
    rates: Mapping[str, float],
    notes: list[str],
) -> PhaseLogs:
    """Those of the logs whose times and IOPS are those of the phase. ``rates``: its IOPS by
    direction, as fio printed them."""
    kept = []
    for file, log in zip(found.files, found.logs, strict=True):
        origin_ms = when.begin_ns / NS_PER_MS if log.since_1970 else 0.0
        if file in found.shared:
            log = cut(log, when.begin_ns / NS_PER_MS, when.end_ns / NS_PER_MS)
            if not len(log.end_ms):
                continue
        slack_ms = LATE_MS + (when.u_ns / NS_PER_MS if log.since_1970 else 0.0)
        low = float(log.begin_ms[0]) - origin_ms
        high = float(log.end_ms[-1]) - origin_ms
        if low < -slack_ms or high > runtime_ms + slack_ms:
            notes.append(
                f"{file.name}: begins {low / 1000:.1f} s and ends {high / 1000:.1f} s after its "
                f"job, which worked for {runtime_ms / 1000:.1f} s: of another run; left out"
            )
            continue
        kept.append((file, log))
    with_iops = [log for _, log in kept if log.kind == "iops"] or [
        log for _, log in kept if log.iops
    ]
    with_iops = [log for log in with_iops if log.kind == with_iops[0].kind]
    if with_iops:
        begin, end, sides = added_up(with_iops, "iops")
        lengths = end - begin
        logged = sum(float(values @ lengths) for values in sides.values()) / float(lengths.sum())
        printed = sum(rates.values())
        if abs(logged - printed) > APART * max(logged, printed):
            named = ", ".join(file.name for file, _ in kept[:3])
            notes.append(
                f"{named}: {rounded(logged, 4)} IOPS, where fio printed {rounded(printed, 4)}: of "
                "another run, or not of all workers; left out"
            )
            return PhaseLogs()
    return PhaseLogs(tuple(file for file, _ in kept), tuple(log for _, log in kept))


def traces(found: PhaseLogs, begin_ns: int) -> tuple[Trace, ...]:
    """What the logs of a phase say over time, of all its workers together."""
    result = []
    origin_ms = begin_ns / NS_PER_MS
    for quantity, channel in _CHANNELS.items():
        logs = [log for log in found.logs if getattr(log, quantity)]
        for kinds in (("iops",), ("bw",), ("lat",), ("clat",)):
            best = [log for log in logs if log.kind in kinds]
            if best:
                break
        else:
            continue
        beside = [log for log in found.logs if log.kind == "iops"]
        weights = beside if quantity == "latency_us" else []
        begin, end, sides = added_up([*best, *weights], quantity)
        middles = (begin + end) / 2 + (0.0 if best[0].since_1970 else origin_ms)
        interval_s = float(np.median(end - begin)) / 1000
        for side, values in sides.items():
            good = np.isfinite(values)
            t_ns = np.round(middles[good] * NS_PER_MS).astype(np.int64)
            result.append(Trace(f"{side}.{channel}", t_ns, values[good], interval_s))
    return tuple(result)


def bounds_ns(found: PhaseLogs, runtime_ms: int, window_ms: int) -> tuple[int, int] | None:
    """The earliest and the latest that a phase began, by times since 1970 in its logs: each window
    ended in it. None without such times.

    ``window_ms``: fio's ``log_avg_msec``, 0 where that is not known. On a busy host a window takes
    longer, but none less than that, and the first one no less than the shortest.
    """
    logs = [
        log
        for file, log in zip(found.files, found.logs, strict=True)
        if log.since_1970 and file not in found.shared and len(log.end_ms) > 1
    ]
    if not logs:
        return None
    low = max(float(log.end_ms[-1]) for log in logs) - runtime_ms
    high = min(
        float(log.end_ms[0]) - min(float(np.diff(log.begin_ms).min()), window_ms or math.inf)
        for log in logs
    )
    return round(low * NS_PER_MS), round(high * NS_PER_MS)
