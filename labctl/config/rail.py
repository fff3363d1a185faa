"""How a rail is measured: which channels, across what shunt, and on which side of it the volts.

The drive's power is asked for. A shunt or an ammeter in the rail drops some of its volts (the
burden voltage): whoever measures the volts on the supply's side of it measures the drop, too.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from labctl.record.layout import NAME_PATTERN

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
"""What a rig calls its rails, drives, sensors and instruments."""
_CHANNEL = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


def _rail_channel_name(name: str) -> str:
    if not _CHANNEL.fullmatch(name):
        raise ValueError("must name a channel as instrument.channel, such as 'v12.voltage'")
    return name


ChannelName = Annotated[str, AfterValidator(_rail_channel_name)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Celsius = Annotated[float, Field(ge=-60, le=200, allow_inf_nan=False)]

_OF_A_SHUNT = (
    "shunt_tolerance_pct",
    "shunt_u_ohm",
    "shunt_k",
    "shunt_ppm_per_kelvin",
    "shunt_ppm_per_kelvin_limit",
    "shunt_reference_celsius",
    "shunt_kelvin_per_watt",
    "shunt_celsius",
    "shunt_temperature",
)


class Current(BaseModel):
    """How a rail's current is measured: directly, or as the voltage across a shunt."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    channel: ChannelName
    shunt_ohm: Positive | None = None
    shunt_tolerance_pct: Annotated[float, Field(ge=0, le=20)] = 0.0
    """Limits of its resistance, from the data sheet."""
    shunt_u_ohm: Positive | None = None
    """In place of the tolerance: the expanded uncertainty U of a calibrated ``shunt_ohm``."""
    shunt_k: Annotated[float, Field(ge=1, le=14)] = 2.0
    """The coverage factor of that U, as the certificate says."""
    shunt_ppm_per_kelvin: Annotated[float, Field(ge=-10_000, le=10_000)] = 0.0
    """Temperature coefficient where its sign is known: it is corrected for."""
    shunt_ppm_per_kelvin_limit: Annotated[float, Field(ge=0, le=10_000)] = 0.0
    """± of the coefficient, as a data sheet gives it: not corrected, but in the budget."""
    shunt_reference_celsius: Celsius = 25.0
    """The temperature at which ``shunt_ohm`` holds."""
    shunt_kelvin_per_watt: NotNegative = 0.0
    """How much it warms itself, in equilibrium."""
    shunt_celsius: tuple[Celsius, Celsius] | None = None
    """The range of temperatures around it."""
    shunt_temperature: ChannelName | None = None
    """A channel that measures them; ``shunt_celsius`` stands in where it gives no readings."""
    burden_ohm: NotNegative = 0.0
    """Resistance of an ammeter in the rail, with its fuse and leads."""
    burden_tolerance_pct: Annotated[float, Field(ge=0, le=100)] = 0.0

    @model_validator(mode="after")
    def _fits_together(self) -> Current:
        given = self.model_fields_set
        if self.shunt_ohm is None and (odd := [key for key in _OF_A_SHUNT if key in given]):
            raise ValueError(f"{odd[0]} needs shunt_ohm")
        if self.shunt_ohm is not None and self.burden_ohm:
            raise ValueError("burden_ohm is of an ammeter; of a shunt it is shunt_ohm")
        if self.shunt_u_ohm is not None and self.shunt_tolerance_pct:
            raise ValueError("shunt_u_ohm (calibrated) and shunt_tolerance_pct: only one of both")
        if self.shunt_celsius is not None and self.shunt_celsius[0] > self.shunt_celsius[1]:
            raise ValueError("shunt_celsius: the lower temperature comes first")
        depends = self.shunt_ppm_per_kelvin or self.shunt_ppm_per_kelvin_limit
        if depends and self.shunt_celsius is None and self.shunt_temperature is None:
            raise ValueError(
                "a temperature coefficient needs shunt_celsius = [low, high] around the shunt, or "
                "shunt_temperature, a channel"
            )
        return self


def channel_alone(value: Any) -> Any:
    """A table with the channel, where only that is given."""
    return {"channel": value} if isinstance(value, str) else value


class Rail(BaseModel):
    """A supply of the drive with a voltage channel and a current channel."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nominal_volts: Positive
    tolerance_pct: Annotated[float, Field(gt=0, le=50)] = 5.0
    voltage: ChannelName
    voltage_is_shared: Annotated[bool, Field(strict=True)] = False
    """The same channel gives the volts of other rails, which must say so, too."""
    volts_at: Literal["drive", "supply"] = "drive"
    """On which side of the shunt or ammeter the volts are measured."""
    current: Annotated[Current, BeforeValidator(channel_alone)]
    load_swing_amps: NotNegative | None = None
    """From lowest to highest, how far the drive's current swings within one aperture of the meters;
    left out: between idle and its highest."""
    drive: Name | None = None
    """Whose rail it is, where there are several drives; left out: they share it."""

    @model_validator(mode="after")
    def _drop_is_known(self) -> Rail:
        current = self.current
        if self.volts_at == "supply" and current.shunt_ohm is None and not current.burden_ohm:
            raise ValueError(
                'volts_at = "supply" needs current.burden_ohm, the resistance of the ammeter: '
                "its drop is not the drive's"
            )
        return self
