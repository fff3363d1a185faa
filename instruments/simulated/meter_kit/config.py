"""Configuration of the process of the simulated meters: which meters, and their errors."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

CONFIG_NAME: Final = "meters.json"


STATE_RING_NAME: Final = "trace"


Point = Literal[
    "12V.voltage",
    "12V.current",
    "3V3.voltage",
    "3V3.current",
    "composite",
    "case",
    "12V",
    "3V3",
    "rails",
    "frame_numbers",
]
"""Where a meter is connected. An Extech, a supply and an INA226 have volts and amps of one rail;
a PowerSensor3 has all ``rails``, or sends its test pattern."""


class MeterConfig(BaseModel):
    """One simulated meter. ``settings`` are those of its driver, without the address."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")]
    kind: Literal[
        "truevolt",
        "dmm6500",
        "sdm3065x",
        "34401a",
        "keithley2000",
        "dm3058",
        "xdm1041",
        "dp832",
        "ut61e",
        "k204",
        "powersensor3",
        "vc820",
        "bm257",
        "extech380803",
        "ina226",
    ]
    point: Point
    settings: dict[str, Any] = {}
    shunt_ohm: Annotated[float, Field(gt=0)] | None = None
    shunt_tolerance_pct: Annotated[float, Field(ge=0)] = 0.0
    leads_add: float = 0.0
    """Added by the leads to the quantity at the meter's terminals: a thermal voltage, in V."""
    clock_offset_s: float = 0.0
    drift_ppm: float = 0.0
    error_scale: Annotated[float, Field(ge=0, le=1)] = 1.0
    """1: gain, offset and shunt anywhere within their limits; 0: a perfect meter."""
    memory: Annotated[int, Field(gt=0)] | None = None
    """Reading memory of a Truevolt or a DMM6500, if not its model's."""
    tcp_port: Annotated[int, Field(ge=0, lt=65536)] = 0
    """0: any free one."""


class MetersConfig(BaseModel):
    """All meters of a bench."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 1
    meters: tuple[MeterConfig, ...]
