"""The simulated bench: a drive and its meters, in two processes of their own.

``python -m instruments.simulated.bench --dir DIR`` runs it by hand; tests use :class:`Bench`.
``DIR/rig.toml`` is a rig for it: labctl cannot tell it from a real one.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import queue
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict

from instruments.child_process import end_process, start_until_ready
from instruments.simulated.drive.parameters import REFERENCE, Parameters, load, override
from instruments.simulated.drive.process import DriveProcess, start_drive
from instruments.simulated.meter_kit.config import CONFIG_NAME, MeterConfig, MetersConfig
from instruments.simulated.meter_kit.fault_control import inject
from instruments.simulated.meter_kit.faults import Fault
from instruments.simulated.meters.registry import DRIVERS

_START_TIMEOUT_S: Final = 60.0
_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_RAILS: Final = {"12V": 12.0, "3V3": 3.3}

DEFAULT_METERS: Final = (
    MeterConfig(
        name="i12",
        kind="truevolt",
        point="12V.current",
        shunt_ohm=0.05,
        shunt_tolerance_pct=0.1,
        clock_offset_s=3.7,
        drift_ppm=50.0,
        settings={
            "model": "34465A",
            "function": "voltage",
            "range": 1.0,
            "nplc": 1.0,
            "interval_s": 0.021,
        },
    ),
    MeterConfig(
        name="v12",
        kind="sdm3065x",
        point="12V.voltage",
        settings={
            "model": "SDM3065X",
            "function": "voltage",
            "range": 20.0,
            "nplc": 1.0,
            "interval_s": 0.1,
        },
    ),
    MeterConfig(
        name="i33",
        kind="truevolt",
        point="3V3.current",
        clock_offset_s=-12.4,
        drift_ppm=-50.0,
        settings={
            "model": "34470A",
            "function": "current",
            "range": 1.0,
            "nplc": 1.0,
            "interval_s": 0.021,
        },
    ),
    MeterConfig(
        name="v33",
        kind="ut61e",
        point="3V3.voltage",
        drift_ppm=120.0,
        settings={"function": "voltage", "range": 22.0},
    ),
    MeterConfig(name="thermocouple", kind="k204", point="case", settings={"sensors": ["t1"]}),
)
"""12 V current through 0.05 Ω at 48/s, 12 V at 10/s, 3.3 V current at 48/s, 3.3 V at 2/s, case
temperature at 1/s. Both currents are integrated over a whole mains period and (nearly) without a
gap: see :mod:`labctl.analysis.power.blind_spots`."""


class BenchConfig(BaseModel):
    """The drive and the meters of a bench."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 1
    parameters: Path = REFERENCE
    overrides: dict[str, Any] = {}
    """Changed parameters of the drive, by dotted keys: ``thermal.ambient_celsius``."""
    meters: tuple[MeterConfig, ...] = DEFAULT_METERS


def configure(
    seed: int = 1,
    overrides: Mapping[str, object] | None = None,
    **meters: Mapping[str, Any],
) -> BenchConfig:
    """The default bench with changes: ``configure(i12={"drift_ppm": 20.0})``.

    ``settings`` of a meter are merged into its own. Raises pydantic.ValidationError, KeyError.
    """
    changed = {meter.name: meter.model_dump() for meter in DEFAULT_METERS}
    for name, changes in meters.items():
        merged = changed[name]["settings"] | dict(changes.get("settings", {}))
        changed[name] |= {**changes, "settings": merged}
    return BenchConfig(
        seed=seed,
        overrides=dict(overrides or {}),
        meters=tuple(MeterConfig.model_validate(values) for values in changed.values()),
    )


class MetersProcess:
    """The running meters; ``addresses`` has the ``resource`` or ``port`` of each."""

    def __init__(self, directory: Path, config: MetersConfig) -> None:
        (directory / CONFIG_NAME).write_text(config.model_dump_json(), encoding="utf-8")
        command = [sys.executable, "-m", "instruments.simulated.meters"]
        command += ["--dir", str(directory), "--die-with-stdin"]
        self.addresses: dict[str, dict[str, str]]
        self.process, self.addresses = start_until_ready(
            command, f"the simulated meters in {directory}", _START_TIMEOUT_S
        )

    def stop(self) -> None:
        """End the process: SIGTERM, then SIGKILL after 5 s."""
        end_process(self.process)


class Bench:
    """``with Bench(directory) as bench:`` runs drive and meters; ``bench.rig`` is their rig.

    ``directory`` must not have been used by another bench. Enter it in a thread that lives as long
    as the bench: the kernel ends the drive with that thread.
    """

    def __init__(self, directory: Path, config: BenchConfig | None = None) -> None:
        self.directory = directory.resolve()
        self.config = config or BenchConfig()
        self.parameters: Parameters = load(self.config.parameters, self.config.overrides)
        self.drive: DriveProcess | None = None
        self.meters: MetersProcess | None = None

    @property
    def rig(self) -> Path:
        """The rig file for labctl."""
        return self.directory / "rig.toml"

    @property
    def addresses(self) -> Mapping[str, dict[str, str]]:
        """The address of each meter: ``resource``, ``port`` or ``directory``."""
        return self.meters.addresses if self.meters is not None else {}

    def start(self) -> None:
        """Start both processes and write the rig. Raises RuntimeError."""
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.config
        self.drive = start_drive(self.directory, config.parameters, config.overrides, config.seed)
        try:
            meters = MetersConfig(seed=config.seed, meters=config.meters)
            self.meters = MetersProcess(self.directory, meters)
            self.rig.write_text(rig_toml(bench_rig_sections(self)), encoding="utf-8")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop both processes."""
        if self.meters is not None:
            self.meters.stop()
        if self.drive is not None:
            self.drive.stop()

    def inject(self, meter: str, fault: Fault | str, seconds: float = 1.0) -> None:
        """Give a meter a fault. Raises ValueError if the meter cannot have it."""
        inject(self.directory, meter, fault, seconds)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


Sections = dict[str, dict[str, Any]]
"""The tables of a rig by their names; the empty name is the part before all tables."""


def bench_rig_sections(bench: Bench) -> Sections:
    """The rig of a running bench, as tables in labctl's format."""
    identity, thermal = bench.parameters.identity, bench.parameters.thermal
    by_point: dict[str, MeterConfig] = {meter.point: meter for meter in bench.config.meters}
    sections: Sections = {"": {"name": "bench", "host": "local"}}
    sections["drive"] = {
        "model": identity.model,
        "serial": identity.serial,
        "engine": "nbd",
        "target": f"nbd+unix:///?socket={bench.directory / 'drive.sock'}",
        "size_bytes": identity.capacity_bytes,
        "warning_celsius": thermal.warning_celsius,
        "critical_celsius": thermal.critical_celsius,
        "smart_device": str(bench.directory / "nvme0"),
        "tools": str(bench.directory),
        "destructive": True,
        "write_bytes_per_s": round(
            bench.parameters.controller.write_bytes_per_s / bench.parameters.speed_divisor
        ),
    }
    for pair, (rail, nominal) in enumerate(_RAILS.items()):
        voltage = by_point.get(f"{rail}.voltage", by_point.get(rail))
        current = by_point.get(f"{rail}.current", by_point.get(rail))
        values: dict[str, Any] = {"nominal_volts": nominal, "tolerance_pct": 5.0}
        if voltage is not None and current is not None:
            values["voltage"] = f"{voltage.name}.voltage"
            values["current"] = f"{current.name}.current"
            if current.shunt_ohm is not None:
                values["current"] = {
                    "channel": f"{current.name}.voltage",
                    "shunt_ohm": current.shunt_ohm,
                    "shunt_tolerance_pct": current.shunt_tolerance_pct,
                }
        elif "rails" in by_point:
            sensor = by_point["rails"]
            named = {"quarch": rail, "pmd2": f"atx_{rail.lower()}"}
            which = named.get(sensor.kind, pair)
            values["voltage"] = f"{sensor.name}.voltage_{which}"
            values["current"] = f"{sensor.name}.current_{which}"
        else:
            continue
        sections[f"rails.{rail}"] = values
    sections["temperatures"] = {"composite": "drive_temp.composite"}
    if "case" in by_point:
        sections["temperatures"]["case"] = f"{by_point['case'].name}.t1"
    if "host" in by_point:
        name = by_point["host"].name
        sections[f"host_power.{name}"] = {"channel": f"{name}.power", "includes_drive": True}
    for meter in bench.config.meters:
        address = bench.addresses[meter.name]
        values = {"driver": DRIVERS[meter.kind], **address, **meter.settings}
        sections[f"instruments.{meter.name}"] = values
    sections["instruments.drive_temp"] = {
        "driver": "hwmon",
        "directory": str(bench.directory / "hwmon"),
        "sensors": ["composite"],
    }
    return sections


def rig_toml(sections: Sections) -> str:
    """The text of a rig file."""
    lines: list[str] = []
    for name, values in sections.items():
        lines += [f"[{name}]"] if name else []
        lines += [*(f"{key} = {_bench_toml_value(value)}" for key, value in values.items()), ""]
    return "\n".join(lines)


def _bench_toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            "{ "
            + ", ".join(f"{key} = {_bench_toml_value(item)}" for key, item in value.items())
            + " }"
        )
    return json.dumps(value)  # strings, numbers, booleans and arrays are the same in both


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a bench until SIGTERM or SIGINT; print one JSON line when it is ready."""
    parser = argparse.ArgumentParser(prog="instruments.simulated.bench", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="an empty directory for it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parameters", type=Path, default=REFERENCE, help="of the drive: TOML")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument(
        "--meters", type=Path, help="JSON: a list of meters, in place of the default ones"
    )
    parser.add_argument("--die-with-parent", action="store_true")
    options = parser.parse_args(arguments)
    if options.die_with_parent:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    values: dict[str, Any] = {
        "seed": options.seed,
        "parameters": options.parameters,
        "overrides": dict(override(text) for text in options.set),
    }
    if options.meters is not None:
        values["meters"] = json.loads(options.meters.read_text(encoding="utf-8"))
    stopped: queue.SimpleQueue[None] = queue.SimpleQueue()  # its put is reentrant
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.put(None))
    with Bench(options.dir, BenchConfig.model_validate(values)) as bench:
        ready = {"pid": os.getpid(), "rig": str(bench.rig), "meters": dict(bench.addresses)}
        print(json.dumps(ready), flush=True)
        stopped.get()
    return 0


if __name__ == "__main__":
    sys.exit(main())
