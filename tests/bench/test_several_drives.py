"""Two simulated drives in one rig: what was measured of each, against what each really did."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from instruments.simulated.bench import DEFAULT_METERS, BenchConfig
from instruments.simulated.drive.ground_truth import GroundTruth
from labctl.analysis.run.summary import summarise
from labctl.capture.phases.fio_process import FioProcess
from labctl.cli.run.demo import compare_demo_with_truth
from labctl.config.rig_file import Drive
from labctl.record.events import EventKind
from labctl.record.phase import Pattern, Phase, Replay, Role
from labctl.record.reader import RunRecord, find_runs
from labctl.record.timebase import Timebase
from tests.bench.several_benches import SeveralBenches
from tests.fio_result import final_result

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
    (path,) = find_runs(tmp_path / "home" / "runs")
    record = RunRecord(path)
    summary = summarise(record)
    for name, one in summary.drives.items():
        truth = GroundTruth(benches[name].directory / "truth")
        idle, work = compare_demo_with_truth(one, truth, record.header.anchor)
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
    assert sum(event.kind == EventKind.CPU_TIMES for event in record.events) >= 2
    assert "left" in done.stdout and "right" in done.stdout


async def test_one_trace_is_replayed_on_every_drive(tmp_path: Path) -> None:
    """With the real fio, on two files: each drive gets all of the trace, and its own numbers."""
    trace = tmp_path / "trace.csv"
    rows = "".join(f"{n / 100},{'RW'[n % 3 == 0]},{n * 65536},4096\n" for n in range(90))
    trace.write_text("timestamp,type,offset,size\n" + rows)
    sizes = {"left": 64 << 20, "right": 32 << 20}
    drives = {
        name: Drive(target=str(tmp_path / name), engine="libaio", size_bytes=size)
        for name, size in sizes.items()
    }
    phase = Phase(
        0, Role.MEASURE, "s", Pattern.REPLAY, 0.9, queue_depth=8, jobs=1, read_pct=67,
        replay=Replay(str(trace)),
    )  # fmt: skip
    fio = await FioProcess.start(phase, drives, tmp_path / "0", Timebase(), lambda *_: None)
    await fio.wait_held()
    fio.release()
    await fio.wait_done()
    assert await fio.finish() == ""
    document = (tmp_path / "0" / "stdout").read_text()
    for result, drives_count in (
        *((final_result(document, name), 1) for name in drives), (final_result(document), 2)
    ):  # fmt: skip
        assert result is not None and result.read is not None and result.write is not None
        assert (result.read.total_ios, result.write.total_ios) == (
            60 * drives_count, 30 * drives_count,
        )  # fmt: skip
