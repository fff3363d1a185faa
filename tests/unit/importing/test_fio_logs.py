"""fio's own logs: as the real fio writes them, and other forms by its documentation."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labctl.fio.logs import BadLog, read_log
from labctl.importing.clock import ClockRules
from labctl.importing.make_run import Labels, import_run
from labctl.importing.meter_channels import MeterFile
from labctl.importing.work import Work
from labctl.importing.work_logs import PhaseLogs, bounds_ns
from labctl.importing.work_times import STAMP_U_NS
from labctl.importing.workload import read_workload
from labctl.record.reader import RunRecord
from tests.unit.importing.exported import meter_of
from tests.unit.importing.test_real_fio import FIRST

JOBS = """\
[global]
ioengine=null
size=1g
bs=4k
time_based
thinktime=6000
group_reporting
log_avg_msec=100
[one]
rw=randrw
runtime=1
write_iops_log={folder}/one
write_bw_log=one
write_lat_log=one
[two]
stonewall
rw=randread
iodepth=4
numjobs=2
runtime=1
per_job_logs=0
log_unix_epoch=1
write_iops_log=two
write_lat_log=two
[three]
stonewall
rw=randread
iodepth=8
runtime=1
ramp_time=500ms
log_avg_msec=0
write_iops_log=shared
write_lat_log=shared
[four]
stonewall
rw=randread
numjobs=2
iodepth=16
runtime=1
write_iops_log=shared
write_lat_log=shared
"""


@dataclass(frozen=True)
class Ran:
    folder: Path
    document: dict[str, Any]
    works: tuple[Work, ...]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Four phases of one real fio: relative windows, one log of two workers since 1970, a line
    for each I/O behind a ramp, and two workers with a log each."""
    folder = tmp_path_factory.mktemp("logged")
    (folder / "jobs.fio").write_text(JOBS.format(folder=folder))
    command = [*FIRST, "fio", "--output-format=json", "--output=out.json", "jobs.fio"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    document = json.loads((folder / "out.json").read_text())
    return Ran(folder, document, read_workload([folder]))


def trace(work: Work, channel: str) -> Any:
    (found,) = [one for one in work.traces if one.channel == channel]
    return found


@pytest.mark.parametrize("at", range(4))
def test_the_logs_of_a_phase_say_what_fio_printed_of_it(ran: Ran, at: int) -> None:
    work, job = ran.works[at], ran.document["jobs"][at]
    assert not any(one.notes for one in ran.works)
    for side in ("read", "write"):
        if not job[side]["total_ios"]:
            continue
        iops = trace(work, f"{side}.iops")
        assert len(iops.values) >= 2
        assert np.mean(iops.values) == pytest.approx(job[side]["iops"], rel=0.2)
        latency = trace(work, f"{side}.latency_mean_us")
        assert np.mean(latency.values) == pytest.approx(job[side]["lat_ns"]["mean"] / 1e3, rel=0.8)
        assert (iops.t_ns >= work.begin_ns - work.boundary_u_ns).all()
        assert (iops.t_ns <= work.end_ns + work.boundary_u_ns).all()


def test_windows_are_as_fio_has_them(ran: Ran) -> None:
    lines = (ran.folder / "one_iops.1.log").read_text().splitlines()
    logged = [int(line.split(",")[1]) for line in lines if line.split(",")[2] == " 0"]
    one = trace(ran.works[0], "read.iops")
    assert one.values.tolist() == logged
    assert 0.05 < one.interval_s < 0.5
    size = trace(ran.works[0], "read.bytes_per_s").values
    assert np.mean(size) == pytest.approx(4096 * np.mean(logged), rel=0.2)


def test_single_ios_are_counted(ran: Ran) -> None:
    work = ran.works[2]
    lines = len((ran.folder / "shared_iops.4.log").read_text().splitlines())
    iops = trace(work, "read.iops")
    assert iops.interval_s == pytest.approx(0.5, abs=0.1)
    assert lines == pytest.approx(work.total_ios, abs=2)
    assert iops.values.mean() == pytest.approx(lines / (work.runtime_ms / 1000), rel=0.2)


def test_times_since_1970_say_when_the_phase_began(ran: Ran, tmp_path: Path) -> None:
    """This fio says no begin: its stamp alone leaves a tenth of a second and more."""
    (tmp_path / "out.json").write_text((ran.folder / "out.json").read_text())
    alone = read_workload([tmp_path])
    if alone[1].timed_by == "job_start":
        pytest.skip("this fio says when its jobs began")
    assert ran.works[1].timed_by == "the times of its logs"
    assert ran.works[1].boundary_u_ns < alone[1].boundary_u_ns / 5
    assert ran.works[0].boundary_u_ns < alone[0].boundary_u_ns
    for near, far in zip(ran.works, alone, strict=True):
        assert abs(near.begin_ns - far.begin_ns) <= far.boundary_u_ns


def test_windows_that_come_late_do_not_say_a_begin_that_never_was(tmp_path: Path) -> None:
    """As a busy host wrote them: the IOPS of a job that began at …204.714 come up to 96 ms late."""
    ends_ms = {
        "lat": (814, 914, 1016, 1114, 1214, 1320, 1415, 1524, 1618, 1720),
        "iops": (831, 936, 1091, 1231, 1338, 1534),
    }
    logs = {tmp_path / f"two_{kind}.log": ends for kind, ends in ends_ms.items()}
    for file, ends in logs.items():
        file.write_text("".join(f"{1795710204000 + end}, 120, 0, 0, 0\n" for end in ends))
    read = tuple(log for file in logs if (log := read_log(file)) is not None)
    for window_ms in (100, 0):
        low_ns, high_ns = bounds_ns(PhaseLogs(tuple(logs), read), 1005, window_ms) or (0, 0)
        near_ns = STAMP_U_NS
        assert low_ns - near_ns <= 1795710204714 * 1_000_000 <= high_ns + near_ns
        assert high_ns - low_ns < 20e6


def test_logs_may_lie_elsewhere_and_are_named(ran: Ran, tmp_path: Path) -> None:
    document = tmp_path / "out.json"
    document.write_text((ran.folder / "out.json").read_text())
    works = read_workload([document, *sorted(ran.folder.glob("*.log"))])
    assert [len(work.traces) for work in works] == [len(work.traces) for work in ran.works]


def test_they_are_kept_in_the_run_with_their_trace(ran: Ran, tmp_path: Path) -> None:
    begin_s, end_s = ran.works[0].begin_ns / 1e9, ran.works[-1].end_ns / 1e9
    csv = tmp_path / "psu.csv"
    times = np.arange(begin_s - 5, end_s + 5, 0.1)
    csv.write_text("time,volts,amps\n" + "".join(f"{t:.3f},12,0.5\n" for t in times))
    sources = [MeterFile(csv, meter_of(csv))]
    rules = ClockRules(trust=True, u_s=0.1)
    made = import_run(ran.works, sources, tmp_path / "runs", Labels("bench", "logs"), rules)
    record = RunRecord(made.path)
    for name in ("read.iops", "write.iops", "read.bytes_per_s", "read.latency_mean_us"):
        expected = sum(
            len(one.values) for work in ran.works for one in work.traces if one.channel == name
        )
        assert len(record.readings(f"fio.{name}")) == expected > 0
    kept = made.path / "import" / "fio" / "one_iops.1.log"
    assert kept.read_bytes() == (ran.folder / "one_iops.1.log").read_bytes()


FORMS = {
    "fio 2: four fields": "500, 100, 0, 0\n1000, 300, 0, 0\n",
    "3.x: priority": "500, 100, 0, 0, 0\n1000, 300, 0, 0, 0\n",
    "with the offset": "500, 100, 0, 0, 0, 0\n1000, 300, 0, 0, 0, 0\n",
    "with the issue time": "500, 100, 0, 0, 0, 0x0000, 0\n1000, 300, 0, 0, 0, 0x0000, 0\n",
    "mean and maximum": "500, 100, 900, 0, 0, 0\n1000, 300, 950, 0, 0, 0\n",
    "a last line that is cut": "500, 100, 0, 0, 0\n1000, 300, 0, 0, 0\n15",
    "directions some ms apart": "500, 100, 0, 0, 0\n501, 7, 1, 0, 0\n1000, 300, 0, 0, 0\n"
    "1001, 9, 1, 0, 0\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_line(tmp_path: Path, form: str) -> None:
    file = tmp_path / "x_iops.1.log"
    file.write_text(FORMS[form])
    log = read_log(file)
    assert log is not None and not log.since_1970
    assert log.iops["read"].tolist() == [100, 300]
    assert log.begin_ms[0] == 0 and log.begin_ms[1] == log.end_ms[0]


def test_units_of_each_kind(tmp_path: Path) -> None:
    for kind, quantity, expected in (
        ("bw", "bytes_per_s", 2048.0), ("lat", "latency_us", 0.002), ("clat", "latency_us", 0.002),
    ):  # fmt: skip
        file = tmp_path / f"x_{kind}.1.log.10.0.0.7"
        file.write_text("1700000000500, 2, 1, 0, 0\n1700000001000, 2, 1, 0, 0\n")
        log = read_log(file)
        assert log is not None and log.since_1970 and log.client == "10.0.0.7"
        assert getattr(log, quantity)["write"].tolist() == [expected] * 2
    old = read_log(tmp_path / "x_lat.1.log.10.0.0.7", in_us=True)
    assert old is not None and old.latency_us["write"].tolist() == [2.0, 2.0]


def test_an_idle_window_is_no_longer_window(tmp_path: Path) -> None:
    file = tmp_path / "x_iops.1.log"
    file.write_text("".join(f"{t}, 100, 0, 0, 0\n" for t in (500, 1000, 1500, 9000, 9500)))
    log = read_log(file)
    assert log is not None
    assert log.begin_ms.tolist() == [0, 500, 1000, 8500, 9000]


BAD = {
    "no log": ("time,watts\n1,2\n", "has 2 fields"),
    "text": ("500, abc, 0, 0, 0\n", "is no log of fio"),
    "no direction": ("500, 1, 9, 0, 0\n", "no direction"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_log_is_named(tmp_path: Path, name: str) -> None:
    text, words = BAD[name]
    file = tmp_path / "x_iops.1.log"
    file.write_text(text)
    with pytest.raises(BadLog, match=words):
        read_log(file)


def changed(ran: Ran, folder: Path, **files: str) -> list[str]:
    """The notes on a copy of the run with other logs."""
    for file in ran.folder.iterdir():
        if file.suffix in (".json", ".log"):
            (folder / file.name).write_bytes(file.read_bytes())
    for name, text in files.items():
        (folder / f"{name}_iops.1.log").write_text(text)
    return [note for work in read_workload([folder]) for note in work.notes]


def test_logs_of_another_run_are_left_out_with_a_note(ran: Ran, tmp_path: Path) -> None:
    faster = "".join(f"{t}, 90000, 0, 0, 0\n" for t in range(100, 1100, 100))
    (note,) = changed(ran, tmp_path, one=faster)
    assert "90000 IOPS, where fio printed" in note and "of another run" in note
    longer = "".join(f"{t}, 1000, 0, 0, 0\n" for t in range(100, 9100, 100))
    (note,) = changed(ran, tmp_path, one=longer)
    job = ran.document["jobs"][0]
    worked_s = max(job["read"]["runtime"], job["write"]["runtime"]) / 1000
    assert f"ends 9.0 s after its job, which worked for {worked_s:.1f} s" in note
    (note,) = changed(ran, tmp_path, one="x,y\n")
    assert note.startswith("one_iops.1.log: has 2 fields")


def test_maxima_and_logs_of_several_phases_are_left_out(ran: Ran, tmp_path: Path) -> None:
    document = json.loads(json.dumps(ran.document))
    document["jobs"][0]["job options"]["log_max_value"] = "1"
    for at in (2, 3):
        document["jobs"][at]["job options"]["write_iops_log"] = "both"
    (tmp_path / "out.json").write_text(json.dumps(document))
    for name in ("one_iops.1", "both_iops"):
        (tmp_path / f"{name}.log").write_text("100, 1, 0, 0, 0\n200, 1, 0, 0, 0\n")
    notes = [note for work in read_workload([tmp_path]) for note in work.notes]
    assert notes == [
        "one_iops.1.log: has maxima, not means (log_window_value); left out",
        "both_iops.log: of several phases at once (per_job_logs=0); left out",
    ]
