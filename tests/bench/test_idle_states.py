"""Idle in several power states on the simulated rig, judged by what its drive states of each."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench, configure
from labctl.analysis.run.summary import summarise
from labctl.record.reader import RunRecord, find_runs

pytestmark = [pytest.mark.bench, pytest.mark.long, pytest.mark.timeout(300)]

PLAN = """
name = "idle-states"
idle_before_s = 4
idle_after_s = 0
idle_power_states = [0, 1]
until = "duration"
[[sweeps]]
pattern = "randread"
queue_depth = 1
duration_s = 3
"""
LIMITS = """
name = "stated-idle"
[[limits]]
name = "idle"
over = "phase"
at = "idle"
drive_says = "idle"
tolerance_pct = 5
"""


def labctl(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "labctl.cli.main", *map(str, arguments)],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_idle_state_stands_beside_the_power_that_the_drive_states(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "limits.toml").write_text(LIMITS)
    with Bench(tmp_path / "bench", configure(6)) as bench:
        labctl("run", bench.rig, tmp_path / "plan.toml", "--runs", tmp_path / "runs")
        stated = bench.parameters.power.idle_watts
    (path,) = find_runs(tmp_path / "runs")
    record = RunRecord(path)
    labels = [phase.label for phase in record.header.phases]
    assert labels == ["idle before PS0", "idle before PS1", "randread 4k QD1"]
    chosen = [event.data["state"] for event in record.events if event.kind == "power_state"]
    assert chosen == [0, 1, 0], "each is chosen, and the drive's own put back for the work"
    summary = summarise(record)
    assert summary.idle_watts == summary.phases[0].watts
    assert f"the drive states {stated:.4g} W" in labctl("analyse", path)
    judged = json.loads(labctl("judge", path, "--limits", tmp_path / "limits.toml", "--json"))
    checks = [(one["phase"], one["limit_watts"], one["verdict"]) for one in judged["checks"]]
    assert checks == [
        ("idle before PS0", pytest.approx(1.05 * stated), "pass"),
        ("idle before PS1", pytest.approx(1.05 * stated), "pass"),
    ]
