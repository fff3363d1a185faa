"""A channel of a run that may still be growing: its readings between two moments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.readings.channel_series import ChannelSeries, Floats, Ints
from labctl.analysis.readings.clock_fit import EPOCH_NS, ClockMap
from labctl.record.header import ChannelInfo
from labctl.record.layout import CHANNELS_DIR, CLOCK_PAIR, READING
from labctl.record.reader import RunRecord
from labctl.sinks.follow.running_clock import RunningClock

MARGIN_NS = 300_000_000
"""Margin for a device clock, on each side: successive fits differ a little, and a restart is known
to half the time between two clock pairs (0.5 s)."""

REACH = 12
"""Further readings on each side, for interpolation and for the usual interval."""

SCANNED = 1 << 20

_RAW_CLOCK = ClockMap()


@dataclass(slots=True)
class _Session:
    """The readings that one process recorded: device times ascend within it."""

    first_reading: int
    first_pair: int
    clock: RunningClock | None
    series: ChannelSeries
    """The readings that can be mapped, with raw stamps."""

    def to_host_ns(self, stamps: Ints) -> Ints:
        stamps = np.ascontiguousarray(stamps)
        return stamps if self.clock is None else self.clock.to_host_ns(stamps)

    def known(self, stamps: Ints) -> NDArray[np.bool_]:
        """Which of them are in an epoch with clock pairs."""
        if self.clock is None:
            return np.ones(len(stamps), np.bool_)
        return np.isin(stamps // EPOCH_NS, self.clock.epochs)

    def spans(self) -> list[tuple[int, int]]:
        """The first and the last reading of each stretch whose times are known."""
        if not len(self.series):
            return []
        if self.clock is None:
            return [(0, len(self.series) - 1)]
        begins = np.array(self.clock.epochs, np.int64) * EPOCH_NS
        lows, highs = self.series.index_at(begins), self.series.index_at(begins + EPOCH_NS)
        pairs = zip(lows.tolist(), highs.tolist(), strict=True)
        return [(low, high - 1) for low, high in pairs if high > low]

    def host_ns(self, index: int) -> int:
        """The host time of a reading whose time is known."""
        return int(self.to_host_ns(self.series.stamps[index : index + 1])[0])

    def index_at(self, host_ns: int) -> int:
        moment = host_ns if self.clock is None else self.clock.to_device_ns(host_ns)
        return int(self.series.index_at(np.array([moment]))[0])


class GrowingChannel:
    """One channel, read again at each refresh; only the sizes of its files are kept."""

    def __init__(self, record: RunRecord, info: ChannelInfo, scale: float = 1.0) -> None:
        """``scale`` turns values into the quantity wanted (1/ohm for a shunt's voltage)."""
        self.info = info
        self._record = record
        self._scale = scale
        self._file = record.path / CHANNELS_DIR / info.name
        self._sizes = (-1, -1)
        self._scanned = 0
        self._setbacks: list[int] = []
        self._sessions = [self._session(0, 0)]

    def _session(self, first_reading: int, first_pair: int) -> _Session:
        clock = RunningClock(self.info.clock_tick_s) if self.info.clock == "device" else None
        return _Session(first_reading, first_pair, clock, self._series(np.empty(0, READING)))

    def _series(self, readings: NDArray[np.void]) -> ChannelSeries:
        stamps, raw, zero = readings["t"], readings["v"], self._record.zero_of(self.info.name)
        return ChannelSeries(self.info, stamps, raw, _RAW_CLOCK, self._scale, zero=zero)

    def refresh(self) -> None:
        """Take in what was recorded since the last call."""
        # the size of the pairs is not read after that of the readings: no reading lacks its pairs
        device = self.info.clock == "device"
        pairs_size = (
            _growing_channel_size(self._file.with_name(f"{self.info.name}.clock")) if device else 0
        )
        sizes = (_growing_channel_size(self._file), pairs_size)
        if sizes == self._sizes:
            return
        self._sizes = sizes
        readings = self._record.readings(self.info.name)[: sizes[0] // READING.itemsize]
        readings = np.asarray(readings)
        if device:
            pairs = np.asarray(self._record.clock_pairs(self.info.name))
            self._refresh_mapped(readings, pairs[: pairs_size // CLOCK_PAIR.itemsize])
        else:
            self._sessions[0].series = self._series(readings)

    def _refresh_mapped(self, readings: NDArray[np.void], pairs: NDArray[np.void]) -> None:
        pair_setbacks = (np.flatnonzero(np.diff(pairs["device_ns"]) < 0) + 1).tolist()
        if pair_setbacks:
            self._scan(readings["t"])
        # A pair that goes back while no reading does is a wrong pair, which the fit rejects.
        matched = min(len(pair_setbacks), len(self._setbacks))
        starts = list(zip(self._setbacks[:matched], pair_setbacks[:matched], strict=True))
        for start in starts[len(self._sessions) - 1 :]:
            self._sessions.append(self._session(*start))
        readings_end = self._setbacks[matched] if matched < len(self._setbacks) else len(readings)
        ends = [(s.first_reading, s.first_pair) for s in self._sessions[1:]]
        for session, (stop, last) in zip(
            self._sessions, [*ends, (readings_end, len(pairs))], strict=True
        ):
            assert session.clock is not None
            session.clock.extend(pairs[session.first_pair : last])
            part = self._series(readings[session.first_reading : stop])
            limit = session.clock.device_end_ns
            count = 0 if limit is None else int(part.index_at(np.array([limit]))[0])
            session.series = self._series(
                readings[session.first_reading : session.first_reading + count]
            )

    def _scan(self, stamps: Ints) -> None:
        """Find where device time begins anew, in what was not searched yet."""
        while self._scanned + 1 < len(stamps):
            part = stamps[self._scanned : self._scanned + SCANNED]
            back = np.flatnonzero(np.diff(part) < 0) + 1
            self._setbacks += (back + self._scanned).tolist()
            self._scanned += len(part) - 1

    @property
    def first_ns(self) -> int | None:
        """The host time of the first reading; None when there is none yet."""
        for session in self._sessions:
            for first, _ in session.spans():
                return session.host_ns(first)
        return None

    @property
    def last_ns(self) -> int | None:
        """The host time of the last reading; None when there is none yet."""
        for session in reversed(self._sessions):
            for _, last in reversed(session.spans()):
                return session.host_ns(last)
        return None

    def around(self, begin_ns: int, end_ns: int) -> tuple[Ints, Floats]:
        """Host times (ascending) and values of the readings between two moments **and of some
        before and behind**; what is not a number is left out."""
        times, values = [], []
        for session in self._sessions:
            if not len(session.series):
                continue
            margin_ns = 0 if session.clock is None else MARGIN_NS
            low = max(session.index_at(begin_ns - margin_ns) - REACH, 0)
            high = session.index_at(end_ns + margin_ns) + REACH
            stamps = session.series.stamps[low:high]
            part = session.series.values(low, min(high, len(session.series)))
            known = session.known(stamps)
            if not known.all():
                stamps, part = stamps[known], part[known]
            times.append(session.to_host_ns(stamps))
            values.append(part)
        if not times:
            return np.empty(0, np.int64), np.empty(0)
        t = times[0] if len(times) == 1 else np.concatenate(times)
        v = values[0] if len(values) == 1 else np.concatenate(values)
        finite = np.isfinite(v)
        if not finite.all():
            t, v = t[finite], v[finite]
        return np.maximum.accumulate(t), np.asarray(v, np.float64)

    def moment_after(self, begin_ns: int, readings: int) -> int | None:
        """The host time of the reading that comes ``readings`` after a moment, if there is one."""
        for session in self._sessions:
            place = session.index_at(begin_ns) if len(session.series) else 0
            behind = [(low, high) for low, high in session.spans() if high >= place]
            for low, high in behind:
                if place + readings <= high or (low, high) == behind[-1]:
                    return session.host_ns(min(max(place + readings, low), high))
        return None

    def records_between(self, begin_ns: int, end_ns: int) -> tuple[int, int]:
        """The first and last record number in the file between two moments, generously."""
        spans = [
            (session.first_reading + session.index_at(begin_ns - MARGIN_NS),
             session.first_reading + session.index_at(end_ns + MARGIN_NS))
            for session in self._sessions
            if len(session.series)
        ]  # fmt: skip
        return min((low for low, _ in spans), default=0), max(
            (high for _, high in spans), default=0
        )

    def release_pages(self) -> None:
        """Give mapped pages back: otherwise all that was ever read counts as memory."""
        for session in self._sessions:
            session.series.release_pages()


def _growing_channel_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
