"""What the analysis finds in a run: plain values.

Everything here can be written as JSON (``summary.json``) and read back the same. Times are ns on
the run's timebase, ``None`` means "not measured" or "cannot be measured", never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from labctl.analysis.estimate import (
    Estimate,
)
from labctl.analysis.phase_result import (
    OwnPower,
    PhaseResult,
)
from labctl.analysis.throttle_result import ThrottleInterval
from labctl.record.calibration_used import UsedCalibration
from labctl.record.drive_state import DriveState
from labctl.record.json_values import plain_json
from labctl.record.phase import Pattern, Role


@dataclass(frozen=True, slots=True)
class ClockResult:
    """How a channel's clock maps to the run's timebase.

    ``drift_ppm`` > 0: the device clock is slow. ``u_ms`` is the half-width of the remaining
    doubt about a reading's time. ``epochs`` counts restarts of the device clock.
    """

    channel: str
    drift_ppm: float
    u_ms: float
    epochs: int
    pairs: int
    offset_ms: float | None = None
    """Only of a drive's host: how far its wall clock was ahead of ours when the run began."""
    drift_u_ppm: float | None = None
    """Only of fio's clock: U of its drift. Each phase is a restart of that clock."""


@dataclass(frozen=True, slots=True)
class EdgeLag:
    """Residual lag of a channel of a rail behind the workload, seen in the data at phase edges.

    An independent check of the clocks: ``lag_ms`` ± ``u_ms`` (k = 2) over ``edges`` edges.
    """

    rail: str
    channel: str
    lag_ms: float
    u_ms: float
    edges: int
    consistent: bool
    """Whether the lag is explained by its own and the clocks' uncertainty."""
    clock_u_ms: float = 0.0
    """Half-width of what the channel's clock leaves unknown at these edges."""


@dataclass(frozen=True, slots=True)
class SourceResistance:
    """What a rail is supplied through (supply, leads, connectors), up to where its volts are known.

    ``ohm`` is by how much the volts fall with the current, from ``steps`` between phases.
    """

    rail: str
    ohm: Estimate
    steps: int
    lowest_amps: float
    """The lowest current that was read without work; 0 where there was none."""
    highest_amps: float
    """The highest current that may have flowed: the highest that was read, or twice as far above
    the lowest as the mean of the busiest phase, if that was active half of the time."""

    @property
    def significant(self) -> bool:
        """Whether it is above its own uncertainty."""
        return self.ohm.value > self.ohm.u


@dataclass(frozen=True, slots=True)
class SteadyRounds:
    """How a sweep with rounds ended: after how many, steady or not.

    ``window`` are the first and the last round (from 1) that its results are the mean of.
    ``written``: it ended because the drive had been written over as often as the plan allows.
    """

    sweep: str
    sweep_number: int
    rounds: int
    reached: bool
    window: tuple[int, int]
    written: bool = False

    def __str__(self) -> str:
        first, last = self.window
        how = f"steady in round {self.rounds}"
        if not self.reached:
            how = f"steady state not reached in {self.rounds} rounds"
        if self.written:
            how += ", which wrote the drive over as often as the plan says"
        return f"{self.sweep}: {how}; each point is the mean of rounds {first} to {last}"


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment with a text: a person's, or a line that a measured program printed."""

    t_ns: int
    text: str
    source: str
    """"person" or "output"."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The result of the analysis of a run."""

    run_id: str
    rig_name: str
    plan_name: str
    drive_model: str
    drive_serial: str
    outcome: str
    """"completed", "aborted", "failed", "interrupted" (cut off) or "running"."""
    reason: str
    begin_ns: int
    end_ns: int
    idle_watts: Estimate | None
    phases: tuple[PhaseResult, ...]
    throttling: tuple[ThrottleInterval, ...]
    clocks: tuple[ClockResult, ...]
    edge_lags: tuple[EdgeLag, ...]
    gap_median_ms: float | None
    problems: tuple[str, ...] = field(default=())
    """Torn records, lost readings, meters that went silent: one line each."""
    labctl_version: str = ""
    drive_state: DriveState | None = None
    drive_counters: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Thermal counters of the drive that moved while the run was on: before, after."""
    own_power: OwnPower | None = None
    source_resistances: tuple[SourceResistance, ...] = ()
    """One a rail whose current differed between phases."""
    steady_rounds: tuple[SteadyRounds, ...] = ()
    """One a sweep with rounds."""
    window_means: tuple[PhaseResult, ...] = ()
    """One a point of these sweeps: the mean over the measurement window."""
    calibration: UsedCalibration | None = None
    """Zeros that were subtracted, and checks of two meters against each other."""
    marks: tuple[Mark, ...] = ()
    """In the order of time."""
    drives: dict[str, RunSummary] = field(default_factory=dict)
    """Where several drives worked at once: the run as each of them saw it, by its name."""
    scale: float = 1.0
    """Below 1 the plan was scaled down: its points in less time on less of the drive."""

    @property
    def measured(self) -> tuple[PhaseResult, ...]:
        """The phases that are results: neither preparation nor idling."""
        return tuple(item for item in self.phases if item.phase.role is Role.MEASURE)

    @property
    def programs(self) -> tuple[PhaseResult, ...]:
        """The phases that measured a person's program."""
        return tuple(item for item in self.phases if item.phase.pattern is Pattern.PROGRAM)

    @property
    def points(self) -> tuple[PhaseResult, ...]:
        """One result a point: of the phases without rounds, and of the measurement windows."""
        single = [item for item in self.measured if not item.phase.round]
        if not self.window_means:
            return self.measured
        return tuple(sorted([*single, *self.window_means], key=lambda item: item.phase.index))

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for ``summary.json``; numbers are Python's own."""
        plain = plain_json(self)
        assert isinstance(plain, dict)
        return plain
