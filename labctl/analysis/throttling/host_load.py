"""Whether the drive's host was short of processors when IOPS fell: then it was not the drive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labctl.analysis.readings.channel_series import ChannelSeries, Floats, Ints, host_channel_series
from labctl.record.layout import HOST_STOLEN, HOST_WAITING
from labctl.record.reader import RunRecord

WAITING_ROSE, WAITING_A_FALL = 0.3, 0.75
STOLEN_ROSE, STOLEN_A_FALL = 0.03, 0.3
"""By how much a share must have risen for the host to be why IOPS fell, and by what part of the
share by which they fell. Seen where no drive throttled: programs that made something wait for a
processor 80 to 100 % of the time (10 % before) took 20 to 50 % of the IOPS, at 20 to 40 % none;
other virtual machines that took 10 and 23 % of the processors took 20 and 37 % of the IOPS."""

SHORT = 0.5
"""Where something waited for this share of the time beside and inside a slowdown, other programs
want the processors, and what they leave goes up and down. Where fio itself is what waits, a drive
that holds itself back gives relief: then something waits less, too, by the share by which IOPS
fell at least."""

NEAR_NS = 250_000_000
"""A share is of the half second around its time."""

BESIDE_NS = 1_000_000_000
"""So close to a short slowdown other programs that begin or end are taken for its cause."""

_EMPTY = np.empty(0, np.int64), np.empty(0, np.float64)
_BUSY = "the drive's host was busy"
Stretch = tuple[int, int]


@dataclass(frozen=True, slots=True)
class HostLoad:
    """The shares (0 to 1) of the time in which something waited for a processor, and of the
    processors' time that other virtual machines took: each by time in ns. Empty: not recorded."""

    waiting: tuple[Ints, Floats] = _EMPTY
    stolen: tuple[Ints, Floats] = _EMPTY

    @classmethod
    def of(cls, record: RunRecord) -> HostLoad:
        """What a run recorded."""
        return cls(
            _host_load_values(host_channel_series(record, HOST_WAITING)),
            _host_load_values(host_channel_series(record, HOST_STOLEN)),
        )

    def why(self, beside: Stretch, inside: Stretch, fall: float) -> str | None:
        """In words what the host was short of ``inside`` a slowdown and not ``beside`` it; None
        when that does not account for a ``fall`` of IOPS by this share, or is not known."""
        waiting = _host_load_risen(
            self.waiting, beside, inside, max(WAITING_ROSE, WAITING_A_FALL * fall)
        )
        stolen = _host_load_risen(
            self.stolen, beside, inside, max(STOLEN_ROSE, STOLEN_A_FALL * fall)
        )
        words = []
        if waiting is not None:
            words.append(
                f"something waited for a processor {_host_load_percents(*waiting)} of the time"
            )
        if stolen is not None:
            words.append(
                f"other virtual machines took {_host_load_percents(*stolen)} of the processors"
            )
        return f"{_BUSY}: {', '.join(words)}" if words else None

    def throughout(self, beside: Stretch, inside: Stretch, fall: float) -> str | None:
        """In words that the host was short of processors in a slowdown and beside it, so that a
        ``fall`` of IOPS by this share tells nothing of the drive; None when it was not, or that is
        not known."""
        before, now = _mean_host_load(self.waiting, beside), _mean_host_load(self.waiting, inside)
        if before is None or now is None or not min(before, now) >= SHORT:
            return None
        if now <= before * (1 - fall):
            return None
        return (
            f"{_BUSY}: something waited for a processor {now:.0%} of the time, in it and beside it"
        )

    def is_short(self, stretch: Stretch) -> bool:
        """Whether the host was short of processors in a stretch; not where that is not known."""
        waiting = _mean_host_load(self.waiting, stretch)
        return waiting is not None and waiting >= SHORT

    def near(self, begin_ns: int, end_ns: int) -> str | None:
        """In words that the host was short of processors at some moment in a stretch, or within
        ``BESIDE_NS`` of it; None when it was not, or that is not known."""
        t_ns, values = self.waiting
        low, high = np.searchsorted(t_ns, [begin_ns - BESIDE_NS, end_ns + BESIDE_NS])
        most = float(values[low:high].max(initial=0.0))
        if not most >= SHORT:
            return None
        return f"{_BUSY}: something waited for a processor up to {most:.0%} of the time"


def _host_load_values(series: ChannelSeries) -> tuple[Ints, Floats]:
    return (series.stamps, series.raw) if len(series) else _EMPTY


def _host_load_risen(
    shares: tuple[Ints, Floats], beside: Stretch, inside: Stretch, least: float
) -> tuple[float, float] | None:
    """The means beside and inside, when the second is ``least`` above the first."""
    before, now = _mean_host_load(shares, beside), _mean_host_load(shares, inside)
    if before is None or now is None or not now - before >= least:
        return None
    return before, now


def _mean_host_load(shares: tuple[Ints, Floats], stretch: Stretch) -> float | None:
    t_ns, values = shares
    low, high = np.searchsorted(t_ns, [stretch[0] - NEAR_NS, stretch[1] + NEAR_NS])
    return float(values[low:high].mean()) if high > low else None


def _host_load_percents(before: float, now: float) -> str:
    return f"{now:.0%} (beside it {before:.0%})"
