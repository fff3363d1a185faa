"""The data checks the clocks: at an edge of a phase the current steps with the workload.

The edge is known from fio's I/O, the step is seen in the meter's readings, each a mean over its
aperture. The lag between both is estimated by fitting "level, idle gap, level" as the meter
would show it, for every lag of a grid; what several lags explain alike counts as doubt.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from labctl.analysis.phases import PhaseSpan
from labctl.analysis.results import COVERAGE_FACTOR, EdgeLag
from labctl.analysis.series import ChannelSeries, Floats
from labctl.analysis.uncertainty import student_factor

READINGS_A_SIDE = 60
GRID = 161
MOST_READINGS = 400
"""Readings around one edge that are fitted; of a faster meter every n-th."""

MAX_EDGES = 64
"""Edges used of a run: the largest steps."""

LONGEST_GAP_NS = 2_000_000_000
"""Longest pause between two phases that still makes one edge."""

SIGNIFICANT = 5.0
"""A step counts from this many standard deviations of a reading on."""

SMALLEST_STEP = 0.02
"""… and from this fraction of the larger level on."""


@dataclass(frozen=True, slots=True)
class _OneLag:
    lag_ns: float
    variance: float


def edge_lag(
    rail: str, amps: ChannelSeries, spans: Sequence[PhaseSpan], idle_amps: float | None
) -> EdgeLag | None:
    """Residual lag of a rail behind the workload; None when no edge has a step to see it by.

    ``idle_amps`` is the level that the current falls to in the pause between two phases. The
    lags of the edges are weighted by the inverse of their variance, which goes with step².
    """
    edges = [
        (before, after)
        for before, after in itertools.pairwise(spans)
        if 0 <= after.begin_ns - before.end_ns <= LONGEST_GAP_NS
    ]
    doubt_ns = 0.0
    found: list[tuple[float, _OneLag]] = []
    for before, after in edges:
        doubt_ns = max(doubt_ns, amps.doubt_ns(before.end_ns, after.begin_ns))
        seen = _one_edge(amps, before, after, idle_amps)
        amps.let_go()
        if seen is not None:
            found.append(seen)
    if not found:
        return None
    lags = [one for _, one in sorted(found, key=lambda item: -item[0])[:MAX_EDGES]]
    weights = np.array([1.0 / one.variance for one in lags])
    values = np.array([one.lag_ns for one in lags])
    mean = float(weights @ values / weights.sum())
    u_ns = COVERAGE_FACTOR / math.sqrt(float(weights.sum()))
    if len(lags) > 1:
        scatter = float(weights @ (values - mean) ** 2 / weights.sum()) / (len(lags) - 1)
        u_ns = max(u_ns, student_factor(len(lags) - 1) * math.sqrt(scatter))
    return EdgeLag(
        rail=rail,
        lag_ms=mean * 1e-6,
        u_ms=u_ns * 1e-6,
        edges=len(lags),
        consistent=abs(mean) <= u_ns + doubt_ns,
    )


def lag_problems(lags: Sequence[EdgeLag]) -> tuple[str, ...]:
    """A line for each rail whose watts come later or earlier than clocks and fit allow."""
    return tuple(
        f"{lag.rail}: its current follows the workload {lag.lag_ms:+.1f} ms late (± {lag.u_ms:.1f} "
        f"ms, {lag.edges} edges), more than its clock's bound allows: alignments and peaks of "
        "this rail are wrong by that; a filter in the meter, or a wrong integration time?"
        for lag in lags
        if not lag.consistent
    )


def _one_edge(
    amps: ChannelSeries, before: PhaseSpan, after: PhaseSpan, idle_amps: float | None
) -> tuple[float, _OneLag] | None:
    """The size of the step and its lag, where it is significant."""
    edge_ns = after.begin_ns
    middle = int(amps.index_at(np.array([edge_ns]))[0])
    interval_ns = amps.interval_ns(max(middle - READINGS_A_SIDE, 0), middle + READINGS_A_SIDE)
    if not interval_ns > 0:
        return None
    boundary_ns = before.boundary_u_ns + after.boundary_u_ns
    aperture_ns = max(amps.info.aperture_s * 1e9, 1e3)
    doubt_ns = amps.doubt_ns(before.end_ns, edge_ns) + boundary_ns
    search_ns = max(3 * interval_ns, 4 * doubt_ns, 20e6)
    reach_ns = max(READINGS_A_SIDE * interval_ns, 2.5 * search_ns)
    reach_ns = min(reach_ns, max(10 * interval_ns, 4e9))
    begin_ns = max(edge_ns - round(reach_ns), before.begin_ns)
    end_ns = min(edge_ns + round(reach_ns), after.end_ns)
    low, high = (int(i) for i in amps.index_at(np.array([begin_ns, end_ns])))
    t = amps.elapsed_ns(low, high, edge_ns)
    values = amps.values(low, high)
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
    largest = max(abs(float(left.mean())), abs(float(right.mean())))
    if abs(step) < SIGNIFICANT * noise or abs(step) < SMALLEST_STEP * largest:
        return None
    gap_ns = float(edge_ns - before.end_ns) if idle_amps is not None else 0.0
    fit = _Fit(t, values, aperture_ns, gap_ns, idle_amps or 0.0, max(noise, 1e-3 * abs(step)))
    fitted = fit.best(0.0, search_ns)
    if fitted is None:
        return None
    mean, spread = fitted
    for _ in range(2):
        width = 4 * spread + 2 * search_ns / GRID
        if width < search_ns:
            search_ns = width
            mean, spread = fit.best(mean, search_ns) or (mean, spread)
    variance = spread**2 + (search_ns / GRID) ** 2 + boundary_ns**2 / 3
    return abs(step), _OneLag(lag_ns=mean, variance=variance)


@dataclass(frozen=True, slots=True)
class _Fit:
    """Readings around an edge at t = 0 (the first I/O after it), and how they should look."""

    t: Floats
    values: Floats
    aperture_ns: float
    gap_ns: float
    idle: float
    noise: float

    def best(self, centre: float, reach: float) -> tuple[float, float] | None:
        """Mean and standard deviation of the lags within ``centre`` ± ``reach``, each weighted
        by how well it explains the readings (the two levels are solved for each lag). None when
        no lag leaves readings on both sides."""
        lags = np.linspace(centre - reach, centre + reach, GRID)
        starts = (self.t - self.aperture_ns / 2)[None, :]
        before = np.clip((lags[:, None] - self.gap_ns - starts) / self.aperture_ns, 0.0, 1.0)
        after = 1.0 - np.clip((lags[:, None] - starts) / self.aperture_ns, 0.0, 1.0)
        rest = self.values - self.idle * (1.0 - before - after)
        bb, aa = (before**2).sum(axis=1), (after**2).sum(axis=1)
        ab = (before * after).sum(axis=1)
        rb, ra = (rest * before).sum(axis=1), (rest * after).sum(axis=1)
        determinant = bb * aa - ab**2
        solved = determinant > 1e-9 * bb * aa
        if not solved.any():
            return None
        determinant = np.where(solved, determinant, 1.0)
        first = (rb * aa - ra * ab) / determinant
        second = (ra * bb - rb * ab) / determinant
        residual = rest - first[:, None] * before - second[:, None] * after
        cost = np.where(solved, (residual**2).sum(axis=1), np.inf)
        weights = np.exp(-(cost - cost.min()) / (2 * self.noise**2))
        weights /= weights.sum()
        mean = float(weights @ lags)
        return mean, math.sqrt(float(weights @ (lags - mean) ** 2))
