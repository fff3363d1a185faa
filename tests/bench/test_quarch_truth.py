"""Runs whose only meter is a Quarch module: their watts against the bench's truth."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench, BenchConfig
from instruments.simulated.drive.ground_truth import GroundTruth
from labctl.analysis.run.summary import summarise
from labctl.cli.run.demo import compare_demo_with_truth
from labctl.record.reader import RunRecord, find_runs
from tests.bench.test_quarch import meter
from tests.bench.test_truth import LABCTL, PLAN
from tests.faults.test_runs import until_begun

pytestmark = [pytest.mark.bench, pytest.mark.long, pytest.mark.timeout(300)]


@pytest.mark.parametrize("fault", ["", "disconnect", "memory_overflow"])
def test_the_truth_lies_inside_the_stated_uncertainty(fault: str, tmp_path: Path) -> None:
    """Also where QIS goes away in mid-run and comes back, and where its buffer overruns."""
    config = BenchConfig(
        seed=5,
        overrides={"speed_divisor": 30.0},
        meters=(meter("rails", stripe_us=256, average=4),),
    )
    (tmp_path / "truth.toml").write_text(PLAN)
    with Bench(tmp_path / "bench", config) as bench:
        runs = tmp_path / "runs"
        process = subprocess.Popen(
            [*LABCTL, "run", bench.rig, tmp_path / "truth.toml", "--runs", runs, "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        if fault:
            until_begun(process, runs, 2)
            bench.inject("ppm", fault, 1.0)
        printed, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    assert json.loads(printed)["outcome"] == "completed"
    record = RunRecord(*find_runs(runs))
    summary = summarise(record)
    compared = compare_demo_with_truth(
        summary, GroundTruth(bench.directory / "truth"), record.header.anchor
    )
    assert len(compared) >= (4 if fault else 5)
    for item in compared:
        assert abs(item.measured.value - item.true_watts) <= item.measured.u, item
    readings = record.readings("ppm.current_12V")
    epochs = set((readings["t"] // 10**15).tolist())
    assert len(epochs) == (2 if fault else 1)
