"""Percentiles of two unlike jobs of the real fio, against the log of each of their I/Os."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from labctl.capture.phases.fio_process import FioProcess
from labctl.config.rig_file import Drive
from labctl.fio.documents import documents, jobs_of
from labctl.fio.percentiles import PERCENTILES
from labctl.fio.results import last_document
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.timebase import Timebase
from tests.fio_result import final_result

pytestmark = [pytest.mark.bench]

JOBS = """
[global]
thread=1
filename={target}
size=16m
rw=randread
ioengine=libaio
time_based=1
runtime=1500ms
group_reporting=1
lat_percentiles=1
percentile_list=50:90:95:99:99.9:99.99:99.999
[quick]
new_group=1
iodepth=1
bs=4k
write_lat_log={folder}/quick
[slow]
new_group=1
iodepth=64
bs=128k
write_lat_log={folder}/slow
"""


@pytest.mark.parametrize("form", ["json", "json+"])
def test_they_are_those_of_all_ios_or_their_bounds_hold_these(tmp_path: Path, form: str) -> None:
    target = tmp_path / "target"
    target.write_bytes(bytes(16 << 20))
    (tmp_path / "job.fio").write_text(JOBS.format(target=target, folder=tmp_path))
    command = ["fio", "job.fio", f"--output-format={form}"]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    result = final_result(done.stdout)
    assert result is not None and result.read is not None
    logs = [np.loadtxt(path, delimiter=",")[:, 1] for path in tmp_path.glob("*_lat.*.log")
            if "_clat" not in path.name and "_slat" not in path.name]  # fmt: skip
    truth = np.concatenate(logs)
    assert len(logs) == 2 and len(truth) == result.read.total_ios
    for name in PERCENTILES:
        true_us = float(np.percentile(truth, float(name), method="inverted_cdf")) * 1e-3
        us = result.read.latency_percentiles_us[name]
        low, high = result.read.latency_bounds_us.get(name, (us, us))
        assert low * 0.99 <= true_us <= high * 1.01, f"p{name}, to half a bin"
    assert bool(result.read.latency_bounds_us) == (form == "json")


@pytest.mark.parametrize("sizes", [{"": 8 << 20}, {"left": 8 << 20, "right": 32 << 20}])
async def test_labctl_keeps_the_bins_of_the_last_document_alone(
    tmp_path: Path, sizes: dict[str, int]
) -> None:
    drives = {}
    for name, size in sizes.items():
        target = tmp_path / f"target{name}"
        target.write_bytes(bytes(size))
        drives[name] = Drive(target=str(target), engine="libaio", size_bytes=size)
    phase = Phase(0, Role.MEASURE, "s", Pattern.RANDRW, 1.0, 4096, 8, 1, 70)
    fio = await FioProcess.start(phase, drives, tmp_path / "0", Timebase(), lambda *_: None)
    await fio.wait_held()
    fio.release()
    await fio.wait_done()
    assert await fio.finish() == ""
    text = (tmp_path / "0" / "stdout").read_text()
    result, document = final_result(text), last_document(text)
    assert result is not None and document is not None
    for side, name in ((result.read, "read"), (result.write, "write")):
        assert side is not None and side.latency_bounds_us == {}
        bins: list[float] = []
        for job in jobs_of(document):
            table = job[name]["lat_ns"]["bins"]
            bins += np.repeat([int(ns) for ns in table], list(table.values())).tolist()
        assert len(bins) == side.total_ios == sum(side.latency_histogram.values())
        for percent, us in side.latency_percentiles_us.items():
            expected = np.percentile(bins, float(percent), method="inverted_cdf")
            assert us == pytest.approx(float(expected) * 1e-3)
    assert fio.output.printed["stdout_bytes"] == len(text.encode())
    *before, again = documents(text)
    assert len(before) > 1 and again == document
    for job in (job for one in before for job in jobs_of(one)):
        for side in (job["read"], job["write"]):  # one that has completed no I/O yet has none
            assert side["lat_ns"].get("bins", {}) == {}
    without = final_result(text[: text.rindex("\n{")])
    assert without is not None and without.read is not None
    assert without.read.total_ios == result.read.total_ios and not without.read.latency_histogram
