"""Every instrument of every example rig can be started as it is written there.

The rigs' own settings are used, on simulated meters of the same models: only the address differs.
A Joulescope is the stand-in for the maker's library, on the same simulated drive.
"""

from __future__ import annotations

import re
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from instruments import drivers
from instruments.instrument import Instrument
from instruments.simulated.meter_kit.config import MeterConfig
from labctl.config.find_rig import EXAMPLES
from tests.bench.joulescope_library import pyjoulescope_driver
from tests.bench.running_meters import numbers, numbers_again, running_meters, started

NAMES = sorted(path.name for path in EXAMPLES.iterdir() if path.name.endswith(".toml"))
KINDS = {
    ("truevolt", "34465A"): "truevolt",
    ("truevolt", "34470A"): "truevolt",
    ("scpi_dmm", "SDM3065X"): "sdm3065x",
    ("scpi_dmm", "8846A"): "8846a",
    ("es51922", None): "ut61e",
    ("ina2xx", "ina226"): "ina226",
    ("ina2xx", "ina228"): "ina228",
    ("k204", None): "k204",
    ("quarch", None): "quarch",
    ("elmorlabs_pmd", "PMD2"): "pmd2",
}
IN_ALL_RAILS = ("quarch", "elmorlabs_pmd")
JOULESCOPES = {12.0: "u/js220/000012", 3.3: "u/js220/000033"}
"""Those of the stand-in, by the volts of their rails."""
OF_LABCTL = ("driver", "required")
ADDRESSES = ("resource", "port", "directory", "device")


def meter_of(name: str, entry: dict[str, Any], rails: dict[str, Any]) -> MeterConfig:
    """A simulated meter of this model, at the rail that it measures."""
    settings = {key: value for key, value in entry.items() if key not in OF_LABCTL + ADDRESSES}
    measured = {"point": "rails" if entry["driver"] in IN_ALL_RAILS else "case"}
    for rail in rails.values():
        point = "12V" if rail["nominal_volts"] == 12 else "3V3"
        current = rail["current"]
        shunt = current if isinstance(current, dict) else {"channel": current}
        if shunt["channel"] == f"{name}.{entry.get('function', 'current')}":
            keys = {key: value for key, value in shunt.items() if key != "channel"}
            measured = {"point": f"{point}.current", **keys}
        if rail["voltage"] == f"{name}.voltage":
            measured = {"point": f"{point}.voltage"}
        whole_rail = rail["voltage"].split(".")[0] == shunt["channel"].split(".")[0] == name
        if whole_rail and entry["driver"] not in IN_ALL_RAILS:
            measured = {"point": point}
    kind = KINDS[entry["driver"], entry.get("model")]
    return MeterConfig.model_validate(
        {"name": name, "kind": kind, "settings": settings, **measured}
    )


@pytest.mark.bench
@pytest.mark.parametrize("rig", NAMES)
def test_an_example_rig_starts(rig: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = tomllib.loads((EXAMPLES / rig).read_text(encoding="utf-8"))
    simulated, joulescopes = [], {}
    for name, entry in tables["instruments"].items():
        if entry["driver"] == "joulescope":
            (volts,) = (
                rail["nominal_volts"]
                for rail in tables["rails"].values()
                if rail["current"] == f"{name}.current"
            )
            joulescopes[name] = entry | {"resource": JOULESCOPES[volts]}
        elif entry["driver"] != "hwmon":
            simulated.append(meter_of(name, entry, tables["rails"]))
    monkeypatch.setenv("JOULESCOPE_BENCH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pyjoulescope_driver", pyjoulescope_driver)
    with running_meters(tmp_path, simulated, seed=1) as running:
        for meter in simulated:
            numbers_of(running.create(meter.name))
        for name, entry in joulescopes.items():
            settings = {key: value for key, value in entry.items() if key not in OF_LABCTL}
            numbers_of(drivers.create(name, "joulescope", settings, time.monotonic_ns))


def numbers_of(instrument: Instrument) -> None:
    try:
        numbers(numbers_again(started(instrument)))
    finally:
        instrument.close()


@pytest.mark.parametrize("rig", NAMES)
def test_no_example_counts_on_the_number_of_a_hwmon_directory(rig: str) -> None:
    assert not re.search(r"hwmon\d", (EXAMPLES / rig).read_text(encoding="utf-8"))
