"""Plans: what to do, as data, expanded to a list of phases before anything is touched.

A plan is a TOML file::

    name = "power-per-qd"
    summary = "Watts, IOPS and IOPS per watt at each queue depth"
    idle_before_s = 30
    idle_after_s = 30

    [[sweeps]]
    name = "4 KiB random read"
    pattern = "randread"
    block_size = "4k"
    queue_depth = [1, 2, 4, 8, 16, 32]
    duration_s = 180

Every axis takes one value or a list; lists multiply, the last axis fastest.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from labctl.errors import ConfigurationError, Mistake
from labctl.mistakes import is_file, mistakes_of, read_configuration
from labctl.phase import Pattern, Phase, Role, format_size, parse_size
from labctl.steps import Fill, Seconds, Size, Step

__all__ = [
    "ASYNC_ENGINES",
    "Pattern",
    "Phase",
    "Plan",
    "Role",
    "Sweep",
    "built_in_plans",
    "format_size",
    "load_plan",
    "parse_plan",
    "parse_size",
]

BUILT_IN = Path(__file__).parent / "plans"

ASYNC_ENGINES = ("io_uring", "libaio", "nbd", "posixaio", "io_uring_cmd", "windowsaio")
"""fio engines in which a queue depth above 1 is real. In a sync engine it is silently 1."""


def _one_or_many(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _sizes(value: Any) -> Any:
    return [parse_size(item) for item in _one_or_many(value)]


Sizes = Annotated[
    list[Annotated[int, Field(ge=512, le=1 << 30, multiple_of=512)]],
    BeforeValidator(_sizes),
    Field(min_length=1),
]
Depths = Annotated[
    list[Annotated[int, Field(ge=1, le=65536)]], BeforeValidator(_one_or_many), Field(min_length=1)
]
JobCounts = Annotated[
    list[Annotated[int, Field(ge=1, le=1024)]], BeforeValidator(_one_or_many), Field(min_length=1)
]
Shares = Annotated[
    list[Annotated[int, Field(ge=0, le=100)]], BeforeValidator(_one_or_many), Field(min_length=1)
]
IoPattern = Literal["read", "write", "randread", "randwrite", "rw", "randrw"]
Patterns = Annotated[list[IoPattern], BeforeValidator(_one_or_many), Field(min_length=1)]
PowerStates = Annotated[
    list[Annotated[int, Field(ge=0, le=31)]], BeforeValidator(_one_or_many), Field(min_length=1)
]


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


class Sweep(BaseModel):
    """A block of phases: the product of its axes (pattern, block size, read share, jobs, QD)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(max_length=200)] = ""
    pattern: Patterns
    block_size: Sizes = Field(default=[4096])
    queue_depth: Depths = Field(default=[1])
    jobs: JobCounts = Field(default=[1])
    read_pct: Shares = Field(default=[100])
    duration_s: Seconds
    span: Size | None = None
    buffer_compress_pct: Annotated[int, Field(ge=0, le=100)] = 0
    power_state: PowerStates | None = None
    """NVMe power states, the slowest axis; the state before the run is put back at its end."""
    prepare: list[Step] = []
    """Steps just before this sweep."""
    start_celsius: Annotated[float, Field(ge=-40, le=120)] | None = None
    """Before each phase the drive cools down to this, so that all start alike."""
    start_within_s: Seconds = 900.0
    rounds: Annotated[int, Field(ge=1, le=1440)] = 1
    """More than 1: all points come again until each is steady (SNIA PTS), at most so often."""
    track: list[Tracked] = []
    """The points that must be steady; all of them where none is named."""

    @model_validator(mode="after")
    def _share_needs_mix(self) -> Sweep:
        mixed = any(Pattern(pattern).mixed for pattern in self.pattern)
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

    def points(self) -> Iterator[dict[str, Any]]:
        """The axes of each phase, queue depth fastest, rounds slowest."""
        rounds = range(1, self.rounds + 1) if self.rounds > 1 else (0,)
        states: Sequence[int | None] = self.power_state or (None,)
        for number, state, pattern, block_size, read_pct, jobs, depth in itertools.product(
            rounds, states, self.pattern, self.block_size, self.read_pct, self.jobs,
            self.queue_depth,
        ):  # fmt: skip
            axes = {
                "round": number,
                "power_state": state,
                "pattern": Pattern(pattern),
                "block_size_bytes": block_size,
                "read_pct": read_pct if Pattern(pattern).mixed else _pure_share(pattern),
                "jobs": jobs,
                "queue_depth": depth,
                "span_bytes": self.span,
                "buffer_compress_pct": self.buffer_compress_pct,
                "duration_s": self.duration_s,
            }
            tracked = not self.track or any(item.holds(axes) for item in self.track)
            yield {**axes, "tracked": tracked}

    def cooling(self, round_number: int) -> dict[str, Any]:
        """The axes of the cool-down before each of its phases."""
        return {
            "round": round_number,
            "pattern": Pattern.COOL,
            "duration_s": self.start_within_s,
            "until_celsius": self.start_celsius,
        }


def _pure_share(pattern: str) -> int:
    return 100 if pattern in ("read", "randread") else 0


class Plan(BaseModel):
    """What to do, as data."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
    summary: str = ""
    source: str = ""
    idle_before_s: Annotated[float, Field(ge=0, le=86400)] = 10.0
    idle_after_s: Annotated[float, Field(ge=0, le=86400)] = 10.0
    fill: Fill | None = None
    """Short for one step of preparation: a fill."""
    prepare: list[Step] = []
    """Steps before anything is measured, in their order."""
    governor: Annotated[str, Field(pattern=r"^[a-z_]*$", max_length=32)] = ""
    """The CPU frequency governor while the run is on; the one before is put back."""
    resume: Literal["repeat", "prepare", "forbid"] = "repeat"
    """What a run that was cut off does when it goes on: repeat the phase that was on; prepare the
    drive again before that; or begin anew, since it must be in one piece."""
    sweeps: Annotated[list[Sweep], Field(min_length=1)]

    @model_validator(mode="after")
    def _one_way_to_fill(self) -> Plan:
        if self.fill is not None and self.prepare:
            raise ValueError("fill is short for a step of prepare: say it there")
        return self

    def expand(self, drive_bytes: int | None = None) -> tuple[Phase, ...]:
        """Every phase, in order. ``drive_bytes`` limits spans and sizes fills."""
        phases: list[Phase] = []

        def add(role: Role, **axes: Any) -> None:
            if drive_bytes and axes.get("span_bytes"):
                axes["span_bytes"] = min(axes["span_bytes"], drive_bytes)
            phases.append(Phase(index=len(phases), role=role, **axes))

        def prepare(steps: Sequence[Step], number: int = 0) -> None:
            for step in steps:
                for axes in step.phases(drive_bytes):
                    add(Role.PREPARE, sweep_number=number, **axes)

        prepare(self.prepare if self.fill is None else [self.fill])
        if self.idle_before_s:
            add(Role.IDLE_BEFORE, sweep="idle", pattern=Pattern.IDLE, duration_s=self.idle_before_s)
        for number, sweep in enumerate(self.sweeps, start=1):
            prepare(sweep.prepare)
            for axes in sweep.points():
                named = {"sweep": sweep.name or f"sweep {number}", "sweep_number": number}
                if sweep.start_celsius is not None:
                    add(Role.PREPARE, **named, **sweep.cooling(axes["round"]))
                add(Role.MEASURE, **named, **axes)
        if self.idle_after_s:
            add(Role.IDLE_AFTER, sweep="idle", pattern=Pattern.IDLE, duration_s=self.idle_after_s)
        return tuple(phases)


def parse_plan(text: str, file: str) -> Plan:
    """The plan that ``text`` (TOML) says. Raises ConfigurationError with every mistake."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigurationError([Mistake(file, "TOML", None, str(error))]) from error
    try:
        return Plan.model_validate(data)
    except ValidationError as error:
        raise ConfigurationError(mistakes_of(error, file)) from error


def built_in_plans() -> dict[str, Path]:
    """The plans that come with labctl, by name."""
    return {path.stem: path for path in sorted(BUILT_IN.glob("*.toml"))}


def load_plan(name_or_file: str) -> tuple[Plan, str]:
    """A built-in plan by its name or a plan file, with its text.

    Raises ConfigurationError when there is none, naming those that there are.
    """
    path = built_in_plans().get(name_or_file, Path(name_or_file))
    if not is_file(path):
        known = ", ".join(built_in_plans())
        raise ConfigurationError(
            [Mistake("plan", "name", name_or_file, f"no such file; built-in plans: {known}")]
        )
    text = read_configuration(path)
    return parse_plan(text, str(path)), text
