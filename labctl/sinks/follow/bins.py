"""Streams of bins: means over a fixed grid, emitted when complete, and again when they change.

A bin is complete once every channel of its stream has a reading after its end. While a run is on,
an incomplete bin is emitted after ``LATE_NS``, and again when a late reading comes in. No bin ever
has to be withdrawn: readings only add to it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.power.volts_times_amps import BRIDGED, rail_watts
from labctl.analysis.readings.channel_series import Floats, Ints
from labctl.analysis.stats.time_mean import STANDS_FOR
from labctl.sinks.follow.growing_channel import GrowingChannel
from labctl.sinks.schema import PointSeries

LATE_NS = 600_000_000
"""How long after its end a bin waits for its readings while a run is on. The journal writes
readings every 250 ms; a bin of 1 s must be stored 2 s after its first reading."""

MOST_BINS = 2_500
MOST_READINGS = 1 << 18
MOST_SENT = 10_000
"""Most at a time: bins, readings of a channel, and readings that are sent one by one."""

FAR_NS = 60_000_000_000
"""Over a longer gap than this nothing is interpolated."""

PRECEDING = 9
FEWEST_PRECEDING = 3
"""How many intervals before a gap give the usual interval."""

_NOTHING = np.empty(0)


class BinStream(ABC):
    """One series of bins, and how far it has been emitted."""

    def __init__(
        self,
        name: str,
        channels: Sequence[GrowingChannel],
        tags: Mapping[str, str],
        bin_ns: int,
        every_reading: bool,
        constants: Mapping[str, float],
    ) -> None:
        """``bin_ns`` is the width of the grid; ``every_reading``: readings are sent, not means."""
        self.name = name
        self.tags = dict(tags)
        self.channels = tuple(channels)
        self._bin_ns = bin_ns
        self._constants = dict(constants)
        self._every_reading = every_reading
        self._most_readings = MOST_SENT if every_reading else MOST_READINGS
        self._emitted: int | None = None
        self._complete: int | None = None
        self._seen: dict[str, int] = {}
        self._repeat: list[tuple[int, int]] = []

    @abstractmethod
    def compute(self, begin_ns: int, end_ns: int) -> list[PointSeries]:
        """The points of the bins between two edges of the grid."""

    def resume_at(self, complete_ns: int | None) -> None:
        """Continue from a cursor."""
        self._complete = self._emitted = complete_ns

    def make_last_again(self) -> None:
        """A run that was cut off goes on: its last bins, which were taken for complete as nothing
        more was to come, may change as far as a later reading is interpolated with."""
        firsts = [t for t in (channel.first_ns for channel in self.channels) if t is not None]
        if self._complete is None or self._emitted is None or not firsts:
            return
        begin = max(self._edge(min(firsts)), self._complete - FAR_NS)
        if begin < self._complete:
            self._complete = begin
            self._repeat.append((begin, self._emitted))

    @property
    def complete_ns(self) -> int | None:
        """The edge up to which every emitted bin is complete; None before the first."""
        return self._complete

    @property
    def emitted_ns(self) -> int | None:
        """The edge up to which bins were emitted."""
        return self._emitted

    def advance(self, now_ns: int | None) -> list[PointSeries]:
        """The next points. ``now_ns`` None: nothing more will come in.

        Empty when there is nothing to emit yet.
        """
        lasts = [channel.last_ns for channel in self.channels]
        known = [last for last in lasts if last is not None]
        if not known:
            return []
        if self._emitted is None:
            first = min(t for t in (c.first_ns for c in self.channels) if t is not None)
            self._emitted = self._complete = self._edge(first)
        assert self._complete is not None
        complete = self._edge(min(known)) if len(known) == len(lasts) else self._complete
        self._note_stragglers()
        if now_ns is None:
            target = self._edge(max(known)) + self._bin_ns
            complete = max(complete, target - self._bin_ns)
        else:
            begun = self._edge(max(known)) + self._bin_ns
            target = max(complete, min(self._edge(now_ns - LATE_NS), begun))
        while True:
            begin, end = self._next_span(target)
            if end <= begin:
                return []
            points = self.compute(begin, end)
            for channel in self.channels:
                channel.release_pages()
            if not self._repeat:
                self._complete = max(self._complete, min(complete, self._emitted))
            if points:
                return points

    def _next_span(self, target: int) -> tuple[int, int]:
        """What to compute now: bins to be made again first, then those up to ``target``."""
        assert self._emitted is not None
        if self._repeat:
            begin, end = self._repeat[0]
            stop = self._limited(begin, end)
            self._repeat[0] = (stop, end)
            if stop >= end:
                self._repeat.pop(0)
            return begin, stop
        # Times without readings have no bins, however long (a meter that was away, a wrong time).
        next_ns = [channel.moment_after(self._emitted, 0) for channel in self.channels]
        read_ns = min((t for t in next_ns if t is not None and t >= self._emitted), default=target)
        begin = max(self._emitted, min(self._edge(read_ns), target))
        self._emitted = max(begin, self._limited(begin, target))
        return begin, self._emitted

    def _note_stragglers(self) -> None:
        """Late readings, of bins already emitted: those bins are computed again."""
        assert self._emitted is not None
        for channel in self.channels:
            last = channel.last_ns
            name = channel.info.name
            seen = self._seen.get(name)
            if last is None or last == seen:
                continue
            self._seen[name] = last
            new = channel.first_ns if seen is None else channel.moment_after(seen + 1, 0)
            begin = self._edge(last if new is None else new)
            if seen is not None:
                begin = max(self._edge(seen), begin - FAR_NS)
            begin = max(begin, self._complete if self._complete is not None else begin)
            end = min(self._emitted, self._edge(last) + self._bin_ns)
            if end > begin:
                self._repeat.append((begin, end))

    def _limited(self, begin: int, end: int) -> int:
        """``end``, or an earlier edge when there are too many bins or readings before it."""
        end = min(end, begin + MOST_BINS * self._bin_ns)
        for channel in self.channels:
            moment = channel.moment_after(begin, self._most_readings)
            if moment is not None and moment > begin:
                end = min(end, max(self._edge(moment), begin + self._bin_ns))
        return end

    def _edge(self, t_ns: int) -> int:
        return t_ns // self._bin_ns * self._bin_ns


@dataclass(frozen=True, slots=True)
class _Means:
    """Number, mean, lowest and highest of the readings in each bin (NaN where there are none)."""

    n: Ints
    mean: Floats
    low: Floats
    high: Floats


def _means(t: Floats, values: Floats, edges: Floats) -> _Means:
    """Times ascend; ``edges`` are one more than bins. A mean is over time, as that of a phase."""
    cuts = np.searchsorted(t, edges)
    n = np.diff(cuts)
    filled = np.flatnonzero(n)
    mean, low, high = (np.full(len(n), np.nan) for _ in range(3))
    if len(filled):
        part, starts = values[: cuts[-1]], cuts[filled]
        own = slice(cuts[0], cuts[-1])
        spent_ns = np.zeros(len(part))
        spent_ns[own] = _time_in_bins(t[own], np.repeat(np.arange(len(n)), n), edges)
        mean[filled] = np.add.reduceat(part * spent_ns, starts) / np.add.reduceat(spent_ns, starts)
        low[filled] = np.minimum.reduceat(part, starts)
        high[filled] = np.maximum.reduceat(part, starts)
    return _Means(n.astype(np.int64), mean, low, high)


def _time_in_bins(t: Floats, bins: Ints, edges: Floats) -> Floats:
    """The time that each reading stands for among those of its bin: half way to the one before and
    behind, and to the edge of the bin as far as a reading may stand for."""
    same = bins[1:] == bins[:-1]
    halves = np.where(same, np.diff(t) / 2, np.nan)
    before, behind = np.insert(halves, 0, np.nan), np.append(halves, np.nan)
    reach = 2 * STANDS_FOR * np.fmin(before, behind)  # NaN for a reading that is alone in its bin
    reach = np.where(np.isnan(reach), np.inf, reach)
    before = np.where(np.isnan(before), np.minimum(t - edges[bins], reach), before)
    behind = np.where(np.isnan(behind), np.minimum(edges[bins + 1] - t, reach), behind)
    spent_ns: Floats = np.maximum(before + behind, 1.0)  # two of the same time are not lost
    return spent_ns


class RailBins(BinStream):
    """Volts, amps and watts of one rail."""

    def __init__(
        self,
        name: str,
        volts: GrowingChannel,
        amps: GrowingChannel,
        tags: Mapping[str, str],
        bin_ns: int,
        every_reading: bool,
        constants: Mapping[str, float],
        drop_ohm: float,
    ) -> None:
        """``drop_ohm``: resistance between the point where volts are measured and the drive."""
        super().__init__(name, (volts, amps), tags, bin_ns, every_reading, constants)
        self._volts, self._amps = volts, amps
        self._drop_ohm = drop_ohm

    def compute(self, begin_ns: int, end_ns: int) -> list[PointSeries]:
        """Means at the middle of each bin, or every reading at its own time."""
        t_volts_ns, volts = self._volts.around(begin_ns, end_ns)
        t_amps_ns, amps = self._amps.around(begin_ns, end_ns)
        t_volts = (t_volts_ns - begin_ns).astype(np.float64)
        t_amps = (t_amps_ns - begin_ns).astype(np.float64)
        t_watts, watts = self._watts(t_amps, amps, t_volts, volts)
        span = float(end_ns - begin_ns)
        if self._every_reading:
            return self._readings(begin_ns, span, (t_volts, volts), (t_amps, amps), t_watts, watts)
        edges = np.arange(0.0, span + 0.5 * self._bin_ns, self._bin_ns)
        v, i = _means(t_volts, volts, edges), _means(t_amps, amps, edges)
        p = _means(t_watts, watts, edges)
        rows = np.flatnonzero(v.n + i.n)
        if not len(rows):
            return []
        columns: dict[str, Floats | Ints] = {
            "volts": (v.mean - self._drop_ohm * i.mean if self._drop_ohm else v.mean)[rows],
            "amps": i.mean[rows],
            "watts": p.mean[rows],
            "watts_min": p.low[rows],
            "watts_max": p.high[rows],
            "n": p.n[rows],
        }
        middles = begin_ns + rows * self._bin_ns + self._bin_ns // 2
        return [PointSeries("power", self.tags, middles, columns, self._constants)]

    def _watts(
        self, t_amps: Floats, amps: Floats, t_volts: Floats, volts: Floats
    ) -> tuple[Floats, Floats]:
        """Watts at the current's times, with volts interpolated: never beyond the last voltage
        reading so far, so that emitted watts do not change."""
        if not len(t_volts) or not len(t_amps):
            return _NOTHING, _NOTHING
        if len(t_amps) == len(t_volts) and np.array_equal(t_amps, t_volts):
            return rail_watts(t_amps, amps, t_volts, volts, np.inf, self._drop_ohm)
        fresh = np.diff(t_volts, prepend=-np.inf) > 0
        t_volts, volts = t_volts[fresh], volts[fresh]
        low = int(np.searchsorted(t_amps, t_volts[0]))
        high = int(np.searchsorted(t_amps, t_volts[-1], side="right"))
        if low >= high or len(t_volts) < 2:
            return _NOTHING, _NOTHING
        t, watts = rail_watts(
            t_amps[low:high], amps[low:high], t_volts, volts, np.inf, self._drop_ohm
        )
        gaps = unbridged(t_volts, self._volts.info.interval_s * 1e9)
        if not gaps.any():
            return t, watts
        behind = np.clip(np.searchsorted(t_volts, t, side="left"), 1, len(t_volts) - 1)
        known = ~gaps[behind - 1] | (t == t_volts[behind])
        return t[known], watts[known]

    def _readings(
        self,
        begin_ns: int,
        span: float,
        volts: tuple[Floats, Floats],
        amps: tuple[Floats, Floats],
        t_watts: Floats,
        watts: Floats,
    ) -> list[PointSeries]:
        found = []
        t, values = _inside_bins(*volts, span)
        if len(t) and self._drop_ohm and len(amps[0]):
            values = values - self._drop_ohm * np.interp(t, *amps)
        if len(t):
            found.append(
                PointSeries(
                    "power",
                    self.tags,
                    _distinct_bin_times(begin_ns, t),
                    {"volts": values},
                    self._constants,
                )
            )
        t, values = _inside_bins(*amps, span)
        if len(t):
            at = np.full(len(t), np.nan)
            t_watts, watts = _inside_bins(t_watts, watts, span)
            place = np.searchsorted(t, t_watts)
            at[place] = watts
            columns = {
                "amps": values,
                "watts": at,
                "watts_min": at,
                "watts_max": at,
                "n": np.isfinite(at).astype(np.int64),
            }
            found.append(PointSeries("power", self.tags, _distinct_bin_times(begin_ns, t), columns))
        return found


def unbridged(t_volts: Floats, nominal_ns: float) -> NDArray[np.bool_]:
    """Which intervals between readings are too long to interpolate over.

    Judged by the intervals just before each, so that it does not depend on which part is read.
    """
    gaps = np.diff(t_volts)
    long = gaps > BRIDGED * nominal_ns
    if not long.any():
        return long
    padded = np.concatenate([np.full(PRECEDING, np.nan), gaps[:-1]])
    before = np.lib.stride_tricks.sliding_window_view(padded, PRECEDING)[np.flatnonzero(long)]
    enough = np.isfinite(before).sum(axis=1) >= FEWEST_PRECEDING
    usual = np.full(len(before), nominal_ns)
    if enough.any():
        usual[enough] = np.maximum(np.nanmedian(before[enough], axis=1), nominal_ns)
    long[long] = gaps[long] > BRIDGED * usual
    return long


def _inside_bins(t: Floats, values: Floats, span: float) -> tuple[Floats, Floats]:
    low, high = np.searchsorted(t, [0.0, span])
    return t[low:high], values[low:high]


def _distinct_bin_times(begin_ns: int, t: Floats) -> Ints:
    """Times, none twice: a point of the same time would replace the one before."""
    times = t.astype(np.int64)
    steps = np.arange(len(times))
    result: Ints = np.maximum.accumulate(times - steps) + steps + begin_ns
    return result


class ChannelStream(BinStream):
    """One channel as one field: a temperature, the watts of a host."""

    def __init__(
        self,
        name: str,
        channel: GrowingChannel,
        field: tuple[str, str],
        tags: Mapping[str, str],
        bin_ns: int,
        every_reading: bool,
        constants: Mapping[str, float],
    ) -> None:
        """``field``: of the schema, with its measurement: ``("temperature", "celsius")``."""
        super().__init__(name, (channel,), tags, bin_ns, every_reading, constants)
        self._channel = channel
        self._measurement, self._field = field

    def compute(self, begin_ns: int, end_ns: int) -> list[PointSeries]:
        """Means at the middle of each bin, or every reading at its own time."""
        t_ns, values = self._channel.around(begin_ns, end_ns)
        t = (t_ns - begin_ns).astype(np.float64)
        span = float(end_ns - begin_ns)
        if self._every_reading:
            t, values = _inside_bins(t, values, span)
            times = _distinct_bin_times(begin_ns, t)
        else:
            edges = np.arange(0.0, span + 0.5 * self._bin_ns, self._bin_ns)
            means = _means(t, values, edges)
            rows = np.flatnonzero(means.n)
            times = begin_ns + rows * self._bin_ns + self._bin_ns // 2
            values = means.mean[rows]
        if not len(times):
            return []
        columns = {self._field: values}
        return [PointSeries(self._measurement, self.tags, times, columns, self._constants)]
