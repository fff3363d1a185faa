"""Two simulated drives in one rig: what was measured of each, against what each really did."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from instruments.simulated.bench import DEFAULT_METERS, BenchConfig
from instruments.simulated.several import SeveralBenches
from instruments.simulated.truth import Truth
from labctl.analysis.summary import summarise
from labctl.cli.demonstration import compare
from labctl.record import CPU_TIMES, RunRecord, find_runs

pytestmark = pytest.mark.bench

PLAN = """
name = "both"
idle_before_s = 3
idle_after_s = 0
[[sweeps]]
pattern = "randread"
queue_depth = 4
jobs = 2
duration_s = 4
"""
METERS = tuple(meter for meter in DEFAULT_METERS if meter.name != "thermocouple")


def test_each_drive_gets_its_own_watts_and_work(tmp_path: Path) -> None:
    other = {"identity.serial": "SIM0000000000002", "power.idle_watts": 6.5}
    configs = {
        "left": BenchConfig(seed=31, meters=METERS, overrides={"speed_divisor": 20.0}),
        "right": BenchConfig(seed=32, meters=METERS, overrides={**other, "speed_divisor": 40.0}),
    }
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    with SeveralBenches(tmp_path / "benches", configs) as benches:
        done = subprocess.run(
            [sys.executable, "-m", "labctl.cli.main", "run", str(benches.rig), str(plan)],
            cwd=tmp_path,
            env={**os.environ, "LABCTL_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    (path,) = find_runs(tmp_path / "runs")
    record = RunRecord(path)
    summary = summarise(record)
    for name, one in summary.drives.items():
        truth = Truth(benches[name].directory / "truth")
        idle, work = compare(one, truth, record.header.anchor)
        assert idle.inside and work.inside, (name, idle, work)
    # the right one idles at 6.5 W where the left one takes 4, and its model works half as fast
    left, right = (summary.drives[name] for name in ("left", "right"))
    assert left.idle_watts is not None and right.idle_watts is not None
    assert right.idle_watts.value - left.idle_watts.value == pytest.approx(2.5, abs=0.2)
    measured = [one.measured[0] for one in (summary, left, right)]
    whole, *each = (item.read.total_ios if item.read is not None else 0 for item in measured)
    assert all(each) and sum(each) == whole
    assert (left.drive_serial, right.drive_serial) == ("SIM0000000000001", "SIM0000000000002")
    job = next((path / "fio").iterdir()) / "job.fio"
    assert job.read_text().count("new_group=1") == 2
    asked = {event.data.get("drive") for event in record.events if event.kind == "drive_state"}
    assert asked == {"left", "right"}
    assert sum(event.kind == CPU_TIMES for event in record.events) >= 2
    assert "left" in done.stdout and "right" in done.stdout
