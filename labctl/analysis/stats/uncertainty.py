"""Uncertainty of a mean: what scatters, what a data sheet allows, and both together.

Vocabulary and rules are those of the GUM (JCGM 100:2008): type A from the scatter of readings,
type B from limits (a rectangular distribution of half-width a has the standard uncertainty
a/√3, GUM 4.3.7), combined in quadrature (GUM 5.1), expanded to about 95 % with k = 2 or, where
the scatter was judged from few values, with Student's factor for the effective degrees of
freedom (Welch–Satterthwaite, GUM G.4).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.results import COVERAGE_FACTOR, Component, Estimate

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

RECTANGULAR = math.sqrt(3.0)
"""Half-width of a rectangular distribution over its standard deviation (GUM 4.3.7)."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """Type A of a mean: its standard uncertainty ``u`` in the unit of the readings, the degrees
    of freedom, and how many independent readings would give the same."""

    u: float
    dof: float
    n_effective: float

    def scaled(self, factor: float) -> Scatter:
        """The same of a mean that is multiplied by a ``factor`` > 0."""
        return replace(self, u=self.u * factor)

    @property
    def expanded_u(self) -> float:
        """The expanded uncertainty (about 95 %), in the unit of the readings."""
        return student_factor(self.dof) * self.u


def scatter_of_mean(blocks: NDArray[np.float64], variance: float, n: int) -> Scatter:
    """The type A uncertainty of a mean of ``n`` readings that may depend on each other.

    ``blocks`` are means of equal numbers of consecutive readings (the readings themselves when
    there are few), ``variance`` is that of single readings. Neighbouring blocks are merged in
    pairs repeatedly (Flyvbjerg & Petersen 1989). At each size the variance of the mean follows
    from the squared steps between neighbouring blocks (von Neumann 1941), and the largest
    counts. So dependence over up to 1/16 of the phase is detected, and a slow change of level
    that the readings follow hardly counts as scatter. O(n).
    """
    if n < 2:
        return Scatter(u=math.inf, dof=1.0, n_effective=float(n))
    few = len(blocks) < 4 * MIN_BLOCKS
    best, dof = (variance / n, n - 1.0) if few else (0.0, 2 * len(blocks) / 3)
    enough = FEW_BLOCKS if few else MIN_BLOCKS
    level = blocks
    while len(level) >= enough:
        steps = np.diff(level)
        count = len(level)
        candidate = float(steps @ steps) / (2 * len(steps)) / count
        if candidate > best:
            best, dof = candidate, 2 * (count - 1) ** 2 / (3 * count - 4)
        level = level[: count // 2 * 2].reshape(-1, 2).mean(axis=1)
    n_effective = min(variance / best, float(n)) if best > 0 else float(n)
    return Scatter(u=math.sqrt(best), dof=dof, n_effective=max(n_effective, 1.0))


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
    shared: dict[str, float] = {}
    known_by: dict[str, float] = {}
    squares, fourth = 0.0, 0.0
    for item in components:
        if item.source:
            shared[item.source] = shared.get(item.source, 0.0) + item.watts
            known_by[item.source] = min(known_by.get(item.source, math.inf), item.dof)
            continue
        squares += item.watts**2
        fourth += item.watts**4 / item.dof
    squares += sum(value**2 for value in shared.values())
    fourth += sum(value**4 / known_by[source] for source, value in shared.items())
    dof = squares**2 / fourth if fourth > 0 else math.inf
    return math.sqrt(squares), dof


def expanded(value: float, components: Sequence[Component]) -> Estimate:
    """``value`` with the uncertainty of its budget at about 95 %."""
    u, dof = combined(components)
    return Estimate(value=value, u=student_factor(dof) * u)


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
