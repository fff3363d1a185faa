"""What the analysis finds in a run: plain values, each watt with its uncertainty.

Everything here can be written as JSON (``summary.json``) and read back the same. Times are ns on
the run's timebase, ``None`` means "not measured" or "cannot be measured", never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from labctl.fio.results import Direction
from labctl.record.calibration_used import UsedCalibration
from labctl.record.drive_state import DriveState
from labctl.record.json_values import plain_json
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.point_end import PointEnd
from labctl.rounded import rounded

COVERAGE_FACTOR = 2.0
"""k of every expanded uncertainty ``u`` in this module (about 95 %; GUM, JCGM 100:2008, 6.2)."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its expanded uncertainty and its repeatability, in the unit of its name.

    ``u`` (about 95 %) is of what was measured: of a phase, its mean over just this window of time,
    with all limits of the instruments.
    """

    value: float
    u: float
    repeatability: float | None = None
    """Half-width (about 95 %) within which the same phase would come out again on the same meters,
    from how the drive varies within it or from repeats; no limits of instruments are in it. None
    where it is not known."""

    def scaled(self, factor: float) -> Estimate:
        """The estimate in another unit, or per something: all parts times ``factor`` > 0."""
        again = self.repeatability
        return Estimate(
            self.value * factor, self.u * factor, None if again is None else again * factor
        )

    def covers(self, truth: float) -> bool:
        """Whether ``truth`` is inside value ± u."""
        return abs(self.value - truth) <= self.u


@dataclass(frozen=True, slots=True)
class Component:
    """One line of an uncertainty budget: standard uncertainty (k = 1) in watts.

    ``kind`` is "A" (from the scatter of the readings) or "B" (from anything else).
    """

    name: str
    kind: str
    watts: float
    how: str
    dof: float = float("inf")
    """Degrees of freedom; infinite for a limit of a data sheet."""
    source: str = ""
    """Lines of several rails with the same source are one error: they add up linearly."""
    part: str = ""
    """"gain" for an error in proportion to the reading, "zero" for one that adds the same to
    every reading, else empty."""
    distribution: str = "normal"
    """What the standard uncertainty follows from: "normal" (a scatter, a certificate's U/k),
    "rectangular" (limits a: a/√3) or "U-shaped" (an amplitude a: a/√2)."""


@dataclass(frozen=True, slots=True)
class Series:
    """Plain statistics of a quantity over a phase. ``n`` readings; ``n_effective`` of the mean.

    ``min`` and ``max`` are of the readings, each a mean over the meter's aperture.
    """

    mean: float
    min: float
    max: float
    std: float
    n: int
    n_effective: float

    def scaled(self, factor: float) -> Series:
        """The series of the quantity times a ``factor`` > 0."""
        return replace(
            self,
            mean=self.mean * factor,
            min=self.min * factor,
            max=self.max * factor,
            std=self.std * factor,
        )


def no_watts_note(rail: str, why: str) -> str:
    """The note of a phase in which a rail has no watts; without ``why`` how each of them begins."""
    return f"{rail}: no watts, {why}"


def length_text(seconds: float) -> str:
    """A length of time as a person writes it: ``100 µs``, ``1 s``, ``15 min``."""
    if seconds >= 120 and seconds % 60 == 0:
        return f"{seconds / 60:g} min"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size * 0.9995:
            return f"{rounded(seconds / size)} {unit}"
    return f"{rounded(seconds * 1e9)} ns"


@dataclass(frozen=True, slots=True)
class WindowMaximum:
    """The largest mean power over any window of one length in a phase."""

    window_s: float
    watts: Estimate | None
    """None where there is no such window, and ``why``."""
    begin_ns: int | None
    """Where the window begins, on the run's timebase."""
    why: str = ""
    blocked_s: float = 0.0
    """Seconds of the phase at which a window could begin and is none, because readings are missing
    in it: what was drawn there is not known."""

    @property
    def name(self) -> str:
        """Its length as names of columns and fields have it: ``100us``, ``1s``, ``15min``."""
        return length_text(self.window_s).replace(" ", "").replace("µ", "u")


@dataclass(frozen=True, slots=True)
class RailResult:
    """One rail in one phase. ``watts`` is the mean power, ``joules`` the energy of the phase."""

    volts: Series
    amps: Series
    watts: Estimate
    watts_series: Series
    joules: Estimate
    budget: tuple[Component, ...]
    alignment_ms: float
    covered: float
    """Fraction of the phase that is covered by readings wholly inside it."""
    power_envelope: tuple[WindowMaximum, ...] = ()
    """From the shortest to the longest window."""


@dataclass(frozen=True, slots=True)
class TemperatureResult:
    """One sensor in one phase, °C."""

    start: float
    max: float
    end: float


@dataclass(frozen=True, slots=True)
class HostPower:
    """What a meter of the drive's host read in a phase: beside the drive's watts, in no total.

    Of a meter whose limits of error nobody states, ``u`` of each is not known (NaN).
    """

    watts: Estimate
    drive_share: Estimate | None
    """The drive's watts as a part of these, where the drive is fed from what is measured."""
    iops_per_watt: Estimate | None
    bytes_per_joule: Estimate | None
    """Work for each watt and joule of the host."""


class Cause(StrEnum):
    """Why a drive did less than just before; its text is what ``summary.json`` holds."""

    words: str
    """The cause as a person reads it."""

    THERMAL = "thermal", "thermal throttling"
    POWER_LIMIT = "power_limit", "power limit"
    WRITE_CACHE = "write_cache", "write cache full"
    GARBAGE_COLLECTION = "garbage_collection", "garbage collection"
    HOST_STALL = "host_stall", "host busy or stalled"
    UNKNOWN = "unknown", "slower, cause unknown"

    def __new__(cls, text: str, words: str) -> Cause:
        """A member whose value is ``text``."""
        member = str.__new__(cls, text)
        member._value_ = text
        member.words = words
        return member


THROTTLING = (Cause.THERMAL, Cause.POWER_LIMIT)
"""The causes by which a drive holds itself back; the others are not throttling."""


@dataclass(frozen=True, slots=True)
class ThrottleInterval:
    """A stretch in which the drive did less than it did just before.

    ``evidence``: what was seen, in words and numbers.
    """

    begin_ns: int
    end_ns: int
    phase_index: int
    cause: Cause
    evidence: str
    iops_before: float
    iops_during: float
    watts_before: float | None
    watts_during: float | None
    celsius: float | None
    period_s: float | None = None
    """Of dips that come again: seconds from the begin of one to that of the next."""
    drive: str = ""
    """Which of several drives did less."""
    counters_moved: bool = False
    """The drive's own thermal counters moved in just this stretch."""
    costly: bool = False
    """Each operation took more energy than before."""

    @property
    def duration_s(self) -> float:
        """Seconds from begin to end."""
        return (self.end_ns - self.begin_ns) / 1e9

    @property
    def depth(self) -> float:
        """By what share IOPS fell; NaN when the level before is not known."""
        return 1 - self.iops_during / self.iops_before if self.iops_before else float("nan")

    @property
    def unproven(self) -> bool:
        """Whether heat may be behind it: neither a cause nor energy tells otherwise."""
        return self.cause in (Cause.UNKNOWN, Cause.WRITE_CACHE) and not self.costly


@dataclass(frozen=True, slots=True)
class OwnPower:
    """The drive's own power reading and the meters' watts, means over the same seconds."""

    drive_watts: float
    meter_watts: float
    looks: int

    @property
    def difference(self) -> float:
        """How much more the drive reports, as a fraction of the watts of the meters."""
        return self.drive_watts / self.meter_watts - 1.0 if self.meter_watts else 0.0


class Kept(StrEnum):
    """Whether a drive keeps the error that it states for its own measurement."""

    YES = "kept"
    NO = "not kept"
    UNDECIDED = "undecided"
    """The difference is as near to the stated error as the U of the meters."""
    NOTHING_STATED = "nothing stated"


@dataclass(frozen=True, slots=True)
class OwnMeasurement:
    """What a drive measured of its own power in a phase, and the meters over the same seconds."""

    drive_watts: float
    drive_most_watts: float | None
    """The largest of its intervals of a second."""
    meter_watts: Estimate
    seconds: float
    percent_error: int | None
    """As the drive states it; None where it states none."""
    kept: Kept
    is_estimated: bool = False
    """Whether the drive says that it estimates its power, and does not measure it."""
    bins: tuple[tuple[float, int], ...] = ()
    """Its histogram: the lower threshold of each bin that is not empty, in watts, and how many of
    its seconds were in it."""
    beyond_last_bin: int = 0
    """How many of its seconds were above the histogram."""

    @property
    def difference_pct(self) -> float:
        """How much more the drive reports, in percent of the watts of the meters."""
        return 100 * (self.drive_watts / self.meter_watts.value - 1.0)


@dataclass(frozen=True, slots=True)
class ThrottleVerdict:
    """Whether the drive throttled in a phase: "none seen", "throttled" or "cannot be excluded".

    ``why``: what decided it, in words.
    """

    verdict: str
    why: str


@dataclass(frozen=True, slots=True)
class CpuUse:
    """What the processor of the drive's host did in a phase, everything that ran on it.

    ``cores_pct``: how busy each core was, by its number as text, 0 to 100. ``user_pct`` and
    ``system_pct`` are of all cores together. ``fio_*`` are of its own workers alone, their mean
    in per cent of one core.
    """

    cores_pct: dict[str, float]
    user_pct: float
    system_pct: float
    fio_user_pct: float | None = None
    fio_system_pct: float | None = None

    @property
    def busy_cores(self) -> float:
        """How many cores' worth of work was done."""
        return sum(self.cores_pct.values()) / 100.0

    @property
    def busiest(self) -> tuple[str, float]:
        """The busiest core and its per cent."""
        return max(self.cores_pct.items(), key=lambda item: item[1])


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """One phase: watts, work, and both in relation."""

    phase: Phase
    outcome: str
    """"completed", "interrupted" or "failed"."""
    begin_ns: int
    end_ns: int
    gap_before_ms: float | None
    """From the last I/O of the phase before to the first of this one."""
    rails: dict[str, RailResult]
    watts: Estimate | None
    watts_series: Series | None
    joules: Estimate | None
    marginal_watts: Estimate | None
    """Watts above idle."""
    read: Direction | None
    write: Direction | None
    iops: float | None
    bytes_per_s: float | None
    iops_per_watt: Estimate | None
    bytes_per_joule: Estimate | None
    joules_per_io: Estimate | None
    temperatures: dict[str, TemperatureResult]
    throttled_s: float
    alignment_ms: float | None
    """Half-width of what is unknown about meter time against workload time, worst rail."""
    notes: tuple[str, ...] = ()
    """What a reader must know: peaks not measurable, a rail missing, readings lost …"""
    steady: bool | None = None
    """Whether its IOPS held the level from first to last fifth (SNIA PTS);
    None for an idle phase and one that is too short."""
    throttling: ThrottleVerdict | None = None
    """None for a phase without work."""
    unthrottled_s: float | None = None
    """Seconds that were surely not throttled; the next two are of them."""
    watts_unthrottled: Estimate | None = None
    iops_unthrottled: Estimate | None = None
    """As measured where nothing was throttled; None when too little is left."""
    at_least_watts: float | None = None
    """What all rails drew at least, where readings over range (or lost while the load was high)
    leave no mean; else None."""
    cpu: CpuUse | None = None
    """None where it was not sampled, and in phases that are too short."""
    fio_clock: Estimate | None = None
    """Seconds that fio's clock counted in a second; None where it is not known."""
    point_end: PointEnd | None = None
    """How it ended, where that depended on its numbers."""
    power_envelope: tuple[WindowMaximum, ...] = ()
    """Of all rails together, from the shortest to the longest window."""
    own_measurement: OwnMeasurement | None = None
    """None where the drive does not measure itself, or not for most of the phase."""
    host_power: dict[str, HostPower] = field(default_factory=dict)
    """By the name that the rig gives each meter of the host's watts."""

    @property
    def duration_s(self) -> float:
        """Seconds from first to last I/O (or of idling)."""
        return (self.end_ns - self.begin_ns) / 1e9

    @property
    def throttled(self) -> bool:
        """Whether the drive throttled in it (causes of ``THROTTLING`` only)."""
        return self.throttled_s > 0

    @property
    def celsius_max(self) -> float | None:
        """The highest temperature that any sensor read in the phase, °C."""
        return max((one.max for one in self.temperatures.values()), default=None)


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
