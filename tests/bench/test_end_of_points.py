"""Runs whose points end when their numbers are good enough, judged by the bench's truth."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from instruments.simulated.bench import DEFAULT_METERS, Bench, BenchConfig, configure
from instruments.simulated.drive.ground_truth import GroundTruth
from labctl.analysis.readings.live_iops import live_iops
from labctl.analysis.run.summary import summarise
from labctl.analysis.run_summary import RunSummary
from labctl.analysis.steady_state.enough import Keeps
from labctl.cli.run.demo import compare_demo_with_truth
from labctl.config.plan import load_plan
from labctl.record.events import EventKind
from labctl.record.point_end import PointEnding, point_state
from labctl.record.reader import RunRecord, find_runs
from tests.bench.several_benches import SeveralBenches

pytestmark = [pytest.mark.bench, pytest.mark.long, pytest.mark.timeout(1800)]

EVEN = {
    "power.active_watts": 0.0,
    "power.read_operation_uj": 0.0,
    "power.read_byte_nj": 0.0,
    "thermal.composite_to_case_kelvin_per_watt": 0.02,
    "thermal.case_to_ambient_kelvin_per_watt": 0.05,
}
"""Draws what it draws idle, whatever it does, and stays cool: its watts do not depend on how busy
this machine is."""
SMALL = {"identity.capacity_bytes": 20_000_000_000 // 4096 * 4096}
"""Is filled in seconds."""
PLAN = """
name = "as-long-as-it-takes"
idle_before_s = 3
idle_after_s = 3
until_pct = { watts = 5 }
min_duration_s = 4
[[sweeps]]
pattern = "randread"
queue_depth = [1, 4, 8]
duration_s = 600
"""


def labctl(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "labctl.cli.main", *words],
        cwd=folder,
        env={**os.environ, "LABCTL_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )


def only_run(folder: Path) -> tuple[RunRecord, RunSummary]:
    (path,) = find_runs(folder / "home" / "runs")
    record = RunRecord(path)
    return record, summarise(record)


def test_points_end_at_their_target_and_the_truth_is_inside(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    with Bench(tmp_path / "bench", configure(41, EVEN)) as bench:
        done = labctl(tmp_path, "run", str(bench.rig), str(plan))
        assert done.returncode == 0, done.stderr
        record, summary = only_run(tmp_path)
        for one in compare_demo_with_truth(
            summary, GroundTruth(bench.directory / "truth"), record.header.anchor
        ):
            assert one.inside, one
        planned = labctl(tmp_path, "run", str(bench.rig), str(plan), "--dry-run", "--json")
        text = labctl(tmp_path, "run", str(bench.rig), str(plan), "--dry-run").stdout
    for item in summary.measured:
        assert item.outcome == "completed" and item.duration_s < 590
        assert item.point_end is not None and item.point_end.ended is PointEnding.TARGET
        watts = item.point_end.state.watts
        kept_s = item.point_end.kept_s
        assert kept_s and 0 < max(kept_s.values()) <= item.duration_s + 1, "what kept it going"
        assert watts is not None and watts.u_pct <= 5 and item.watts is not None
        assert item.watts.u < 0.05 * item.watts.value
        assert item.watts.repeatability == pytest.approx(watts.repeats_pct / 100 * item.watts.value)
    states = [point_state(one.data) for one in record.events if one.kind == EventKind.POINT_STATE]
    assert len(states) >= 3 and all(one is not None for one in states)
    assert "Points ended: 3 target reached" in done.stdout
    rows = list(csv.DictReader((record.path / "phases.csv").open()))
    assert [row["point_ended"] for row in rows] == ["", "target", "target", "target", ""]
    assert "3 target reached" in (record.path / "report.html").read_text()
    expected = json.loads(planned.stdout)
    assert expected["shortest_seconds"] <= expected["expected_seconds"] < expected["seconds"]
    assert "3 of 3 points as in 1 earlier run of this rig" in text


def test_a_run_that_was_killed_goes_on_with_the_point_that_was_on(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    home = {**os.environ, "LABCTL_HOME": str(tmp_path / "home")}
    with Bench(tmp_path / "bench", configure(42, EVEN)) as bench:
        words = [sys.executable, "-m", "labctl.cli.main", "run", str(bench.rig), str(plan)]
        with subprocess.Popen(words, cwd=tmp_path, env=home, stdout=subprocess.DEVNULL) as begun:
            while not any(
                event.data.get("point")
                for path in find_runs(tmp_path / "home" / "runs")
                for event in RunRecord(path).events
            ):
                assert begun.poll() is None
                time.sleep(0.2)
            begun.kill()
        (path,) = find_runs(tmp_path / "home" / "runs")
        done = labctl(tmp_path, "run", str(bench.rig), "--resume", str(path))
        assert done.returncode == 0, done.stderr
        record, summary = only_run(tmp_path)
        compared = compare_demo_with_truth(
            summary, GroundTruth(bench.directory / "truth"), record.header.anchor
        )
    assert all(one.inside for one in compared), compared
    for item in summary.measured:
        assert item.outcome == "completed"
        assert item.point_end is not None and item.point_end.ended is PointEnding.TARGET


def test_the_points_of_all_drives_must_be_good_enough(tmp_path: Path) -> None:
    """One of two drives is read at times alone: the other's numbers keep the point going."""
    meters = tuple(meter for meter in DEFAULT_METERS if meter.name != "thermocouple")
    other = {"identity.serial": "SIM0000000000002", **EVEN}
    configs = {
        "left": BenchConfig(seed=51, meters=meters, overrides=EVEN),
        "right": BenchConfig(seed=52, meters=meters, overrides=other),
    }
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    with SeveralBenches(tmp_path / "benches", configs) as benches:
        done = labctl(tmp_path, "run", str(benches.rig), str(plan))
        assert done.returncode == 0, done.stderr
        record, summary = only_run(tmp_path)
        for name, one in summary.drives.items():
            truth = GroundTruth(benches[name].directory / "truth")
            assert all(
                item.inside for item in compare_demo_with_truth(one, truth, record.header.anchor)
            ), name
    for item in summary.measured:
        assert item.point_end is not None and item.point_end.ended is PointEnding.TARGET
    keeps = {
        keep
        for event in record.events
        if (state := point_state(event.data)) is not None and event.kind == EventKind.POINT_STATE
        for keep in state.keeps
    }
    assert {keep.partition(":")[0] for keep in keeps} == {"left", "right"}


PERIOD_S = 150.0
COLLECTS = {
    "garbage_collection.spare_bytes": 500_000_000,
    "garbage_collection.dip_period_s": PERIOD_S,
    "garbage_collection.dip_s": 35.0,
}
WRITES = """
name = "collects-garbage"
idle_before_s = 2
idle_after_s = 0
until_pct = { watts = 60 }
[[sweeps]]
pattern = "randwrite"
queue_depth = 8
duration_s = 305
"""


def test_no_point_stops_inside_its_first_two_periods_of_collection(tmp_path: Path) -> None:
    """In the drive's own time: the 200 s in which a phase that writes never ends are seconds, too,
    and on a drive that collects ten times as often nothing would depend on its periods."""
    plan = tmp_path / "plan.toml"
    plan.write_text(WRITES)
    with Bench(tmp_path / "bench", configure(43, COLLECTS)) as bench:
        done = labctl(tmp_path, "run", str(bench.rig), str(plan), "--yes")
        assert done.returncode == 0, done.stderr
        record, summary = only_run(tmp_path)
    (item,) = summary.measured
    assert item.duration_s >= 2 * PERIOD_S
    _, iops = live_iops(record, item)
    assert iops.min() < 0.7 * np.median(iops), "it collected"
    states = [point_state(one.data) for one in record.events if one.kind == EventKind.POINT_STATE]
    assert any(
        state is not None
        and state.watts is not None
        and state.watts.u_pct < state.watts.target_pct
        and Keeps.COLLECTION.value not in state.keeps
        for state in states
    ), "its number was good enough, and the 200 s were over"


def built_in(folder: Path, name: str, until: str) -> Path:
    """A built-in plan with 9 s a point instead of 180, of which one may end after 2.5 s: of each
    sweep two depths or mixes, and without the hour of one that always takes its time."""
    text = load_plan(name, 0.05)[1]
    text = text.replace("[1, 2, 4, 8, 16, 32]", "[1, 32]").replace(
        "[100, 80, 60, 40, 20, 0]", "[100, 40]"
    )
    beside, _, consistency = text.rpartition("[[sweeps]]")
    text = beside if 'until = "duration"' in consistency else text
    plan = folder / "plan.toml"
    plan.write_text(f"{until}\nmin_duration_s = 50\n{text}")
    return plan


@pytest.mark.parametrize(("name", "count"), [("power-per-qd", 8), ("review-2015", 12)])
def test_a_built_in_plan_until_settled(tmp_path: Path, name: str, count: int) -> None:
    plan = built_in(tmp_path, name, 'until = "settled"')
    with Bench(tmp_path / "bench", configure(61, SMALL)) as bench:
        done = labctl(tmp_path, "run", str(bench.rig), str(plan), "--yes")
        assert done.returncode == 0, done.stderr
        record, summary = only_run(tmp_path)
        truth = GroundTruth(bench.directory / "truth")
        compared = compare_demo_with_truth(summary, truth, record.header.anchor)
    outside = [one for one in compared if not one.inside]
    assert len(outside) <= len(compared) // 10, outside
    points = [item for item in summary.measured if item.phase.until is not None]
    assert len(points) == count
    for item in points:
        assert item.outcome == "completed" and item.point_end is not None
        unsettled = item.point_end.ended is PointEnding.LONGEST
        assert unsettled == bool(item.point_end.state.keeps)
        assert unsettled == any("longest time" in note for note in item.notes)
