"""Uncertainty of a mean: what scatters, what a data sheet allows, and both together.

Vocabulary and rules are those of the GUM (JCGM 100:2008): type A from the scatter of readings,
type B from limits (a rectangular distribution of half-width a has the standard uncertainty
a/√3, GUM 4.3.7), combined in quadrature (GUM 5.1), expanded to about 95 % from the distribution of
their sum (JCGM 101:2008) and, where the scatter was judged from few values, widened by Student's
factor for the effective degrees of freedom (Welch–Satterthwaite, GUM G.4).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.estimate import COVERAGE_FACTOR, Component, Estimate
from labctl.analysis.stats.coverage import RECTANGULAR, half_width

_STUDENT = (
    (1, 13.97), (2, 4.53), (3, 3.31), (4, 2.87), (5, 2.65), (6, 2.52), (7, 2.43), (8, 2.37),
    (9, 2.32), (10, 2.28), (12, 2.23), (14, 2.20), (16, 2.17), (18, 2.15), (20, 2.13),
    (25, 2.11), (30, 2.09), (40, 2.06), (50, 2.05), (100, 2.025),
)  # fmt: skip
"""Degrees of freedom and t for 95.45 %: JCGM 100:2008, table G.2."""

MIN_BLOCKS = 16
"""Fewest blocks from which a scatter is estimated, where there are enough readings."""

FEW_BLOCKS = 8
"""Fewest blocks where there are few readings."""

STILL_GROWING = 2.5
"""Times that the variance of a mean may grow when blocks become four times as long. That of
independent readings does not grow, and by chance so much in one of 100 series; that of 1/f noise
grows four times, that of a process slower than the blocks up to sixteen times."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """Type A of a mean: its standard uncertainty ``u`` in the unit of the readings, the degrees
    of freedom, and how many independent readings would give the same."""

    u: float
    dof: float
    n_effective: float
    growth: float = 1.0
    """Times that the variance of the mean still grew from blocks to the longest, which are four
    times as long; 1 where there are too few to tell."""

    @property
    def settled(self) -> bool:
        """Whether ``u`` stopped growing with the length of the blocks: else readings depend on each
        other for longer than the series lets one see, and ``u`` is a lower bound."""
        return self.growth <= STILL_GROWING

    def scaled(self, factor: float) -> Scatter:
        """The same of a mean that is multiplied by a ``factor`` > 0."""
        return replace(self, u=self.u * factor)

    @property
    def expanded_u(self) -> float:
        """The expanded uncertainty (about 95 %), in the unit of the readings."""
        return student_factor(self.dof) * self.u

    @property
    def repeatability(self) -> float | None:
        """The expanded uncertainty where it is settled; None where one series cannot show it."""
        return self.expanded_u if self.settled else None


def scatter_of_phase(
    square: float, worth: float, n: int, integrated: float, noise: float
) -> Scatter:
    """The type A uncertainty of a mean over just the time that was sampled.

    ``square`` is the variance of the mean that the differences between neighbouring readings give
    (Σ h²d²/2 over T², with h the time between two readings), less what a straight line between
    them knows (:class:`~labctl.analysis.stats.variogram.Variogram`). Between two neighbours the
    power cannot have gone far, so a slow change costs nothing: systematic sampling (W. G. Cochran,
    *Sampling Techniques*, ch. 8; K. M. Wolter, *JASA* 79 (1984) 781, estimator v2). What the
    readings integrate is not sampled but known, so only the share 1 − ``integrated`` of it is left
    (finite population). The noise of the meter itself is no part of that population and stays
    whole: ``noise`` is its standard deviation in one reading, infinite where it is not known.

    ``worth``: how many readings of equal weight the ``n`` are worth.
    """
    own = min(square, noise**2 / worth)
    u = math.sqrt((1.0 - integrated) * square + integrated * own)
    steps = max(min(worth, n), 2.0)
    return Scatter(u, dof=2 * (steps - 1) ** 2 / (3 * steps - 4), n_effective=worth)


def scatter_of_mean(blocks: NDArray[np.float64], variance: float, n: int) -> Scatter:
    """The type A uncertainty of a mean of ``n`` readings that may depend on each other.

    ``blocks`` are means of equal numbers of consecutive readings (the readings themselves when
    there are few), ``variance`` is that of single readings. Neighbouring blocks are merged in
    pairs repeatedly (Flyvbjerg & Petersen 1989). At each size the variance of the mean follows
    from the squared steps between neighbouring blocks (von Neumann 1941), and the largest
    counts. So dependence over up to 1/16 of the phase is detected, and a slow change of level
    that the readings follow hardly counts as scatter. Where the last sizes still grow, there is no
    plateau and the result is not settled. O(n).
    """
    if n < 2:
        return Scatter(u=math.inf, dof=1.0, n_effective=float(n))
    few = len(blocks) < 4 * MIN_BLOCKS
    best, dof = (variance / n, n - 1.0) if few else (0.0, 2 * len(blocks) / 3)
    enough = FEW_BLOCKS if few else MIN_BLOCKS
    level = blocks
    sizes = []
    while len(level) >= enough:
        steps = np.diff(level)
        count = len(level)
        candidate = float(steps @ steps) / (2 * len(steps)) / count
        sizes.append(candidate)
        if candidate > best:
            best, dof = candidate, 2 * (count - 1) ** 2 / (3 * count - 4)
        level = level[: count // 2 * 2].reshape(-1, 2).mean(axis=1)
    n_effective = min(variance / best, float(n)) if best > 0 else float(n)
    growth = sizes[-1] / sizes[-3] if len(sizes) > 2 and sizes[-3] > 0 else 1.0
    return Scatter(math.sqrt(best), dof, max(n_effective, 1.0), growth)


def scatter_of(values: NDArray[np.float64]) -> Scatter:
    """:func:`scatter_of_mean` of at least two readings, given as one array."""
    return scatter_of_mean(values, float(values.var(ddof=1)), len(values))


def student_factor(dof: float) -> float:
    """k that covers 95.45 % for ``dof`` degrees of freedom; 2 for many (GUM table G.2)."""
    if not math.isfinite(dof):
        return COVERAGE_FACTOR
    dof = max(dof, 1.0)
    inverse = [1.0 / row[0] for row in reversed(_STUDENT)]
    factors = [row[1] for row in reversed(_STUDENT)]
    return float(np.interp(1.0 / dof, [0.0, *inverse], [COVERAGE_FACTOR, *factors]))


def combined(components: Iterable[Component]) -> tuple[float, float]:
    """The combined standard uncertainty in watts, and its effective degrees of freedom.

    Components with the same non-empty ``source`` (one meter on several rails) are one error and
    add up linearly; everything else adds in quadrature.
    """
    return _quadrature(_independent_errors(components))


def _quadrature(errors: Sequence[Component]) -> tuple[float, float]:
    """Standard uncertainty of independent errors together, and its degrees of freedom."""
    squares = sum(item.watts**2 for item in errors)
    fourth = sum(item.watts**4 / item.dof for item in errors)
    dof = squares**2 / fourth if fourth > 0 else math.inf
    return math.sqrt(squares), dof


def _independent_errors(components: Iterable[Component]) -> list[Component]:
    """The lines, those with the same source added up to one; it is normal unless all of them have
    the same distribution."""
    apart: list[Component] = []
    shared: dict[str, Component] = {}
    for item in components:
        same = shared.get(item.source)
        if not item.source:
            apart.append(item)
        elif same is None:
            shared[item.source] = item
        else:
            alike = same.distribution == item.distribution
            shared[item.source] = replace(
                same,
                watts=same.watts + item.watts,
                dof=min(same.dof, item.dof),
                distribution=same.distribution if alike else "normal",
            )
    return apart + list(shared.values())


def expanded_u(components: Iterable[Component]) -> float:
    """The U of a budget, in the unit of its lines: what covers at least 95 % of its errors, also
    where the largest of its limits is used up.

    Limits say how far an error may be off, not how often: that of a meter stays as it is through
    all runs of a bench. So U does not only hold on average over all that it may be: the largest
    limit is taken as used up, and everything else is spread around it. Where one limit is all
    there is, U is that limit; where there is none, U is k · u.
    """
    errors = _independent_errors(components)
    limited = [item for item in errors if item.distribution == "rectangular"]
    largest = max(limited, key=lambda item: item.watts, default=None)
    rest = [item for item in errors if item is not largest]
    standing = 0.0 if largest is None else largest.watts * RECTANGULAR
    spread: dict[str, list[float]] = {"normal": [], "rectangular": [], "U-shaped": []}
    for item in rest:
        spread[item.distribution].append(item.watts)
    width = half_width(
        math.hypot(*spread["normal"]),
        [u * RECTANGULAR for u in spread["rectangular"]],
        [u * math.sqrt(2.0) for u in spread["U-shaped"]],
        standing,
    )
    widened = student_factor(_quadrature(rest)[1]) / COVERAGE_FACTOR
    return standing + widened * (width - standing)


def expanded(value: float, components: Sequence[Component]) -> Estimate:
    """``value`` with the uncertainty of its budget at about 95 %."""
    return Estimate(value=value, u=expanded_u(components))


def limit_component(
    name: str, watts_limit: float, how: str, source: str = "", part: str = ""
) -> Component:
    """A type B line from limits ±``watts_limit``: rectangular, so divided by √3."""
    return Component(
        name=name,
        kind="B",
        watts=abs(watts_limit) / RECTANGULAR,
        how=how,
        source=source,
        part=part,
        distribution="rectangular",
    )


def ratio(above: Estimate | None, below: Estimate | None) -> Estimate | None:
    """``above`` / ``below``, relative uncertainties in quadrature, and repeatabilities likewise.

    None when one of them is not known or ``below`` is ≤ 0. The repeatability is None where that of
    either is.
    """
    if above is None or below is None or below.value <= 0:
        return None
    value = above.value / below.value
    u = math.hypot(above.u, value * below.u) / below.value
    again = None
    if above.repeatability is not None and below.repeatability is not None:
        again = math.hypot(above.repeatability, value * below.repeatability) / below.value
    return Estimate(value, u, again)


def difference_components(
    components: Sequence[Component], others: Sequence[Component], share: float
) -> list[Component]:
    """The budget of a difference between two phases on the same meters.

    A meter's gain error is the same in both, so only its part of the difference is left
    (``share`` = difference / value). A zero taken before the run is the same in both as well, so
    only the difference of both lines is left. The floor of a data sheet also contains noise and
    non-linearity, so nothing of it cancels: both phases count in full.
    """
    zeros = {item.source: item.watts for item in others if item.part == "zero"}
    kept = []
    for item in components:
        if item.part == "gain":
            item = replace(item, watts=item.watts * abs(share))
        elif item.part == "zero":
            item = replace(item, watts=abs(item.watts - zeros.pop(item.source, 0.0)))
        kept.append(item)
    apart = [item for item in others if item.part != "gain"]
    return kept + [
        _marked_idle(item) for item in apart if item.part != "zero" or item.source in zeros
    ]


def _marked_idle(item: Component) -> Component:
    return replace(item, source=f"{item.source} (idle)" if item.source else "")


def left_by_digits(digit: float, step_variance: float) -> float:
    """Standard uncertainty of a mean that digits leave, in their unit.

    A value that does not move from reading to reading is off by up to half a digit each time:
    digit/√12 (GUM F.2.2.1). Scatter of σ from one reading to the next takes it out by
    exp(−2π²σ²/digit²) (B. Widrow, I. Kollár, *Quantization Noise*, 2008, ch. 4).
    """
    if not digit > 0:
        return 0.0
    own = max(step_variance - digit**2 / 12, 0.0)
    return digit / math.sqrt(12.0) * math.exp(-2 * math.pi**2 * own / digit**2)
