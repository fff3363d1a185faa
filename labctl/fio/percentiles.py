"""Percentiles of several jobs together: exact from fio's bins, else with the bounds that are known.

fio counts latencies in bins of about 1.5 %, which it prints as ``json+``. The sum of several jobs'
bins is the histogram of all their I/Os, and its percentiles are those that fio would print of them
in one group. A table of percentiles alone leaves open what happens between its entries, so it
bounds a percentile of the mixture from below and from above, and nothing between is more likely.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

PERCENTILES = ("50", "90", "95", "99", "99.9", "99.99", "99.999")
"""The latency percentiles that results carry, where fio gave them."""

_ROUNDING = 1e-9
"""Of sums of shares, in per cent."""

Bounds = dict[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Distribution:
    """What is known of how long ``count`` I/Os took, µs.

    ``low`` and ``high`` are the bounds of each percentile, the same where it is known. ``max_us``
    0: not known. ``bins``: how many I/Os took how long, where fio printed it.
    """

    count: int
    low: Mapping[float, float]
    high: Mapping[float, float]
    min_us: float = 0.0
    max_us: float = 0.0
    bins: Mapping[float, int] = field(default_factory=dict)


def percentiles_of(parts: Sequence[Distribution]) -> tuple[dict[str, float], Bounds]:
    """The percentiles of all I/Os together, by their names in ``PERCENTILES``, and the bounds of
    those that are not known exactly, whose value is the middle of them."""
    known = [part for part in parts if part.low]
    if len(known) > 1 and all(part.bins for part in known):
        return _of_bins(known), {}
    values: dict[str, float] = {}
    bounds: Bounds = {}
    for name in PERCENTILES:
        percent = float(name)
        if not known or any(percent not in part.low for part in known):
            continue
        low, high = _lowest_percentile(known, percent), _highest_percentile(known, percent)
        if len(known) == 1:
            low, high = known[0].low[percent], known[0].high[percent]
        values[name] = low if low >= high else (low + high) / 2
        if low < high:
            bounds[name] = (low, high)
    return values, bounds


def _of_bins(parts: Sequence[Distribution]) -> dict[str, float]:
    """As fio takes them (3.33, ``calc_clat_percentiles``): the first bin up to which there are at
    least so many of the I/Os."""
    bins: dict[float, int] = {}
    for part in parts:
        for us, count in part.bins.items():
            bins[us] = bins.get(us, 0) + count
    wanted = [name for name in PERCENTILES if all(float(name) in part.low for part in parts)]
    total = sum(bins.values())
    found: dict[str, float] = {}
    so_far, names = 0, iter(wanted)
    name = next(names, None)
    for us in sorted(bins):
        so_far += bins[us]
        while name is not None and so_far >= float(name) / 100.0 * total:
            found[name] = us
            name = next(names, None)
    return found


def _highest_percentile(parts: Sequence[Distribution], percent: float) -> float:
    """The first latency that surely so many of all I/Os stay up to."""
    steps = [
        sorted([(us, share) for share, us in part.high.items()] + [(_longest(part), 100.0)])
        for part in parts
    ]
    weights = _percentile_weights(parts)
    for us in sorted({us for rows in steps for us, _ in rows}):
        shares = (max((s for at, s in rows if at <= us), default=0.0) for rows in steps)
        if _percentile_sum(weights, shares) >= percent - _ROUNDING:
            return us
    return max(part.high[percent] for part in parts)


def _lowest_percentile(parts: Sequence[Distribution], percent: float) -> float:
    """The first latency that so many of all I/Os may stay up to. Below a percentile there are
    always fewer than so many."""
    weights = _percentile_weights(parts)
    steps = [sorted((us, share) for share, us in part.low.items()) for part in parts]
    starts = {min(part.min_us, min(part.low.values())) for part in parts}
    for us in sorted(starts | {us for rows in steps for us, _ in rows}):
        shares = (
            0.0 if us < min(part.min_us, rows[0][0])
            else min((s for at, s in rows if at > us), default=100.0)
            for part, rows in zip(parts, steps, strict=True)
        )  # fmt: skip
        if _percentile_sum(weights, shares) > percent + _ROUNDING:
            return us
    return max(part.low[percent] for part in parts)


def _longest(part: Distribution) -> float:
    """The slowest I/O: no less than the middle of its bin, which a percentile is."""
    return max(part.max_us, *part.high.values()) if part.max_us else float("inf")


def _percentile_weights(parts: Sequence[Distribution]) -> list[float]:
    total = sum(part.count for part in parts)
    return [part.count / total if total else 1 / len(parts) for part in parts]


def _percentile_sum(weights: Sequence[float], shares: Iterable[float]) -> float:
    return sum(weight * share for weight, share in zip(weights, shares, strict=True))
