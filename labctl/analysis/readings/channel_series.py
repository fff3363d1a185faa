"""A channel of a run with its clock: slices of readings by time, never a copy of the whole."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.readings.clock_fit import EPOCH_NS, ClockMap, fit_clock, without_setbacks
from labctl.record.calibration_used import Zero
from labctl.record.header import ChannelInfo, RailInfo
from labctl.record.json_values import MOST
from labctl.record.layout import CLOCK_PAIR
from labctl.record.reader import RunRecord

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

GUESS_FROM = 4096
"""Readings from which the place of a moment is estimated before it is searched."""

CHECKED_AT_ONCE = 1 << 17
"""Readings whose order is checked at a time."""

RELEASE_EVERY = 16
"""Checks after which the pages of the file are given back (32 MB of readings)."""

PLACES_AT_ONCE = 32
"""Readings far apart after which the pages of the file are given back: the kernel maps up to a
megabyte around each (Linux 6.18, ext4)."""

INTERVAL_FROM = 64
INTERVAL_PLACES = 16
"""The usual interval is estimated from so many readings in a row at so many places."""


@dataclass(frozen=True, slots=True)
class ChannelSeries:
    """The readings of one channel; ``stamps`` and ``raw`` are views into the file, never copied
    (but for the stamps of a recording that a second process went on with, and where readings had
    to be sorted or dropped, which ``problems`` reports).

    ``zero`` is subtracted from what was read, then ``scale`` turns it into the quantity wanted
    (1/ohm for the voltage across a shunt).
    """

    info: ChannelInfo
    stamps: Ints
    raw: Floats
    clock: ClockMap
    scale: float = 1.0
    problems: tuple[str, ...] = ()
    zero: Zero | None = None
    late: NDArray[np.void] = field(default_factory=lambda: np.empty(0, CLOCK_PAIR))
    """Answers of a meter on the host's clock that came later than its ``time_u_s`` allows for."""

    def __len__(self) -> int:
        return len(self.stamps)

    @property
    def instrument(self) -> str:
        """The instrument that the channel belongs to."""
        return self.info.name.split(".", 1)[0]

    def index_at(self, host_ns: Ints) -> Ints:
        """For each moment, the number of the first reading not before it."""
        found = np.empty(len(host_ns), np.int64)
        for number, moment in enumerate(host_ns.tolist()):
            found[number] = _first_from(self.stamps, self.clock.to_device_ns(moment))
            if number % PLACES_AT_ONCE == PLACES_AT_ONCE - 1:
                self.release_pages()
        return found

    def doubt_ns(self, begin_ns: int, end_ns: int) -> float:
        """Half-width of what is unknown about a reading's time in a phase, ns."""
        unknown_ns = self.info.time_u_s * 1e9
        if len(self.late):
            around_ns = round(self.info.interval_s * 1e9)
            stamps = self.late["device_ns"]
            near = (stamps >= begin_ns - around_ns) & (stamps <= end_ns + around_ns)
            widths = self.late["round_trip_ns"][near]
            unknown_ns = max(unknown_ns, float(widths.max(initial=0)) / 2)
        return self.clock.u_between_ns(begin_ns, end_ns) + unknown_ns

    def inside(self, begin_ns: int, end_ns: int, boundary_u_ns: int) -> tuple[int, int]:
        """The readings whose integration window, widened by all doubt, is inside the phase."""
        margin = self.info.aperture_s * 5e8 + self.doubt_ns(begin_ns, end_ns) + boundary_u_ns
        low, high = begin_ns + round(margin), end_ns - round(margin)
        if high <= low:
            return 0, 0
        first, last = self.index_at(np.array([low, high + 1]))
        return int(first), int(last)

    def elapsed_ns(self, low: int, high: int, origin_ns: int) -> Floats:
        """Times of readings ``low`` to ``high`` in ns since ``origin_ns``."""
        stamps = self.stamps[low:high]
        pieces = self.clock.pieces
        if len(pieces) > 1:
            return (self.clock.to_host_ns(stamps) - origin_ns).astype(np.float64)
        if not pieces:
            return (stamps - origin_ns).astype(np.float64)
        if not len(stamps):
            return np.empty(0)
        first = int(stamps[0])
        elapsed: Floats = np.multiply(stamps - first, 1.0 + pieces[0].rate)
        elapsed += pieces[0].to_host(first) - origin_ns
        return elapsed

    def values(self, low: int, high: int) -> Floats:
        """Values of readings ``low`` to ``high``, contiguous, in the quantity wanted."""
        part = self.raw[low:high]
        if self.zero is not None:
            part = part - self.zero.value
        result: Floats = part * self.scale if self.scale != 1.0 else np.ascontiguousarray(part)
        return result

    def finite(self, low: int, high: int, origin_ns: int) -> tuple[Floats, Floats]:
        """Times (ns since ``origin_ns``) and values of readings ``low`` to ``high`` that are
        numbers."""
        t, values = self.elapsed_ns(low, high, origin_ns), self.values(low, high)
        with np.errstate(invalid="ignore", over="ignore"):
            suspect = not np.isfinite(values.sum())
        if suspect:
            finite = np.isfinite(values)
            return t[finite], values[finite]
        return t, values

    def between(self, begin_ns: int, end_ns: int) -> tuple[Ints, Floats]:
        """Times (ns, timebase) and values of the readings between two moments."""
        low, high = self.index_at(np.array([begin_ns, end_ns]))
        stamps = np.ascontiguousarray(self.stamps[low:high])
        return self.clock.to_host_ns(stamps), self.values(int(low), int(high))

    def interval_ns(self, low: int, high: int) -> float:
        """The usual time between readings ``low`` to ``high``; the nominal one for fewer than 3.

        It is the median over the whole stretch: a meter may change its interval on the way.
        """
        high = min(high, len(self))
        if high - low < 3:
            return self.info.interval_s * 1e9
        if high - low <= INTERVAL_FROM * INTERVAL_PLACES:
            return float(np.median(np.diff(self.stamps[low:high])))
        starts = np.linspace(low, high - INTERVAL_FROM, INTERVAL_PLACES).astype(np.int64).tolist()
        parts = [np.diff(self.stamps[start : start + INTERVAL_FROM]) for start in starts]
        return float(np.median(np.concatenate(parts)))

    def sampled(self, many: int) -> Floats:
        """About ``many`` of its readings as they were read, equally far apart; those that are
        numbers."""
        every = max(len(self) // many, 1)
        parts = []
        for low in range(0, len(self), every * PLACES_AT_ONCE):
            parts.append(self.raw[low : low + every * PLACES_AT_ONCE : every].copy())
            self.release_pages()
        some = np.concatenate(parts) if parts else np.empty(0)
        return some[np.isfinite(some)]

    def release_pages(self) -> None:
        """Give the mapped pages of the file back to the kernel's cache.

        Without it every page that was ever read counts as memory of this process.
        """
        _release_pages(self.raw)


@dataclass(frozen=True, slots=True)
class RailSeries:
    """The voltage and the current (through a shunt: volts / ohms) of one rail."""

    info: RailInfo
    volts: ChannelSeries
    amps: ChannelSeries
    celsius: ChannelSeries | None = None
    """What measures the temperature of the shunt, if anything does."""


def _first_from(stamps: Ints, moment: int) -> int:
    """The number of the first stamp that is not before ``moment``.

    Readings are almost evenly spaced, so the place is estimated and only its surroundings are
    searched: a plain binary search would touch pages all over the file, each a page fault.
    """
    n = len(stamps)
    if n < GUESS_FROM:
        return int(np.searchsorted(stamps, moment))
    first, last = int(stamps[0]), int(stamps[-1])
    guess = (moment - first) * (n - 1) // max(last - first, 1)
    reach = 64
    while reach < n:
        low, high = max(guess - reach, 0), min(guess + reach, n)
        if low < high:
            fits_below = low == 0 or int(stamps[low]) < moment
            fits_above = high == n or int(stamps[high - 1]) >= moment
            if fits_below and fits_above:
                return low + int(np.searchsorted(stamps[low:high], moment))
        reach *= 8
    return int(np.searchsorted(stamps, moment))


def _release_pages(array: NDArray[np.generic]) -> None:
    base = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap):
        base.madvise(mmap.MADV_DONTNEED)


def ordered(stamps: Ints, raw: Floats) -> tuple[Ints, Floats, tuple[str, ...]]:
    """Readings in order of time, each time once, all of them numbers; and what had to be done.

    Without anything to correct, the arrays that came in are returned, not copies.
    """
    ascending, finite = True, True
    for low in range(0, len(stamps), CHECKED_AT_ONCE):
        part = stamps[low : low + CHECKED_AT_ONCE + 1]
        ascending = ascending and bool((part[1:] > part[:-1]).all())
        with np.errstate(invalid="ignore", over="ignore"):
            total = float(raw[low : low + CHECKED_AT_ONCE].sum())
        finite = finite and abs(total) < MOST
        if low // CHECKED_AT_ONCE % RELEASE_EVERY == RELEASE_EVERY - 1:
            _release_pages(raw)
    _release_pages(raw)
    if ascending and finite:
        return stamps, raw, ()
    problems = []
    good = np.abs(raw) < MOST
    bad = len(raw) - int(good.sum())
    if bad:
        problems.append(f"{_channel_readings_text(bad)} not a number, skipped")
        stamps, raw = stamps[good], raw[good]
    if not ascending:
        backwards = int((np.diff(stamps) < 0).sum())
        if backwards:
            where = "1 place" if backwards == 1 else f"{backwards} places"
            problems.append(f"readings out of order in {where}, sorted by time")
            order = np.argsort(stamps, kind="stable")
            stamps, raw = stamps[order], raw[order]
        first = np.diff(stamps, prepend=stamps[:1] - 1) > 0
        again = len(first) - int(first.sum())
        if again:
            problems.append(f"{_channel_readings_text(again)} with the time of another, dropped")
            stamps, raw = stamps[first], raw[first]
    return stamps, raw, tuple(problems)


def _channel_readings_text(count: int) -> str:
    return "1 reading" if count == 1 else f"{count} readings"


def host_channel_series(record: RunRecord, name: str) -> ChannelSeries:
    """A channel on the host's clock that the header need not list (fio's live figures)."""
    readings = np.asarray(record.readings(name))
    info = ChannelInfo(name=name, quantity="", unit="")
    stamps, raw, problems = ordered(readings["t"], readings["v"])
    return ChannelSeries(info, stamps, raw, ClockMap(), problems=problems)


def channel_series(record: RunRecord, info: ChannelInfo) -> ChannelSeries:
    """A channel of the header with its clock mapped.

    Raises ValueError when it has a device clock that cannot be mapped.
    """
    readings = np.asarray(record.readings(info.name))
    stamps = readings["t"]
    clock = ClockMap()
    device = info.clock == "device" and len(stamps) > 0
    pairs = np.array(record.clock_pairs(info.name)) if device else np.empty(0, CLOCK_PAIR)
    if device:
        stamps, pairs["device_ns"] = without_setbacks(stamps, pairs["device_ns"])
    stamps, raw, problems = ordered(stamps, readings["v"])
    if device:
        stamps, raw, unmapped = _with_clock_samples(stamps, raw, pairs["device_ns"])
        problems += unmapped
    if device and len(stamps):
        clock = fit_clock(pairs, info.clock_tick_s, int(stamps[0]), int(stamps[-1]))
    zero = record.zero_of(info.name)
    series = ChannelSeries(info, stamps, raw, clock, problems=problems, zero=zero)
    late = record.clock_pairs(info.name) if info.clock == "host" else ()
    return replace(series, late=np.asarray(late)) if len(late) else series


def _with_clock_samples(
    stamps: Ints, raw: Floats, clock_ns: Ints
) -> tuple[Ints, Floats, tuple[str, ...]]:
    """Ascending readings without those of epochs of their device's clock that have no clock
    samples: such an epoch was cut off within its first moments and cannot be mapped."""
    begins = np.unique(clock_ns // EPOCH_NS) * EPOCH_NS
    lows = np.searchsorted(stamps, begins).tolist()
    highs = np.searchsorted(stamps, begins + EPOCH_NS).tolist()
    unmapped = len(stamps) - (sum(highs) - sum(lows))
    if not unmapped or not len(clock_ns):
        return stamps, raw, ()
    known = np.concatenate([np.arange(*span) for span in zip(lows, highs, strict=True)])
    problem = f"{_channel_readings_text(unmapped)} without a sample of the device's clock, dropped"
    return stamps[known], raw[known], (problem,)


def rail_series(info: RailInfo, channels: Mapping[str, ChannelSeries]) -> RailSeries | None:
    """The rail's two channels, or None when one of them cannot be used."""
    volts, amps = channels.get(info.voltage), channels.get(info.current)
    if volts is None or amps is None:
        return None
    if info.shunt_ohm is not None:
        amps = replace(amps, scale=1.0 / info.shunt_ohm)
    return RailSeries(info, volts, amps, channels.get(info.shunt_temperature or ""))
