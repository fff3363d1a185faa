"""Sweeps of a plan: the axes that a person writes, and the phases they make."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from labctl.config.steps import Seconds, Size, Step
from labctl.record.phase import Pattern, Replay, Until, format_size, parse_size
from labctl.trace.replay import demand_of

ASYNC_ENGINES = ("io_uring", "libaio", "nbd", "posixaio", "io_uring_cmd", "windowsaio")
"""fio engines in which a queue depth above 1 is real. In a sync engine it is silently 1."""


T = TypeVar("T")


def one_or_many(value: Any) -> Any:
    """One value as a list of it."""
    return value if isinstance(value, list) else [value]


def _sweep_sizes(value: Any) -> Any:
    return [parse_size(item) for item in one_or_many(value)]


Sizes = Annotated[
    list[Annotated[int, Field(ge=512, le=1 << 30, multiple_of=512)]],
    BeforeValidator(_sweep_sizes),
    Field(min_length=1),
]
Many = Annotated[list[T], BeforeValidator(one_or_many), Field(min_length=1)]
Depths = Many[Annotated[int, Field(ge=1, le=65536)]]
JobCounts = Many[Annotated[int, Field(ge=1, le=1024)]]
Percentages = Many[Annotated[int, Field(ge=0, le=100)]]
PowerLimits = Many[Annotated[float, Field(ge=0.01, le=655.34)]]
"""What a power field holds in hundredths of a watt; 0 and all ones are no limit."""
PowerStates = Many[Annotated[int, Field(ge=0, le=31)]]
Patterns = Many[Literal["read", "write", "randread", "randwrite", "rw", "randrw"]]
SteadyOn = Many[Literal["iops", "watts", "celsius"]]

Resume = Literal["repeat", "prepare", "forbid"]
WhenPhaseFails = Literal["go_on", "end"]

WITHOUT_REPLAY = {
    "pattern", "block_size", "jobs", "read_pct", "duration_s", "span", "buffer_compress_pct",
    "rounds", "track", "steady", "steady_from_drive_writes", "until_drive_writes",
    "steady_temperature_s", "until", "until_pct", "min_duration_s",
}  # fmt: skip
"""Keys of a sweep that say what a trace says itself."""
OTHER_ENDS = {"steady_temperature_s", "until_drive_writes", "steady_from_drive_writes"}
"""Keys of a sweep whose points or rounds end for another reason: a temperature, or what the drive
was written over."""
LONGER = "min_duration_s ({:g} s) is longer than duration_s ({:g} s)"


class Tracked(BaseModel):
    """Points of a sweep whose IOPS decide whether it is steady."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    block_size: Size | None = None
    read_pct: Annotated[int, Field(ge=0, le=100)] | None = None
    queue_depth: Annotated[int, Field(ge=1, le=65536)] | None = None

    def holds(self, axes: dict[str, Any]) -> bool:
        """Whether a phase with these axes is one of them."""
        wanted = {
            "block_size_bytes": self.block_size,
            "read_pct": self.read_pct,
            "queue_depth": self.queue_depth,
        }
        return all(value is None or axes[name] == value for name, value in wanted.items())


Percent = Annotated[float, Field(gt=0, le=100, strict=True)]


class Targets(BaseModel):
    """How well the numbers of a point are to be known, in percent (k = 2)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    watts: Percent | None = None
    iops: Percent | None = None

    @model_validator(mode="after")
    def _one_at_least(self) -> Targets:
        if self.watts is None and self.iops is None:
            raise ValueError("needs watts, iops or both, such as { watts = 0.5, iops = 1.0 }")
        return self


class EndOfPoints(BaseModel):
    """When points end before ``duration_s``: keys of a sweep, or of the plan for all that have none
    of their own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    until: Literal["settled", "duration"] | None = None
    """"settled": when more time would not help. "duration": never, whatever the plan says."""
    until_pct: Targets | None = None
    """When each number is known so well."""
    min_duration_s: Seconds | None = None
    """Not before."""

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.until is not None and self.until_pct is not None:
            raise ValueError("until and until_pct: one of them")
        if self.until == "duration" and self.min_duration_s is not None:
            raise ValueError('min_duration_s: not with until = "duration"')
        return self

    @property
    def says_when(self) -> bool:
        """Whether it says when points end."""
        return self.until is not None or self.until_pct is not None

    def end_of_points(self, least_s: float | None) -> Until | None:
        """When they end, not before ``least_s``; None: after ``duration_s``."""
        if self.until_pct is not None:
            return Until(self.until_pct.watts, self.until_pct.iops, least_s)
        return Until(min_duration_s=least_s) if self.until == "settled" else None


class Sweep(EndOfPoints):
    """A block of phases: the product of its axes (pattern, block size, read share, jobs, QD)."""

    name: Annotated[str, Field(max_length=200)] = ""
    replay: Annotated[str, Field(max_length=4096)] | None = None
    """A trace to replay instead of a pattern; a relative path is beside the plan's file."""
    pattern: Patterns | None = Field(default=None, validate_default=True)
    block_size: Sizes = Field(default=[4096])
    queue_depth: Depths = Field(default=[1])
    jobs: JobCounts = Field(default=[1])
    read_pct: Percentages = Field(default=[100])
    duration_s: Seconds | None = Field(default=None, validate_default=True)
    span: Size | None = None
    buffer_compress_pct: Percentages = Field(default=[0])
    power_state: PowerStates | None = None
    """NVMe power states, the slowest axis; every other phase has the state before the run."""
    power_limit_watts: PowerLimits | None = None
    """Limits that the drive is given (NVMe 2.3); every other phase has the one before the run."""
    prepare: list[Step] = []
    """Steps just before this sweep."""
    start_celsius: Annotated[float, Field(ge=-40, le=120)] | None = None
    """Before each phase the drive cools down to this, so that all start alike."""
    start_within_s: Seconds = 900.0
    rounds: Annotated[int, Field(ge=1, le=1440)] = 1
    """More than 1: all points come again until each is steady (SNIA PTS), at most so often."""
    track: list[Tracked] = []
    """The points that must be steady; all of them where none is named."""
    steady: SteadyOn = ["iops"]
    """What of them must be steady."""
    until_drive_writes: Annotated[float, Field(gt=0, le=1000)] | None = None
    """The rounds end, too, when they have written the drive over this often."""
    steady_from_drive_writes: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """Steady counts only from when they have: a large drive is even before it is full."""
    steady_temperature_s: Seconds | None = None
    """A phase ends before ``duration_s`` when the drive's temperature was steady for this long."""
    replay_disk: Annotated[int, Field(ge=0)] | None = None
    replay_wrap: bool = False
    replay_stalls: bool = True

    @field_validator("pattern", "duration_s")
    @classmethod
    def _needed_without_replay(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None and info.data.get("replay") is None:
            raise ValueError("is missing (or replay = a trace)")
        return value

    @model_validator(mode="after")
    def _one_kind_of_work(self) -> Sweep:
        given = self.model_fields_set
        if self.replay is None:
            strange = sorted(given & {"replay_disk", "replay_wrap", "replay_stalls"})
            if strange:
                raise ValueError(f"{', '.join(strange)}: only with replay")
        elif strange := sorted(given & WITHOUT_REPLAY):
            raise ValueError(f"{', '.join(strange)}: a replay takes these from its trace")
        return self

    @model_validator(mode="after")
    def _share_needs_mix(self) -> Sweep:
        mixed = any(Pattern(pattern).mixed for pattern in self.pattern or ())
        if not mixed and "read_pct" in self.model_fields_set:
            raise ValueError("read_pct needs a mixed pattern (rw or randrw)")
        if mixed and "read_pct" not in self.model_fields_set:
            raise ValueError("a mixed pattern needs read_pct, such as [100, 80, 60, 40, 20, 0]")
        return self

    @model_validator(mode="after")
    def _span_holds_every_job(self) -> Sweep:
        least = max(self.jobs) * max(self.block_size)
        if self.span is not None and self.span < least:
            raise ValueError(
                f"span must hold at least one block of every job: {format_size(least)}"
            )
        return self

    @model_validator(mode="after")
    def _rules_of_rounds_need_rounds(self) -> Sweep:
        rules = {"track", "steady", "until_drive_writes", "steady_from_drive_writes"}
        strange = sorted(self.model_fields_set & rules)
        if self.rounds == 1 and strange:
            raise ValueError(f"{', '.join(strange)}: only with rounds")
        return self

    @model_validator(mode="after")
    def _ends_by_one_rule(self) -> Sweep:
        early = self.until == "settled" or self.until_pct is not None
        if early and (strange := sorted(self.model_fields_set & OTHER_ENDS)):
            raise ValueError(f"{', '.join(strange)}: not with until or until_pct")
        least_s, longest_s = self.min_duration_s, self.duration_s
        if least_s is not None and longest_s is not None and least_s > longest_s:
            raise ValueError(LONGER.format(least_s, longest_s))
        return self

    def until_of(self, whole: EndOfPoints) -> Until | None:
        """When its points end before ``duration_s`` in a plan that says ``whole`` of all; None:
        they do not.

        What the plan says is for measured points alone: not for traces, and not where the end is
        a temperature or what was written, for there the way to it is measured.
        """
        least_s = whole.min_duration_s if self.min_duration_s is None else self.min_duration_s
        if self.says_when:
            return self.end_of_points(least_s)
        other = self.replay is not None or self.model_fields_set & OTHER_ENDS
        return None if other else whole.end_of_points(least_s)

    def points(
        self, drive_bytes: int | None, until: Until | None = None
    ) -> Iterator[dict[str, Any]]:
        """The axes of each phase, queue depth fastest, rounds slowest. ``until``: when each ends
        before ``duration_s``."""
        whole = drive_bytes or 0
        writes = self.until_drive_writes
        rules = {
            "steady_on": tuple(self.steady),
            "steady_from_bytes": round(self.steady_from_drive_writes * whole),
            "rounds_until_bytes": round(writes * whole) if writes and whole else None,
            "steady_temperature_s": self.steady_temperature_s or 0.0,
            "until": until,
        }
        rounds = range(1, self.rounds + 1) if self.rounds > 1 else (0,)
        for number, power, compress_pct, pattern, block_size, read_pct, jobs, depth in product(
            rounds, self._powers(), self.buffer_compress_pct, self.pattern or (), self.block_size,
            self.read_pct, self.jobs, self.queue_depth,
        ):  # fmt: skip
            axes = {
                "round": number,
                **power,
                "pattern": Pattern(pattern),
                "block_size_bytes": block_size,
                "read_pct": read_pct if Pattern(pattern).mixed else 100 * ("read" in pattern),
                "jobs": jobs,
                "queue_depth": depth,
                "span_bytes": self.span,
                "buffer_compress_pct": compress_pct,
                "duration_s": self.duration_s,
            }
            tracked = not self.track or any(item.holds(axes) for item in self.track)
            yield {**axes, **rules, "tracked": tracked}

    def replays(self, drive_bytes: int | None) -> Iterator[dict[str, Any]]:
        """The axes of each phase that replays the trace, queue depth fastest.

        Raises TraceError when it cannot be read or does not fit a drive of ``drive_bytes``.
        """
        assert self.replay is not None
        replay = Replay(self.replay, self.replay_disk, self.replay_wrap, self.replay_stalls)
        demand = demand_of(replay, drive_bytes)
        for power, depth in product(self._powers(), self.queue_depth):
            yield {
                "round": 0,
                **power,
                "pattern": Pattern.REPLAY,
                "queue_depth": depth,
                "jobs": 1,
                "read_pct": demand.read_pct,
                "duration_s": demand.duration_s,
                "replay": replay,
            }

    def _powers(self) -> list[dict[str, Any]]:
        """Power state and limit, the slowest axes."""
        return [
            {"power_state": state, "power_limit_watts": watts}
            for state in self.power_state or (None,)
            for watts in self.power_limit_watts or (None,)
        ]

    def cooling(self, axes: dict[str, Any]) -> dict[str, Any]:
        """The axes of the cool-down before the phase with ``axes``, in the same power state."""
        return {
            "round": axes["round"],
            "power_state": axes["power_state"],
            "power_limit_watts": axes["power_limit_watts"],
            "pattern": Pattern.COOL,
            "duration_s": self.start_within_s,
            "until_celsius": self.start_celsius,
        }
