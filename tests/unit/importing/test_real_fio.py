"""What the real fio prints in each of its ways to be run, read as phases."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from labctl.fio.results import last_document, result_of
from labctl.importing.phases import phases_of
from labctl.importing.work import Work
from labctl.importing.workload import read_workload
from labctl.record.phase import Pattern
from tests.servers.mqtt_server import free_port
from tests.waiting import until

FIRST = ("nice", "-n", "-15")
"""Before the tests beside it, where that is permitted: what is read here is an even load."""
NULL = """\
[global]
ioengine=null
size=1g
bs=4k
time_based
thinktime=6000
rw=randread
runtime=1
"""
TWO = (
    NULL
    + """\
[one]
[two]
stonewall
iodepth=4
numjobs=2
"""
)


def fio(
    folder: Path, jobs: str, *options: str, append: bool = False, first: Sequence[str] = FIRST
) -> tuple[float, float]:
    """Run it, all that it says into ``out.txt``: when it was begun and had ended."""
    (folder / "jobs.fio").write_text(jobs)
    began = time.time()
    with (folder / "out.txt").open("a" if append else "w") as out:
        subprocess.run(
            [*first, "fio", *options, "jobs.fio"], cwd=folder, check=True, stdout=out, stderr=out
        )
    return began, time.time()


def within(works: tuple[Work, ...], began: float, ended: float) -> bool:
    """Whether what is stated of each begin and end has a part in this time."""
    return all(
        began * 1e9 <= one.begin_ns + one.boundary_u_ns
        and one.end_ns - one.boundary_u_ns <= ended * 1e9
        for one in works
    )


def test_statuses_of_stonewalled_jobs_among_other_lines(tmp_path: Path) -> None:
    """The plain report stands before the JSON, and each job has IOPS over time of its own."""
    told = fio(
        tmp_path, TWO, "--output-format=normal,json+",
        "--status-interval=300ms",
    )  # fmt: skip
    works = read_workload([tmp_path / "out.txt"])
    assert [(one.queue_depth, one.jobs) for one in works] == [(1, 1), (4, 2)]
    assert within(works, *told)
    assert all(len(one.statuses) > 2 for one in works)
    if works[0].timed_by != "job_start":
        assert {one.timed_by for one in works} == {"the times of its statuses"}
        assert max(one.boundary_u_ns for one in works) < 100_000_000
    text = works[1].output or ""
    document = last_document(text)
    assert document is not None
    done = result_of(document).read
    assert done is not None and done.total_ios == works[1].total_ios
    assert done.latency_histogram, "JSON+ has bins"


def test_what_several_fios_printed_into_one_file(tmp_path: Path) -> None:
    """``fio ... >> all.json``, also of one depth again: a phase each, and no statuses."""
    depths = (1, 8, 8)
    told = [
        fio(tmp_path, NULL + f"[job]\niodepth={depth}\n", "--output-format=json", append=True)
        for depth in depths
    ]
    works = read_workload([tmp_path / "out.txt"])
    assert [one.queue_depth for one in works] == list(depths)
    assert not any(one.statuses for one in works)
    for work, (began, ended) in zip(works, told, strict=True):
        assert within((work,), began, ended)


def test_groups_that_did_not_wait_are_one_phase(tmp_path: Path) -> None:
    """``new_group`` looks as ``stonewall`` does in the document of a fio without ``job_start``."""
    told = fio(
        tmp_path,
        NULL.replace("runtime=1", "runtime=2") + "[one]\n[two]\nnew_group\n",
        "--output-format=json",
    )
    (work,) = works = read_workload([tmp_path / "out.txt"])
    assert work.jobs == 2 and within(works, *told)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[int]]:
    """Two ``fio --server``."""
    ports = [free_port(), free_port()]
    started = [
        subprocess.Popen(
            ["fio", f"--server=127.0.0.1,{port}"],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for port in ports
    ]
    try:
        for port in ports:
            until(lambda port=port: answers(port))
        yield ports
    finally:
        for one in started:
            one.kill()
            one.wait()


def test_clients_are_added_up_and_stonewalled_jobs_are_not(
    servers: list[int], tmp_path: Path
) -> None:
    clients = [word for port in servers for word in (f"--client=127.0.0.1,{port}", "jobs.fio")]
    (tmp_path / "jobs.fio").write_text(TWO)
    began = time.time()
    subprocess.run(
        ["fio", "--output-format=json", "--output=all.json", *clients],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    told = began, time.time()
    document = json.loads((text := (tmp_path / "all.json").read_text())[text.index("{") :])
    works = read_workload([tmp_path / "all.json"])
    assert [(one.queue_depth, one.jobs) for one in works] == [(1, 2), (4, 4)]
    for work, name in zip(works, ("one", "two"), strict=True):
        jobs = [one for one in document["client_stats"] if one["jobname"] == name]
        assert len(jobs) == work.jobs
        assert work.total_ios == sum(one["read"]["total_ios"] for one in jobs)
    assert within(works, *told)


def test_a_folder_as_bench_fio_leaves_it(tmp_path: Path) -> None:
    """A folder a drive and a block size, documents and logs side by side, one window a second."""
    folder = tmp_path / "results" / "nvme0n1" / "4k"
    folder.mkdir(parents=True)
    for depth in (1, 4):
        prefix = folder / f"randread-iodepth-{depth}-numjobs-1"
        job = NULL.replace("[global]", "[FIOJOB]") + f"iodepth={depth}\nnumjobs=1\n"
        job += "log_avg_msec=250\nramp_time=0\ngroup_reporting=1\n"
        job += "".join(f"write_{kind}_log={prefix}\n" for kind in ("bw", "lat", "iops"))
        fio(tmp_path, job, "--output-format=json", f"--output={folder}/randread-{depth}-1.json")
    works = read_workload([tmp_path / "results"])
    assert [one.label for one in phases_of(works)] == ["randread 4k QD1", "randread 4k QD4"]
    assert works[0].pattern is Pattern.RANDREAD
    for work in works:
        channels = {one.channel for one in work.traces}
        assert channels == {"read.iops", "read.bytes_per_s", "read.latency_mean_us"}
        assert not work.notes


def test_logs_that_fio_packed_say_what_it_printed(tmp_path: Path) -> None:
    """``log_store_compressed=1``: fio unpacks them. It crashes with a negative nice (3.33)."""
    logs = "write_iops_log=a\nwrite_lat_log=a\nlog_compression=64k\nlog_store_compressed=1\n"
    fio(tmp_path, f"{NULL}{logs}[a]\n", "--output-format=json", first=())
    assert (tmp_path / "a_iops.1.log.fz").is_file()
    (work,) = read_workload([tmp_path / "out.txt"])
    assert not work.notes
    traces = {trace.channel: trace for trace in work.traces}
    iops, latency = traces["read.iops"], traces["read.latency_mean_us"]
    printed = work.total_ios / work.duration_s
    assert float(iops.values.mean()) == pytest.approx(printed, rel=0.2)
    assert float(latency.values.min()) > 0
    (tmp_path / "a_iops.1.log.fz").write_bytes(b"junk" * 9)
    (work,) = read_workload([tmp_path / "out.txt"])
    assert "a_iops.1.log.fz: is packed" in work.notes[0] and "cannot unpack" in work.notes[0]
