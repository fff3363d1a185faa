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
import re
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from labctl.errors import ConfigurationError, Mistake
from labctl.mistakes import is_file, mistakes_of, read_configuration

BUILT_IN = Path(__file__).parent / "plans"

ASYNC_ENGINES = ("io_uring", "libaio", "nbd", "posixaio", "io_uring_cmd", "windowsaio")
"""fio engines in which a queue depth above 1 is real. In a sync engine it is silently 1."""

_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?$", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str | int) -> int:
    """Bytes of a size as people write it: ``4096``, ``"4k"``, ``"128 KiB"``, ``"16g"``.

    The letters are powers of 1024, as in fio. Raises ValueError.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = _SIZE.match(str(text).strip())
    if match is None or len(match[1]) > 18:
        raise ValueError("a size such as 4096, '4k', '128k' or '16g' (powers of 1024)")
    return int(float(match[1]) * 1024 ** _POWERS[match[2].lower()])


def format_size(size_bytes: int) -> str:
    """A size as people write it: 4096 → ``4k``, 0.5 KiB → ``512``."""
    for letter, power in (("t", 4), ("g", 3), ("m", 2), ("k", 1)):
        if size_bytes and size_bytes % 1024**power == 0:
            return f"{size_bytes // 1024**power}{letter}"
    return str(size_bytes)


class Pattern(StrEnum):
    """What the host asks of the drive; fio's ``rw=`` names, and idle."""

    IDLE = "idle"
    READ = "read"
    WRITE = "write"
    RANDREAD = "randread"
    RANDWRITE = "randwrite"
    RW = "rw"
    RANDRW = "randrw"

    @property
    def mixed(self) -> bool:
        """Whether a read share applies."""
        return self in (Pattern.RW, Pattern.RANDRW)

    @property
    def random(self) -> bool:
        """Whether addresses are random."""
        return self.value.startswith("rand")


class Role(StrEnum):
    """What a phase is for: only ``measure`` phases are results."""

    IDLE_BEFORE = "idle_before"
    PREPARE = "prepare"
    MEASURE = "measure"
    IDLE_AFTER = "idle_after"


@dataclass(frozen=True, slots=True)
class Phase:
    """One workload at one point of the axes: one fio process. ``index`` counts from 0."""

    index: int
    role: Role
    sweep: str
    pattern: Pattern
    duration_s: float
    block_size_bytes: int = 0
    queue_depth: int = 0
    jobs: int = 0
    read_pct: int = 100
    span_bytes: int | None = None
    buffer_compress_pct: int = 0
    fill_bytes: int | None = None

    @property
    def writes(self) -> bool:
        """Whether it writes to the drive."""
        if self.pattern.mixed:
            return self.read_pct < 100
        return self.pattern in (Pattern.WRITE, Pattern.RANDWRITE)

    @property
    def directions(self) -> tuple[str, ...]:
        """ "read", "write", both or neither."""
        if self.pattern is Pattern.IDLE:
            return ()
        reads = self.read_pct > 0 if self.pattern.mixed else not self.writes
        return ("read",) * reads + ("write",) * self.writes

    @property
    def label(self) -> str:
        """A short name for a person: ``randread 4k QD8``."""
        if self.pattern is Pattern.IDLE:
            return self.role.value.replace("_", " ")
        parts = [self.pattern.value, format_size(self.block_size_bytes), f"QD{self.queue_depth}"]
        if self.pattern.mixed:
            parts.append(f"{self.read_pct}% read")
        if self.jobs > 1:
            parts.append(f"×{self.jobs} jobs")
        return " ".join(parts)

    @property
    def slug(self) -> str:
        """A folder name that sorts in order: ``003_randread-4k-qd8``."""
        words = re.sub(r"[^a-z0-9]+", "-", self.label.lower().replace("×", "x")).strip("-")
        return f"{self.index:03d}_{words}"

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; :meth:`from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Phase:
        """The phase that :meth:`to_json` wrote."""
        return cls(**{**data, "role": Role(data["role"]), "pattern": Pattern(data["pattern"])})


def _one_or_many(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _sizes(value: Any) -> Any:
    return [parse_size(item) for item in _one_or_many(value)]


def _size(value: Any) -> Any:
    return None if value is None else parse_size(value)


Size = Annotated[int, BeforeValidator(_size), Field(gt=0)]
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
Seconds = Annotated[float, Field(gt=0, le=30 * 86400, strict=True)]


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
        """The axes of each phase, queue depth fastest."""
        for pattern, block_size, read_pct, jobs, depth in itertools.product(
            self.pattern, self.block_size, self.read_pct, self.jobs, self.queue_depth
        ):
            yield {
                "pattern": Pattern(pattern),
                "block_size_bytes": block_size,
                "read_pct": read_pct if Pattern(pattern).mixed else _pure_share(pattern),
                "jobs": jobs,
                "queue_depth": depth,
                "span_bytes": self.span,
                "buffer_compress_pct": self.buffer_compress_pct,
                "duration_s": self.duration_s,
            }


def _pure_share(pattern: str) -> int:
    return 100 if pattern in ("read", "randread") else 0


class Fill(BaseModel):
    """Preparation: write the drive sequentially, ``times`` over (the whole of it by default)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    times: Annotated[int, Field(ge=1, le=10)] = 1
    block_size: Size = 128 * 1024
    queue_depth: Annotated[int, Field(ge=1, le=1024)] = 32
    span: Size | None = None


class Plan(BaseModel):
    """What to do, as data."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
    summary: str = ""
    source: str = ""
    idle_before_s: Annotated[float, Field(ge=0, le=86400)] = 10.0
    idle_after_s: Annotated[float, Field(ge=0, le=86400)] = 10.0
    fill: Fill | None = None
    sweeps: Annotated[list[Sweep], Field(min_length=1)]

    def expand(self, drive_bytes: int | None = None) -> tuple[Phase, ...]:
        """Every phase, in order. ``drive_bytes`` limits spans and sizes the fill."""
        phases: list[Phase] = []

        def add(role: Role, **axes: Any) -> None:
            phases.append(Phase(index=len(phases), role=role, **axes))

        if self.fill is not None:
            span = self.fill.span or drive_bytes
            for _ in range(self.fill.times):
                add(
                    Role.PREPARE,
                    sweep="fill",
                    pattern=Pattern.WRITE,
                    duration_s=0.0,
                    block_size_bytes=self.fill.block_size,
                    queue_depth=self.fill.queue_depth,
                    jobs=1,
                    read_pct=0,
                    span_bytes=span,
                    fill_bytes=span,
                )
        if self.idle_before_s:
            add(Role.IDLE_BEFORE, sweep="idle", pattern=Pattern.IDLE, duration_s=self.idle_before_s)
        for number, sweep in enumerate(self.sweeps, start=1):
            for axes in sweep.points():
                if drive_bytes and axes["span_bytes"]:
                    axes["span_bytes"] = min(axes["span_bytes"], drive_bytes)
                add(Role.MEASURE, sweep=sweep.name or f"sweep {number}", **axes)
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
