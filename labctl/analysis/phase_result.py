"""What the analysis finds in one phase: plain values, each watt with its uncertainty.

Times are ns on the run's timebase, ``None`` means "not measured" or "cannot be measured", never
zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from labctl.analysis.estimate import Component, Estimate, Series
from labctl.analysis.throttle_result import ThrottleVerdict
from labctl.fio.results import Direction
from labctl.record.phase import Phase
from labctl.record.point_end import PointEnd
from labctl.rounded import rounded


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
    missing_s: float = 0.0
    """Seconds in which readings are missing: a limit on the mean of the phase cannot pass."""


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
