"""Limits of power that a drive is held against: a file of a person's (TOML), or one of labctl's.

    name = "rack-7"
    [[limits]]
    name = "average"
    over = "15 min"
    max_watts = 14

A limit is on the largest mean over any window of a length, or on the mean of a whole phase
(``over = "phase"``).
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from labctl.errors import ConfigurationError, Mistake
from labctl.toml_reading import is_file, meant, parse_toml, read_configuration, validated

BUILT_IN = Path(__file__).parent / "limits"

LENGTHS_S = {
    "100 µs": 100e-6,
    "1 ms": 1e-3,
    "10 ms": 10e-3,
    "100 ms": 0.1,
    "1 s": 1.0,
    "10 s": 10.0,
    "60 s": 60.0,
    "15 min": 900.0,
}
"""Windows that a limit can be on: those of the power envelope."""

PHASE = "phase"


class PowerLimit(BaseModel):
    """One limit, and the phases that it is about."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=80)]
    rule: Annotated[str, Field(max_length=200)] = ""
    """What of a standard it follows from."""
    over: str
    """Length of the window, or "phase"."""
    max_watts: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    drive_says: Literal["max", "idle"] | None = None
    """In place of ``max_watts``: the maximum or idle power that the drive's table of power states
    gives for the state that the phase was in."""
    tolerance_pct: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Added to the limit."""
    at: Literal["work", "idle"] = "work"
    points: str = "*"
    """Labels of phases, with ``*`` and ``?``."""
    power_state: Annotated[int, Field(ge=0, le=31)] | None = None
    """Only phases in this one."""
    rail: str = ""
    """Of one rail; empty: of all together."""
    interval_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """The longest interval between readings; meters that integrate without gaps may be slower."""
    min_duration_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Shorter phases do not pass."""

    @field_validator("over")
    @classmethod
    def _known(cls, value: str) -> str:
        value = value.replace("us", "µs").replace("μ", "µ")
        if value != PHASE and value not in LENGTHS_S:
            raise ValueError(f"one of {', '.join((*LENGTHS_S, PHASE))}")
        return value

    @model_validator(mode="after")
    def _one_value(self) -> PowerLimit:
        if (self.max_watts is None) == (self.drive_says is None):
            raise ValueError("a limit needs max_watts or drive_says, and one of them alone")
        window_s = self.window_s
        if window_s is None:
            return self
        if self.min_duration_s is not None and window_s > self.min_duration_s:
            raise ValueError(
                f"a window of {self.over} does not fit into min_duration_s "
                f"({self.min_duration_s:g} s)"
            )
        if self.interval_s is not None and self.interval_s > window_s:
            raise ValueError(f"interval_s is longer than a window of {self.over}")
        return self

    @property
    def window_s(self) -> float | None:
        """Length of its window; None: the whole phase."""
        return LENGTHS_S.get(self.over)

    def is_about(self, label: str, idle: bool, power_state: int | None) -> bool:
        """Whether it is about a phase."""
        if idle != (self.at == "idle") or not fnmatchcase(label, self.points):
            return False
        return self.power_state is None or power_state == self.power_state


class PowerLimits(BaseModel):
    """Limits that belong together. ``source``: the edition that was read, and what was not."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
    summary: str = ""
    source: str = ""
    limits: Annotated[list[PowerLimit], Field(min_length=1)]

    @model_validator(mode="after")
    def _none_contradicts(self) -> PowerLimits:
        lines = list(_contradictions(self.limits))
        if lines:
            raise ValueError("; ".join(lines))
        return self


def _contradictions(limits: list[PowerLimit]) -> Iterator[str]:
    """Limits with one name, or of one thing with two values; and a limit on a longer window, which
    can never be above what a shorter one allows, that allows more."""
    for number, one in enumerate(limits):
        for other_number, other in enumerate(limits[:number]):
            alike = ("at", "points", "power_state", "rail")
            if all(getattr(one, key) == getattr(other, key) for key in ("name", "over", "rail")):
                yield (
                    f"limits[{other_number}] and limits[{number}] have one name ({one.name}), and "
                    "window and rail are the same: verdicts are told by these"
                )
            if any(getattr(one, key) != getattr(other, key) for key in alike):
                continue
            names = f"limits[{other_number}] ({other.name}) and limits[{number}] ({one.name})"
            if one.over == other.over and one.drive_says == other.drive_says:
                yield f"{names} are both on {one.over} of the same phases"
                continue
            values = [_watts(limit) for limit in (one, other)]
            spans = [limit.window_s or float("inf") for limit in (one, other)]
            if None in values:
                continue
            (_, short), (_, long) = sorted(zip(spans, values, strict=True))
            if short is not None and long is not None and long > short:
                yield (
                    f"{names} contradict each other: a mean over a longer window is never above "
                    f"the largest over a shorter one, which may be {short:g} W at most"
                )


def _watts(limit: PowerLimit) -> float | None:
    return None if limit.max_watts is None else limit.max_watts * (1 + limit.tolerance_pct / 100)


def built_in_limits() -> dict[str, Path]:
    """The limits that come with labctl, by name."""
    return {path.stem: path for path in sorted(BUILT_IN.glob("*.toml"))}


def parse_limits(text: str, file: str) -> PowerLimits:
    """The limits that ``text`` (TOML) says. Raises ConfigurationError with every mistake."""
    return validated(PowerLimits, parse_toml(text, file), file)


def load_limits(name_or_file: str) -> PowerLimits:
    """Limits of labctl by their name, or of a file. Raises ConfigurationError when there are
    none."""
    known = built_in_limits()
    path = known.get(name_or_file, Path(name_or_file))
    if not is_file(path):
        hint = meant(name_or_file, known) or f"; built-in limits: {', '.join(known)}"
        raise ConfigurationError(
            [Mistake("limits", "--limits", name_or_file, f"no such file{hint}")]
        )
    return parse_limits(read_configuration(path), str(path))
