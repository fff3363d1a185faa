"""The lag of the watts at each edge of a phase that has a clear step.

The lag is the one that fits the readings around it best, each a mean over its interval; the offset
and the drift are those that most edges agree on, and how far they disagree is their uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.stats.uncertainty import student_factor

Floats = NDArray[np.float64]

SIDE_READINGS = 40
"""Readings on each side of an edge that are fitted."""

SIGNIFICANT = 6.0
"""An edge counts from this many standard deviations of the difference of its two levels on."""

LEAST_STEP = 0.01
"""It also needs this share of the larger level: a drive's mean wanders by so much on its own."""

QUARTZ = 2e-4
"""How much faster one quartz may run than another: ±100 ppm each."""

FEWEST_FOR_DRIFT = 4
"""Edges from which a drift is fitted."""

LAGS = 241
"""Lags that are tried around an edge."""

OUTLIER = 4.0
"""An edge farther from the others than this many of their median distances is left out: a drive
that goes on after fio has ended has a late edge."""

MANY_OTHERS = 1 / 3
"""Where so many edges were left out, nobody knows which are right (a drive that goes on after each
phase may have as many late ends as it has begins): how far they are from the others is doubt."""


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge between two levels, at a moment of the phases' clock; ``doubt``: half of the pause
    that it stands for. ``low`` and ``high`` are the bounds of what may be looked at."""

    at: float
    low: float
    high: float
    doubt: float
    phases: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EdgeFit:
    """Offset and drift by the edges, in s and s a second.

    The offset holds at ``middle``; ``u`` is its half-width of doubt at the worse end of the phases.
    """

    offset: float
    u: float
    middle: float
    drift: float
    edges: int


def edges_of(
    spans: Sequence[tuple[float, float]], interval: float, pause: float = 0.0, reach: float = 0.0
) -> list[Edge]:
    """Every change of level. A pause shorter than three readings is one edge; so is one shorter
    than ``pause`` (s), which may not be there. ``reach``: how far off the first and the last may
    be."""
    found = []
    pad = SIDE_READINGS * interval + reach
    shortest = max(3 * interval, pause)
    for k, (begin, end) in enumerate(spans):
        before = spans[k - 1] if k else None
        after = spans[k + 1] if k + 1 < len(spans) else None
        if before is None or begin - before[1] >= shortest:
            low = begin - pad if before is None else before[1]
            found.append(Edge(begin, low, end, 0.0, (k,)))
        if after is None or after[0] - end >= shortest:
            high = end + pad if after is None else after[0]
            found.append(Edge(end, begin, high, 0.0, (k,)))
        else:
            middle, half = (end + after[0]) / 2, (after[0] - end) / 2
            found.append(Edge(middle, begin, after[1], half, (k, k + 1)))
    return found


def fit_edges(
    t: Floats,
    watts: Floats,
    spans: Sequence[tuple[float, float]],
    offset: float,
    interval: float,
    off: float = 0.0,
) -> EdgeFit | None:
    """Offset, drift and their uncertainty by each edge alone; None where none has a step.
    ``off``: by how much the times of single phases may be off (s)."""
    span = spans[-1][1] - spans[0][0]
    reach = 3 * interval + QUARTZ * span / 2 + off
    rows = []
    for edge in edges_of(spans, interval):
        fitted = lag_of(t, watts, edge, offset, interval, reach)
        if fitted is not None:
            rows.append((edge.at, *fitted, edge.doubt))
    if not rows:
        return None
    at, lags, spreads, doubts = (np.array(column) for column in zip(*rows, strict=True))
    kept = _agreeing_step_edges(lags, spreads)
    others = lags[~kept]
    at, lags, spreads, doubts = at[kept], lags[kept], spreads[kept], doubts[kept]
    weights = 1.0 / (spreads**2 + (doubts**2) / 3 + (interval / 20) ** 2)
    middle = float(weights @ at / weights.sum())
    drift, at_ends = 0.0, 0.0
    far = max(abs(spans[0][0] - middle), abs(spans[-1][1] - middle))
    mean = float(weights @ lags / weights.sum())
    own = math.sqrt(1.0 / float(weights.sum()))
    n = len(lags)
    if n >= FEWEST_FOR_DRIFT and QUARTZ * span > interval / 10:
        x = at - middle
        spread_x = float(weights @ x**2)
        if spread_x > 0:
            drift = float(weights @ (x * (lags - mean)) / spread_x)
            at_ends = math.sqrt(1.0 / spread_x) * far
            if abs(drift) > QUARTZ:
                drift, at_ends = 0.0, QUARTZ * far / 2
    rest = lags - mean - drift * (at - middle)
    freedom = max(n - (2 if at_ends else 1), 1)
    scatter = math.sqrt(float(weights @ rest**2 / weights.sum()) / freedom) if n > 1 else 0.0
    u = max(2 * math.hypot(own, at_ends), student_factor(freedom) * scatter if n > 1 else 0.0)
    if at_ends and own > 0:
        u = max(u, student_factor(freedom) * scatter * math.hypot(own, at_ends) / own)
    elif not at_ends:
        u += QUARTZ / 2 * far
    u += float(weights @ doubts / weights.sum())
    # a reading may be of one moment: edges that all fall on the same place between two readings
    # then are all late by the same part of an interval
    u += interval / 2 if n > 1 else interval
    if len(others) >= MANY_OTHERS * (n + len(others)):
        u += abs(float(others.mean()) - mean)
    return EdgeFit(offset + mean, u, middle, drift, n)


def _agreeing_step_edges(lags: Floats, spreads: Floats) -> NDArray[np.bool_]:
    """The edges that agree with most of the others."""
    apart = np.abs(lags - np.median(lags))
    usual = max(float(np.median(apart)) * 1.4826, float(np.median(spreads)))
    kept: NDArray[np.bool_] = apart <= OUTLIER * usual
    return kept if kept.any() else np.ones(len(lags), bool)


def _around_step_edge(
    t: Floats, watts: Floats, edge: Edge, offset: float, interval: float, reach: float
) -> tuple[Floats, Floats] | None:
    """Readings around an edge, times since it; without those that another edge may touch."""
    low = max(edge.low, edge.at - SIDE_READINGS * interval - reach) - offset
    high = min(edge.high, edge.at + SIDE_READINGS * interval + reach) - offset
    first, last = np.searchsorted(t, [low + interval / 2, high - interval / 2])
    x, y = t[first:last] + offset - edge.at, watts[first:last]
    if (x < -interval / 2).sum() < 2 or (x > interval / 2).sum() < 2:
        return None
    return x, y


def _step_at_edge(x: Floats, y: Floats, lag: float, clear: float) -> tuple[float, float] | None:
    """The step at a lag and its standard deviation, from readings off the edge."""
    before, after = y[x < lag - clear], y[x > lag + clear]
    if len(before) < 2 or len(after) < 2:
        return None
    step = float(after.mean() - before.mean())
    noise = math.sqrt(
        float(before.var(ddof=1)) / len(before) + float(after.var(ddof=1)) / len(after)
    )
    if abs(step) < LEAST_STEP * max(abs(float(before.mean())), abs(float(after.mean()))):
        return None
    return (step, noise) if abs(step) > SIGNIFICANT * noise else None


def lag_of(
    t: Floats, watts: Floats, edge: Edge, offset: float, interval: float, reach: float
) -> tuple[float, float] | None:
    """The lag of an edge behind its time, and its standard deviation; None without a clear step."""
    found = _around_step_edge(t, watts, edge, offset, interval, reach)
    if found is None:
        return None
    x, y = found
    room = min(-float(x[0]), float(x[-1])) - 1.5 * interval
    reach = min(reach, max(room, interval))
    lags = np.linspace(-reach, reach, LAGS)
    part = np.clip((x[None, :] - lags[:, None]) / interval + 0.5, 0.0, 1.0)
    part -= part.mean(axis=1, keepdims=True)
    centred = y - y.mean()
    squares = (part**2).sum(axis=1)
    usable = squares > 1e-9
    explained = np.where(usable, (part @ centred) ** 2 / np.where(usable, squares, 1.0), 0.0)
    cost = float(centred @ centred) - explained
    best = int(np.argmin(cost))
    step = _step_at_edge(x, y, float(lags[best]), interval)
    if step is None:
        return None
    variance = max(float(cost[best]) / max(len(x) - 3, 1), (1e-3 * step[0]) ** 2)
    weights = np.exp(-(cost - cost[best]) / (2 * variance))
    weights /= weights.sum()
    mean = float(weights @ lags)
    spread = math.sqrt(float(weights @ (lags - mean) ** 2) + (lags[1] - lags[0]) ** 2)
    return -mean, spread


def confirmed_by(
    t: Floats,
    watts: Floats,
    spans: Sequence[tuple[float, float]],
    near: EdgeFit,
    interval: float,
    off: float = 0.0,
) -> tuple[bool, ...]:
    """Of each phase, whether an edge of it has a clear step where it is expected; ``off``: by how
    much its times may be off (s)."""
    sure = [False] * len(spans)
    for edge in edges_of(spans, interval):
        offset = near.offset + near.drift * (edge.at - near.middle)
        found = _around_step_edge(t, watts, edge, offset, interval, interval + off)
        if found is None:
            continue
        clear = interval + min(near.u + edge.doubt, 5 * interval) + off
        if _step_at_edge(*found, 0.0, clear) is not None:
            for phase in edge.phases:
                sure[phase] = True
    return tuple(sure)
