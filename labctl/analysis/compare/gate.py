"""A gate against regressions: how much worse a run may be than the one it is compared with.

A gate file is TOML::

    [[limits]]
    quantity = "iops_per_watt"
    worse_pct = 3

    [[limits]]
    quantity = "latency_p99_us"
    points = "randread 4k*"
    worse_pct = 10

A limit on ``celsius_max`` is in K, and called ``worse_kelvin``. A limit is broken when the run is
worse than it beyond the uncertainty of the difference. When only the uncertainty reaches over it,
it is undecided, which passes unless the gate is strict.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from labctl.analysis.compare.comparison import QUANTITIES, ComparedCell, ComparedRow, Comparison
from labctl.errors import ConfigurationError, Mistake
from labctl.toml_reading import mistakes_of, parse_toml

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
    """One limit at one point of one run, in ``unit`` (% or K). ``worse`` < 0 is better."""

    run: str
    point: str
    quantity: str
    unit: str
    limit: float
    worse: float | None
    u: float | None
    verdict: GateVerdict

    def __str__(self) -> str:
        where = f"{self.run}: {self.point}: {self.quantity}"
        if self.worse is None:
            return f"{where}: not measured in both runs"
        u = f" ± {self.u:.2g}" if self.u is not None else ""
        change = "worse" if self.worse >= 0 else "better"
        return (
            f"{where}: {abs(self.worse):.2f}{u} {self.unit} {change}, {self.limit:g} {self.unit} "
            f"worse allowed: {self.verdict}"
        )


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


def parse_gate(text: str, file: str) -> Gate:
    """The gate described by ``text`` (TOML). Raises ConfigurationError with every mistake."""
    try:
        return Gate.model_validate(parse_toml(text, file))
    except ValidationError as error:
        raise ConfigurationError(mistakes_of(error, file)) from error


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
    """Every limit at every point that it is about, in every run but the first.

    Raises ConfigurationError when a limit is about no point at all: a gate that checks nothing
    must not pass.
    """
    checks: list[GateCheck] = []
    mistakes = []
    for number, limit in enumerate(gate.limits):
        rows = [
            row
            for row in comparison.quantity(limit.quantity)
            if fnmatchcase(row.point, limit.points) and row.cells[0].value is not None
        ]
        if not rows:
            allowed = f"no point with {limit.quantity} fits; the runs have: "
            allowed += "; ".join(dict.fromkeys(row.point for row in comparison.rows))
            mistakes.append(Mistake("gate", f"limits[{number}].points", limit.points, allowed))
        checks += [check for row in rows for check in _checks(row, limit)]
    if mistakes:
        raise ConfigurationError(mistakes)
    return GateResult(tuple(checks), gate.strict)


def _checks(row: ComparedRow, limit: GateLimit) -> Iterator[GateCheck]:
    for cell in row.cells[1:]:
        worse, u, verdict = _judge(row, cell, limit.worse)
        unit = "%" if row.in_parts else "K"
        yield GateCheck(cell.run, row.point, row.quantity, unit, limit.worse, worse, u, verdict)


def _judge(
    row: ComparedRow, cell: ComparedCell, limit: float
) -> tuple[float | None, float | None, GateVerdict]:
    if cell.change is None or not cell.completed:
        return None, None, GateVerdict.MISSING
    factor = 100 if row.in_parts else 1
    worse = -row.better * cell.change.value * factor
    known = math.isfinite(cell.change.u)
    u = cell.change.u * factor if known else 0.0
    if worse - u > limit:
        verdict = GateVerdict.BROKEN
    else:
        verdict = GateVerdict.UNDECIDED if worse + u > limit else GateVerdict.PASSED
    return worse, u if known else None, verdict
