"""IOPS that fio reported during a phase, reads and writes together, over time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from labctl.analysis.estimate import Estimate
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.readings.channel_series import ChannelSeries, Floats, Ints, host_channel_series
from labctl.analysis.stats.ended_points import ended_with
from labctl.analysis.stats.uncertainty import scatter_of
from labctl.record.point_end import PointEnd
from labctl.record.reader import RunRecord

LIVE_IOPS = ("fio.read.iops", "fio.write.iops")
"""The channels of the IOPS that fio reports while it runs."""


def live_iops(record: RunRecord, result: PhaseResult) -> tuple[Floats, Floats]:
    """Seconds since the phase began (the middles of fio's intervals), and IOPS."""
    series = [host_channel_series(record, name) for name in LIVE_IOPS]
    return iops_between(series, result.begin_ns, result.end_ns)


def iops_between(
    series: Sequence[ChannelSeries], begin_ns: int, end_ns: int
) -> tuple[Floats, Floats]:
    """Seconds since ``begin_ns``, and the sum of the ``series`` of both directions."""
    t_ns, total = total_iops(series, begin_ns, end_ns + 1)
    return np.multiply(t_ns - begin_ns, 1e-9), total


def total_iops(series: Sequence[ChannelSeries], begin_ns: int, end_ns: int) -> tuple[Ints, Floats]:
    """Times from ``begin_ns`` until before ``end_ns``, and the sum of the ``series`` then: both
    directions come from the same statuses of fio."""
    parts = [one.between(begin_ns, end_ns) for one in series]
    t_ns = np.unique(np.concatenate([np.empty(0, np.int64), *(t for t, _ in parts)]))
    total = np.zeros(len(t_ns))
    for t, values in parts:
        total[np.searchsorted(t_ns, t)] += values
    return t_ns, total


def iops_estimate(record: RunRecord, result: PhaseResult) -> Estimate | None:
    """The phase's IOPS with their repeatability (about 95 %), from their scatter over the phase.

    It holds scatter within the phase only, and dependence over up to 1/16 of it: not what a
    repetition of the phase would change. None without IOPS; U is NaN: fio counts every operation.
    The repeatability is None when there are too few intervals.
    """
    if not result.iops:
        return None
    again = repeatability_in_parts(live_iops(record, result)[1], result.point_end)
    return Estimate(result.iops, math.nan, None if again is None else again * result.iops)


def repeatability_in_parts(iops: Floats, end: PointEnd | None) -> float | None:
    """How far the mean of so many intervals may come out again, as a part of it (about 95 %).

    ``end``: how their phase ended, where that depended on its numbers. None for fewer than two
    intervals, without I/O, and where they depend on each other for longer than one phase shows.
    """
    if len(iops) < 2 or not iops.mean() > 0:
        return None
    again = scatter_of(iops).repeatability
    share = None if again is None else again / float(iops.mean())
    return ended_with(end, None if end is None else end.state.iops, share)
