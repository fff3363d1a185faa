"""The disk turns read-only in the middle of a job, as the kernel makes it after an error."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench
from labctl.record.reader import RunRecord
from labctl.service.queue.job import JobState
from tests.bench.test_fio_phases import fios_below
from tests.faults.daemon_run import DaemonProcess, events_of, labctl, plan_file
from tests.faults.resumed_run import assert_completed_once, assert_times_ascend
from tests.loop_device import FailingDisk, failing_disk

pytestmark = [pytest.mark.bench, pytest.mark.fault]

READ_ONLY = "Read-only file system"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FailingDisk]:
    with failing_disk(tmp_path) as made:
        yield made


def queued(home: Path, rig: Path, plan: Path) -> int:
    message = labctl(home, "queue", "add", str(rig), str(plan), "--json").stdout
    (job,) = json.loads(message)
    return int(job["id"])


@pytest.mark.long
def test_with_the_data_directory_on_it_the_job_goes_on_when_it_was_repaired(
    bench: Bench, disk: FailingDisk, tmp_path: Path
) -> None:
    home = disk.point / "home"
    number = queued(home, bench.rig, plan_file(tmp_path, seconds=4))
    daemon = DaemonProcess(home, bench.rig)
    daemon.log_file = tmp_path / "daemon.log"
    with daemon:
        run = daemon.until_in_phase(number, 2)
        with (run / "journal.jsonl").open("rb") as journal:
            before = journal.read()
            os.fsync(journal.fileno())  # what was written a moment ago may not be synced yet
        disk.fail()
        daemon.until(lambda: READ_ONLY in daemon.log())
        daemon.until(lambda: not fios_below(run))
        assert_seen_and_not_changed(home, bench.rig, tmp_path)
        record = RunRecord(run)
        assert record.problems == [] and len(record.readings("i12.voltage")) > 100
        assert daemon.end() == 0
        assert daemon.log().count(READ_ONLY) < 6, daemon.log()
        disk.repair()
        assert (run / "journal.jsonl").read_bytes().startswith(before)
        daemon.start()
        job = daemon.until_over(number)
    assert job.state is JobState.DONE, daemon.log()
    assert "Traceback" not in daemon.log() and "unexpected" not in daemon.log()
    assert {attempt.run for attempt in job.attempts} == {run.name}
    assert_completed_once(run)
    assert_times_ascend(run)
    assert (run / "journal.jsonl").read_bytes().startswith(before)


def assert_seen_and_not_changed(home: Path, rig: Path, folder: Path) -> None:
    """Who looks sees what there is; who wants to change something is told why not."""
    assert "running" in labctl(home, "queue", "list").stdout
    assert labctl(home, "status").stdout
    for words in (("queue", "add", str(rig), str(folder / "short.toml")), ("queue", "pause", "b")):
        refused = labctl(home, *words, code=1)
        assert READ_ONLY in refused.stderr and "Traceback" not in refused.stderr


def test_a_daemon_cannot_begin_on_it_and_says_why(
    bench: Bench, disk: FailingDisk, tmp_path: Path
) -> None:
    home = disk.point / "home"
    for made in (True, False):
        if made:
            labctl(home, "queue", "list")
            disk.fail()
        else:
            home = disk.point / "another"
        refused = labctl(home, "daemon", str(bench.rig), code=2)
        assert READ_ONLY in refused.stderr and "Traceback" not in refused.stderr


def mount(folder: Path, *words: str) -> None:
    done = subprocess.run(
        ["mount", *words, str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"nothing may be mounted here: {done.stderr.strip()}")


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder, mounted over itself so that nothing in it can be changed."""
    mount(folder, "--bind", str(folder))
    try:
        mount(folder, "-o", "remount,ro,bind")
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.long
def test_with_the_queue_alone_on_it_the_run_ends_and_its_job_is_settled_later(
    bench: Bench, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    number = queued(home, bench.rig, plan_file(tmp_path, seconds=1, depths="[8]"))
    with DaemonProcess(home, bench.rig) as daemon:
        run = daemon.until_in_phase(number, 1)
        with read_only(home / "queue"):
            daemon.until(lambda: events_of(run)[-1]["kind"] == "run_ended")
            daemon.until(lambda: READ_ONLY in daemon.log())
            time.sleep(7)  # it tries again after five
            assert daemon.log().count(READ_ONLY) == 1, daemon.log()
            assert daemon.queue.job(number).state is JobState.RUNNING
        job = daemon.until_over(number)
        assert job.state is JobState.DONE and len(job.attempts) == 1
        daemon.until(lambda: "all is well again" in daemon.log())
    assert_completed_once(run)
