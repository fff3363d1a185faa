"""From a device clock to the timebase of the run, with a bound on what stays unknown.

Model: while a device clock runs without restart, host time = device time + offset +
drift · device time, wandering at most ``WANDER_NS`` around that line. Every sample of the clock
(:class:`instruments.reading.ClockPair`) bounds the offset:

- the answer came at ``host_ns``, so the offset is at most ``host_ns - device_ns``;
- the question went out at ``host_ns - round_trip_ns`` and the clock was then below
  ``device_ns + tick``, so the offset there is at least the difference of those two.

The lines within all these bounds form a band. The mapping is its middle, and the uncertainty is
its half-width, a true bound. A device that only pushes gives no lower bound: there the mapping is
the highest line under all differences (lower envelope).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.stats.line_band import Band, Floats, band_between, highest_line_below

EPOCH_NS = 10**15
"""A device clock that restarted goes on at the next multiple of this (raw device time)."""

SESSION_NS = 10**17
"""Added to device time each time it went backwards: a second process went on with the recording."""

STEEPEST_NS_PER_S = 1e6
"""Largest drift taken for possible, 1000 ppm: ten times a cheap quartz (±100 ppm)."""

WANDER_NS = 20_000.0
"""How far a clock may leave its straight line before its samples count as contradictory: the
scheduling and rounding of the samples themselves (a query over loopback takes about 90 µs)."""

QUARTZ_NS_PER_S = 1e5
"""100 ppm: what a cheap quartz may drift."""

FEWEST_FOR_DRIFT = 16
"""Samples of a device that only pushes from which its drift is fitted."""

MAX_PIECES = 64
"""Most straight pieces of one epoch."""

FEW_PAIRS = 2
"""A stretch of so few samples that contradicts all others is an outlier."""

Ints = NDArray[np.int64]

Start = tuple[int, int]
"""Device time and host time, ns, from which a piece is valid."""


@dataclass(frozen=True, slots=True)
class ClockPiece:
    """One straight piece of a mapping, valid from ``device_begin_ns`` / ``host_begin_ns`` on.

    host = ``host_ref_ns`` + (1 + ``rate``) · (device − ``device_ref_ns``). The ``off_ns`` and
    ``off_rate`` of the allowed lines say how far the truth may be from it.
    """

    device_begin_ns: int
    host_begin_ns: int
    device_ref_ns: int
    host_ref_ns: int
    rate: float
    off_ns: Floats
    off_rate: Floats
    floor_u_ns: float

    def u_at(self, device_ns: int) -> float:
        """Half-width of doubt at a device time, ns."""
        elapsed = float(device_ns - self.device_ref_ns)
        return float(np.abs(self.off_ns + self.off_rate * elapsed).max()) + self.floor_u_ns

    def to_host(self, device_ns: int) -> int:
        """The host time of one device time, ns."""
        elapsed = device_ns - self.device_ref_ns
        return self.host_ref_ns + elapsed + round(elapsed * self.rate)

    def to_device(self, host_ns: int) -> int:
        """The device time of one host time, ns."""
        elapsed = host_ns - self.host_ref_ns
        return self.device_ref_ns + elapsed - round(elapsed * self.rate / (1 + self.rate))


@dataclass(frozen=True, slots=True)
class ClockMap:
    """How a clock maps to the timebase. Without pieces it *is* the timebase."""

    pieces: tuple[ClockPiece, ...] = ()
    u_ns: float = 0.0
    """Half-width of doubt, the worst of the run."""
    drift_ppm: float = 0.0
    """> 0: the device clock is slow. Of the longest piece."""
    epochs: int = 1
    pairs: int = 0
    problems: tuple[str, ...] = ()

    def to_host_ns(self, device_ns: Ints) -> Ints:
        """Stamps of the device on the timebase of the run."""
        if not self.pieces:
            return device_ns
        begins = np.array([piece.device_begin_ns for piece in self.pieces])
        which = np.clip(np.searchsorted(begins, device_ns, side="right") - 1, 0, None)
        refs = np.array([piece.device_ref_ns for piece in self.pieces])
        hosts = np.array([piece.host_ref_ns for piece in self.pieces])
        rates = np.array([piece.rate for piece in self.pieces])
        elapsed = device_ns - refs[which]
        stretched = np.rint(elapsed * rates[which]).astype(np.int64)
        result: Ints = hosts[which] + elapsed + stretched
        return result

    def to_device_ns(self, host_ns: int) -> int:
        """The stamp that a moment of the timebase would get."""
        if not self.pieces:
            return host_ns
        chosen = self.piece_at_host(host_ns)
        device_ns = chosen.to_device(host_ns)
        place = self.pieces.index(chosen)
        if place + 1 < len(self.pieces):
            device_ns = min(device_ns, self.pieces[place + 1].device_begin_ns)
        return device_ns

    def piece_at_host(self, host_ns: int) -> ClockPiece:
        """The piece that holds at a moment of the timebase."""
        begun = [piece for piece in self.pieces if piece.host_begin_ns <= host_ns]
        return begun[-1] if begun else self.pieces[0]

    def u_between_ns(self, begin_ns: int, end_ns: int) -> float:
        """The largest half-width of doubt from one moment of the timebase to another, ns.

        Of each piece it is largest where the piece, or what is asked for of it, begins or ends.
        """
        if not self.pieces:
            return self.u_ns
        inside = [one.host_begin_ns for one in self.pieces if begin_ns < one.host_begin_ns < end_ns]
        edges = [begin_ns, *inside, end_ns]
        return max(
            piece.u_at(piece.to_device(moment))
            for low, high in itertools.pairwise(edges)
            for piece in (self.piece_at_host(low),)
            for moment in (low, high)
        )


def fit_clock(pairs: NDArray[np.void], tick_s: float, first_ns: int, last_ns: int) -> ClockMap:
    """The mapping that the samples of a device clock allow.

    ``pairs`` has the dtype ``labctl.record.layout.CLOCK_PAIR``; ``tick_s`` is the resolution of the
    device clock; ``first_ns`` and ``last_ns`` are the device times of the first and the last
    reading, over which the doubt is kept small. Raises ValueError when there are no pairs.
    """
    if not len(pairs):
        raise ValueError("a device clock without samples cannot be mapped")
    device = np.ascontiguousarray(pairs["device_ns"])
    order = np.argsort(device, kind="stable")
    samples = _ClockSamples(
        device=device[order],
        host=np.ascontiguousarray(pairs["host_ns"])[order],
        round_trip=np.ascontiguousarray(pairs["round_trip_ns"])[order],
        tick=tick_s * 1e9,
    )
    epoch = samples.device // EPOCH_NS
    bounds = [0, *(np.flatnonzero(np.diff(epoch)) + 1).tolist(), len(epoch)]
    pieces: list[ClockPiece] = []
    problems: list[str] = []
    worst_ns, longest, drift_ppm = 0.0, -1, 0.0
    for begin, end in itertools.pairwise(bounds):
        part = samples.part(begin, end)
        number = int(epoch[begin])
        before = int(samples.host[begin - 1]) if begin else int(part.host[0])
        start = (number * EPOCH_NS, (before + int(part.host[0])) // 2)
        fitted, trouble = _fit_epoch(part, start)
        problems += trouble
        reach_begin = first_ns if first_ns // EPOCH_NS == number else int(part.device[0])
        reach_end = last_ns if last_ns // EPOCH_NS == number else int(part.device[-1])
        edges = [piece.device_begin_ns for piece in fitted[1:]]
        for piece, low, high in zip(
            fitted, [reach_begin, *edges], [*edges, reach_end], strict=True
        ):
            pieces.append(piece)
            worst_ns = max(worst_ns, piece.u_at(low), piece.u_at(high))
            if high - low > longest:
                longest, drift_ppm = high - low, piece.rate * 1e6
    return ClockMap(
        pieces=tuple(pieces),
        u_ns=worst_ns,
        drift_ppm=drift_ppm,
        epochs=len(bounds) - 1,
        pairs=len(device),
        problems=tuple(problems),
    )


def without_setbacks(stamps: Ints, samples: Ints) -> tuple[Ints, Ints]:
    """Device times of readings and of clock samples, each in recorded order, made to ascend.

    Where a second process went on with a recording its device times begin anew: each part is
    raised by ``SESSION_NS`` above the one before, and so becomes epochs of its own. A sample that
    goes back while no reading does is an outlier, which the fit drops. Raises ValueError when it
    is ambiguous which samples belong to which readings.
    """
    sampled_back = np.flatnonzero(np.diff(samples) < 0) + 1
    if not len(sampled_back):
        return stamps, samples
    read_back = np.flatnonzero(np.diff(stamps) < 0) + 1
    if not len(read_back):
        return stamps, samples
    if len(read_back) != len(sampled_back):
        raise ValueError(
            f"its device time begins anew {len(read_back)} times in the readings and "
            f"{len(sampled_back)} times in the samples of its clock: it cannot be mapped"
        )
    return _times_for_clock_fit(stamps, read_back), _times_for_clock_fit(samples, sampled_back)


def _times_for_clock_fit(times: Ints, setbacks: NDArray[np.intp]) -> Ints:
    session = np.zeros(len(times), dtype=np.int64)
    session[setbacks] = 1
    result: Ints = times + np.cumsum(session) * SESSION_NS
    return result


@dataclass(frozen=True, slots=True)
class _ClockSamples:
    """Clock pairs, device time ascending, all in ns."""

    device: Ints
    host: Ints
    round_trip: Ints
    tick: float

    def __len__(self) -> int:
        return len(self.device)

    def part(self, begin: int, end: int) -> _ClockSamples:
        return self.only(slice(begin, end))

    def only(self, chosen: slice | NDArray[np.bool_]) -> _ClockSamples:
        return _ClockSamples(
            self.device[chosen], self.host[chosen], self.round_trip[chosen], self.tick
        )

    def refs(self) -> tuple[int, int]:
        """Device time and difference host − device of the middle sample, ns."""
        middle = len(self) // 2
        return int(self.device[middle]), int(self.host[middle] - self.device[middle])

    def gates(self, device_ref: int, offset_ref: int) -> tuple[Floats, Floats, Floats, Floats]:
        """x (s) and y (ns) of the upper bounds, then of the lower bounds."""
        x: Floats = (self.device - device_ref).astype(np.float64) * 1e-9
        upper = (self.host - self.device - offset_ref).astype(np.float64)
        asked = self.round_trip > 0
        lower: Floats = upper[asked] - self.round_trip[asked] - self.tick
        return x, upper + WANDER_NS, x[asked] + self.tick * 1e-9, lower - WANDER_NS


def _fit_epoch(samples: _ClockSamples, start: Start) -> tuple[list[ClockPiece], list[str]]:
    """Straight pieces over one epoch; more than one only where the samples contradict a line."""
    if not (samples.round_trip > 0).any():
        return [_envelope_piece(samples, start)], []
    whole = _band_of(samples)
    if whole is not None:
        return [_band_piece(samples, whole, start, WANDER_NS)], []
    bounds = _straight_stretches(samples)
    odd = np.zeros(len(samples), dtype=bool)
    for begin, end in itertools.pairwise(bounds):
        if end - begin <= FEW_PAIRS:
            odd[begin:end] = True
    if odd.any() and not odd.all():
        kept = samples.only(~odd)
        band = _band_of(kept)
        if band is not None:
            count = int(odd.sum())
            words = f"samples of the clock that contradict all others, dropped: {count}"
            return [_band_piece(kept, band, start, WANDER_NS)], [words]
    return _bent_pieces(samples, bounds, start)


def _bent_pieces(
    samples: _ClockSamples, bounds: list[int], first: Start
) -> tuple[list[ClockPiece], list[str]]:
    """A piece for each half of a stretch: a line through a whole stretch has no margin left."""
    halved = sorted({*bounds, *((a + b) // 2 for a, b in itertools.pairwise(bounds))})
    pieces = []
    for begin, end in itertools.pairwise(halved):
        part = samples.part(begin, end)
        start = (int(part.device[0]), int(part.host[0])) if begin else first
        gates = part.round_trip[part.round_trip > 0]
        floor_ns = WANDER_NS + (float(gates.min()) + samples.tick) / 2 if len(gates) else WANDER_NS
        band = _band_of(part)
        if band is None or not len(gates):
            pieces.append(_envelope_piece(part, start))
        else:
            pieces.append(_band_piece(part, band, start, floor_ns))
    words = f"the clock wanders or was set: mapped in {len(pieces)} straight pieces"
    return pieces, [words]


def _band_of(samples: _ClockSamples) -> Band | None:
    return band_between(*samples.gates(*samples.refs()), STEEPEST_NS_PER_S)


def _straight_stretches(samples: _ClockSamples) -> list[int]:
    """Bounds of the longest stretches, greedily from the left, whose samples allow a line."""
    bounds = [0]
    while bounds[-1] < len(samples) and len(bounds) < MAX_PIECES:
        begin, step = bounds[-1], 1
        good = begin + 1
        while good < len(samples) and _band_of(samples.part(begin, min(good + step, len(samples)))):
            good = min(good + step, len(samples))
            step *= 2
        bad = min(good + step, len(samples) + 1)
        while bad - good > 1:
            middle = (good + bad) // 2
            if middle <= len(samples) and _band_of(samples.part(begin, middle)):
                good = middle
            else:
                bad = middle
        bounds.append(good)
    if bounds[-1] < len(samples):
        bounds.append(len(samples))
    return bounds


def _band_piece(samples: _ClockSamples, band: Band, start: Start, floor_ns: float) -> ClockPiece:
    """The line through the middles of the band at both ends of the samples."""
    device_ref, offset_ref = samples.refs()
    x_begin = float(samples.device[0] - device_ref) * 1e-9
    x_end = float(samples.device[-1] - device_ref) * 1e-9
    middle_begin = sum(band.limits(x_begin)) / 2
    middle_end = sum(band.limits(x_end)) / 2
    if x_end > x_begin:
        slope = (middle_end - middle_begin) / (x_end - x_begin)
    else:
        slope = float(band.slopes.min() + band.slopes.max()) / 2
    height = middle_begin - slope * x_begin
    return _clock_fit_piece(
        start,
        (device_ref, offset_ref),
        (height, slope),
        band.heights,
        band.slopes,
        floor_ns,
    )


def _envelope_piece(samples: _ClockSamples, start: Start) -> ClockPiece:
    """The highest line under all differences. Its doubt is the difference to the envelopes of four
    interleaved quarters of the samples, each with a quarter of the chances of a fast answer. Few
    samples give no drift: the doubt then holds any drift that a quartz can have."""
    device_ref, offset_ref = samples.refs()
    x, y, _, _ = samples.gates(device_ref, offset_ref)
    y = y - WANDER_NS
    if len(samples) >= FEWEST_FOR_DRIFT:
        height, slope = highest_line_below(x, y, STEEPEST_NS_PER_S)
        others = [highest_line_below(x[i::4], y[i::4], STEEPEST_NS_PER_S) for i in range(4)]
    else:
        height, slope = float(y.min()), 0.0
        spread = float(y.max()) - height + samples.tick
        others = [(height + spread, QUARTZ_NS_PER_S), (height - spread, -QUARTZ_NS_PER_S)]
    heights = [height, *(other[0] for other in others)]
    slopes = [slope, *(other[1] for other in others)]
    return _clock_fit_piece(
        start,
        (device_ref, offset_ref),
        (height, slope),
        np.array(heights),
        np.array(slopes),
        WANDER_NS,
    )


def _clock_fit_piece(
    start: Start,
    refs: tuple[int, int],
    line: tuple[float, float],
    heights: Floats,
    slopes: Floats,
    floor_ns: float,
) -> ClockPiece:
    device_ref, offset_ref = refs
    height, slope = line
    return ClockPiece(
        device_begin_ns=start[0],
        host_begin_ns=start[1],
        device_ref_ns=device_ref,
        host_ref_ns=device_ref + offset_ref + round(height),
        rate=slope * 1e-9,
        off_ns=heights - round(height),
        off_rate=(slopes - slope) * 1e-9,
        floor_u_ns=floor_ns,
    )
