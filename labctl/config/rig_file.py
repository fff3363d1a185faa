"""A rig as a person writes it in TOML: drives, rails, instruments, limits."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from instruments.transports.ssh import DESTINATION_PATTERN
from labctl.config.drive_text_rules import (
    AbsolutePath,
    Line,
    OneFolder,
    checked_nbd_address,
    checked_path,
)
from labctl.config.rail import ChannelName, Finite, Name, Positive, Rail, channel_alone
from labctl.record.header import SensorOf
from labctl.record.phase import parse_size

FIO_INSTRUMENT = "fio"
"""What fio reports while it runs is recorded under this instrument's name."""

MAX_AGE_DAYS = 30.0
"""How old a zero may be where the rig says nothing. Thermal voltages and a meter's own offset
wander with the seasons of a lab; what they do within a month is in the data sheet's floor."""
TAKEN_RAIL = re.compile(r"u|unthrottled|(?:min|max|std)(?:_.*)?|.*_u")
"""Names no rail may have: ``watts_<rail>`` would be another number's column."""


class Drive(BaseModel):
    """The drive under test. ``target`` is a device, a scratch file, or an NBD address."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    engine: Literal["io_uring", "libaio", "posixaio", "psync", "pvsync2", "sync", "nbd"] = "libaio"
    target: Annotated[str, Field(min_length=1)]
    model: Line = ""
    serial: Line = ""
    size_bytes: Annotated[int, BeforeValidator(parse_size), Field(gt=0)] | None = None
    warning_celsius: Finite | None = None
    critical_celsius: Finite | None = None
    write_bytes_per_s: Annotated[int, BeforeValidator(parse_size), Field(gt=0)] = 1_000_000_000
    """Only for estimates of time and bytes written."""
    destructive: Annotated[bool, Field(strict=True)] = False
    smart_device: AbsolutePath = ""
    """What to ask for SMART where the target is no drive itself (an NBD address, a RAID)."""
    tools: OneFolder = ""
    """A folder on the drive's host whose nvme and smartctl come before those on PATH."""

    @field_validator("target")
    @classmethod
    def _target(cls, target: str, info: ValidationInfo) -> str:
        is_nbd = info.data.get("engine") == "nbd"
        return checked_nbd_address(target) if is_nbd else checked_path(target)


class Temperature(BaseModel):
    """A temperature: its channel and, where there are several drives, whose it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    channel: ChannelName
    drive: Name | None = None
    of: SensorOf | None = None
    """What it measures; left out: see :meth:`labctl.config.rig.Rig.temperature_of`."""


class HostPower(BaseModel):
    """Watts of the machine that the drive is in, or of a part of it: shown beside the drive's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    channel: ChannelName
    includes_drive: Annotated[bool, Field(strict=True)] = False
    """What is measured also feeds the drive: only then has the drive a share of it."""


class Limits(BaseModel):
    """What must not be passed while a run is on, and what happens when it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    celsius: Finite | None = None
    """Of the drive."""
    when_hot: Literal["pause", "abort"] = "pause"
    """Pause: the phase is given up, the drive cools down, and the phase is done again."""
    resume_celsius: Finite | None = None
    """How cool it must be to go on; 10 °C below the limit if left out."""
    cool_within_s: Positive = 1800.0
    """A drive that is not as cool by then aborts the run."""
    watts: Positive | None = None
    """Of all rails together: more aborts the run."""
    when_out_of_tolerance: Literal["warn", "abort"] = "warn"
    """A rail's volts outside its tolerance."""
    free_disk: Annotated[int, BeforeValidator(parse_size), Field(ge=0)] | None = None
    """Of the journal's disk: less aborts the run. Left out: 500 MB, and only a warning."""
    hours: Positive | None = None
    """A run that is on for longer is aborted."""

    @property
    def cool_celsius(self) -> float:
        """How cool the drive must be to go on after a pause. Needs ``celsius``."""
        assert self.celsius is not None
        return self.celsius - 10.0 if self.resume_celsius is None else self.resume_celsius

    @model_validator(mode="after")
    def _resumes_below(self) -> Limits:
        if self.resume_celsius is not None and (
            self.celsius is None or self.resume_celsius >= self.celsius
        ):
            raise ValueError("resume_celsius must be below celsius")
        return self


class CalibrationLimits(BaseModel):
    """How long zeros hold, and which meters are checked against each other."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_age_days: Positive = MAX_AGE_DAYS
    compare: tuple[tuple[ChannelName, ChannelName], ...] = ()
    """Pairs of channels that measure the same."""


class InstrumentEntry(BaseModel):
    """An instrument: its driver, how badly it is needed, and the driver's own settings."""

    model_config = ConfigDict(frozen=True, extra="allow")

    driver: str
    required: Literal["at_start", "always", "never"] = "at_start"

    @property
    def settings(self) -> dict[str, Any]:
        """What belongs to the driver."""
        return dict(self.__pydantic_extra__ or {})


class RigFile(BaseModel):
    """The rig file as it stands."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    host: Annotated[str, Field(pattern=DESTINATION_PATTERN)] = "local"
    """Where the drive is: "local", or an ssh destination (``user@box``, a name of ssh_config)."""
    drive: Drive | None = None
    drives: dict[Name, Drive] = Field(default_factory=dict)
    """Several drives that work at the same time, instead of ``drive``."""
    rails: dict[Name, Rail] = Field(min_length=1)
    temperatures: dict[Name, Annotated[Temperature, BeforeValidator(channel_alone)]] = Field(
        default_factory=dict
    )
    host_power: dict[Name, Annotated[HostPower, BeforeValidator(channel_alone)]] = Field(
        default_factory=dict
    )
    instruments: dict[Name, InstrumentEntry] = Field(min_length=1)
    limits: Limits = Limits()
    calibration: CalibrationLimits = CalibrationLimits()
    sinks: dict[Literal["influxdb", "mqtt"], dict[str, Any]] = Field(default_factory=dict)
    """Where runs are sent; each section is read by its sink."""

    @property
    def fingerprint(self) -> str:
        """What its rails and instruments are, in 16 digits: it changes when one of them does."""
        data = self.model_dump(mode="json", include={"rails", "instruments"})
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
