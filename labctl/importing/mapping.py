"""What the columns of a meter's CSV are: guessed, given or kept, as TOML.

A mapping is a file of tables ``[[meters]]``, one a file::

    [[meters]]
    name = "psu"
    file = "psu-*.csv"
    delimiter = ";"
    decimal = ","
    first_line = 3
    time = ["Date", "Time"]
    time_format = "%d.%m.%Y %H:%M:%S"
    zone = "Europe/Berlin"
    accuracy_pct = 0.5

    [meters.rails.12V]
    volts = { column = "U12" }
    amps = { column = "I12", unit = "mA" }
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from labctl.errors import ConfigurationError, Mistake
from labctl.importing.times import check_zone
from labctl.record.layout import NAME_PATTERN
from labctl.toml_reading import parse_toml, read_configuration, validated

ASSUMED_ACCURACY_PCT = 1.0
"""Of reading, where nobody gives a meter's accuracy: what a plain power supply or USB meter says of
itself. The budget names it as assumed."""

Seconds = Annotated[float, Field(ge=0, le=1e6)]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
HeadingOrNumber = str | Annotated[int, Field(ge=1)]
"""A column by its heading, or by its number from 1."""

UNITS: dict[str, tuple[str, float]] = {
    "V": ("volts", 1.0), "mV": ("volts", 1e-3), "uV": ("volts", 1e-6), "nV": ("volts", 1e-9),
    "A": ("amps", 1.0), "mA": ("amps", 1e-3), "uA": ("amps", 1e-6), "nA": ("amps", 1e-9),
    "W": ("watts", 1.0), "mW": ("watts", 1e-3), "uW": ("watts", 1e-6), "nW": ("watts", 1e-9),
    "kV": ("volts", 1e3), "kA": ("amps", 1e3), "kW": ("watts", 1e3),
}  # fmt: skip
"""By unit: what it is of, and its size. ``µ`` is read as ``u``."""


def micro_as_u(text: str) -> str:
    """A text with ``u`` for micro, which has two signs in Unicode."""
    return text.replace("µ", "u").replace("μ", "u")


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _column_alone(value: Any) -> Any:
    return {"column": value} if isinstance(value, str | int) else value


class Column(_Part):
    """A column by its heading, or by its number from 1; its unit, if the heading does not say it.

    ``unit_column``: where the unit of each reading stands beside it; a reading in a unit of
    something else is none. ``channel``: of a file with a reading a row, only rows that name this
    channel.
    """

    column: HeadingOrNumber
    unit: str = ""
    unit_column: HeadingOrNumber | None = None
    channel: str = ""

    @model_validator(mode="after")
    def _one_unit(self) -> Column:
        if self.unit and self.unit_column is not None:
            raise ValueError("unit is of all readings, unit_column of each: say one of them")
        return self

    @field_validator("unit")
    @classmethod
    def _known_unit(cls, unit: str) -> str:
        if unit and micro_as_u(unit) not in UNITS:
            raise ValueError(f"unit must be one of {', '.join(UNITS)}")
        return micro_as_u(unit)


ColumnAlone = Annotated[Column, BeforeValidator(_column_alone)]


class StatedVolts(_Part):
    """Volts that nobody measured, and how far off they may be: no default for either."""

    volts: Annotated[float, Field(gt=0, le=1000)]
    tolerance_pct: Annotated[float, Field(gt=0, le=50)]


class RailColumns(_Part):
    """What of a rail a file has."""

    volts: ColumnAlone | None = None
    amps: ColumnAlone | None = None
    watts: ColumnAlone | None = None
    stated: StatedVolts | None = None

    @model_validator(mode="after")
    def _something(self) -> RailColumns:
        if self.volts is None and self.amps is None and self.watts is None:
            raise ValueError("name a column: volts, amps or watts")
        if self.stated is not None and (self.volts or self.watts):
            raise ValueError("stated volts go with amps alone")
        return self

    def columns(self) -> Iterator[tuple[str, Column]]:
        """Those that there are, each behind ``volts``, ``amps`` or ``watts``."""
        for kind, column in (("volts", self.volts), ("amps", self.amps), ("watts", self.watts)):
            if column is not None:
                yield kind, column


class Meter(_Part):
    """One file of a meter: its dialect, its time, its columns, what its readings are worth."""

    name: Name
    file: str = ""
    """A pattern of file names (``psu-*.csv``) that it is for; empty: any."""
    delimiter: Annotated[str, Field(pattern=r"^(tab|[^\t])$")] = ","
    """One character, or ``tab``."""
    decimal: Annotated[str, Field(pattern=r"^[.,]$")] = "."
    quote: Annotated[str, Field(max_length=1)] = '"'
    encoding: str = "utf-8"
    heading_line: Annotated[int, Field(ge=0)] = 1
    """Line of the headings, from 1; 0: there are none."""
    first_line: Annotated[int, Field(ge=1)] = 2
    """Line of the first reading."""
    time: Annotated[list[HeadingOrNumber], Field(max_length=2)]
    """The column of the time, or those of the date and of the time; none with ``rows``."""
    time_format: str
    """``iso``; ``epoch_s``, ``epoch_ms``, ``epoch_us``, ``epoch_ns``; since the start ``s``,
    ``ms``, ``us``, ``ns``, ``min``; the directives of strptime (fractions of a second follow);
    or ``rows``, of a file without times, with ``interval_s``."""
    interval_s: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """How far the rows of a file without times are apart."""
    zone: str = ""
    """Of times without one: ``UTC``, ``+02:00``, ``Europe/Berlin``; empty: not known."""
    channel_column: HeadingOrNumber | None = None
    rails: Annotated[dict[Name, RailColumns], Field(min_length=1)]
    accuracy_pct: Annotated[float, Field(ge=0, le=50)] | None = None
    """Limit of error, % of reading, of each column."""
    accuracy_volts: Annotated[float, Field(ge=0)] = 0.0
    accuracy_amps: Annotated[float, Field(ge=0)] = 0.0
    """The parts of the limits that do not depend on the reading."""
    aperture_s: Seconds | None = None
    """Over how long a reading is the mean; left out: anything up to the interval."""
    stamp: Annotated[str, Field(pattern=r"^(begin|middle|end)$")] | None = None
    """Which moment of it the time is; left out: any."""
    offset_s: float | None = None
    """What to add to its times to get fio's."""
    offset_u_s: Seconds | None = None

    @field_validator("zone")
    @classmethod
    def _known_zone(cls, zone: str) -> str:
        check_zone(zone)
        return zone

    @property
    def field_end(self) -> str:
        """The character that ends a field."""
        return "\t" if self.delimiter == "tab" else self.delimiter

    @model_validator(mode="after")
    def _keys_agree(self) -> Meter:
        if self.delimiter == self.decimal:
            raise ValueError("delimiter and decimal must differ")
        if self.first_line <= self.heading_line:
            raise ValueError("first_line must come after heading_line")
        if (self.time_format == "rows") != (self.interval_s is not None):
            raise ValueError("interval_s goes with the time_format rows, and so back")
        if (self.time_format == "rows") != (not self.time):
            raise ValueError("time names a column, or none with the time_format rows")
        return self


class Mapping(_Part):
    """All meters of an import."""

    meters: Annotated[list[Meter], Field(min_length=1)]

    def of(self, file: Path) -> Meter | None:
        """The meter that a file is of: the first one whose pattern has its name."""
        return next((one for one in self.meters if fnmatch(file.name, one.file or "*")), None)


def load_mapping(path: Path) -> Mapping:
    """A mapping that was kept. Raises ConfigurationError with every mistake."""
    return parse_mapping(read_configuration(path), str(path))


def parse_mapping(text: str, file: str) -> Mapping:
    """A mapping of its text. Raises ConfigurationError with every mistake."""
    return validated(Mapping, parse_toml(text, file), file)


def mapping_text(mapping: Mapping) -> str:
    """A mapping as TOML: :func:`parse_mapping` reads it back."""
    parts = []
    for meter in mapping.meters:
        data = meter.model_dump(exclude_none=True, exclude={"rails"})
        lines = [
            "[[meters]]",
            *(f"{key} = {_mapping_value_text(value)}" for key, value in data.items()),
        ]
        for name, rail in meter.rails.items():
            lines += ["", f"[meters.rails.{_mapping_value_text(name)}]"]
            columns = rail.model_dump(exclude_none=True, exclude_defaults=True)
            lines += [f"{key} = {_mapping_value_text(value)}" for key, value in columns.items()]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _mapping_value_text(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{ "
            + ", ".join(f"{key} = {_mapping_value_text(one)}" for key, one in value.items())
            + " }"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_mapping_value_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def not_there(file: Path, key: str, value: object, allowed: str) -> ConfigurationError:
    """One mistake about a file of a meter."""
    return ConfigurationError([Mistake(str(file), key, value, allowed)])
