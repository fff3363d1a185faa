"""Whole runs on benches of different seeds, drives and clocks, judged by the bench's truth."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instruments.simulated.bench import Bench, configure
from instruments.simulated.drive.ground_truth import GroundTruth
from labctl.analysis.run.summary import summarise
from labctl.analysis.run_summary import EdgeLag, RunSummary
from labctl.cli.run.demo import DemoComparison, compare_demo_with_truth
from labctl.record.layout import CLOCK_PAIR
from labctl.record.reader import RunRecord, find_runs

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]  # the first one waits for four runs

LABCTL = (sys.executable, "-m", "labctl.cli.main")

PLAN = """
name = "truth"
idle_before_s = 3
idle_after_s = 3
[[sweeps]]
pattern = "randread"
queue_depth = [1, 8, 32]
duration_s = 4
[[sweeps]]
pattern = "randrw"
read_pct = 70
queue_depth = 4
jobs = 2
duration_s = 4
"""


@dataclass(frozen=True)
class Ran:
    record: RunRecord
    summary: RunSummary
    comparisons: list[DemoComparison]
    truth: GroundTruth


IDEAL_METERS = "meters without errors of their own"
CASES: dict[str, tuple[int, dict[str, object], dict[str, Mapping[str, Any]]]] = {
    "as shipped": (11, {}, {}),
    "a hungrier drive, clocks hours off and 50 ppm the other way": (
        21,
        {
            "speed_divisor": 30.0,
            "power.idle_watts": 6.5,
            "power.read_operation_uj": 60.0,
            "rails.rail_12v.ohms": 0.08,
            "thermal.ambient_celsius": 31.0,
        },
        {
            "i12": {"clock_offset_s": -7200.0, "drift_ppm": -50.0},
            "i33": {"clock_offset_s": 9000.5, "drift_ppm": 50.0},
        },
    ),
    "a slower drive and slower meters": (
        13,
        {
            "speed_divisor": 12.0,
            "rails.rail_12v.idle_share": 0.7,
            "rails.rail_3v3.idle_share": 0.3,
        },
        {
            "i12": {"settings": {"interval_s": 0.1, "nplc": 1.0}},
            "i33": {"drift_ppm": 35.0, "settings": {"interval_s": 0.25, "nplc": 1.0}},
            "v12": {"settings": {"interval_s": 0.5}},
        },
    ),
    IDEAL_METERS: (
        31,
        {"speed_divisor": 30.0},
        {name: {"error_scale": 0.0} for name in ("i12", "v12", "i33", "v33")},
    ),
}


SHORT = (IDEAL_METERS,)  # the other cases are for make test-long


@pytest.fixture(scope="module")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ran]:
    """The run of a case, carried out when first asked for."""
    return functools.cache(lambda name: carry_out(name, tmp_path_factory.mktemp("truth")))


@pytest.fixture(
    params=[name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in CASES]
)
def ran(request: pytest.FixtureRequest, run_of: Callable[[str], Ran]) -> Ran:
    return run_of(request.param)


def carry_out(name: str, folder: Path) -> Ran:
    seed, overrides, meters = CASES[name]
    (folder / "truth.toml").write_text(PLAN)
    with Bench(folder / "bench", configure(seed, overrides, **meters)) as bench:
        plan, runs = folder / "truth.toml", folder / "runs"
        done = subprocess.run(
            [*LABCTL, "run", bench.rig, plan, "--runs", runs, "--json"],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = find_runs(folder / "runs")
    assert json.loads(done.stdout)["outcome"] == "completed"
    record = RunRecord(path)
    summary = summarise(record)
    truth = GroundTruth(bench.directory / "truth")
    return Ran(
        record, summary, compare_demo_with_truth(summary, truth, record.header.anchor), truth
    )


def test_the_truth_is_never_far_outside_the_stated_uncertainty(ran: Ran) -> None:
    # Of 6: a machine that stands still may leave one without watts.
    assert len(ran.comparisons) >= 5
    for item in ran.comparisons:
        assert abs(item.measured.value - item.true_watts) <= 1.5 * item.measured.u, item


@pytest.mark.long
def test_the_truth_lies_inside_the_stated_uncertainty(run_of: Callable[[str], Ran]) -> None:
    """In at least 95 % of phases."""
    comparisons = [item for name in CASES for item in run_of(name).comparisons]
    outside = [str(item) for item in comparisons if not item.inside]
    assert len(outside) <= 0.05 * len(comparisons), outside


@pytest.mark.long
def test_whatever_errors_the_meters_have_the_truth_lies_inside(
    run_of: Callable[[str], Ran], tmp_path: Path
) -> None:
    """One run read by meters without errors, then by 150 sets of meters with errors of their own:
    gain, floor and shunt anywhere within nine tenths of their limits."""
    ran = run_of(IDEAL_METERS)
    rng = np.random.default_rng(7)
    inside, phases = [], len(ran.comparisons)
    for number in range(150):
        summary = summarise(read_by_other_meters(ran.record, tmp_path / str(number), rng))
        compared = compare_demo_with_truth(summary, ran.truth, ran.record.header.anchor)
        inside += [item.inside for item in compared]
    assert len(inside) == 150 * phases >= 150 * 5
    assert np.mean(inside) >= 0.95


def read_by_other_meters(record: RunRecord, copy: Path, rng: np.random.Generator) -> RunRecord:
    """The run as meters with other errors would have recorded it."""
    shutil.copytree(record.path, copy, copy_function=os.link)
    shunts = {rail.current: rail.shunt_tolerance_pct / 100 for rail in record.header.rails}
    for rail in record.header.rails:
        for name in (rail.voltage, rail.current):
            info = record.channel(name)
            gain, floor, shunt = rng.uniform(-0.9, 0.9, 3)
            readings = np.array(record.readings(name))
            readings["v"] *= 1 + gain * info.accuracy_of_reading + shunt * shunts.get(name, 0.0)
            readings["v"] += floor * info.accuracy_floor
            (copy / "channels" / name).unlink()
            readings.tofile(copy / "channels" / name)
    return RunRecord(copy)


@pytest.mark.long
def test_the_uncertainty_is_not_bought_by_being_vague(run_of: Callable[[str], Ran]) -> None:
    """Of all runs together: in one of them this machine may have been busy, which widens it."""
    relative = {
        name: [item.measured.u / item.measured.value for item in run_of(name).comparisons]
        for name in CASES
    }
    assert np.median([one for run in relative.values() for one in run]) < 0.02
    assert max(np.median(run) for run in relative.values()) < 0.1, relative


def test_alignment_is_stated_and_the_data_agree_with_it(ran: Ran) -> None:
    """How small it is on a machine with time to spare is a figure of ``make bench``."""
    assert None not in [result.alignment_ms for result in ran.summary.phases]
    assert all(lag.consistent for lag in ran.summary.edge_lags), ran.summary.edge_lags


def lags_of(ran: Ran) -> list[EdgeLag]:
    """Those of more edges than one, which has no scatter."""
    return [lag for lag in ran.summary.edge_lags if lag.edges >= 2]


@pytest.mark.long
def test_lags_are_found_at_all(run_of: Callable[[str], Ran]) -> None:
    """In one of the runs: a busy machine may leave another with an edge or none."""
    assert any(lags_of(run_of(name)) for name in CASES)


def test_phases_follow_one_another_without_idle_time(ran: Ran) -> None:
    gaps = [item.gap_before_ms for item in ran.summary.measured if item.gap_before_ms is not None]
    assert len(gaps) == 4
    begins = {result.phase.index: result.begin_ns for result in ran.summary.phases}
    assert list(begins.values()) == sorted(begins.values())


def test_temperatures_and_work_are_the_drives_own(ran: Ran) -> None:
    to_monotonic = ran.record.header.anchor.to_monotonic_ns
    for result in ran.summary.measured:
        begin, end = to_monotonic(result.begin_ns), to_monotonic(result.end_ns)
        seen = ran.truth.operations(begin, end)
        assert result.iops is not None
        counted = result.iops * result.duration_s
        assert counted == pytest.approx(seen["reads"] + seen["writes"], rel=0.02)
        true_celsius = float(ran.truth.celsius(np.array([end]), "composite")[0])
        assert abs(result.temperatures["composite"].end - true_celsius) < 3.5


def test_an_unsynchronised_clock_would_not_pass(ran: Ran, tmp_path: Path) -> None:
    """The same run, with the device clock believed to be 2.5 s off: the data contradict it."""
    copy = tmp_path / "shifted"
    shutil.copytree(ran.record.path, copy)
    file = copy / "channels" / "i12.voltage.clock"
    pairs = np.fromfile(file, dtype=CLOCK_PAIR)
    pairs["host_ns"] += 2_500_000_000
    pairs.tofile(file)
    shifted = summarise(RunRecord(copy))
    comparisons = compare_demo_with_truth(shifted, ran.truth, ran.record.header.anchor)
    assert sum(not item.inside for item in comparisons) >= 2
