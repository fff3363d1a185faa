"""Residual lag of a meter behind the workload, from the steps at the edges of phases.

This is a check of the clock fits by the data. At an edge of a phase the current steps with the
workload and the voltage sags. The time of the edge is known from fio's I/O, the step from the
meter's readings, each a mean over its aperture. For every lag of a grid "level, idle gap, level"
is fitted as the meter would show it; lags that fit equally well make up the uncertainty. All edges
share one lag, so they are fitted together: many edges between the same two readings hold no more
information than one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from labctl.analysis.estimate import COVERAGE_FACTOR
from labctl.analysis.phase_result import RailResult
from labctl.analysis.readings.channel_series import ChannelSeries, Floats, RailSeries
from labctl.analysis.readings.phase_spans import PhaseSpan
from labctl.analysis.run_summary import EdgeLag
from labctl.analysis.stats.uncertainty import student_factor
from labctl.rounded import rounded

READINGS_A_SIDE = 60
"""Readings on each side of an edge that are fitted."""

GRID = 161
"""Lags that are tried at a time."""

MOST_READINGS = 400
"""Readings around one edge that are fitted; of a faster meter every n-th."""

DIGIT_FROM = 4096
"""Readings of a run from which the step of its meter's last digit is estimated."""

MAX_EDGES = 64
"""Edges used of a run: the largest steps."""

LONGEST_GAP_NS = 2_000_000_000
"""Longest pause between two phases that still makes one edge."""

SIGNIFICANT = 5.0
"""A step counts from this many standard deviations of a reading on."""

SMALLEST_STEP = {"amps": 0.02, "volts": 0.0005}
"""A step also needs this fraction of the larger level: smaller steps of the current have other
causes, and the volts of a supply wander by so much on their own."""

INCONSISTENT_FROM = 1.5
"""Multiple of U, on top of the uncertainty of its clock, from which a lag is inconsistent. It
makes k = 3: three correct channels in a thousand are called inconsistent."""

FEWEST_EDGES = 2
"""Edges from which a lag can be inconsistent: how far the workload itself steps late or by degrees
is in no fit, only in the scatter of the edges."""


MOST_COST = 12.5
"""Largest cost that one edge adds to a lag: that of one reading five standard deviations away. A
drive whose power rises slowly at one edge must not decide for all edges."""


@dataclass(frozen=True, slots=True)
class _Edge:
    """One edge: its step, the lag that fits it best, and the uncertainty of its own time."""

    step: float
    lag_ns: float
    spread_ns: float
    boundary_ns: float
    fit: _Fit
    least_cost: float


def rail_lags(
    rail: RailSeries, spans: Sequence[PhaseSpan], idle: RailResult | None
) -> tuple[EdgeLag, ...]:
    """Residual lag of each channel of a rail that shows steps; ``idle`` is the rail when idle."""
    amps = volts = None
    if idle is not None:
        amps = idle.amps.mean
        volts = idle.volts.mean + rail.info.drop_ohm * amps
    name = rail.info.name
    lags = (
        edge_lag(name, rail.amps, spans, amps, SMALLEST_STEP["amps"]),
        edge_lag(name, rail.volts, spans, volts, SMALLEST_STEP["volts"]),
    )
    return tuple(lag for lag in lags if lag is not None)


def edge_lag(
    rail: str,
    channel: ChannelSeries,
    spans: Sequence[PhaseSpan],
    idle_level: float | None,
    smallest_step: float = SMALLEST_STEP["amps"],
) -> EdgeLag | None:
    """Residual lag of a rail's channel behind the workload; None when no edge has a clear step.

    ``idle_level`` is the level of the channel in the pause between two phases.
    """
    edges = [
        (before, after)
        for before, after in itertools.pairwise(spans)
        if 0 <= after.begin_ns - before.end_ns <= LONGEST_GAP_NS
    ]
    doubt_ns, digit = 0.0, _half_digit(channel)
    found: list[_Edge] = []
    for before, after in edges:
        doubt_ns = max(doubt_ns, channel.doubt_ns(before.end_ns, after.begin_ns))
        seen = _fitted_edge(channel, before, after, idle_level, smallest_step, digit)
        channel.release_pages()
        if seen is not None:
            found.append(seen)
    if not found:
        return None
    seen_best = sorted(found, key=lambda edge: -edge.step)[:MAX_EDGES]
    mean, variance = _common_lag(seen_best)
    u_ns = COVERAGE_FACTOR * math.sqrt(variance)
    if len(seen_best) >= FEWEST_EDGES:
        weights = np.array([1.0 / (edge.spread_ns**2 + edge.boundary_ns**2) for edge in seen_best])
        apart = np.array([edge.lag_ns for edge in seen_best]) - mean
        scatter = float(weights @ apart**2 / weights.sum()) / (len(seen_best) - 1)
        u_ns = max(u_ns, student_factor(len(seen_best) - 1) * math.sqrt(scatter))
    return EdgeLag(
        rail=rail,
        channel=channel.info.name,
        lag_ms=mean * 1e-6,
        u_ms=u_ns * 1e-6,
        edges=len(seen_best),
        consistent=len(seen_best) < FEWEST_EDGES
        or abs(mean) <= INCONSISTENT_FROM * u_ns + doubt_ns,
        clock_u_ms=doubt_ns * 1e-6,
    )


def lag_problems(lags: Sequence[EdgeLag]) -> tuple[str, ...]:
    """A line for each channel that steps later or earlier than clocks and fit allow."""
    return tuple(
        f"{lag.rail}: {lag.channel} follows the workload {lag.lag_ms:+.1f} ms late (± "
        f"{lag.u_ms:.1f} ms, {lag.edges} edges), more than its clock's bound of "
        f"±{rounded(lag.clock_u_ms, 2)} ms allows: alignments and peaks of this rail are wrong by "
        "that; a filter in the meter, or a wrong integration time?"
        for lag in lags
        if not lag.consistent
    )


def _fitted_edge(
    channel: ChannelSeries,
    before: PhaseSpan,
    after: PhaseSpan,
    idle_level: float | None,
    smallest_step: float,
    digit: float,
) -> _Edge | None:
    """The edge with its lag, where its step is significant."""
    edge_ns = after.begin_ns
    middle = int(channel.index_at(np.array([edge_ns]))[0])
    interval_ns = channel.interval_ns(max(middle - READINGS_A_SIDE, 0), middle + READINGS_A_SIDE)
    if not interval_ns > 0:
        return None
    boundary_ns = before.boundary_u_ns + after.boundary_u_ns
    aperture_ns = max(channel.info.aperture_s * 1e9, 1e3)
    doubt_ns = channel.doubt_ns(before.end_ns, edge_ns) + boundary_ns
    search_ns = max(3 * interval_ns, 4 * doubt_ns, 20e6)
    reach_ns = max(READINGS_A_SIDE * interval_ns, 2.5 * search_ns)
    reach_ns = min(reach_ns, max(10 * interval_ns, 4e9))
    begin_ns = max(edge_ns - round(reach_ns), before.begin_ns)
    end_ns = min(edge_ns + round(reach_ns), after.end_ns)
    low, high = (int(i) for i in channel.index_at(np.array([begin_ns, end_ns])))
    t = channel.elapsed_ns(low, high, edge_ns)
    values = channel.values(low, high)
    usable = (
        np.isfinite(values)
        & (t > begin_ns - edge_ns + aperture_ns)
        & (t < end_ns - edge_ns - aperture_ns)
    )
    t, values = t[usable], values[usable]
    thinned = slice(None, None, max(len(t) // MOST_READINGS, 1))
    t, values = t[thinned], values[thinned]
    if (t < -search_ns).sum() < 3 or (t > search_ns).sum() < 3:
        return None
    left, right = values[t < -search_ns], values[t > search_ns]
    step = float(right.mean() - left.mean())
    noise = math.sqrt(float(left.var(ddof=1) + right.var(ddof=1)) / 2)
    noise = max(noise, digit)
    largest = max(abs(float(left.mean())), abs(float(right.mean())))
    if abs(step) < SIGNIFICANT * noise or abs(step) < smallest_step * largest:
        return None
    gap_ns = float(edge_ns - before.end_ns) if idle_level is not None else 0.0
    # the uncertainty of the edge's time makes the reading across it uncertain by that part of the
    # step
    unknown = min(boundary_ns / aperture_ns, 1.0) * abs(step) / math.sqrt(3.0)
    noise = max(math.hypot(noise, unknown), 1e-3 * abs(step))
    fit = _Fit(t, values, aperture_ns, gap_ns, idle_level or 0.0, noise)
    fitted = fit.best(0.0, search_ns)
    if fitted is None:
        return None
    mean, spread, least = fitted
    for _ in range(2):
        width = 4 * spread + 2 * search_ns / GRID
        if width < search_ns:
            search_ns = width
            mean, spread, least = fit.best(mean, search_ns) or (mean, spread, least)
    spread = math.hypot(spread, search_ns / GRID)
    return _Edge(abs(step), mean, spread, float(boundary_ns), fit, least)


def _common_lag(edges: Sequence[_Edge]) -> tuple[float, float]:
    """The lag that fits all edges best, in ns, and its variance in ns².

    The error of the edges' times may be the same at all of them (the clock of a drive's host), so
    it does not average out.
    """
    low = min(edge.lag_ns - 4 * edge.spread_ns for edge in edges)
    high = max(edge.lag_ns + 4 * edge.spread_ns for edge in edges)
    for _ in range(3):
        lags = np.linspace(low, high, GRID)
        against = np.zeros(GRID)
        for edge in edges:
            cost = (edge.fit.costs(lags) - edge.least_cost) / (2 * edge.fit.noise**2)
            against += np.minimum(cost, MOST_COST)
        weights = np.exp(-(against - against.min()))
        weights /= weights.sum()
        mean = float(weights @ lags)
        step = float(lags[1] - lags[0])
        spread = math.hypot(math.sqrt(float(weights @ (lags - mean) ** 2)), step)
        low, high = max(low, mean - 5 * spread), min(high, mean + 5 * spread)
    boundary = float(np.mean([edge.boundary_ns**2 for edge in edges]))
    return mean, spread**2 + boundary / 3


def _half_digit(channel: ChannelSeries) -> float:
    """Half of the smallest step between any two readings: half a digit of a coarse meter."""
    different = np.unique(channel.sampled(DIGIT_FROM))
    return float(np.diff(different).min()) * channel.scale / 2 if len(different) > 1 else 0.0


@dataclass(frozen=True, slots=True)
class _Fit:
    """Readings around an edge at t = 0 (the first I/O after it), and the form to fit to them."""

    t: Floats
    values: Floats
    aperture_ns: float
    gap_ns: float
    idle: float
    noise: float

    def best(self, centre: float, reach: float) -> tuple[float, float, float] | None:
        """Mean and standard deviation of the lags within ``centre`` ± ``reach``, each weighted
        by how well it explains the readings, and the least cost. None when no lag leaves readings
        on both sides."""
        lags = np.linspace(centre - reach, centre + reach, GRID)
        cost = self.costs(lags)
        least = float(cost.min())
        if not math.isfinite(least):
            return None
        weights = np.exp(-(cost - least) / (2 * self.noise**2))
        weights /= weights.sum()
        mean = float(weights @ lags)
        return mean, math.sqrt(float(weights @ (lags - mean) ** 2)), least

    def costs(self, lags: Floats) -> Floats:
        """Sum of squared residuals for each lag, the two levels solved by least squares;
        infinite where a lag leaves no readings on one side."""
        starts = (self.t - self.aperture_ns / 2)[None, :]
        before = np.clip((lags[:, None] - self.gap_ns - starts) / self.aperture_ns, 0.0, 1.0)
        after = 1.0 - np.clip((lags[:, None] - starts) / self.aperture_ns, 0.0, 1.0)
        rest = self.values - self.idle * (1.0 - before - after)
        bb, aa = (before**2).sum(axis=1), (after**2).sum(axis=1)
        ab = (before * after).sum(axis=1)
        rb, ra = (rest * before).sum(axis=1), (rest * after).sum(axis=1)
        determinant = bb * aa - ab**2
        solved = determinant > 1e-9 * bb * aa
        determinant = np.where(solved, determinant, 1.0)
        first = (rb * aa - ra * ab) / determinant
        second = (ra * bb - rb * ab) / determinant
        residual = rest - first[:, None] * before - second[:, None] * after
        cost: Floats = np.where(solved, (residual**2).sum(axis=1), np.inf)
        return cost
