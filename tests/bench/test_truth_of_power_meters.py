"""Whole runs on rigs with power meters in the rails, judged by the truth of the bench."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench, BenchConfig
from instruments.simulated.drive.ground_truth import GroundTruth
from instruments.simulated.meter_kit.config import MeterConfig
from labctl.analysis.run.summary import summarise
from labctl.cli.run.demo import compare_demo_with_truth
from labctl.record.reader import RunRecord, find_runs

pytestmark = [pytest.mark.bench, pytest.mark.long, pytest.mark.timeout(600)]

PLAN = """
name = "truth"
idle_before_s = 4
[[sweeps]]
pattern = "randread"
queue_depth = [1, 8, 32]
duration_s = 6
"""
INA228 = {
    "model": "ina228",
    "shunt_ohm": 0.015,
    "shunt_tolerance_pct": 0.5,
    "interval_s": 0.1,
    "voltage_pct_of_reading": 0.1,
    "voltage_floor_volts": 0.005,
    "current_pct_of_reading": 0.05,
    "current_floor_amps": 0.0005,
}
PMD = {
    "interval_s": 0.02,
    "averaged_s": 0.002,
    "voltage_pct_of_reading": 0.3,
    "voltage_floor_volts": 0.01,
    "current_pct_of_reading": 1.0,
    "current_floor_amps": 0.01,
}
JOULESCOPES = "two Joulescopes"
LIBRARY = Path(__file__).parent / "joulescope_library"
JOULESCOPE_RIG = "".join(
    f"""
[rails.{rail}]
nominal_volts = {nominal}
voltage = "js{rail}.voltage"
current = "js{rail}.current"

[instruments.js{rail}]
driver = "joulescope"
model = "JS220"
resource = "u/js220/{serial}"
voltage_pct_of_reading = 0.1
voltage_floor_volts = 0.002
current_pct_of_reading = 0.3
current_floor_amps = 0.001
"""
    for rail, nominal, serial in (("12V", 12.0, "000012"), ("3V3", 3.3, "000033"))
)
RIGS = {
    JOULESCOPES: (),
    "PMD2": (
        MeterConfig(
            name="pmd",
            kind="pmd2",
            point="rails",
            settings=PMD | {"model": "PMD2", "rails": ["atx_12v", "atx_3v3"]},
        ),
    ),
    "ina228": (
        MeterConfig(name="r12", kind="ina228", point="12V", settings=INA228),
        MeterConfig(name="r33", kind="ina228", point="3V3", settings=INA228),
    ),
    "ina228 by its energy register": (
        MeterConfig(
            name="r12", kind="ina228", point="12V", settings=INA228 | {"current_from": "energy"}
        ),
        MeterConfig(
            name="r33", kind="ina228", point="3V3", settings=INA228 | {"current_from": "energy"}
        ),
    ),
}


@pytest.mark.parametrize("meters", list(RIGS))
def test_the_truth_lies_inside_the_stated_uncertainty(meters: str, tmp_path: Path) -> None:
    config = BenchConfig(seed=17, meters=RIGS[meters], overrides={"speed_divisor": 30.0})
    (tmp_path / "truth.toml").write_text(PLAN)
    with Bench(tmp_path / "bench", config) as bench:
        if meters == JOULESCOPES:
            bench.rig.write_text(bench.rig.read_text() + JOULESCOPE_RIG)
        done = subprocess.run(
            [sys.executable, "-m", "labctl.cli.main", "run", bench.rig, tmp_path / "truth.toml",
             "--runs", tmp_path / "runs", "--json"],
            capture_output=True, text=True, timeout=300, check=False,
            env=os.environ | {
                "PYTHONPATH": os.pathsep.join([str(LIBRARY), str(Path.cwd())]),
                "JOULESCOPE_BENCH": str(bench.directory),
            },
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "completed"
    (path,) = find_runs(tmp_path / "runs")
    record = RunRecord(path)
    truth = GroundTruth(bench.directory / "truth")
    summary = summarise(record)
    found = compare_demo_with_truth(summary, truth, record.header.anchor)
    # on a machine that others keep busy, labctl says itself that no U holds what goes with that
    said = any("the drive's host was short of processors" in one for one in summary.problems)
    assert len(found) >= 2, "of five phases: a machine that stands still leaves some without watts"
    for item in found:
        print(item)
        allowed = item.measured.u * (2 if said else 1)
        assert abs(item.measured.value - item.true_watts) <= allowed, item
