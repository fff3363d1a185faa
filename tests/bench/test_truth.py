"""Whole runs on benches of different seeds, drives and clocks, judged by the bench's truth."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instruments.simulated.bench import Bench, configure
from instruments.simulated.truth import Truth
from labctl.analysis.results import RunSummary
from labctl.analysis.summary import summarise
from labctl.cli.demonstration import Comparison, compare
from labctl.record import RunRecord, find_runs

pytestmark = pytest.mark.bench

LABCTL = (sys.executable, "-m", "labctl.cli.main")

PLAN = """
name = "truth"
idle_before_s = 5
idle_after_s = 4
[[sweeps]]
pattern = "randread"
queue_depth = [1, 8, 32]
duration_s = 5
[[sweeps]]
pattern = "randrw"
read_pct = 70
queue_depth = 4
jobs = 2
duration_s = 5
"""


@dataclass(frozen=True)
class Ran:
    record: RunRecord
    summary: RunSummary
    comparisons: list[Comparison]
    truth: Truth


CASES: dict[str, tuple[int, dict[str, object], dict[str, Mapping[str, Any]]]] = {
    "as shipped": (11, {}, {}),
    "a hungrier drive, clocks hours off and 50 ppm the other way": (
        21,
        {
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
}


@pytest.fixture(scope="module")
def all_ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    return {name: carry_out(name, tmp_path_factory) for name in CASES}


@pytest.fixture(params=list(CASES))
def ran(request: pytest.FixtureRequest, all_ran: dict[str, Ran]) -> Ran:
    return all_ran[request.param]


def carry_out(name: str, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    seed, overrides, meters = CASES[name]
    folder = tmp_path_factory.mktemp("truth")
    (folder / "truth.toml").write_text(PLAN)
    with Bench(folder / "bench", configure(seed, overrides, **meters)) as bench:
        plan, runs = folder / "truth.toml", folder / "runs"
        done = subprocess.run(
            [*LABCTL, "run", bench.rig, plan, "--runs", runs, "--json"],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = find_runs(folder / "runs")
    assert json.loads(done.stdout)["outcome"] == "completed"
    record = RunRecord(path)
    summary = summarise(record)
    truth = Truth(bench.directory / "truth")
    return Ran(record, summary, compare(summary, truth, record.header.anchor), truth)


def test_the_truth_lies_inside_the_stated_uncertainty(all_ran: dict[str, Ran]) -> None:
    """In 95 % of phases; eighteen can tell no more than "not clearly fewer".

    At a true coverage of 95 % more than two of eighteen lie outside in one case of seventeen,
    and never by much: meters draw their zero anew at each start.
    """
    comparisons = [item for ran in all_ran.values() for item in ran.comparisons]
    assert len(comparisons) == 18
    outside = [str(item) for item in comparisons if not item.inside]
    assert len(outside) <= 2, outside
    for item in comparisons:
        assert abs(item.measured.value - item.true_watts) <= 2 * item.measured.u, item


def test_the_uncertainty_is_not_bought_by_being_vague(ran: Ran) -> None:
    relative = [item.measured.u / item.measured.value for item in ran.comparisons]
    assert np.median(relative) < 0.02


def test_alignment_is_within_5_ms_and_the_data_agree(ran: Ran) -> None:
    for result in ran.summary.phases:
        assert result.alignment_ms is not None and result.alignment_ms <= 5.0
    for lag in ran.summary.edge_lags:
        assert abs(lag.lag_ms) <= lag.u_ms + 5.0, lag


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
    import shutil

    from labctl.record import CLOCK_PAIR

    copy = tmp_path / "shifted"
    shutil.copytree(ran.record.path, copy)
    file = copy / "channels" / "i12.voltage.clock"
    pairs = np.fromfile(file, dtype=CLOCK_PAIR)
    pairs["host_ns"] += 2_500_000_000
    pairs.tofile(file)
    shifted = summarise(RunRecord(copy))
    comparisons = compare(shifted, ran.truth, ran.record.header.anchor)
    assert sum(not item.inside for item in comparisons) >= 2
