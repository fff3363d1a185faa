"""When a phase really worked, from fio's own clock and from the signals around it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from labctl.capture.host.drive_host import HostMoment
from labctl.capture.phases.fio_clock import FASTEST, FioClock, PrintedTimes
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
    ``host.wall``), how long it worked, between which moments of the timebase the first I/O was,
    and the half-width of the doubt that fio's statuses leave of begin and end."""

    clock_begin_ns: int
    runtime_ns: int
    begin_not_before_ns: int
    begin_not_after_ns: int
    status_u_ns: int = 0


@dataclass(frozen=True, slots=True)
class FioWindow:
    """When a phase really worked: first and last I/O, and the half-width of the doubt; and how
    fast fio's clock ran, where its statuses show it."""

    begin_ns: int
    end_ns: int
    u_ns: int
    clock: ClockWindow | None = None
    fio: FioClock | None = None


def window_between(
    release_ns: int,
    latest_ns: int,
    runtime_ms: int,
    printed: Sequence[PrintedTimes],
    fio: FioClock | None,
) -> FioWindow:
    """First and last I/O on the timebase, from fio's own runtime and from our signals.

    fio prints wall clock and time since its first I/O together; their difference is when it began,
    once for each document. Where its clock (``fio``) surely runs at another rate, its runtime is
    taken at that rate. It must have begun after the release, and its last I/O was before
    ``latest_ns``: the "done" signal, or the moment when a phase was asked to stop, for then it was
    surely still at work. On another host the wall clock is mapped; where it stepped meanwhile, or
    nothing is known of it, only the signals count. So they do where fio's runtime does not fit
    between them (fio 3.33 adds the time since its last I/O to it when a status falls into its
    end); and where its statuses do not show how fast its clock runs, they say how far off it may
    be.
    """
    least_u_ns = round(SIGNALLED_WITHIN_MS * NS_PER_MS)
    runtime_ns = runtime_ms * NS_PER_MS
    between_ns = latest_ns - release_ns
    rate, rate_u_ns = 1.0, 0
    if fio is not None and fio.matters(runtime_ns):
        rate = fio.rate
    lasted_ns = round(runtime_ns / rate)
    if fio is not None:
        rate_u_ns = round(lasted_ns * (abs(fio.rate - rate) + fio.u) / rate)
    began = [one.began(rate) for one in printed]
    middle = _middle_of([one for one in printed if not is_early(one.began(rate), release_ns)], rate)
    free_ns = between_ns - lasted_ns + rate_u_ns
    fits = free_ns >= -least_u_ns
    unknown_ns = 0
    if not fits and fio is None:
        # The last signal may have been late: of a clock of unknown rate, the fastest bounds it.
        unknown_ns = between_ns - round(lasted_ns / FASTEST)
    if middle is None:
        doubt_ns = max(between_ns - lasted_ns, unknown_ns) if printed else 0
        return FioWindow(release_ns, latest_ns, max(doubt_ns, least_u_ns), fio=fio)
    if not fits:
        far_ns = max(abs(one.t_ns - middle.t_ns) for one in began)
        return FioWindow(release_ns, latest_ns, max(far_ns, unknown_ns, least_u_ns), fio=fio)
    free_ns = max(free_ns, 0)
    # The two signals bound it from both sides, however little the clock is known.
    last_begin_ns = max(latest_ns - lasted_ns, release_ns)
    begin_ns = min(max(middle.t_ns, release_ns), last_begin_ns)
    end_ns = min(begin_ns + lasted_ns, latest_ns)
    mapped_u_ns = printed[-1].shown.u_ns
    status_u_ns = free_ns if fio is None else max(middle.u_ns - mapped_u_ns, rate_u_ns // 2)
    u_ns = round(STARTED_WITHIN_MS * NS_PER_MS) + min(mapped_u_ns + status_u_ns, free_ns)
    clock = None
    if middle.clock_ns is not None:
        clock = ClockWindow(
            middle.clock_ns, lasted_ns, release_ns, last_begin_ns, min(status_u_ns, free_ns)
        )
    return FioWindow(begin_ns, end_ns, u_ns, clock, fio)


def is_early(began: HostMoment, release_ns: int) -> bool:
    """Whether a first I/O is before the release by more than what is unknown of it."""
    not_before_ns = release_ns - round(STARTED_WITHIN_MS * NS_PER_MS) - began.u_ns
    return began.t_ns < not_before_ns


def _middle_of(printed: Sequence[PrintedTimes], rate: float) -> HostMoment | None:
    """The first I/O in the middle of those that documents give, with the doubt of the newest, which
    knows the clock best, and by how far they are apart if that is more than fio's milliseconds
    make of it.

    What fio prints when it exits, 15 to 25 ms after its last I/O, only tells whether the clock was
    set: its runtime stands meanwhile, so that the begin it gives is late by so much.

    None when there is none, or they contradict each other: the wall clock was set meanwhile.
    """
    moments = [one.began(rate) for one in printed]
    if not moments:
        return None
    for same in ([one.t_ns for one in moments], [one.clock_ns for one in moments]):
        known = [time_ns for time_ns in same if time_ns is not None]
        if known and max(known) - min(known) > CONTRADICTING_NS:
            return None
    newest = printed[-1]
    at_work = [
        moment
        for one, moment in zip(printed, moments, strict=True)
        if one.runtime_ms < newest.runtime_ms
    ] or moments
    times = [moment.t_ns for moment in at_work]
    clocks = [moment.clock_ns for moment in at_work if moment.clock_ns is not None]
    clock_ns = round(statistics.median(clocks)) if clocks else None
    middle_ns = round(statistics.median(times))
    # A busy machine may leave fio waiting between its two clock readings.
    apart_ns = max(abs(t_ns - middle_ns) for t_ns in times)
    apart_ns = max(apart_ns - round(STARTED_WITHIN_MS * NS_PER_MS) // 2, 0)
    return HostMoment(middle_ns, moments[-1].u_ns + apart_ns, clock_ns)
