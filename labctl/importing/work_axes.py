"""What a phase of fio's was: pattern, block size, queue depth, jobs and read share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from labctl.errors import ConfigurationError, Mistake
from labctl.fio.documents import number, number_at, table_of
from labctl.fio.job_values import job_sections, job_total_ios
from labctl.printable import printable
from labctl.record.phase import Pattern, parse_size

_NAME_OF_BENCH_FIO = re.compile(r"(rand)?(read|write|rw)-(\d+)-(\d+)$")
"""``randread-32-8``: what bench-fio names a result after, pattern, queue depth and jobs."""

_PATTERNS = {"readwrite": Pattern.RW, **{one.value: one for one in Pattern if one.io}}
_DEFAULT_READ_PCT = 50
"""fio's own, of mixed patterns."""


def work_options(document: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """The options of a job, with those of all jobs."""
    of_all = document.get("global options")
    if isinstance(of_all, list):  # of several clients, each with its address
        own = [one for one in of_all if isinstance(one, dict)]
        here = [one for one in own if _client_address(one) == _client_address(job)]
        of_all = (here or own or [{}])[0]
    return {**(of_all if isinstance(of_all, dict) else {}), **table_of(job, "job options")}


def _client_address(of: dict[str, Any]) -> tuple[Any, Any]:
    return of.get("hostname"), of.get("port")


def axes_of(file: Path, document: dict[str, Any], jobs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Pattern, block size, queue depth, jobs and read share. Raises ConfigurationError."""
    options = [work_options(document, job) for job in jobs]
    names = [(*_client_address(job), str(job.get("jobname", ""))) for job in jobs]
    patterns = {_work_axis_pattern(file, one, job) for one, job in zip(options, jobs, strict=True)}
    sizes = {_block_size(file, one, job) for one, job in zip(options, jobs, strict=True)}
    named = _NAME_OF_BENCH_FIO.search(file.stem)
    depths = {count_of(one, "iodepth", int(named[3]) if named else 1) for one in options}
    if len(sizes) > 1 or len(depths) > 1:
        several = " and ".join(dict.fromkeys(name for _, _, name in names))
        raise fio_mistake(
            file,
            f"{printable(several)} worked at the same time with different block sizes or queue "
            "depths: a phase has one of each; let them wait for each other (stonewall)",
        )
    counts: dict[tuple[Any, Any, str], int] = {}
    for name, one in zip(names, options, strict=True):
        declared = count_of(one, "numjobs", int(named[4]) if named else 1)
        counts[name] = max(declared, names.count(name))
    pattern = next(iter(patterns)) if len(patterns) == 1 else _mixed_of(patterns)
    return {
        "pattern": pattern,
        "block_size_bytes": next(iter(sizes)),
        "queue_depth": next(iter(depths)),
        "jobs": sum(counts.values()),
        "read_pct": _read_pct(pattern, options, jobs, alike=len(patterns) == 1),
        "stated": named is not None or any(options),
        "compress_pct": min(count_of(options[0], "buffer_compress_percentage", 0), 100),
    }


def _work_axis_pattern(file: Path, options: dict[str, Any], job: dict[str, Any]) -> Pattern:
    text = str(options.get("rw", options.get("readwrite", ""))).partition(":")[0].lower()
    named = _NAME_OF_BENCH_FIO.search(file.stem)
    if not text and named:
        text = (named[1] or "") + named[2]
    if text in _PATTERNS and _PATTERNS[text] is not Pattern.REPLAY:
        return _PATTERNS[text]
    if text or any(key in options for key in ("read_iolog", "rwmixread")):
        what = text or "a replay"
        raise fio_mistake(file, f"rw = {printable(what)} is none of {', '.join(_PATTERNS)}")
    sides = job_sections(job)
    reads, writes = job_total_ios(sides["read"]), job_total_ios(sides["write"])
    if reads and writes:
        return Pattern.RW  # fio's default address order is sequential
    return Pattern.WRITE if writes else Pattern.READ


def _mixed_of(patterns: Iterable[Pattern]) -> Pattern:
    return Pattern.RANDRW if all(one.random for one in patterns) else Pattern.RW


def _read_pct(
    pattern: Pattern,
    options: Sequence[dict[str, Any]],
    jobs: Sequence[dict[str, Any]],
    *,
    alike: bool,
) -> int:
    if not pattern.mixed:
        return 100 if "read" in pattern.value else 0
    if alike:
        given = options[0]
        if "rwmixwrite" in given and "rwmixread" not in given:
            return 100 - min(count_of(given, "rwmixwrite", 100 - _DEFAULT_READ_PCT), 100)
        return min(count_of(given, "rwmixread", _DEFAULT_READ_PCT), 100)
    sides = [job_sections(job) for job in jobs]
    reads, writes = (sum(job_total_ios(one[name]) for one in sides) for name in ("read", "write"))
    return round(100 * reads / (reads + writes)) if reads + writes else _DEFAULT_READ_PCT


def _block_size(file: Path, options: dict[str, Any], job: dict[str, Any]) -> int:
    text = str(options.get("bs", options.get("blocksize", ""))).split(",")[0].split("-")[0]
    try:
        if text:
            return parse_size(text)
    except ValueError:
        raise fio_mistake(file, f"bs = {printable(text)} is no size") from None
    for side in job_sections(job).values():  # fio's default is 4k: what was done says it surely
        if job_total_ios(side):
            return max(round(number_at(side, "io_bytes") / job_total_ios(side) / 512) * 512, 512)
    return 4096


def count_of(options: dict[str, Any], key: str, default: int) -> int:
    """A number among a job's options; what is not there, or 0, is ``default``."""
    value = number(options.get(key))
    return int(value) if value else default


def ramp_ns(options: dict[str, Any]) -> int:
    """``ramp_time``: what a job does before it counts."""
    text = str(options.get("ramp_time", "0")).strip()
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s|m|h)?", text)
    if match is None:
        return 0
    factor = {"us": 1e3, "ms": 1e6, "m": 60e9, "h": 3600e9}.get(match[2] or "s", 1e9)
    return round(float(match[1]) * factor)


def log_window_ms(options: dict[str, Any]) -> int:
    """``log_avg_msec``: how long the windows of a job's logs are at least; 0 where that is not
    said."""
    return count_of(options, "log_avg_msec", 0)


def fio_mistake(file: Path, allowed: str) -> ConfigurationError:
    """One mistake about a file of fio's."""
    return ConfigurationError([Mistake(str(file), "fio", None, allowed)])
