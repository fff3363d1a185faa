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
from collections.abc import Mapping, Sequence
from pathlib import Path

from instruments.simulated.drive.state_ring import StateReader
from instruments.simulated.meter_kit.config import CONFIG_NAME, STATE_RING_NAME, MetersConfig
from instruments.simulated.meter_kit.fault_control import FaultControl
from instruments.simulated.meter_kit.simulated_meter import SimulatedMeter
from instruments.simulated.meters.registry import make_meter


async def serve(directory: Path, config: MetersConfig, until: asyncio.Event) -> None:
    """Serve all meters; print one JSON line with their addresses when they are ready."""
    state = StateReader(directory / STATE_RING_NAME)
    meters: Mapping[str, SimulatedMeter] = {
        entry.name: make_meter(entry, config.seed, directory, state) for entry in config.meters
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


async def _serve_until_stopped(directory: Path, config: MetersConfig, follow_stdin: bool) -> None:
    until = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, until.set)
    if follow_stdin:

        def end_with_stdin() -> None:
            if not os.read(sys.stdin.fileno(), 64):
                until.set()

        loop.add_reader(sys.stdin, end_with_stdin)
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
    asyncio.run(_serve_until_stopped(options.dir, config, options.die_with_stdin))
    return 0


if __name__ == "__main__":
    sys.exit(main())
