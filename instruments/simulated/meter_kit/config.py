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
    "host",
]
"""Where a meter is connected. An Extech, a supply and an INA2xx have volts and amps of one rail;
a PowerSensor3 and a Quarch module have all ``rails``, or send their test pattern; a
PMD2 has them, too, and a PMD-USB only 12 V. A board controller has the ``host``."""


class MeterConfig(BaseModel):
    """One simulated meter. ``settings`` are those of its driver, without the address."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")]
    kind: Literal[
        "truevolt",
        "dmm6500",
        "sdm3065x",
        "34401a",
        "8846a",
        "keithley2000",
        "dm3058",
        "xdm1041",
        "dp832",
        "ut61e",
        "k204",
        "powersensor3",
        "quarch",
        "vc820",
        "bm257",
        "extech380803",
        "wt310e",
        "daq6510",
        "dmm6500_temperature",
        "pmd2",
        "pmd_usb",
        "ina226",
        "ina228",
        "bmc",
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
    """Reading memory of a Truevolt or a DMM6500, if not its model's; stripes that QIS can hold."""
    tcp_port: Annotated[int, Field(ge=0, lt=65536)] = 0
    """0: any free one."""


class MetersConfig(BaseModel):
    """All meters of a bench."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 1
    meters: tuple[MeterConfig, ...]
