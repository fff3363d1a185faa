"""The header of a run: rig, drives, rails, channels, plan and phases, as they were recorded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from instruments.reading import Channel
from labctl.errors import ConfigurationError, JournalError
from labctl.record.calibration_used import UsedCalibration
from labctl.record.drive_state import DriveState
from labctl.record.json_values import known, printable_texts
from labctl.record.layout import CHANNEL_NAME, FORMAT, LONGEST_S, NAME_PATTERN, VERBATIM
from labctl.record.phase import Phase
from labctl.record.timebase import Anchor
from labctl.toml_reading import parse_toml

_NAME = re.compile(NAME_PATTERN)


class SensorOf(StrEnum):
    """What a temperature sensor measures."""

    DRIVE = "drive"
    """The drive itself, by its own sensor: what it throttles by, and its limits hold for."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """A channel as the header keeps it; ``name`` is ``instrument.channel``.

    ``accuracy_of_reading`` is a fraction, ``accuracy_floor`` is in ``unit``; times in seconds.
    """

    name: str
    quantity: str
    unit: str
    clock: str = "host"
    interval_s: float = 0.0
    aperture_s: float = 0.0
    accuracy_of_reading: float = 0.0
    accuracy_floor: float = 0.0
    accuracy_source: str = ""
    range: float | None = None
    clock_tick_s: float = 0.0
    time_u_s: float = 0.0
    mains_hz: float = 0.0
    dither: float = 0.0
    """Share of the interval from which the moment of each reading is drawn at random."""

    @classmethod
    def of(cls, instrument: str, channel: Channel) -> ChannelInfo:
        """The header's entry for ``channel`` of ``instrument``."""
        return cls(
            name=f"{instrument}.{channel.name}",
            quantity=channel.quantity.value,
            unit=channel.unit,
            clock=channel.clock.value,
            interval_s=channel.interval_s,
            aperture_s=channel.aperture_s,
            accuracy_of_reading=channel.accuracy.of_reading,
            accuracy_floor=channel.accuracy.floor,
            accuracy_source=channel.accuracy.source,
            range=channel.range,
            clock_tick_s=channel.clock_tick_s,
            time_u_s=channel.time_u_s,
            mains_hz=channel.mains_hz,
            dither=channel.dither,
        )


@dataclass(frozen=True, slots=True)
class RailInfo:
    """A rail as the header keeps it: which channels measure it, and through what shunt.

    ``current`` names a current channel, or the channel of the voltage across the shunt when
    ``shunt_ohm`` is given. The other keys are those of :class:`labctl.config.rail.Current`.
    """

    name: str
    nominal_volts: float
    voltage: str
    current: str
    tolerance_pct: float = 5.0
    shunt_ohm: float | None = None
    shunt_tolerance_pct: float = 0.0
    volts_at: str = "drive"
    shunt_u_ohm: float | None = None
    shunt_k: float = 2.0
    shunt_ppm_per_kelvin: float = 0.0
    shunt_ppm_per_kelvin_limit: float = 0.0
    shunt_reference_celsius: float = 25.0
    shunt_kelvin_per_watt: float = 0.0
    shunt_celsius: tuple[float, float] | None = None
    shunt_temperature: str | None = None
    burden_ohm: float = 0.0
    burden_tolerance_pct: float = 0.0
    load_swing_amps: float | None = None
    """By how much the current swings within one aperture at most, where the rig says it."""

    @property
    def in_series_ohm(self) -> float:
        """Resistance that measuring the current puts into the rail, as far as it is known."""
        return self.shunt_ohm or self.burden_ohm

    @property
    def drop_ohm(self) -> float:
        """Resistance between where the volts are measured and the drive: 0 at the drive."""
        return self.in_series_ohm if self.volts_at == "supply" else 0.0

    drive: str = ""
    """Whose rail it is, where a run has several drives; empty: they share it."""

    def feeds(self, drive: str) -> bool:
        """Whether it is the rail of a drive, or one that drives share. ``drive``: its name; empty
        where a run has one drive only."""
        return not drive or self.drive in ("", drive)


@dataclass(frozen=True, slots=True)
class HostPowerInfo:
    """A meter of the host's watts as the header keeps it: no rail, and in no total."""

    name: str
    channel: str
    includes_drive: bool = False
    """Whether the drive is fed from what is measured."""


@dataclass(frozen=True, slots=True)
class DriveInfo:
    """The drive under test as the rig names it; of several drives, all of them in one."""

    model: str = ""
    serial: str = ""
    target: str = ""
    engine: str = ""
    size_bytes: int | None = None
    warning_celsius: float | None = None
    critical_celsius: float | None = None

    @classmethod
    def together(cls, drives: Sequence[DriveInfo]) -> DriveInfo:
        """Several drives as one: their names joined, the smallest size, the lowest limits."""
        models = [drive.model or "drive" for drive in drives]
        one_model = len(set(models)) == 1
        return cls(
            model=f"{len(models)} × {models[0]}" if one_model else " + ".join(models),
            serial=" + ".join(filter(None, (drive.serial for drive in drives))),
            target=" ".join(drive.target for drive in drives),
            engine=" ".join(dict.fromkeys(drive.engine for drive in drives)),
            size_bytes=_least_in_header([drive.size_bytes for drive in drives]),
            warning_celsius=_least_in_header([drive.warning_celsius for drive in drives]),
            critical_celsius=_least_in_header([drive.critical_celsius for drive in drives]),
        )


def _least_in_header(values: Sequence[N | None]) -> N | None:
    return min((value for value in values if value is not None), default=None)


@dataclass(frozen=True, slots=True)
class Header:
    """What a run is: written once, before the first phase."""

    run_id: str
    rig_name: str
    plan_name: str
    rig_text: str
    plan_text: str
    phases: tuple[Phase, ...]
    channels: tuple[ChannelInfo, ...]
    rails: tuple[RailInfo, ...]
    temperatures: dict[str, str]
    drive: DriveInfo
    anchor: Anchor
    versions: dict[str, str]
    identities: dict[str, str] = field(default_factory=dict)
    drive_state: DriveState | None = None
    """What the drive and its host were; None in runs that did not ask. Of several drives only
    what they have in common: the host, and what they share of it."""
    drives: dict[str, DriveInfo] = field(default_factory=dict)
    """Where several drives worked at once: each, by its name in the rig."""
    drive_states: dict[str, DriveState] = field(default_factory=dict)
    temperature_drives: dict[str, str] = field(default_factory=dict)
    """Whose sensor it is, by the sensor, of those that are one drive's."""
    temperature_of: dict[str, SensorOf] = field(default_factory=dict)
    """What a sensor measures, by the sensor, of those of which the rig says it."""
    host_power: tuple[HostPowerInfo, ...] = ()
    """What measured watts of the drive's host, in the order of the rig."""
    calibration: UsedCalibration | None = None
    """Zeros that the analysis subtracts; None where the rig had no calibration."""
    job: str = ""
    """The scheduler's job that the run is of, as it was named; empty: of none."""
    format: int = FORMAT

    @property
    def scale(self) -> float:
        """By what the plan was scaled down; 1 where it was not, or its text cannot be read."""
        try:
            scale = parse_toml(self.plan_text, "plan").get("scale", 1.0)
        except ConfigurationError:
            return 1.0
        return float(scale) if isinstance(scale, int | float) and 0 < scale < 1 else 1.0

    @property
    def plan_title(self) -> str:
        """The plan's name; of one that was scaled down, also by what: its numbers are others."""
        return self.plan_name + (f" at scale {self.scale:g}" if self.scale != 1 else "")

    def own_sensors(self) -> tuple[str, ...]:
        """The temperatures that are the drive's own."""
        return tuple(
            sensor
            for sensor, channel in self.temperatures.items()
            if is_of_drive(channel, self.temperature_of.get(sensor))
        )

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; :meth:`from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Header:
        """The header that :meth:`to_json` wrote. Raises JournalError when it is newer, one of
        UNREADABLE when it is none: a channel's name is that of a file, a drive's begins that of
        files, and both leave no folder.

        Texts are printable afterwards, but for those that are VERBATIM. Keys that a newer labctl
        added within the same format are left out.
        """
        verbatim = {key: data[key] for key in VERBATIM if key in data}
        data = {**printable_texts(data), **verbatim}
        if data["format"] > FORMAT:
            raise JournalError(
                f"the run was written in format {data['format']}, this labctl reads up to "
                f"{FORMAT}: update labctl"
            )
        header = known(cls, data)
        for number, phase in enumerate(header.phases):
            if phase.index != number:
                raise ValueError(f"phase {number} says that it is phase {phase.index}")
        names = [channel.name for channel in header.channels]
        names += [name for rail in header.rails for name in (rail.voltage, rail.current)]
        names += [one.channel for one in header.host_power]
        for name in (*names, *header.temperatures.values()):
            if not CHANNEL_NAME.fullmatch(name):
                raise ValueError(f"{name[:40]!r} is no name of a channel")
        for name in (*header.drives, *(one.name for one in header.host_power)):
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name[:40]!r} is no name of a drive or of a host's meter")
        for channel in header.channels:
            spans = (channel.interval_s, channel.aperture_s, channel.clock_tick_s, channel.time_u_s)
            if not all(0 <= seconds <= LONGEST_S for seconds in spans):
                raise ValueError(f"{channel.name} takes readings for longer than there is time")
        return header


N = TypeVar("N", int, float)


def is_of_drive(channel: str, of: SensorOf | None) -> bool:
    """Whether a channel is a drive's own sensor: as the rig says; else the ``composite`` one (the
    name that NVMe gives it). A thermocouple that is called after the drive is none."""
    return of is SensorOf.DRIVE if of is not None else channel.endswith(".composite")
