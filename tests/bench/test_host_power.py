"""A run with a board controller beside the drive's meters, judged by what host and drive drew."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from dataclasses import replace

import pytest

from instruments.simulated.bench import Bench, configure
from instruments.simulated.drive.ground_truth import GroundTruth
from instruments.simulated.meter_kit.config import MeterConfig
from labctl.analysis.run.summary import summarise
from labctl.analysis.run_summary import RunSummary
from labctl.record.header import ChannelInfo
from labctl.record.reader import RunRecord, find_runs

pytestmark = [pytest.mark.bench, pytest.mark.long, pytest.mark.timeout(300)]

PLAN = """
name = "host"
idle_before_s = 10
until = "duration"
[[sweeps]]
pattern = "randread"
queue_depth = [1, 32]
duration_s = 12
"""
BMC = MeterConfig(
    name="bmc",
    kind="bmc",
    point="host",
    settings={
        "interval_s": 1.0,
        "aperture_s": 1.0,
        "accuracy_pct_of_reading": 1.0,
        "accuracy_floor": 0.1,
    },
)
REST_WATTS, JOULES_AN_OPERATION = 48.0, 40e-6
"""What the simulated machine draws without its drive."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, GroundTruth, str]:
    folder = tmp_path_factory.mktemp("host")
    (folder / "host.toml").write_text(PLAN)
    config = configure(5)
    config = config.model_copy(update={"meters": (*config.meters, BMC)})
    with Bench(folder / "bench", config) as bench:
        done = subprocess.run(
            [sys.executable, "-m", "labctl.cli.main", "run", bench.rig, folder / "host.toml",
             "--runs", folder / "runs"],
            capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = find_runs(folder / "runs")
    return RunRecord(path), GroundTruth(bench.directory / "truth"), done.stdout


def of_drive(summary: RunSummary) -> list[str]:
    """All of its phases but what is of the host, as text that is the same for the same numbers."""
    phases = (replace(item, host_power={}) for item in summary.phases)
    return [json.dumps(replace(summary, phases=(item,)).to_json()["phases"]) for item in phases]


def test_host_watts_and_the_drives_share_are_within_u_of_the_truth(
    ran: tuple[RunRecord, GroundTruth, str],
) -> None:
    record, truth, _ = ran
    anchor = record.header.anchor
    phases = summarise(record).phases
    assert len(phases) == 4
    read = [item for item in phases if "bmc" in item.host_power]
    assert len(read) >= 3  # a busy machine may leave one without
    for item in read:
        begin_ns, end_ns = (anchor.to_monotonic_ns(t) for t in (item.begin_ns, item.end_ns))
        done = truth.operations(begin_ns, end_ns)
        rate = (done["reads"] + done["writes"]) / item.duration_s
        drive = sum(truth.mean_watts(begin_ns, end_ns).values())
        host = REST_WATTS + JOULES_AN_OPERATION * rate + drive
        found = item.host_power["bmc"]
        assert abs(found.watts.value - host) <= found.watts.u, item.phase.label
        assert found.watts.u < 0.05 * host
        assert found.drive_share is not None
        assert abs(found.drive_share.value - drive / host) <= found.drive_share.u
        if item.iops:
            assert found.iops_per_watt is not None and found.bytes_per_joule is not None
            assert found.iops_per_watt.value == pytest.approx(item.iops / found.watts.value)


def test_no_number_of_the_drive_knows_of_the_host(
    ran: tuple[RunRecord, GroundTruth, str],
) -> None:
    record = ran[0]
    beside = summarise(record)
    alone = RunRecord(record.path)
    alone.header = replace(record.header, host_power=())
    without = summarise(alone)
    assert not any(item.host_power for item in without.phases)
    assert of_drive(beside) == of_drive(without)
    for item in beside.phases:
        assert item.watts is not None
        assert item.watts.value == pytest.approx(
            sum(rail.watts.value for rail in item.rails.values())
        )


def test_without_limits_of_error_no_uncertainty_is_claimed(
    ran: tuple[RunRecord, GroundTruth, str],
) -> None:
    def unstated(info: ChannelInfo) -> ChannelInfo:
        if info.name != "bmc.power":
            return info
        return replace(info, accuracy_of_reading=0.0, accuracy_floor=0.0, accuracy_source="")

    record = RunRecord(ran[0].path)
    record.header = replace(
        record.header, channels=tuple(unstated(info) for info in record.header.channels)
    )
    (found, *_) = [item.host_power["bmc"] for item in summarise(record).phases if item.host_power]
    assert found.watts.value > REST_WATTS
    assert found.drive_share is not None
    assert math.isnan(found.watts.u) and math.isnan(found.drive_share.u)


def test_it_is_shown_beside_the_drive(ran: tuple[RunRecord, GroundTruth, str]) -> None:
    record, _, printed = ran
    assert "host: bmc" in printed and "per drive W" in printed
    with (record.path / "phases.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    read = [row for row in rows if row["host_watts_bmc"]]  # a busy machine may leave one without
    assert len(read) >= 3
    for row in read:
        host, drive = float(row["host_watts_bmc"]), float(row["watts"])
        assert float(row["host_drive_share_bmc"]) == pytest.approx(drive / host)
    worked = [row for row in read if row["iops"]]
    assert worked
    for row in worked:
        assert 0 < float(row["host_iops_per_watt_bmc"]) < float(row["iops_per_watt"])
    summary = json.loads((record.path / "summary.json").read_text())
    given = [phase["host_power"] for phase in summary["phases"] if phase["host_power"]]
    assert given[0]["bmc"]["watts"]["u"] > 0
    assert "The host beside the drive" in (record.path / "report.html").read_text()
