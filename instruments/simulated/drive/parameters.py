"""The parameters of the simulated drive: validated values, read from TOML.

Speeds, times and energies are those of the real drive that is imitated; the model divides its
speed by :attr:`Parameters.speed_divisor` (and multiplies the energy of an operation by it), so
the watts stay those of the real drive while a Python process can serve the I/O.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

REFERENCE = Path(__file__).with_name("reference-scaled.toml")
"""The parameters that are shipped."""

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
PositiveShare = Annotated[float, Field(gt=0, le=1)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DriveIdentity(_Section):
    """The drive's identity, and its counters at the start."""

    model: Annotated[str, Field(min_length=1, max_length=40)]
    serial: Annotated[str, Field(min_length=1, max_length=20)]
    firmware: Annotated[str, Field(min_length=1, max_length=8)]
    capacity_bytes: Annotated[int, Field(ge=1 << 20, multiple_of=4096)]
    starts_full: bool
    """Whether every LBA was written once; unwritten ones are answered without the NAND."""
    endurance_bytes: Annotated[int, Field(gt=0)]
    """Bytes written at which "percentage used" is 100."""
    bytes_written_before: Annotated[int, Field(ge=0)]
    power_on_hours: NotNegative
    power_cycles: Annotated[int, Field(ge=0)]
    max_power_watts: Positive
    """Of power state 0, as Identify Controller gives it."""
    lower_max_power_watts: Annotated[tuple[Positive, ...], Field(max_length=31)]
    """Of power states 1, 2 …: in those the drive slows down so as not to draw more."""

    @model_validator(mode="after")
    def _powers_fall(self) -> Self:
        powers = (self.max_power_watts, *self.lower_max_power_watts)
        if any(one <= other for one, other in pairwise(powers)):
            raise ValueError("lower_max_power_watts must fall from state to state")
        return self


class Nand(_Section):
    """The dies: each serves one thing at a time."""

    dies: Annotated[int, Field(ge=1, le=1024)]
    stripe_bytes: Annotated[int, Field(ge=4096, multiple_of=4096)]
    """Consecutive bytes on one die; the next stripe is on the next die."""
    read_us: Positive
    sequential_read_share: PositiveShare
    """Part of ``read_us`` that a read takes which continues an earlier one (page buffer hit)."""
    program_us: NotNegative
    """A die is busy that long for each ``program_bytes`` of host writes, and reads wait for it."""
    program_bytes: Annotated[int, Field(ge=4096)]


class Controller(_Section):
    """Overheads and the limits of the bus."""

    read_overhead_us: NotNegative
    write_overhead_us: NotNegative
    """From the command to the acknowledgement out of the write buffer."""
    flush_us: NotNegative
    trim_us: NotNegative
    read_bytes_per_s: Positive
    write_bytes_per_s: Positive
    write_operations_per_s: Positive


class Jitter(_Section):
    """Spread of each latency: log-normal, with a mean of one, and a tail."""

    sigma: Annotated[float, Field(ge=0, le=1)]
    tail_share: Annotated[float, Field(ge=0, le=0.1)]
    tail_factor: Annotated[float, Field(ge=1, le=100)]


class WriteCache(_Section):
    """The SLC cache; sizes in it are not divided by the speed divisor."""

    capacity_bytes: Annotated[int, Field(ge=0)]
    direct_write_share: PositiveShare
    """Write speed after its end, as a share of the speed before."""
    direct_energy_factor: Annotated[float, Field(ge=1)]
    drain_delay_s: NotNegative
    """Idle time before it begins to empty itself."""
    drain_bytes_per_s: NotNegative
    drain_watts: NotNegative


class GarbageCollection(_Section):
    """Random writes use up spare blocks; when none is left, steady state begins."""

    spare_bytes: Annotated[int, Field(ge=0)]
    """Random writes until steady state; not divided by the speed divisor."""
    reclaim_bytes_per_s: NotNegative
    """Spare won back while idle; not divided by the speed divisor."""
    steady_random_bytes_per_s: Positive
    write_amplification: Annotated[float, Field(ge=1)]
    """Of random writes in steady state: multiplies their energy."""
    cliff_share: PositiveShare
    """Speed at the begin of steady state, as a share of the settled speed."""
    cliff_recovery_s: Positive
    dip_period_s: Positive
    dip_s: NotNegative
    """Length of the dip that ends each period; 0 = no dips."""
    dip_share: PositiveShare

    @model_validator(mode="after")
    def _dip_fits(self) -> Self:
        if self.dip_s >= self.dip_period_s:
            raise ValueError(f"dip_s ({self.dip_s}) must be less than dip_period_s")
        return self


class Power(_Section):
    """Where the joules go. Energies are those of the real drive, before the speed divisor."""

    idle_watts: Positive
    active_watts: NotNegative
    """Added while any request is in flight."""
    read_operation_uj: NotNegative
    read_byte_nj: NotNegative
    unwritten_read_operation_uj: NotNegative
    write_operation_uj: NotNegative
    write_byte_nj: NotNegative
    trim_operation_uj: NotNegative
    noise_watts: NotNegative
    """Standard deviation of the idle watts from tick to tick."""
    decoupling_ms: Positive
    """Time constant of the board's capacitors, which spread the energy of an operation."""


class OwnPower(_Section):
    """The power measurement of the drive itself."""

    gain: Positive = 1.0
    """What it reads, as a multiple of what the drive draws."""
    percent_error: Annotated[int, Field(ge=0, le=100)] = 5
    """The largest error that it states, in percent."""


class RailParameters(_Section):
    """One supply, as it arrives at the drive."""

    volts: Positive
    """Without load."""
    ohms: NotNegative
    """From the supply to the drive: cable, riser, shunt."""
    ripple_volts: NotNegative
    """Amplitude."""
    ripple_hz: Annotated[float, Field(ge=0, le=450)]
    """Below half the rate of the model's ticks."""
    idle_share: Share
    activity_share: Share


class RailsParameters(_Section):
    """The two supplies; their shares add up to one."""

    rail_12v: RailParameters
    rail_3v3: RailParameters

    @model_validator(mode="after")
    def _shares_add_up(self) -> Self:
        for name in ("idle_share", "activity_share"):
            total = getattr(self.rail_12v, name) + getattr(self.rail_3v3, name)
            if abs(total - 1) > 1e-9:
                raise ValueError(f"{name} of both rails must add up to 1, not {total}")
        return self


class Thermal(_Section):
    """Two bodies: the controller with its NAND (composite) and the case."""

    ambient_celsius: Annotated[float, Field(ge=-60, le=120)]
    composite_joules_per_kelvin: Positive
    case_joules_per_kelvin: Positive
    composite_to_case_kelvin_per_watt: Positive
    case_to_ambient_kelvin_per_watt: Positive
    warning_celsius: float
    """WCTEMP of Identify Controller."""
    critical_celsius: float
    """CCTEMP of Identify Controller."""


class ThrottleLevel(_Section):
    """A throttle level: on at ``enter_celsius``, off at ``leave_celsius``."""

    enter_celsius: float
    leave_celsius: float
    speed_share: PositiveShare

    @model_validator(mode="after")
    def _has_hysteresis(self) -> Self:
        if self.leave_celsius >= self.enter_celsius:
            raise ValueError("leave_celsius must be below enter_celsius")
        return self


class Throttle(_Section):
    """Both levels, and whether the SMART counters count them."""

    light: ThrottleLevel
    heavy: ThrottleLevel
    counted: bool
    """False: the drive throttles but its ``thm_temp*`` counters stay 0, as many do, and so does
    what log page C0h says of throttling."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.heavy.leave_celsius < self.light.leave_celsius:
            raise ValueError("heavy.leave_celsius must not be below light.leave_celsius")
        if self.heavy.enter_celsius <= self.light.enter_celsius:
            raise ValueError("heavy.enter_celsius must be above light.enter_celsius")
        return self


class Parameters(_Section):
    """All of a simulated drive."""

    description: str
    speed_divisor: Positive
    identity: DriveIdentity
    nand: Nand
    controller: Controller
    jitter: Jitter
    write_cache: WriteCache
    garbage_collection: GarbageCollection
    power: Power
    own_power: OwnPower | None = None
    """None: it does not measure itself."""
    rails: RailsParameters
    thermal: Thermal
    throttle: Throttle


def load(path: Path = REFERENCE, overrides: Mapping[str, object] | None = None) -> Parameters:
    """Read ``path``; ``overrides`` are dotted keys (``thermal.ambient_celsius``) and values.

    Raises :class:`pydantic.ValidationError` (all mistakes at once), ``OSError`` or
    :class:`tomllib.TOMLDecodeError`.
    """
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    for dotted, value in (overrides or {}).items():
        _set_drive_parameter(values, dotted.split("."), value)
    return Parameters.model_validate(values)


def override(assignment: str) -> tuple[str, object]:
    """Split ``key=value`` of a command line; the value as TOML has it, else a string."""
    key, equals, text = assignment.partition("=")
    if not (key and equals):
        raise ValueError(f"{assignment!r}: expected key=value")
    try:
        return key, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return key, text


def _set_drive_parameter(values: dict[str, Any], keys: list[str], value: object) -> None:
    for key in keys[:-1]:
        values = values.setdefault(key, {})
        if not isinstance(values, dict):
            raise ValueError(f"{'.'.join(keys)}: {key} is a value, not a section")
    values[keys[-1]] = value
