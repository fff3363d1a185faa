"""A gate against regressions: how much worse a run may be than the one it is compared with.

A gate file is TOML::

    [[limits]]
    quantity = "iops_per_watt"
    worse_pct = 3

    [[limits]]
    quantity = "latency_p99_us"
    points = "randread 4k*"
    worse_pct = 10

A limit on ``celsius_max`` is in K, and called ``worse_kelvin``. A limit is broken when repeats show
that the side is worse than it. All limits at all points are judged together: a gate on equal
sides fails about one time in forty by chance. When only the scatter reaches over a
limit it is undecided, which passes unless the gate is strict. One run a side breaks no limit, as it
does not show how runs differ: beyond a limit it is undecided.

The same limits hold for a series of runs (:func:`check_trend`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from labctl.analysis.compare.comparison import (
    ComparedCell,
    ComparedRow,
    Comparison,
    repeated_pair,
)
from labctl.analysis.compare.points import QUANTITIES
from labctl.analysis.compare.repeats import Basis, judge_pairs
from labctl.analysis.compare.trend_results import Trend, TrendRow, TrendSeries
from labctl.analysis.stats.rotation import LEVEL
from labctl.errors import ConfigurationError, Mistake
from labctl.rounded import rounded
from labctl.toml_reading import mistakes_of, parse_toml, validated

R = TypeVar("R", ComparedRow, TrendRow)

QUANTITY_NAMES = tuple(quantity.name for quantity in QUANTITIES)
IN_KELVIN = frozenset(quantity.name for quantity in QUANTITIES if not quantity.in_parts)


class GateLimit(BaseModel):
    """How much worse one quantity may be, at the points whose name fits ``points``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    quantity: str
    worse_pct: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    worse_kelvin: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    points: str = "*"

    @field_validator("quantity")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in QUANTITY_NAMES:
            raise ValueError(f"one of {', '.join(QUANTITY_NAMES)}")
        return value

    @model_validator(mode="after")
    def _one_limit(self) -> GateLimit:
        wanted, other = ("worse_pct", "worse_kelvin")
        if self.quantity in IN_KELVIN:
            wanted, other = other, wanted
        if getattr(self, wanted) is None or getattr(self, other) is not None:
            raise ValueError(f"a limit on {self.quantity} needs {wanted}, and that alone")
        return self

    @property
    def worse(self) -> float:
        """How much worse: percent, or K."""
        found = self.worse_kelvin if self.worse_pct is None else self.worse_pct
        assert found is not None
        return found


class Gate(BaseModel):
    """Limits; ``strict``: what is undecided fails, too."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    limits: Annotated[list[GateLimit], Field(min_length=1)]
    strict: bool = False


class GateVerdict(StrEnum):
    """The verdict of a gate on one figure."""

    PASSED = "passed"
    UNDECIDED = "undecided"
    BROKEN = "broken"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class GateCheck:
    """One limit at one point of one side, in ``unit`` (% or K). ``worse`` < 0 is better.

    ``u``: of ``worse``, from repeats (or, of one run each, from the scatter within them). ``p``:
    the chance to see as much anywhere in the gate, were no limit broken; None without repeats.
    """

    run: str
    point: str
    quantity: str
    unit: str
    limit: float
    worse: float | None
    u: float | None
    verdict: GateVerdict
    basis: Basis | None = None
    p: float | None = None

    def __str__(self) -> str:
        where = f"{self.run}: {self.point}: {self.quantity}"
        if self.worse is None:
            return f"{where}: not measured in both runs"
        u = f" ± {rounded(self.u, 2)}" if self.u is not None else ""
        change = "worse" if self.worse >= 0 else "better"
        return (
            f"{where}: {abs(self.worse):.2f}{u} {self.unit} {change}, {self.limit:g} {self.unit} "
            f"worse allowed: {self.verdict}{self._why}"
        )

    @property
    def _why(self) -> str:
        told = self.verdict is not GateVerdict.UNDECIDED or self.basis is not Basis.SINGLE
        return "" if told else ", cannot be told from one run each"


@dataclass(frozen=True, slots=True)
class GateResult:
    """Every check; ``passed`` is the exit code's side of it."""

    checks: tuple[GateCheck, ...]
    strict: bool

    @property
    def failures(self) -> tuple[GateCheck, ...]:
        """The checks that make the gate fail."""
        bad = {GateVerdict.BROKEN, GateVerdict.MISSING} | (
            {GateVerdict.UNDECIDED} if self.strict else set()
        )
        return tuple(check for check in self.checks if check.verdict in bad)

    @property
    def passed(self) -> bool:
        """Whether nothing fails."""
        return not self.failures

    @property
    def undecided(self) -> tuple[GateCheck, ...]:
        """The checks whose limit is within the scatter, or that one run each cannot decide."""
        return tuple(check for check in self.checks if check.verdict is GateVerdict.UNDECIDED)


def parse_gate(text: str, file: str) -> Gate:
    """The gate described by ``text`` (TOML). Raises ConfigurationError with every mistake."""
    return validated(Gate, parse_toml(text, file), file)


def parse_allowances(texts: Sequence[str]) -> list[GateLimit]:
    """Limits from ``watts=5`` as on a command line. Raises ConfigurationError."""
    limits, mistakes = [], []
    for text in texts:
        quantity, _, percent = text.partition("=")
        try:
            name = quantity.strip()
            key = "worse_kelvin" if name in IN_KELVIN else "worse_pct"
            limits.append(GateLimit.model_validate({"quantity": name, key: float(percent)}))
        except ValidationError as error:
            mistakes += mistakes_of(error, f"--allow {text}")
        except ValueError:
            mistakes.append(Mistake("command line", "--allow", text, "QUANTITY=PERCENT: watts=5"))
    if mistakes:
        raise ConfigurationError(mistakes)
    return limits


def check_gate(comparison: Comparison, gate: Gate) -> GateResult:
    """Every limit at every point that it is about, on every side but the first.

    Raises ConfigurationError when a limit is about no point at all: a gate that checks nothing
    must not pass.
    """
    asked = _asked([row for row in comparison.rows if row.cells[0].value is not None], gate)
    sides = range(1, len(comparison.sides))
    chances = {side: _chances(asked, side, len(sides)) for side in sides}
    checks = [
        _check(row, row.cells[side], limit.worse, chances[side].get(number))
        for number, (row, limit) in enumerate(asked)
        for side in sides
    ]
    return GateResult(tuple(checks), gate.strict)


def check_trend(trend: Trend, gate: Gate) -> GateResult:
    """Every limit at every point that it is about, in each series: the level of the newest run
    against that of the first.

    A change that was found is held against the limit with what a change must exceed to count.
    Where none was found, a limit that one could hide in is undecided. Raises ConfigurationError as
    :func:`check_gate`.
    """
    whose = [(row, series) for series in trend.series for row in series.rows]
    series_of = {id(row): series for row, series in whose}
    asked = _asked([row for row, _ in whose], gate)
    checks = tuple(_check_level(row, series_of[id(row)], limit.worse) for row, limit in asked)
    return GateResult(checks, gate.strict)


def _check_level(row: TrendRow, series: TrendSeries, limit: float) -> GateCheck:
    where = (series.runs[-1].run_id, row.point, row.quantity, "%", limit)
    if row.values[-1] is None:
        return GateCheck(*where, None, None, GateVerdict.MISSING)
    if row.newest is None:
        return GateCheck(*where, 0.0, None, GateVerdict.UNDECIDED, Basis.REPEATS)
    worse, u = -row.better * row.newest.value * 100.0, row.newest.u * 100.0
    verdict = GateVerdict.UNDECIDED if worse + u > limit else GateVerdict.PASSED
    if worse - u > limit:
        verdict = GateVerdict.BROKEN
    return GateCheck(*where, worse, u, verdict, Basis.REPEATS)


def _asked(rows: Sequence[R], gate: Gate) -> list[tuple[R, GateLimit]]:
    """Each row with each limit on it. Raises ConfigurationError for a limit on none."""
    asked: list[tuple[R, GateLimit]] = []
    mistakes = []
    for number, limit in enumerate(gate.limits):
        fitting = [
            row
            for row in rows
            if row.quantity == limit.quantity and fnmatchcase(row.point, limit.points)
        ]
        if not fitting:
            allowed = f"no point with {limit.quantity} fits; the runs have: "
            allowed += "; ".join(dict.fromkeys(row.point for row in rows))
            mistakes.append(Mistake("gate", f"limits[{number}].points", limit.points, allowed))
        asked += [(row, limit) for row in fitting]
    if mistakes:
        raise ConfigurationError(mistakes)
    return asked


def _chances(
    asked: Sequence[tuple[ComparedRow, GateLimit]], side: int, families: int
) -> dict[int, float]:
    """The chance of what was seen at each limit, by its number, where repeats tell it."""
    pairs = {}
    for number, (row, limit) in enumerate(asked):
        part = limit.worse / 100.0 if row.in_parts else limit.worse
        pair = repeated_pair(row, row.cells[side], part)
        if pair is not None and math.isfinite(pair.limit):
            pairs[number] = pair
    verdicts = judge_pairs(list(pairs.values()), families=families, worse=True)
    return {number: verdict.p for number, verdict in zip(pairs, verdicts, strict=True)}


def _check(row: ComparedRow, cell: ComparedCell, limit: float, p: float | None) -> GateCheck:
    unit = "%" if row.in_parts else "K"
    if cell.change is None or not cell.completed:
        return GateCheck(
            cell.run, row.point, row.quantity, unit, limit, None, None, GateVerdict.MISSING
        )
    factor = 100 if row.in_parts else 1
    worse = -row.better * cell.change.value * factor
    known = math.isfinite(cell.change.u)
    u = cell.change.u * factor if known else 0.0
    verdict = GateVerdict.UNDECIDED if worse + u > limit else GateVerdict.PASSED
    if p is not None and p <= LEVEL / 2:
        verdict = GateVerdict.BROKEN
    return GateCheck(
        cell.run, row.point, row.quantity, unit, limit, worse, u if known else None, verdict,
        cell.basis, p,
    )  # fmt: skip
