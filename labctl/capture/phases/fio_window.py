"""When a phase really worked, from fio's own clock and from the signals around it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from labctl.capture.host.drive_host import HostMoment
from labctl.record.timebase import NS_PER_MS

STARTED_WITHIN_MS = 2.0
"""fio prints milliseconds, and takes its clock readings within about one of each other."""

SIGNALLED_WITHIN_MS = 5.0
"""Uncertainty of a window that is known from the signals alone."""

CONTRADICTING_NS = 100 * NS_PER_MS
"""When documents give begins of a phase this far apart, a clock was set meanwhile."""


@dataclass(frozen=True, slots=True)
class ClockWindow:
    """The window for the analysis: the first I/O on the clock of the drive's host (device time of
    ``host.wall``), fio's runtime, and between which moments of the timebase the first I/O was."""

    clock_begin_ns: int
    runtime_ns: int
    begin_not_before_ns: int
    begin_not_after_ns: int


@dataclass(frozen=True, slots=True)
class FioWindow:
    """When a phase really worked: first and last I/O, and the half-width of the doubt."""

    begin_ns: int
    end_ns: int
    u_ns: int
    clock: ClockWindow | None = None


def window_between(
    release_ns: int, latest_ns: int, runtime_ms: int, began: Sequence[HostMoment]
) -> FioWindow:
    """First and last I/O on the timebase, from fio's own runtime and from our signals.

    fio prints wall clock and time since its first I/O together; their difference is when it
    ``began``, once for each document. It must be after the release, and the last I/O before
    ``latest_ns``: the "done" signal, or the moment when a phase was asked to stop, for then it was
    surely still at work. On another host the wall clock is mapped; where it stepped meanwhile, or
    nothing is known of it, only the signals count.
    """
    if not began:
        return FioWindow(release_ns, latest_ns, round(SIGNALLED_WITHIN_MS * NS_PER_MS))
    runtime_ns = runtime_ms * NS_PER_MS
    middle = _middle_of(began)
    if middle is None:
        slack_ns = latest_ns - release_ns - runtime_ns
        return FioWindow(
            release_ns, latest_ns, max(slack_ns, round(SIGNALLED_WITHIN_MS * NS_PER_MS))
        )
    # The two signals bound it from both sides, however little the clock is known.
    last_begin_ns = max(latest_ns - runtime_ns, release_ns)
    begin_ns = min(max(middle.t_ns, release_ns), last_begin_ns)
    end_ns = min(begin_ns + runtime_ns, latest_ns)
    clock_u_ns = min(middle.u_ns, last_begin_ns - release_ns)
    clock = None
    if middle.clock_ns is not None:
        clock = ClockWindow(middle.clock_ns, runtime_ns, release_ns, last_begin_ns)
    return FioWindow(begin_ns, end_ns, round(STARTED_WITHIN_MS * NS_PER_MS) + clock_u_ns, clock)


def _middle_of(moments: Sequence[HostMoment]) -> HostMoment | None:
    """The moment in the middle, with the doubt of the newest, which knows the clock best, and by
    how far they are apart if that is more than fio's milliseconds make of it.

    None when they contradict each other: the wall clock was set meanwhile.
    """
    times = [moment.t_ns for moment in moments]
    clocks = [moment.clock_ns for moment in moments if moment.clock_ns is not None]
    for same in (times, clocks):
        if same and max(same) - min(same) > CONTRADICTING_NS:
            return None
    clock_ns = round(statistics.median(clocks)) if clocks else None
    middle_ns = round(statistics.median(times))
    # A busy machine may leave fio waiting between its two clock readings.
    apart_ns = max(abs(t_ns - middle_ns) for t_ns in times)
    apart_ns = max(apart_ns - round(STARTED_WITHIN_MS * NS_PER_MS) // 2, 0)
    return HostMoment(middle_ns, moments[-1].u_ns + apart_ns, clock_ns)
