"""A meter of every family is pulled and put back while a run records: lost, back, and the gap."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from instruments.reading import Block
from instruments.simulated.meter_kit.config import MeterConfig
from instruments.simulated.meters.registry import DRIVERS
from labctl.capture.meters.acquisition import Acquisition
from tests.bench.running_meters import running_meters
from tests.bench.test_daq6510_scan import DAQ
from tests.bench.test_meters import METERS as FIRST
from tests.bench.test_power_analyser import WT
from tests.bench.test_quarch import meter as quarch
from tests.bench.test_scpi_meters import METERS as SCPI
from tests.bench.test_serial_meters import METERS as SERIAL
from tests.bench.test_truth_of_power_meters import PMD
from tests.unit.capture.meters.test_acquisition import Seen

DISPLAY = {"function": "voltage", "range": 22.0}
CONFIGS: tuple[MeterConfig, ...] = (
    *(SCPI[name] for name in ("stamped", "hp", "rigol", "owon", "psu")),
    FIRST["i12"],
    FIRST["thermocouple"],
    MeterConfig(name="ut61e", kind="ut61e", point="12V.voltage", settings=DISPLAY),
    *SERIAL,
    SCPI["thermistor"],
    WT,
    DAQ,
    quarch("12V"),
    MeterConfig(
        name="pmd",
        kind="pmd2",
        point="rails",
        settings=PMD | {"model": "PMD2", "rails": ["atx_12v", "atx_3v3"]},
    ),
    MeterConfig(name="bmc", kind="bmc", point="host", settings={"interval_s": 1.0}),
)
WITHIN_S = 150.0
"""A BMC is asked in several requests, each with its time limit, on a busy machine."""
SAME = {"sdm3065x", "keithley2000", "8846a", "pmd_usb"}
"""Kinds that are read by a driver of the above over a line of the same kind."""


class Reported(Seen):
    """The events of each instrument and how many blocks it brought, by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: Counter[str] = Counter()

    def readings(self, instrument: str, block: Block) -> None:
        super().readings(instrument, block)
        self.blocks[instrument] += 1

    def reported(self, kind: str) -> dict[str, dict[str, Any]]:
        return {data["instrument"]: data for what, data in self.events if what == kind}


def until_each(condition: Callable[[str], bool], what: str) -> None:
    end = time.monotonic() + WITHIN_S
    while missing := [config.name for config in CONFIGS if not condition(config.name)]:
        assert time.monotonic() < end, f"no {what} of {missing}"
        time.sleep(0.05)


@pytest.mark.timeout(600)
def test_each_family_is_lost_and_back_with_its_gap(tmp_path: Path) -> None:
    assert {config.kind for config in CONFIGS} >= set(DRIVERS) - SAME
    seen = Reported()
    with running_meters(tmp_path, CONFIGS, seed=11) as meters:
        made = {config.name: meters.create(config.name) for config in CONFIGS}
        group = Acquisition(made, time.monotonic_ns, seen)
        group.record_to(seen)
        group.start()
        try:
            until_each(lambda name: seen.blocks[name] > 0, "reading")
            for config in CONFIGS:
                meters.inject(config.name, "disconnect", 1.5)
            until_each(lambda name: name in seen.reported("instrument_back"), "return")
            before = Counter(seen.blocks)
            until_each(lambda name: seen.blocks[name] > before[name], "reading after its return")
        finally:
            problems = group.stop()
    assert problems == []
    assert set(seen.reported("instrument_lost")) == set(made)
    assert all(data["gap_s"] > 0 for data in seen.reported("instrument_back").values())
