"""A whole run over time in a limited number of bins: means with their extremes.

A bin shows the mean of its readings and the smallest and largest of them, so a peak that lasted
one reading is seen however long the run was. Readings are walked through in pieces: a run of a
hundred million of them is never in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from labctl.analysis.power.volts_times_amps import BRIDGED, rail_watts
from labctl.analysis.readings.channel_series import (
    ChannelSeries,
    Floats,
    Ints,
    RailSeries,
    channel_series,
    rail_series,
)
from labctl.record.reader import RunRecord
from labctl.record.timebase import NS_PER_S

BINS = 1500
SILENT_AFTER_S = 0.5
SILENT_AFTER_INTERVALS = 5.0
_PIECE = 1 << 18
"""Readings that are worked on at a time."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One quantity over time: middles of bins, and mean, lowest and highest reading of each.

    A bin is NaN where there were no readings for long: a line breaks there.
    """

    t_ns: Ints
    mean: Floats
    low: Floats
    high: Floats

    def __len__(self) -> int:
        return len(self.t_ns)


@dataclass(frozen=True, slots=True)
class Silence:
    """A stretch in which a channel that should have given readings gave none."""

    channel: str
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run over time: ``watts`` by rail, ``iops`` and ``bytes_per_s`` by direction, ``celsius``
    by sensor.

    ``total_watts`` adds up the rails where all were measured; its extremes are the sums of the
    rails' extremes, so the true ones are within them.
    """

    begin_ns: int
    end_ns: int
    watts: Mapping[str, Curve]
    total_watts: Curve | None
    iops: Mapping[str, Curve]
    bytes_per_s: Mapping[str, Curve]
    celsius: Mapping[str, Curve]
    power_silences: tuple[Silence, ...]
    celsius_silences: tuple[Silence, ...]


def timeline(record: RunRecord, begin_ns: int, end_ns: int, bins: int = BINS) -> Timeline:
    """The run from ``begin_ns`` to ``end_ns``, in at most ``bins`` bins.

    A channel whose device clock has no samples has no place in time and is left out. Raises
    ValueError when the run has no duration.
    """
    if end_ns <= begin_ns:
        raise ValueError("a run that ends before it begins has no timeline")
    curves = _TimelineBins(record, begin_ns, end_ns, bins)
    watts: dict[str, Curve] = {}
    power_silences: list[Silence] = []
    for info in record.header.rails:
        rail = rail_series(info, curves.channels)
        if rail is not None:
            curve, silences = curves.power(rail)
            power_silences.extend(silences)
            if len(curve):
                watts[info.name] = curve
    celsius: dict[str, Curve] = {}
    celsius_silences: list[Silence] = []
    for sensor, name in record.header.temperatures.items():
        if name in curves.channels:
            curve, silences = curves.plain(curves.channels[name])
            celsius_silences.extend(silences)
            if len(curve):
                celsius[sensor] = curve
    complete = len(watts) == len(record.header.rails)
    return Timeline(
        begin_ns=begin_ns,
        end_ns=end_ns,
        watts=watts,
        total_watts=_timeline_total(list(watts.values())) if watts and complete else None,
        iops=curves.work("iops"),
        bytes_per_s=curves.work("bytes_per_s"),
        celsius=celsius,
        power_silences=tuple(power_silences),
        celsius_silences=tuple(celsius_silences),
    )


def _timeline_total(traces: list[Curve]) -> Curve:
    """The sum, on the bins of the curve with most of them."""
    t_ns = max(traces, key=len).t_ns
    base = int(t_ns[0])
    grid = (t_ns - base).astype(np.float64)

    def summed(part: Callable[[Curve], Floats]) -> Floats:
        columns = [
            np.interp(
                grid, (one.t_ns - base).astype(np.float64), part(one), left=np.nan, right=np.nan
            )
            for one in traces
        ]
        return np.asarray(np.sum(columns, axis=0), np.float64)

    return Curve(
        t_ns,
        summed(lambda one: one.mean),
        summed(lambda one: one.low),
        summed(lambda one: one.high),
    )


class _Bins:
    """Sums and extremes of readings that come in time order, piece by piece.

    Times are ns since the begin of the run.
    """

    def __init__(self, span_ns: int, count: int) -> None:
        self._edges = np.linspace(0.0, float(span_ns), count + 1)
        self._n = np.zeros(count, np.int64)
        self._sum = np.zeros(count)
        self._low = np.full(count, np.inf)
        self._high = np.full(count, -np.inf)

    def add(self, t: Floats, values: Floats) -> None:
        """Readings in time order; those outside the run do not count."""
        cuts = np.searchsorted(t, self._edges)
        counts = np.diff(cuts)
        filled = np.flatnonzero(counts)
        if not len(filled):
            return
        values, starts = values[: cuts[-1]], cuts[filled]
        self._n[filled] += counts[filled]
        self._sum[filled] += np.add.reduceat(values, starts)
        self._low[filled] = np.minimum(self._low[filled], np.minimum.reduceat(values, starts))
        self._high[filled] = np.maximum(self._high[filled], np.maximum.reduceat(values, starts))

    def curve(self, begin_ns: int, silences: list[Silence]) -> Curve:
        """The bins that have readings, and one of NaN in each silence."""
        filled = np.flatnonzero(self._n)
        if not len(filled):
            return Curve(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0))
        middles = begin_ns + np.rint((self._edges[:-1] + self._edges[1:]) / 2).astype(np.int64)
        breaks = np.array([(one.begin_ns + one.end_ns) // 2 for one in silences], np.int64)
        t_ns = np.concatenate([middles[filled], breaks])
        order = np.argsort(t_ns, kind="stable")
        nothing = np.full(len(breaks), np.nan)

        def whole(values: Floats) -> Floats:
            return np.concatenate([values[filled], nothing])[order]

        with np.errstate(invalid="ignore"):
            means = self._sum / self._n
        return Curve(t_ns[order], whole(means), whole(self._low), whole(self._high))


def _silent_after_ns(channel: ChannelSeries) -> float:
    interval_ns = channel.interval_ns(0, len(channel))
    return max(SILENT_AFTER_S * NS_PER_S, SILENT_AFTER_INTERVALS * interval_ns)


class _TimelineBins:
    """Reads the channels of one run piece by piece into bins, one grid a quantity."""

    def __init__(self, record: RunRecord, begin_ns: int, end_ns: int, bins: int) -> None:
        self._begin_ns = begin_ns
        self._end_ns = end_ns
        self._bins = bins
        self.channels: dict[str, ChannelSeries] = {}
        for info in record.header.channels:
            try:
                self.channels[info.name] = channel_series(record, info)
            except ValueError:
                continue

    def plain(self, channel: ChannelSeries) -> tuple[Curve, list[Silence]]:
        """A channel as it is."""
        bins = self._grid(channel)
        cuts = self._cuts(channel, len(channel))
        for low, high in zip(cuts[0][:-1], cuts[0][1:], strict=True):
            bins.add(*channel.finite(low, high, self._begin_ns))
            channel.release_pages()
        silences = self._silences(channel)
        return bins.curve(self._begin_ns, silences), silences

    def work(self, quantity: str) -> dict[str, Curve]:
        """What fio reported of a quantity, by direction (channels ``fio.<direction>.<quantity>``).

        The channels of one of several drives have the drive's name between (left out here).
        """
        traces = {
            name.split(".")[-2]: self.plain(channel)[0]
            for name, channel in self.channels.items()
            if channel.info.quantity == quantity and name.count(".") == 2
        }
        return {direction: curve for direction, curve in traces.items() if len(curve)}

    def power(self, rail: RailSeries) -> tuple[Curve, list[Silence]]:
        """Volts times amps, as in every other place where watts are made."""
        volts, amps = rail.volts, rail.amps
        silences = self._silences(amps) + self._silences(volts)
        bins = self._grid(amps)
        for (t_amps, current), (t_volts, voltage), bridged_ns in self._side_by_side(rail):
            if len(t_amps) and len(t_volts):
                drop_ohm = rail.info.drop_ohm
                bins.add(*rail_watts(t_amps, current, t_volts, voltage, bridged_ns, drop_ohm))
        return bins.curve(self._begin_ns, silences), silences

    def _side_by_side(
        self, rail: RailSeries
    ) -> Iterator[tuple[tuple[Floats, Floats], tuple[Floats, Floats], float]]:
        """Pieces of the current, with the voltage that reaches one reading further each side."""
        volts, amps = rail.volts, rail.amps
        bridged_ns = BRIDGED * volts.interval_ns(0, len(volts))
        amps_cuts, volts_cuts = self._cuts(amps, max(len(amps), len(volts)), volts)
        for number in range(len(amps_cuts) - 1):
            low, high = amps_cuts[number], amps_cuts[number + 1]
            volts_low = max(volts_cuts[number] - 1, 0)
            volts_high = min(volts_cuts[number + 1] + 1, len(volts))
            yield (
                amps.finite(low, high, self._begin_ns),
                volts.finite(volts_low, volts_high, self._begin_ns),
                bridged_ns,
            )
            amps.release_pages()
            volts.release_pages()

    def _cuts(self, channel: ChannelSeries, most: int, *others: ChannelSeries) -> list[list[int]]:
        """Where to cut each channel so that no piece of the run is large."""
        edges = np.linspace(self._begin_ns, self._end_ns, most // _PIECE + 2).astype(np.int64)
        return [one.index_at(edges).tolist() for one in (channel, *others)]

    def _grid(self, channel: ChannelSeries) -> _Bins:
        """Bins no narrower than the interval between readings."""
        span_ns = self._end_ns - self._begin_ns
        interval_ns = max(channel.interval_ns(0, len(channel)), 1.0)
        return _Bins(span_ns, max(1, min(self._bins, int(span_ns / interval_ns))))

    def _silences(self, channel: ChannelSeries) -> list[Silence]:
        """Stretches of the run without readings, from its begin to its end."""
        count = len(channel)
        name = channel.info.name
        if not count:
            return [Silence(name, self._begin_ns, self._end_ns)]
        far_ns = _silent_after_ns(channel)
        ends = [0, count - 1]
        for begin in range(0, count, _PIECE):
            apart = np.diff(channel.stamps[begin : begin + _PIECE + 1])
            # a clock drifts far less than a hundredth
            long = begin + np.flatnonzero(apart > 0.99 * far_ns)
            channel.release_pages()
            ends += [*long.tolist(), *(long + 1).tolist()]
        t_ns = channel.clock.to_host_ns(channel.stamps[np.sort(ends)])
        bounds = np.clip([self._begin_ns, *t_ns, self._end_ns], self._begin_ns, self._end_ns)
        pairs = bounds.reshape(-1, 2).tolist()
        return [Silence(name, begin, end) for begin, end in pairs if end - begin > far_ns]
