"""What a series of runs shows: plain values, as ``labctl trend --json`` prints them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from labctl.analysis.compare.conditions import ConditionChange
from labctl.analysis.estimate import Estimate
from labctl.analysis.stats.series_candidates import CandidateKind


class TrendVerdict(StrEnum):
    """What a series shows."""

    MOVED = "moved"
    NOTHING = "nothing moved"
    TOO_FEW = "too few runs"


@dataclass(frozen=True, slots=True)
class TrendRun:
    """A run of a series. ``changed``: what was otherwise than in the one before."""

    number: int
    run_id: str
    begin_ns: int
    outcome: str
    throttled: int
    celsius: float | None
    changed: tuple[ConditionChange, ...]


@dataclass(frozen=True, slots=True)
class MovedPoint:
    """How far one quantity moved at one point: ``change`` is (after − before) / before.

    Its ``u`` (about 95 %) holds the scatter of the runs and what instruments allow that were not
    the same; its ``repeatability`` is without these. ``worse``: to the bad side.
    """

    point: str
    quantity: str
    change: Estimate
    p: float
    worse: bool
    by_meters: bool
    """Not more than other instruments, or a drift of the same ones, allow."""


@dataclass(frozen=True, slots=True)
class LevelChange:
    """What some points did together.

    ``run``: the number of the first run after a step (from 1); ``first`` and ``last``: it may also
    be one of these. ``changed``: what was otherwise from there on. ``maybe``: what else it may be.
    """

    kind: CandidateKind
    run: int
    run_id: str
    begin_ns: int
    first: int
    last: int
    changed: tuple[ConditionChange, ...]
    state: tuple[str, str]
    maybe: tuple[CandidateKind, ...]
    moved: tuple[MovedPoint, ...]
    warmer_kelvin: float | None = None
    """By how much the drive began the runs warmer from there on, where that is much."""

    @property
    def real(self) -> bool:
        """Whether it is more than the meters allow, at one point or more."""
        return any(not one.by_meters for one in self.moved)

    @property
    def p(self) -> float:
        """The smallest chance of its points."""
        return min(one.p for one in self.moved)


@dataclass(frozen=True, slots=True)
class OutOfLine:
    """A single run that is no part of the others: the points where, and by how much.

    ``newest``: it is the last one, and may be the first of a new level.
    """

    run: int
    run_id: str
    newest: bool
    points: tuple[MovedPoint, ...]
    changed: tuple[ConditionChange, ...]
    throttled: int


@dataclass(frozen=True, slots=True)
class TrendRow:
    """One quantity at one point through the series.

    ``values`` and ``levels`` are of each run. ``scatter``: the standard deviation of a run, a part;
    ``dark``: what of it runs do not show within themselves. ``newest``: the
    level of the newest run against that of the first; its ``u`` is what counts. None where the
    series is too short to tell any.
    """

    point: str
    quantity: str
    unit: str
    better: int
    values: tuple[float | None, ...]
    levels: tuple[float | None, ...]
    scatter: float | None
    dark: float | None
    tells: float | None
    """The step in the middle of the series that is found with 95 % chance, a part."""
    newest: Estimate | None
    moved: bool


@dataclass(frozen=True, slots=True)
class TrendSeries:
    """The runs of one drive, plan and rig, and what they show."""

    rig: str
    plan: str
    scale: float
    drive_model: str
    drive_serial: str
    plan_version: int
    plan_versions: int
    runs: tuple[TrendRun, ...]
    verdict: TrendVerdict
    changes: tuple[LevelChange, ...]
    outliers: tuple[OutOfLine, ...]
    rows: tuple[TrendRow, ...]
    autocorrelation: float
    newest_state: int
    """Runs since the firmware changed, or since anything did; 0: nothing did."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trend:
    """All series, those with the most runs first."""

    series: tuple[TrendSeries, ...]
