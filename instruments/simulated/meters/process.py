"""The process of the simulated meters: ``python -m instruments.simulated.meters --dir DIR``.

All meters of a bench run in one event loop, each with its own clock and its own errors. They
read the drive's ``DIR/trace`` and what they are from ``DIR/meters.json``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from instruments.simulated import serial_kinds
from instruments.simulated.drive.state_ring import TraceReader
from instruments.simulated.meter_kit.faults import FaultControl, SimulatedMeter
from instruments.simulated.meter_kit.probe import SHARE_OF_LIMITS, Probe
from instruments.simulated.meters import registry
from instruments.simulated.meters.ina226 import make_ina226

CONFIG_NAME: Final = "meters.json"
TRACE_NAME: Final = "trace"
DRIVERS: Final = {**registry.DRIVERS, **serial_kinds.DRIVERS, "ina226": "ina2xx"}
"""The driver of each kind of meter."""

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
    """What the leads add to the quantity at the meter's terminals: a thermal voltage, in V."""
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


def true_shunt_ohm(config: MeterConfig, seed: int) -> float | None:
    """The shunt's true resistance: somewhere within its tolerance."""
    if config.shunt_ohm is None:
        return None
    share = SHARE_OF_LIMITS * config.error_scale * _rng(seed, config.name, "shunt").uniform(-1, 1)
    return config.shunt_ohm * (1 + share * config.shunt_tolerance_pct / 100)


def make_meter(
    config: MeterConfig, seed: int, directory: Path, trace: TraceReader
) -> SimulatedMeter:
    """The meter that ``config`` describes. Its errors follow from ``seed`` and its name."""
    rngs = partial(_rng, seed, config.name)
    shunt_ohm = true_shunt_ohm(config, seed)
    if config.kind in registry.DRIVERS:
        probe = Probe(trace, config.point, shunt_ohm, config.leads_add)
        return registry.make_scpi_meter(config, directory, probe, trace, rngs)
    if config.kind in serial_kinds.DRIVERS:
        return serial_kinds.make_serial_meter(config, directory, trace, shunt_ohm, rngs)
    return make_ina226(config, directory, trace, rngs)


def _rng(seed: int, name: str, purpose: str) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(f"{name}/{purpose}".encode())])


async def serve(directory: Path, config: MetersConfig, until: asyncio.Event) -> None:
    """Serve all meters; print one JSON line with their addresses when they are ready."""
    trace = TraceReader(directory / TRACE_NAME)
    meters: Mapping[str, SimulatedMeter] = {
        entry.name: make_meter(entry, config.seed, directory, trace) for entry in config.meters
    }
    control = FaultControl(meters)
    addresses = {name: await meter.start() for name, meter in meters.items()}
    await control.start(directory)
    print(json.dumps(addresses), flush=True)
    try:
        await until.wait()
    finally:
        await control.stop()
        for meter in meters.values():
            await meter.stop()


async def _serve_until_told(directory: Path, config: MetersConfig, follow_stdin: bool) -> None:
    until = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, until.set)
    if follow_stdin:

        def look() -> None:
            if not os.read(sys.stdin.fileno(), 64):
                until.set()

        loop.add_reader(sys.stdin, look)
    await serve(directory, config, until)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the meters until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="instruments.simulated.meters", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="the directory of the bench")
    parser.add_argument(
        "--die-with-stdin", action="store_true", help="end when stdin ends: with the parent"
    )
    options = parser.parse_args(arguments)
    text = (options.dir / CONFIG_NAME).read_text(encoding="utf-8")
    config = MetersConfig.model_validate_json(text)
    asyncio.run(_serve_until_told(options.dir, config, options.die_with_stdin))
    return 0


if __name__ == "__main__":
    sys.exit(main())
