"""IOPS that fio reported during a phase, reads and writes together, over time."""

from __future__ import annotations

import math

import numpy as np

from labctl.analysis.readings.channel_series import Floats, host_series
from labctl.analysis.results import Estimate, PhaseResult
from labctl.analysis.stats.uncertainty import scatter_of
from labctl.record.reader import RunRecord

LIVE_IOPS = ("fio.read.iops", "fio.write.iops")
"""The channels of the IOPS that fio reports while it runs."""


def live_iops(record: RunRecord, result: PhaseResult) -> tuple[Floats, Floats]:
    """Seconds since the phase began (the middles of fio's intervals), and IOPS."""
    parts = [
        host_series(record, name).between(result.begin_ns, result.end_ns + 1) for name in LIVE_IOPS
    ]
    times = np.unique(np.concatenate([t for t, _ in parts]))
    total = np.zeros(len(times))
    for t, values in parts:
        total[np.searchsorted(times, t)] += values
    return (times - result.begin_ns) * 1e-9, total


def iops_estimate(record: RunRecord, result: PhaseResult) -> Estimate | None:
    """The phase's IOPS with their repeatability (about 95 %), from their scatter over the phase.

    It holds scatter within the phase only, and dependence over up to 1/16 of it: not what a
    repetition of the phase would change. None without IOPS; U is NaN: fio counts every operation.
    The repeatability is None when there are too few intervals.
    """
    if not result.iops:
        return None
    _, iops = live_iops(record, result)
    again = scatter_of(iops).expanded_u if len(iops) > 1 else None
    return Estimate(result.iops, math.nan, again)
