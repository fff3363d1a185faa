"""For every offset of the searched ranges, how much of the variance of the readings is left.

Each phase has a level of its own and what is around them another one. Phases of one length, one
after another, fit as well when they are shifted by one: so the best offsets must also fit what fio
did, no fewer watts for more I/O of the same kind, and none less than at rest.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEPS_A_PHASE = 12
"""Offsets that are tried within the length of the shortest phase."""

MOST_TRIED = 4_000_000
"""Offsets times edges of a far search; a larger one takes longer steps."""

AT_ONCE = 4_096
"""Offsets that are tried at a time."""

CURVE_POINTS = 300
CURVE_PEAKS = 20
"""Of what is left over the offsets, for a picture: the least of each part of them, and the best."""

MOST_CANDIDATES = 400
"""Offsets, each better than those beside it, that are held against what fio did."""

SAME_WORK = 0.03
"""Phases of one kind whose IOPS differ by less than this share should draw the same."""

LEAST_COVERED = 0.8
"""Share of the phases' time that the recording must cover at an offset."""


class OffsetSearch:
    """What of the variance is left at an offset."""

    def __init__(
        self,
        t: Floats,
        watts: Floats,
        spans: Sequence[tuple[float, float]],
        work: Sequence[tuple[Hashable, float]],
    ) -> None:
        self._t, self._work = t, work
        level = watts - watts.mean()
        self._sum = np.concatenate([[0.0], np.cumsum(level)])
        self._squares = np.concatenate([[0.0], np.cumsum(level**2)])
        self._begins = np.array([begin for begin, _ in spans])
        self._ends = np.array([end for _, end in spans])
        lengths = self._ends - self._begins
        self.shortest = float(lengths.min())
        self._pad = min(max(float(np.median(lengths)), 2.0), 60.0)
        self._least = LEAST_COVERED * float(lengths.sum())
        self._searched: list[tuple[Floats, Floats]] = []

    def candidates(
        self, ranges: Sequence[tuple[float, float]], interval: float
    ) -> list[tuple[float, float]]:
        """Offsets and what they leave, the best first; each better than those beside it."""
        first = float(self._begins[0] - self._t[-1])
        last = float(self._ends[-1] - self._t[0])
        cut = [(max(low, first), min(high, last)) for low, high in ranges]
        cut = [(low, high) for low, high in cut if low <= high]
        total = sum(high - low for low, high in cut)
        step = max(
            self.shortest / STEPS_A_PHASE,
            interval / 2,
            total * 2 * len(self._begins) / MOST_TRIED,
        )
        lowest: list[tuple[float, float]] = []
        for low, high in cut:
            offsets = np.linspace(low, high, max(int((high - low) / step) + 1, 3))
            parts = [self.left(offsets[i : i + AT_ONCE]) for i in range(0, len(offsets), AT_ONCE)]
            left = np.concatenate(parts)
            self._searched.append((offsets, left))
            around = np.concatenate([[np.inf], left, [np.inf]])
            best = (left <= around[:-2]) & (left <= around[2:]) & np.isfinite(left)
            lowest += zip(left[best].tolist(), offsets[best].tolist(), strict=True)
        fine = (
            self.refined(offset, step, interval) for _, offset in sorted(lowest)[:MOST_CANDIDATES]
        )
        return sorted(
            ((offset, left + self._against_work(offset)) for offset, left in fine),
            key=lambda one: one[1],
        )

    def curve(self, found: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
        """Offsets that were searched and what each leaves, ascending: about ``CURVE_POINTS``, and
        the best of the candidates ``found``."""
        offsets, left = (np.concatenate(one) for one in zip(*self._searched, strict=True))
        offsets, left = offsets[np.isfinite(left)], left[np.isfinite(left)]
        points = list(found[:CURVE_PEAKS])
        for part in np.array_split(np.argsort(offsets, kind="stable"), CURVE_POINTS):
            if len(part):
                least = part[int(np.argmin(left[part]))]
                offset = float(offsets[least])
                points.append((offset, float(left[least]) + self._against_work(offset)))
        return tuple(sorted(points))

    def refined(self, offset: float, reach: float, interval: float) -> tuple[float, float]:
        """The best offset near one, and what it leaves."""
        least = math.inf
        for _ in range(3):
            offsets = np.linspace(offset - reach, offset + reach, 41)
            left = self.left(offsets)
            if not np.isfinite(left).any():
                return offset, least
            low = left.min()
            flat = offsets[left <= low * 1.0001]
            offset, least = float(flat.mean()), float(low)
            reach = max(reach / 8, interval / 4)
        return offset, least

    def left(self, offsets: Floats) -> Floats:
        """Share of the variance within the phases and around them that is left."""
        begins = np.searchsorted(self._t, self._begins[None, :] - offsets[:, None])
        ends = np.searchsorted(self._t, self._ends[None, :] - offsets[:, None])
        low = np.searchsorted(self._t, self._begins[0] - self._pad - offsets)
        high = np.searchsorted(self._t, self._ends[-1] + self._pad - offsets)
        count = ends - begins
        inside = self._sum[ends] - self._sum[begins]
        squares = self._squares[ends] - self._squares[begins]
        explained = inside**2 / np.maximum(count, 1)
        rest = (high - low) - count.sum(axis=1)
        total = self._sum[high] - self._sum[low]
        rest_sum = total - inside.sum(axis=1)
        all_squares = self._squares[high] - self._squares[low]
        rest_squares = all_squares - squares.sum(axis=1)
        within = (squares - explained).sum(axis=1)
        within += rest_squares - rest_sum**2 / np.maximum(rest, 1)
        whole = all_squares - total**2 / np.maximum(high - low, 1)
        t_last, t_first = self._t[-1], self._t[0]
        seen = (
            np.minimum(self._ends[None, :] - offsets[:, None], t_last)
            - np.maximum(self._begins[None, :] - offsets[:, None], t_first)
        ).clip(0.0)
        covered = (seen.sum(axis=1) >= self._least) & ((count >= 2).mean(axis=1) >= LEAST_COVERED)
        result: Floats = np.where(
            covered & (whole > 0), np.maximum(within, 0.0) / np.where(whole > 0, whole, 1.0), np.inf
        )
        return result

    def _against_work(self, offset: float) -> float:
        """What else is left when phases of a kind draw more watts for more IOPS, and no phase less
        than is drawn around them."""
        begins = np.searchsorted(self._t, self._begins - offset)
        ends = np.searchsorted(self._t, self._ends - offset)
        low, high = np.searchsorted(
            self._t, [self._begins[0] - self._pad - offset, self._ends[-1] + self._pad - offset]
        )
        count = np.maximum(ends - begins, 0)
        sums = self._sum[ends] - self._sum[begins]
        levels = sums / np.maximum(count, 1)
        rest_count = int(high - low - count.sum())
        whole = self._squares[high] - self._squares[low]
        whole -= (self._sum[high] - self._sum[low]) ** 2 / max(high - low, 1)
        rest = -np.inf
        if rest_count > 1:
            rest = float(self._sum[high] - self._sum[low] - sums.sum()) / rest_count
        cost = 0.0
        for kind in dict.fromkeys(kind for kind, _ in self._work):
            own = [k for k, (other, _) in enumerate(self._work) if other == kind and count[k]]
            own.sort(key=lambda k: self._work[k][1])
            pools: list[tuple[float, float, float]] = []
            for k in own:
                iops, level, weight = self._work[k][1], float(levels[k]), float(count[k])
                if pools and iops <= pools[-1][2] * (1 + SAME_WORK):
                    pools[-1] = _pooled_search_levels(pools[-1], (level, weight, iops))
                else:
                    pools.append((level, weight, iops))
                while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
                    pools[-2:] = [_pooled_search_levels(pools[-2], pools[-1])]
            fitted = [(iops, max(level, rest)) for level, _, iops in pools]
            for k in own:
                level = next(one for iops, one in fitted if self._work[k][1] <= iops)
                cost += float(count[k]) * (float(levels[k]) - level) ** 2
        return cost / float(whole) if whole > 0 else math.inf


def _pooled_search_levels(
    one: tuple[float, float, float], other: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Two levels that must be one: their weighted mean, up to the larger IOPS."""
    weight = one[1] + other[1]
    return (one[0] * one[1] + other[0] * other[1]) / weight, weight, max(one[2], other[2])
