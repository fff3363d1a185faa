"""Built-in plans, scaled down, from purge to report on the simulated rig."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.bench, pytest.mark.long]


def demo(plan: str, scale: str, runs: Path) -> tuple[Path, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "labctl.cli.main", "demo", "--plan", plan, "--scale", scale,
         "--runs", str(runs), "--json"],
        capture_output=True, text=True, timeout=170, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    return Path(output["run"]), output["summary"]


def test_consistency_runs_from_purge_to_review(tmp_path: Path) -> None:
    run, summary = demo("consistency", "0.002", tmp_path)
    assert [item["phase"]["pattern"] for item in summary["phases"]] == [
        "purge", "write", "idle", "randwrite", "idle",
    ]  # fmt: skip
    assert json.loads((run / "run.json").read_text())["plan_text"].startswith("scale = 0.002\n")
    assert (run / "review.html").exists()


def test_write_saturation_ends_when_it_is_steady_and_gives_the_mean_of_five(
    tmp_path: Path,
) -> None:
    run, summary = demo("snia-wsat", "0.001", tmp_path)
    (ended,) = summary["steady_rounds"]
    assert ended["window"] == [ended["rounds"] - 4, ended["rounds"]]
    (point,) = csv.DictReader((run / "points.csv").open())
    rounds = [row for row in csv.DictReader((run / "phases.csv").open()) if row["round"]]
    assert point["steady_reached"] == str(ended["reached"])
    mean = sum(float(row["watts"]) for row in rounds[-5:]) / 5
    assert float(point["watts"]) == pytest.approx(mean)
