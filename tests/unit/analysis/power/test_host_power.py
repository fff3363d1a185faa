"""The host's watts in made-up runs: beside the drive's numbers, and in none of them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from labctl.analysis.run.summary import summarise
from labctl.record.reader import RunRecord
from labctl.report.data.result_files import phase_rows
from labctl.report.text.table import table_text
from tests.unit import synthetic_run
from tests.unit.synthetic_run import Bench


def test_the_mean_of_each_phase_and_the_drives_share(tmp_path: Path) -> None:
    run = synthetic_run.build(tmp_path, Bench(host_watts=lambda t: np.full(len(t), 60.0)))
    summary = summarise(RunRecord(run.path))
    long = [item for item in summary.phases if item.duration_s >= 8]
    assert long
    for item in long:
        host = item.host_power["bmc"]
        assert host.watts.value == pytest.approx(60.0)
        assert host.watts.u == pytest.approx(0.6, rel=0.1)  # all there is: 1 % of reading
        assert item.watts is not None and host.drive_share is not None
        assert host.drive_share.value == pytest.approx(item.watts.value / 60.0)
    (row, *_) = [one for one in phase_rows(summary) if one["host_watts_bmc"]]
    assert row["host_watts_bmc_u"] and row["host_drive_share_bmc_u"]
    assert "host: bmc" in table_text(summary)


def test_a_run_is_the_same_with_and_without_a_meter_of_its_host(tmp_path: Path) -> None:
    def numbers(bench: Bench, folder: str) -> list[object]:
        (tmp_path / folder).mkdir()
        run = synthetic_run.build(tmp_path / folder, bench)
        return [
            (item.watts, item.joules, item.iops_per_watt, item.marginal_watts, item.power_envelope)
            for item in summarise(RunRecord(run.path)).phases
        ]

    beside = numbers(Bench(host_watts=lambda t: 50 + t), "beside")
    assert beside == numbers(Bench(), "alone")


def test_too_few_readings_are_no_mean(tmp_path: Path) -> None:
    run = synthetic_run.build(
        tmp_path, Bench(host_watts=lambda t: np.where(t < 20, 60.0, math.nan))
    )
    phases = summarise(RunRecord(run.path)).phases
    begin_ns = phases[0].begin_ns
    assert not any(item.host_power for item in phases if item.begin_ns > begin_ns + 20e9)
    assert phases[0].host_power
