"""A meter's readings, written into the run; and what of them its clock is found by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from instruments.reading import Block, ClockPair
from labctl.importing.clock import FileClock, Recording
from labctl.importing.mapping import not_there
from labctl.importing.meter_channels import Opened, nominal_volts
from labctl.record import journal
from labctl.record.layout import CHANNELS_DIR, READING
from labctl.record.timebase import NS_PER_S

MOST_FOR_CLOCK = 400_000
"""Readings that an alignment is made from; of more, means over equal times."""

AT_ONCE = 8_192
"""Of these means, how many are made at a time."""

LONGEST_NS = 10**15
"""Of a recording, eleven days: a clock that runs on for longer is another epoch of a device."""

FLUSH_EVERY = 1 << 20
"""Readings after which the disk is waited for, so that memory does not grow."""

Progress = Callable[[Path, float], None]
"""Takes a file and the share of it that was read."""


def write_readings(
    writer: journal.Journal, path: Path, one: Opened, progress: Progress
) -> Recording:
    """Write a file's readings with the times since its first one."""
    name, file = one.source.meter.name, one.source.file
    waiting, counts = 0, dict.fromkeys((o.info.name for o in one.outputs), 0)
    for part in one.parts:
        t_ns = part.t_ns - one.table.seen.first_ns
        for output in one.outputs:
            values = part.columns[output.column]
            good = np.isfinite(values)
            shown = values[good] * output.factor
            if output.constant is not None:
                shown = np.full(len(shown), output.constant)
            channel = output.info.name.partition(".")[2]
            writer.readings(name, Block(channel, t_ns[good], shown))
            counts[output.info.name] += len(shown)
            waiting += len(shown)
        if waiting > FLUSH_EVERY:
            writer.flush(600.0)
            waiting = 0
        progress(file, one.table.share)
    writer.flush(600.0)
    seen = one.table.seen
    if seen.last_ns - seen.first_ns > LONGEST_NS:
        raise not_there(file, "time", None, "is a recording of more than eleven days: cut it")
    for channel, count in counts.items():
        if count < 2:
            what = channel.partition(".")[2]
            raise not_there(file, what, None, "has no readings: is it the right column?")
    t, watts = _watts_of_meter_readings(path, one)
    return Recording(
        file, name, one.source.meter, seen.first_ns, seen.last_ns, one.interval_s, t, watts
    )


def _watts_of_meter_readings(path: Path, one: Opened) -> tuple[Any, Any]:
    """Times (s since the first reading) and watts at nominal volts of all amps of a file."""
    total: tuple[Any, Any] | None = None
    longest = np.empty(0)
    for output in one.outputs:
        t, values = _thinned_meter_readings(path / CHANNELS_DIR / output.info.name)
        longest = t if len(t) > len(longest) else longest
        if output.info.quantity != "current":
            continue
        watts = values * nominal_volts(output.rail)
        if total is None:
            total = t, watts
        else:
            total = total[0], total[1] + np.interp(total[0], t, watts)
    return total if total is not None else (longest, np.empty(0))


def _thinned_meter_readings(file: Path) -> tuple[Any, Any]:
    """Times in s and values, as means over equal numbers of readings where there are many."""
    count = file.stat().st_size // READING.itemsize
    many = -(-count // MOST_FOR_CLOCK)
    times, means = [], []
    with file.open("rb") as stream:  # a mapped file would count as memory of this process
        for _ in range(0, count // many, AT_ONCE):
            part = np.fromfile(stream, READING, AT_ONCE * many)
            part = part[: len(part) // many * many]
            times.append((part["t"] * 1e-9).reshape(-1, many).mean(axis=1))
            means.append(part["v"].reshape(-1, many).mean(axis=1))
    t, values = np.concatenate(times), np.concatenate(means)
    order = np.argsort(t, kind="stable")
    return t[order], values[order]


def clock_samples(
    one: Opened, recording: Recording, clock: FileClock, begin_ns: int
) -> Iterator[ClockPair]:
    """The samples of a file's clock that its alignment is worth, at both ends of the recording."""
    u_ns = max(round(clock.u_s * NS_PER_S), 1000)
    ends = (
        (0, clock.first_offset_s),
        (recording.last_ns - recording.first_ns, clock.last_offset_s),
    )
    for output in one.outputs:
        channel = output.info.name.partition(".")[2]
        for device_ns, offset_s in ends:
            host_ns = begin_ns + device_ns + round(offset_s * NS_PER_S)
            yield ClockPair(channel, device_ns, host_ns + u_ns, 2 * u_ns)
