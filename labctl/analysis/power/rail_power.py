"""One rail in one phase, part by part: P = V·I of the readings that lie wholly inside it.

V and I of a rail come from different meters at different instants: V is interpolated onto I's
times (the current carries the workload, the voltage hardly moves), never across an edge of the
phase. The mean is over time: each reading counts for the time that it stands for. Nothing replaces
readings that are missing for longer: that part of the phase counts as not covered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.estimate import Series
from labctl.analysis.phase_result import no_watts_note
from labctl.analysis.power.blind_spots import known_share
from labctl.analysis.power.power_envelope import Windows
from labctl.analysis.power.reading_faults import LOST_SHARE, LossTest, RepeatCounter, Repeats
from labctl.analysis.power.shunt import ShuntState, shunt_state, temperature_of_shunt
from labctl.analysis.power.volts_times_amps import BRIDGED, rail_volts
from labctl.analysis.readings.channel_series import ChannelSeries, Floats, RailSeries
from labctl.analysis.stats.time_mean import (
    LOST,
    TimeMean,
    bridged_steps,
    times_stood_for,
    usual_steps,
)
from labctl.analysis.stats.uncertainty import Scatter

CHUNK = 32_768
"""Readings of a channel that are processed at a time: what fits in a core's cache."""

RELEASE_EVERY = 16
"""Parts after which the pages of the files are given back (about 34 MB of readings)."""

FEWEST_READINGS = 2
"""Readings of each channel below which a rail has no watts in a phase."""

LEAST_COVERED = 0.80
"""Share of a phase that readings must stand for if a rail is to have watts. What the drive did in
longer gaps is unknown; it may have begun to throttle. Up to a fifth of a phase can be bounded by
the readings around it; for more the bound would be a guess about most of the phase. Single readings
lost between others are not meant, nor those left out because they straddle an edge of the phase."""

EDGE_READINGS = 5
"""Readings beyond an edge of a phase that show the level there."""


@dataclass(frozen=True, slots=True)
class RailPower:
    """One rail in one phase, before its uncertainty budget."""

    rail: RailSeries
    volts: Series
    """Where they were measured."""
    amps: Series
    watts: Series
    scatter: Scatter
    """Of the mean over just this phase."""
    process_scatter: Scatter
    """Of how the mean of such a phase would come out again."""
    volts_scatter: Scatter
    common_watts: float
    """Product of the standard deviations of volts and amps from one reading to the next."""
    integrated: float
    """Share of the phase that the readings integrate: the smaller of V's and I's."""
    known: float
    """The part of it that was not sampled: none of it for readings at random moments."""
    noise_watts: float
    """Standard deviation of one reading that the meters' own noise may have; infinite where their
    limits of error are not known."""
    covered: float
    missing: float
    """Share of the phase that no reading stands for, and its edges as far as none was read."""
    edge_watts: float
    """What readings that were left out because they may lie across an edge of the phase show
    beyond the levels on both sides of it, as a part of the mean, W."""
    lost_at: float
    """Standard deviations by which the load was higher where readings were lost; 0 where they
    were lost at random, or hardly any was."""
    unread_volts: float
    """By how much the volts of the phase are lower than those at the moments of its watts, each
    counted for the time that it stands for: only readings of the current that were lost make them
    differ. 0 where hardly any was."""
    repeats: tuple[Repeats, Repeats]
    """Of the volts and of the amps."""
    step_variances: tuple[float, float]
    """Of the volts (V²) and of the amps (A²), from one reading to the next."""
    unseen: float
    """Share of the phase, apart from its edges, that no reading of the current stands for."""
    alignment_ns: float
    """Half-width of doubt about the time of P against the workload: I's clock and the edges."""
    together: bool
    """Whether V and I were read at the same instants."""
    amps_interval_ns: float
    shunt: ShuntState | None = None
    """State of the shunt; amps and watts are corrected by its factor."""
    windows: Windows | None = None
    """The largest means over windows, where they were asked for."""


class RailPart(NamedTuple):
    """Readings of a rail at I's times (ns since a phase began): volts at the drive, amps, watts."""

    t: Floats
    volts: Floats
    amps: Floats
    watts: Floats


_NO_READINGS = RailPart(*(np.empty(0) for _ in range(4)))


def rail_readings(
    rail: RailSeries, begin_ns: int, end_ns: int, boundary_u_ns: int
) -> tuple[RailPart, Floats, RailPower | None]:
    """The readings that the watts of a phase are made of, and the time that each stands for, ns.

    Also the power that they make in the phase, None where the rail has none. Amps and watts are
    corrected for the temperature of the shunt.
    """
    worker = RailWorker(rail, begin_ns, end_ns, boundary_u_ns)
    if not worker.enough:
        return _NO_READINGS, np.empty(0), None
    edges = part_edges(worker.most, begin_ns, end_ns)
    worker.plan(edges)
    parts = [worker.part(number) for number in range(len(edges))]
    power = worker.result()
    worker.release_pages()
    t, volts, amps, watts = (np.concatenate(column) for column in zip(*parts, strict=True))
    stands_for = times_stood_for(t, float(end_ns - begin_ns), worker.amps_interval)
    if power is None:
        return RailPart(t, volts, amps, watts), stands_for, None
    power = corrected_for_shunt(power, begin_ns, end_ns)
    factor = 1.0 if power.shunt is None else power.shunt.factor
    return RailPart(t, volts, amps * factor, watts * factor), stands_for, power


def part_edges(most: int, begin_ns: int, end_ns: int) -> NDArray[np.int64]:
    """Where the parts of a phase end whose fastest channel has ``most`` readings."""
    return np.linspace(begin_ns, end_ns, most // CHUNK + 2)[1:].astype(np.int64)


def corrected_for_shunt(power: RailPower, begin_ns: int, end_ns: int) -> RailPower:
    """The power with amps and watts corrected for the temperature of the shunt."""
    info = power.rail.info
    if not info.shunt_ohm:
        return power
    around = temperature_of_shunt(info, power.rail.celsius, begin_ns, end_ns)
    state = shunt_state(info, power.amps, *around)
    if state is None:
        return power
    return replace(
        power,
        amps=power.amps.scaled(state.factor),
        watts=power.watts.scaled(state.factor),
        scatter=power.scatter.scaled(state.factor),
        process_scatter=power.process_scatter.scaled(state.factor),
        shunt=state,
        windows=None if power.windows is None else power.windows.scaled(state.factor),
    )


class RailWorker:
    """Processes one rail of one phase part by part, and gives each part's watts."""

    def __init__(self, rail: RailSeries, begin_ns: int, end_ns: int, boundary_u_ns: int) -> None:
        self.rail = rail
        self._begin_ns, self._end_ns = begin_ns, end_ns
        self._volts_span = rail.volts.inside(begin_ns, end_ns, boundary_u_ns)
        self._amps_span = rail.amps.inside(begin_ns, end_ns, boundary_u_ns)
        # P is made at I's times; V's doubt only narrows which of its readings count.
        self._alignment_ns = boundary_u_ns + rail.amps.doubt_ns(begin_ns, end_ns)
        self.expected = self._amps_span[1] - self._amps_span[0]
        self.most = max(self.expected, self._volts_span[1] - self._volts_span[0])
        self.volts_interval = rail.volts.interval_ns(*self._volts_span)
        self.amps_interval = rail.amps.interval_ns(*self._amps_span)
        self._duration = float(end_ns - begin_ns)
        dithers = rail.volts.info.dither, rail.amps.info.dither
        self._volts = TimeMean(self._duration, self.volts_interval, self.most, dithers[0])
        self._amps = TimeMean(self._duration, self.amps_interval, self.most, dithers[1])
        self._watts = TimeMean(self._duration, self.amps_interval, self.expected, dithers[1])
        self.edge_ns = _edge_ns(rail, begin_ns, end_ns, boundary_u_ns) + max(
            self.volts_interval, self.amps_interval
        )
        self._together = True
        self._volts_repeats, self._amps_repeats = RepeatCounter(), RepeatCounter()
        self._losses = LossTest(self._duration)

    @property
    def enough(self) -> bool:
        """Whether both channels have readings to work with."""
        return (
            min(high - low for low, high in (self._volts_span, self._amps_span)) >= FEWEST_READINGS
        )

    def why_not(self) -> str:
        """Why the rail has no watts."""
        name = self.rail.info.name
        if self._read and self._gaps() > 1.0 - LEAST_COVERED:
            return no_watts_note(
                name,
                f"readings cover only {self._covered():.0%} of the phase (at least "
                f"{LEAST_COVERED:.0%} are needed)",
            )
        counts = [high - low for low, high in (self._volts_span, self._amps_span)]
        return no_watts_note(
            name,
            f"only {counts[0]} voltage and {counts[1]} current readings lie wholly inside the "
            f"phase (at least {FEWEST_READINGS} of each, close together, are needed)",
        )

    def plan(self, edges: NDArray[np.int64]) -> None:
        """Cut both channels at the moments ``edges``; the last one ends the phase."""
        self._amps_cuts = _rail_power_cuts(self.rail.amps, self._amps_span, edges)
        self._volts_cuts = _rail_power_cuts(self.rail.volts, self._volts_span, edges)

    def _bridged(self, t_volts: Floats) -> Floats | float:
        return bridged_steps(t_volts, self.volts_interval, BRIDGED, self.rail.volts.info.dither)

    def _read_part(self, number: int) -> tuple[Floats, Floats, Floats, Floats, slice]:
        """Times and amps of part ``number``, times and volts with one reading more at each end,
        and which of these are its own."""
        low, high = self._amps_cuts[number], self._amps_cuts[number + 1]
        volts_low, volts_high = self._volts_cuts[number], self._volts_cuts[number + 1]
        reach_low = max(volts_low - 1, self._volts_span[0])
        reach_high = min(volts_high + 1, self._volts_span[1])
        t_amps, amps = self.rail.amps.finite(low, high, self._begin_ns)
        t_volts, volts = self.rail.volts.finite(reach_low, reach_high, self._begin_ns)
        own = slice(volts_low - reach_low, len(volts) - (reach_high - volts_high))
        return t_amps, amps, t_volts, volts, own

    def part(self, number: int) -> RailPart:
        """The readings of part ``number``."""
        t_amps, amps, t_volts, volts, own = self._read_part(number)
        self._amps.add(t_amps, amps)
        self._amps_repeats.add(amps)
        self._volts.add(t_volts[own], volts[own])
        self._volts_repeats.add(volts[own])
        if not len(t_amps) or not len(t_volts):
            return _NO_READINGS
        if len(t_amps) == len(t_volts[own]) and np.array_equal(t_amps, t_volts[own]):
            t_volts, volts = t_volts[own], volts[own]
        else:
            self._together = False
        drop_ohm = self.rail.info.drop_ohm
        bridged = self._bridged(t_volts)
        t, volts_at, amps_at = rail_volts(t_amps, amps, t_volts, volts, bridged, drop_ohm)
        watts = volts_at * amps_at
        self._watts.add(t, watts)
        self._losses.add(t, watts, self._gaps_between(t), t_volts, volts)
        return RailPart(t, volts_at, amps_at, watts)

    def _gaps_between(self, t: Floats) -> NDArray[np.intp]:
        """The numbers of the readings behind which some were lost."""
        steps = np.diff(t)
        if len(steps) >= FEWEST_READINGS and float(steps.max()) > LOST * float(steps.min()):
            return np.flatnonzero(steps > LOST * usual_steps(steps, self.amps_interval))
        return np.empty(0, dtype=np.intp)

    def _missing(self) -> float:
        """Share of the phase for which no power stands, nor where the current alone was read: it
        says there that the power was another than that of the readings beside."""
        volts_lost = max(self._amps.covered - self._watts.covered, 0.0)
        unread = max(self._watts.not_covered, self._amps.not_covered + volts_lost)
        return min(unread / self._duration, 1.0)

    def _lost_at(self) -> float:
        if 1.0 - self._covered() < LOST_SHARE:
            return 0.0
        volts, watts = self._volts, self._watts
        return self._losses.lost_at((watts.mean, watts.variance), (volts.mean, volts.variance))

    def _unread_volts(self) -> float:
        """Read once more: few phases lose so much that it matters."""
        if self._together or 1.0 - self._covered() < LOST_SHARE:
            return 0.0
        dither = self.rail.amps.info.dither
        beside = TimeMean(self._duration, self.amps_interval, self.expected, dither)
        for number in range(len(self._amps_cuts) - 1):
            t_amps, amps, t_volts, volts, _ = self._read_part(number)
            if len(t_amps) and len(t_volts):
                t, volts_at, _ = rail_volts(t_amps, amps, t_volts, volts, self._bridged(t_volts))
                gaps = self._gaps_between(t)
                # a line into the gap would hold what the voltage was in it
                before = np.searchsorted(t_volts, t[gaps], side="right") - 1
                behind = np.searchsorted(t_volts, t[gaps + 1])
                volts_at[gaps] = volts[np.maximum(before, 0)]
                volts_at[gaps + 1] = volts[np.minimum(behind, len(volts) - 1)]
                beside.add(t, volts_at)
            if number % RELEASE_EVERY == RELEASE_EVERY - 1:
                self.release_pages()
        return beside.mean - self._volts.mean

    def _edge_watts(self) -> float:
        """What may have happened at the edges and is in no reading that counts.

        A reading that may lie across an edge is left out. Where it is beyond all levels on both
        sides, something short happened there, and it may have been in the phase.
        """
        seen = self._watts.series()
        doubt_ns = self._alignment_ns
        reach_ns = self.rail.amps.info.aperture_s * 5e8 + doubt_ns
        beside_ns = EDGE_READINGS * self.amps_interval
        joules = 0.0
        for edge_ns, inwards in ((self._begin_ns, 1), (self._end_ns, -1)):
            low = edge_ns - reach_ns - (beside_ns if inwards > 0 else 0)
            high = edge_ns + reach_ns + (beside_ns if inwards < 0 else 0)
            t, watts = _watts_between(self.rail, round(low), round(high), edge_ns)
            doubtful = np.abs(t) <= reach_ns
            if not doubtful.any():
                continue
            outside = watts[~doubtful]
            top, bottom = max([seen.max, *outside]), min([seen.min, *outside])
            over = np.maximum(watts[doubtful] - top, bottom - watts[doubtful])
            over = over[over > 0]
            if len(over):
                worst = float(over.max())
                shown = (float(over.sum()) + worst) * self.amps_interval
                joules += min(shown, worst * (reach_ns + doubt_ns))
        return joules / self._duration

    @property
    def _read(self) -> bool:
        return min(self._watts.n, self._volts.n) >= FEWEST_READINGS

    def _covered(self) -> float:
        return min(max(self._watts.covered / self._duration, 0.0), 1.0)

    def _gaps(self) -> float:
        return self._watts.missing(self.edge_ns) / self._duration

    def _noise(self, channel: ChannelSeries, read: TimeMean) -> float:
        """Standard deviation of one reading that the meter itself may have: what scatters from one
        reading to the next, and of that no more than its limits of error allow."""
        floor = channel.info.accuracy_floor * channel.scale
        return min(math.sqrt(read.step_variance), floor) if floor > 0 else math.inf

    def result(self) -> RailPower | None:
        """The result of all parts; None with too few good readings or too long gaps."""
        if not self._read or self._gaps() > 1.0 - LEAST_COVERED:
            return None
        volts, amps, rail = self._volts, self._amps, self.rail
        shares = (
            volts.integrated(rail.volts.info.aperture_s * 1e9),
            self._watts.integrated(rail.amps.info.aperture_s * 1e9),
        )
        known = (
            known_share(rail.volts, *self._volts_span, shares[0]),
            known_share(rail.amps, *self._amps_span, shares[1]),
        )
        noises = self._noise(rail.volts, volts), self._noise(rail.amps, amps)
        noise = math.hypot(amps.mean * noises[0], volts.mean * noises[1])
        return RailPower(
            rail=rail,
            volts=volts.series(),
            amps=amps.series(),
            watts=self._watts.series(),
            scatter=self._watts.scatter_of_phase(min(known), noise),
            process_scatter=self._watts.scatter_of_process(),
            volts_scatter=volts.scatter_of_phase(known[0], noises[0]),
            common_watts=math.sqrt(volts.step_variance * amps.step_variance),
            integrated=min(shares),
            known=min(known),
            noise_watts=noise,
            covered=self._covered(),
            missing=self._missing(),
            edge_watts=self._edge_watts(),
            lost_at=self._lost_at(),
            unread_volts=self._unread_volts(),
            repeats=(self._volts_repeats.result(), self._amps_repeats.result()),
            step_variances=(volts.step_variance, amps.step_variance),
            unseen=amps.missing(self.edge_ns) / self._duration,
            alignment_ns=self._alignment_ns,
            together=self._together,
            amps_interval_ns=self.amps_interval,
        )

    def release_pages(self) -> None:
        """Give back the memory of what was read."""
        self.rail.volts.release_pages()
        self.rail.amps.release_pages()


def _watts_between(
    rail: RailSeries, begin_ns: int, end_ns: int, origin_ns: int
) -> tuple[Floats, Floats]:
    """Times since ``origin_ns`` and watts between two moments, the volts as they were beside."""
    low, high = rail.amps.index_at(np.array([begin_ns, end_ns])).tolist()
    first, last = rail.volts.index_at(np.array([begin_ns, end_ns])).tolist()
    first, last = max(first - 1, 0), min(last + 1, len(rail.volts))
    t, amps = rail.amps.finite(low, high, origin_ns)
    t_volts, volts = rail.volts.finite(first, last, origin_ns)
    if not len(t) or not len(t_volts):
        return np.empty(0), np.empty(0)
    return t, (np.interp(t, t_volts, volts) - amps * rail.info.drop_ohm) * amps


def _edge_ns(rail: RailSeries, begin_ns: int, end_ns: int, boundary_u_ns: int) -> float:
    """Distance from an edge of the phase within which no reading need be wholly inside it, ns."""
    return max(
        channel.info.aperture_s * 1e9 + channel.doubt_ns(begin_ns, end_ns)
        for channel in (rail.volts, rail.amps)
    ) + float(boundary_u_ns)


def _rail_power_cuts(
    channel: ChannelSeries, span: tuple[int, int], edges: NDArray[np.int64]
) -> list[int]:
    return [span[0], *np.clip(channel.index_at(edges[:-1]), *span).tolist(), span[1]]
