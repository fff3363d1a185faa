"""The daemon at night: it works the queue off, and what is done to it costs no job."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench
from labctl.record.reader import RunRecord, find_runs
from labctl.report.pages.report_files import PAGE_FILE
from labctl.service.locks.rig_lock import rigs_in_use
from labctl.service.queue.job import AttemptOutcome, JobState
from tests.bench.test_fio_phases import fios_below
from tests.faults.daemon_run import (
    WITHIN_S,
    DaemonProcess,
    environment,
    events_of,
    labctl,
    plan_file,
)
from tests.faults.resumed_run import assert_completed_once

pytestmark = [pytest.mark.bench, pytest.mark.fault]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A data directory that is private in the end, though there is no umask at all."""
    before = os.umask(0)
    try:
        yield tmp_path / "home"
        seen = [f"{mode:o} {path}" for path, mode in modes_below(tmp_path / "home") if mode & 0o077]
        assert seen == []
    finally:
        os.umask(before)


def modes_below(folder: Path) -> list[tuple[Path, int]]:
    paths = [path for path in (folder, *folder.rglob("*")) if not path.is_symlink()]
    return [(path, stat.S_IMODE(path.stat().st_mode)) for path in paths]


def queued(home: Path, rig: Path, plan: Path, *more: str) -> list[int]:
    messages = labctl(home, "queue", "add", str(rig), str(plan), "--json", *more).stdout
    return [job["id"] for job in json.loads(messages)]


def test_it_does_job_after_job_and_refuses_others_meanwhile(
    bench: Bench, home: Path, tmp_path: Path
) -> None:
    plan = plan_file(tmp_path)
    first, second = queued(home, bench.rig, plan, "--repeat", "2")
    with DaemonProcess(home, bench.rig) as daemon:
        run = daemon.until_in_phase(first, 1)
        assert daemon.process is not None
        pid = str(daemon.process.pid)
        by_hand = labctl(home, "run", str(bench.rig), str(plan), code=75)
        assert f"pid {pid}" in by_hand.stderr and "queue add" in by_hand.stderr
        another = labctl(home, "daemon", str(bench.rig), code=75)
        assert f"pid {pid}" in another.stderr and "Traceback" not in another.stderr
        assert daemon.until_over(first).state is JobState.DONE
        assert daemon.until_over(second).state is JobState.DONE
        assert daemon.end() == 0
    assert (run / "report.html").exists()
    runs = {daemon.queue.job(number).last.run for number in (first, second)}  # type: ignore[union-attr]
    assert len(runs) == 2
    labctl(home, "run", str(bench.rig), str(plan), "--runs", str(tmp_path / "r"))
    assert [path for path, mode in modes_below(tmp_path / "r") if mode & 0o002] == []


@pytest.mark.long
def test_a_mark_is_set_in_the_job_that_is_on(bench: Bench, home: Path, tmp_path: Path) -> None:
    (number,) = queued(home, bench.rig, plan_file(tmp_path, seconds=5))
    with DaemonProcess(home, bench.rig) as daemon:
        run = daemon.until_in_phase(number, 1)
        marked = labctl(home, "mark", "fan", "off").stdout
        assert marked.endswith(f" in {run.name}: fan off\n")
        labctl(home, "mark", "fan on", "--rig", RunRecord(run).header.rig_name)
        elsewhere = labctl(home, "mark", "fan on", "--rig", "another", code=2)
        assert "nothing runs" in elsewhere.stderr
        assert daemon.until_over(number).state is JobState.DONE
    assert texts_of_marks(run) == ["fan off", "fan on"]
    marks = [one["text"] for one in json.loads((run / "summary.json").read_text())["marks"]]
    assert marks == ["fan off", "fan on"]


def texts_of_marks(run: Path) -> list[str]:
    return [event["text"] for event in events_of(run) if event["kind"] == "mark"]


def test_killed_in_the_middle_nothing_works_on_and_the_job_is_done_by_the_next(
    bench: Bench, home: Path, tmp_path: Path
) -> None:
    (number,) = queued(home, bench.rig, plan_file(tmp_path, seconds=4))
    with DaemonProcess(home, bench.rig) as daemon:
        for attempt in (1, 2):
            run = daemon.until_in_phase(number, 1, attempt)
            assert fios_below(run)
            daemon.end(signal.SIGKILL)
            daemon.until(lambda run=run: not fios_below(run), 60)  # type: ignore[misc]
            daemon.start()
        job = daemon.until_over(number)
    assert job.state is JobState.DONE, daemon.log()
    outcomes = [attempt.outcome for attempt in job.attempts]
    assert outcomes == [
        AttemptOutcome.INTERRUPTED,
        AttemptOutcome.INTERRUPTED,
        AttemptOutcome.COMPLETED,
    ]
    assert {attempt.run for attempt in job.attempts} == {run.name}
    assert_completed_once(run)


@pytest.mark.long
def test_a_plan_that_must_be_in_one_piece_begins_anew(
    bench: Bench, home: Path, tmp_path: Path
) -> None:
    plan = plan_file(tmp_path, seconds=4)
    plan.write_text('resume = "forbid"\n' + plan.read_text())
    (number,) = queued(home, bench.rig, plan)
    with DaemonProcess(home, bench.rig) as daemon:
        first = daemon.until_in_phase(number, 1)
        rigs_in_use(daemon.home)[0].process.signal(signal.SIGKILL)
        second = daemon.until_in_phase(number, 1, attempt=2)
        assert daemon.until_over(number).state is JobState.DONE
    assert first != second
    assert_completed_once(second)


@pytest.mark.long
def test_with_a_rig_that_was_changed_since_it_begins_anew(
    bench: Bench, home: Path, tmp_path: Path
) -> None:
    """One run must not hold numbers of two rigs; the job is done with the rig as it is now."""
    rig = tmp_path / "bench.toml"
    rig.write_text(Path(bench.rig).read_text())
    (number,) = queued(home, rig, plan_file(tmp_path, seconds=4))
    with DaemonProcess(home, rig) as daemon:
        first = daemon.until_in_phase(number, 1)
        daemon.end(signal.SIGKILL)
        daemon.until(lambda: not fios_below(first), 60)
        limits = "\n[limits]\nhours = 9\n"
        rig.write_text(rig.read_text() + limits)
        daemon.start()
        second = daemon.until_in_phase(number, 1, attempt=2)
        assert daemon.until_over(number).state is JobState.DONE, daemon.log()
    assert first != second
    assert "begins anew" in daemon.log() and "limits.hours" in daemon.log()
    assert_completed_once(second)


@pytest.mark.long
def test_sigterm_ends_the_run_and_keeps_the_job(bench: Bench, home: Path, tmp_path: Path) -> None:
    (number,) = queued(home, bench.rig, plan_file(tmp_path, seconds=20))
    with DaemonProcess(home, bench.rig) as daemon:
        run = daemon.until_in_phase(number, 1)
        assert daemon.end() == 0
    assert fios_below(run) == []
    assert events_of(run)[-1]["kind"] == "run_ended"
    assert daemon.queue.job(number).state is JobState.QUEUED


@pytest.mark.long
def test_a_cancelled_job_is_stopped_and_the_next_begins(
    bench: Bench, home: Path, tmp_path: Path
) -> None:
    (first,) = queued(home, bench.rig, plan_file(tmp_path, "long", seconds=60))
    (second,) = queued(home, bench.rig, plan_file(tmp_path))
    with DaemonProcess(home, bench.rig) as daemon:
        run = daemon.until_in_phase(first, 1)
        labctl(home, "queue", "cancel", str(first))
        assert daemon.until_over(first).state is JobState.CANCELLED
        assert (run / "report.html").exists()
        assert daemon.until_over(second).state is JobState.DONE


@pytest.mark.long
def test_a_job_for_another_drive_is_refused_and_the_next_is_done(
    bench: Bench, home: Path, tmp_path: Path
) -> None:
    first, second = queued(home, bench.rig, plan_file(tmp_path), "--repeat", "2")
    with closing(sqlite3.connect(home / "queue" / "jobs.sqlite")) as database:
        change = "UPDATE jobs SET job = json_set(job, '$.drive_serial', 'ANOTHER') WHERE id = ?"
        database.execute(change, [first])
        database.commit()
    with DaemonProcess(home, bench.rig) as daemon:
        refused = daemon.until_over(first)
        assert refused.state is JobState.FAILED and "another drive" in refused.reason
        assert daemon.until_over(second).state is JobState.DONE


def test_a_job_that_cannot_begin_fails_with_its_reason_after_its_retries(
    bench: Bench, home: Path, tmp_path: Path
) -> None:
    plan = plan_file(tmp_path)
    (number,) = queued(home, bench.rig, plan, "--retries", "0")
    with DaemonProcess(home, bench.rig, PATH="/nowhere") as daemon:
        job = daemon.until_over(number)
    assert job.state is JobState.FAILED and "fio is not installed" in job.reason


@pytest.mark.long
def test_a_report_that_cannot_be_written_has_nothing_measured_again(
    bench: Bench, home: Path, tmp_path: Path
) -> None:
    (number,) = queued(home, bench.rig, plan_file(tmp_path), "--retries", "2")
    with DaemonProcess(home, bench.rig) as daemon:
        run = daemon.until_in_phase(number, 1)
        (run / PAGE_FILE).mkdir(mode=0o700)
        job = daemon.until_over(number)
        assert job.state is JobState.DONE and len(job.attempts) == 1
        assert f"{run.name} has no report" in daemon.log()
    assert_completed_once(run)


def test_systemd_is_notified_when_it_is_ready_alive_reloading_and_stopping(
    bench: Bench, home: Path, tmp_path: Path
) -> None:
    address = tmp_path / "notify"
    heard: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(address))
        listener.settimeout(30)

        def until(word: str) -> None:
            while word not in heard:
                heard.extend(listener.recv(4096).decode().splitlines())

        variables = {"NOTIFY_SOCKET": str(address), "WATCHDOG_USEC": "400000"}
        with DaemonProcess(home, bench.rig, **variables) as daemon:
            until("READY=1")
            until("WATCHDOG=1")
            daemon.send(signal.SIGHUP)
            until("RELOADING=1")
            until("READY=1")
            assert daemon.end() == 0
            until("STOPPING=1")
    assert any(line.startswith("MONOTONIC_USEC=") for line in heard)


@pytest.mark.long
def test_a_daemon_stopped_for_a_while_goes_on_where_it_was(
    bench: Bench, home: Path, tmp_path: Path
) -> None:
    (number,) = queued(home, bench.rig, plan_file(tmp_path))
    with DaemonProcess(home, bench.rig) as daemon:
        run = daemon.until_in_phase(number, 1)
        daemon.send(signal.SIGSTOP)
        daemon.until(lambda: (run / PAGE_FILE).exists())  # the run and its report end meanwhile
        daemon.send(signal.SIGCONT)
        job = daemon.until_over(number)
    assert job.state is JobState.DONE and len(job.attempts) == 1


def test_a_run_by_hand_keeps_the_daemon_away_until_it_has_ended(
    bench: Bench, home: Path, tmp_path: Path
) -> None:
    plan = plan_file(tmp_path, seconds=120)
    command = [
        "-m",
        "labctl.cli.main",
        "run",
        str(bench.rig),
        str(plan),
        "--runs",
        str(tmp_path / "r"),
    ]
    with subprocess.Popen(
        [sys.executable, *command],
        env=environment(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as hand:  # fmt: skip
        while not (home / "rigs").is_dir() or not list((home / "rigs").glob("*.json")):
            assert hand.poll() is None
            time.sleep(0.05)
        refused = labctl(home, "daemon", str(bench.rig), code=75)
        assert f"pid {hand.pid}" in refused.stderr
        hand.send_signal(signal.SIGINT)
        assert hand.wait(WITHIN_S) == 130
    with DaemonProcess(home, bench.rig) as daemon:
        daemon.until(lambda: bool(find_runs(daemon.home.idle)))
        assert daemon.end() == 0


@pytest.mark.long
def test_between_jobs_the_meters_are_recorded_and_given_up_for_the_next_job(
    bench: Bench, home: Path, tmp_path: Path
) -> None:
    with DaemonProcess(home, bench.rig) as daemon:
        idle = daemon.home.idle
        daemon.until(lambda: bool(find_runs(idle)))
        (first,) = find_runs(idle)
        daemon.until(lambda: RunRecord(first).readings("i12.voltage").size > 100)
        labctl(home, "mark", "lid open")
        (number,) = queued(home, bench.rig, plan_file(tmp_path))
        assert daemon.until_over(number).state is JobState.DONE
        daemon.until(lambda: len(find_runs(idle)) == 2)
        assert daemon.end() == 0
    assert texts_of_marks(first) == ["lid open"]
    for path in find_runs(idle):
        record = RunRecord(path)
        assert record.problems == [] and record.header.phases == ()
        assert record.end is not None and record.end.data["outcome"] == "completed"
    assert len(find_runs(daemon.home.runs)) == 1
