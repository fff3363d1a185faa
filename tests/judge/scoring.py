"""What labctl says of a run, held against its truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.judge.benches import Regime

COVER = 0.95
"""What a U of about 95 % is to hold at least."""


@dataclass(frozen=True)
class Statement:
    """One number of one phase, and what is true."""

    run: int
    phase: int
    quantity: str
    truth: float
    value: float | None
    u: float | None
    """None: no two-sided uncertainty is stated."""
    at_least: bool
    notes: tuple[str, ...] = ()
    noted_least_watts: float | None = None
    """Watts that its notes say were drawn at least."""

    @property
    def two_sided(self) -> bool:
        return self.value is not None and self.u is not None and not self.at_least

    @property
    def missed(self) -> bool:
        """A two-sided U that does not hold; or "at least" that is more than is true."""
        if self.two_sided:
            assert self.value is not None and self.u is not None
            return abs(self.value - self.truth) > self.u
        least = self.value if self.at_least else self.noted_least_watts
        return least is not None and least > self.truth * (1 + 2e-3)


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    regime: str
    quantity: str
    refused: bool
    """Scored by what it does not state wrongly: no number is right too."""
    phases: int
    given: float
    """Share with a two-sided number."""
    cover: float
    """Of the given ones; where no number is right too, of all, those that are not wrong."""
    cover_u: float
    """Half-width (95 %) of chance in the cover, runs taken as the independent things."""
    median_u: float
    ratio: float
    """Median of error over U."""
    bias: float
    """Median of error over truth."""

    @property
    def under(self) -> bool:
        """An open fault: less than 95 % are right, or no number where there could be one."""
        return self.cover < COVER or (not self.refused and self.given < COVER)

    @property
    def surely_under(self) -> bool:
        """By more than chance."""
        few = not self.refused and self.given < COVER
        return few or self.cover + self.cover_u < COVER

    def line(self) -> str:
        sign = "!!" if self.surely_under else "! " if self.under else "  "
        return (
            f"{sign}{self.regime:<36}{self.quantity:<11}{self.phases:>5} {self.given:>6.0%} "
            f"{self.cover:>6.1%} ±{self.cover_u:>5.1%} {_pct(self.median_u)} {self.ratio:>5.2f} "
            f"{_pct(self.bias)}"
        )


HEAD = (
    f"  {'regime':<36}{'number':<11}{'n':>5} {'given':>6} {'cover':>6} {'chance':>6} "
    f"{'med. U':>7} {'|e|/U':>5} {'bias':>7}"
)


def _pct(value: float) -> str:
    return f"{value:>7.2%}" if math.isfinite(value) else f"{'–':>7}"


def rows(regime: Regime, statements: Sequence[Statement]) -> list[Row]:
    return [
        _row(regime, quantity, [one for one in statements if one.quantity == quantity])
        for quantity in regime.quantities
    ]


def _row(regime: Regime, quantity: str, statements: Sequence[Statement]) -> Row:
    refused = regime.refused or regime.blind
    given = [one for one in statements if one.two_sided]
    scored = statements if refused else given
    right = [not one.missed for one in scored]
    errors = np.array([one.value - one.truth for one in given if one.value is not None])
    us = np.array([one.u for one in given if one.u is not None])
    truths = np.array([one.truth for one in given])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = float(np.median(np.abs(errors) / us)) if len(us) else math.nan
    return Row(
        regime=regime.name,
        quantity=quantity,
        refused=refused,
        phases=len(statements),
        given=len(given) / max(len(statements), 1),
        cover=float(np.mean(right)) if right else (1.0 if refused else 0.0),
        cover_u=_chance(scored, right),
        median_u=float(np.median(us / np.abs(truths))) if len(us) else math.nan,
        ratio=ratio,
        bias=float(np.median(errors / truths)) if len(us) else math.nan,
    )


def _chance(statements: Sequence[Statement], right: Sequence[bool]) -> float:
    """Twice the standard error of the cover. Phases of a run share their meters' errors: the
    larger of the binomial's and of what the runs differ by counts (Cochran, ch. 9)."""
    if not right:
        return 1.0
    cover = float(np.mean(right))
    plain = max(cover * (1 - cover), COVER * (1 - COVER)) / len(right)
    runs: dict[int, list[bool]] = {}
    for one, held in zip(statements, right, strict=True):
        runs.setdefault(one.run, []).append(held)
    off = [sum(held) - cover * len(held) for held in runs.values()]
    clustered = float(np.square(off).sum()) / len(right) ** 2
    return 2 * math.sqrt(max(plain, clustered))
