"""A job whose run is killed at each stage of it goes on from there, and is done once."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench, configure
from labctl.record.reader import find_runs
from labctl.report.pages.report_files import PAGE_FILE
from labctl.service.locks.processes import ProcessIdentity
from labctl.service.locks.rig_lock import rigs_in_use
from labctl.service.queue.job import AttemptOutcome, JobState
from tests.bench.test_fio_phases import fios_below
from tests.faults.conftest import SLOW
from tests.faults.daemon_run import DaemonProcess, events_of, labctl
from tests.faults.resumed_run import assert_completed_once, assert_times_ascend

pytestmark = [pytest.mark.bench, pytest.mark.fault]

PLAN = """
name = "stages"
resume = "{resume}"
idle_before_s = 0
idle_after_s = 1
[[prepare]]
step = "purge"
[[prepare]]
step = "fill"
span = "16m"
[[sweeps]]
pattern = "randwrite"
queue_depth = [1, 8]
duration_s = 1.5
"""
PURGE, FILL, FIRST, SECOND = range(4)


class Killed(DaemonProcess):
    """A daemon whose runs are killed."""

    def kill_run(self, number: int) -> None:
        """Kill the process of the job's present attempt; its fio goes with it."""
        attempt = self.queue.job(number).last
        assert attempt is not None and attempt.pid
        ProcessIdentity(attempt.pid, attempt.pid_ticks, attempt.boot_id).signal(signal.SIGKILL)
        self.until(lambda: not fios_below(self.home.runs))

    def until_attempt(self, number: int, count: int) -> None:
        """Wait until the ``count``-th attempt has its process."""

        def begun() -> bool:
            job = self.queue.job(number)
            last = job.last
            return len(job.attempts) >= count and last is not None and last.pid != 0

        self.until(begun)

    def until_last(self, run: Path, kind: str, index: int | None, attempt: int) -> None:
        """Wait until an event was recorded by the ``attempt``-th process of the run."""

        def recorded() -> bool:
            events = events_of(run)
            begins = [
                place
                for place, event in enumerate(events)
                if event["kind"] in ("run_started", "run_resumed")
            ]
            return len(begins) >= attempt and any(
                event["kind"] == kind and index in (None, event.get("index"))
                for event in events[begins[attempt - 1] :]
            )

        self.until(recorded)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("resume", ["repeat", "prepare"])
def test_killed_at_each_stage_it_is_done_once(resume: str, tmp_path: Path) -> None:
    plan = tmp_path / "stages.toml"
    plan.write_text(PLAN.format(resume=resume))
    home = tmp_path / "home"
    config = configure(overrides=SLOW)
    with Bench(tmp_path / "bench", config) as bench, Killed(home, bench.rig) as daemon:
        message = labctl(home, "queue", "add", str(bench.rig), str(plan), "--yes", "--json").stdout
        number = int(json.loads(message)[0]["id"])
        daemon.until_attempt(number, 1)
        daemon.kill_run(number)  # before it has a directory
        run = daemon.until_in_phase(number, PURGE, attempt=2)
        daemon.kill_run(number)  # in the preparation
        daemon.until_last(run, "phase_ended", FIRST, 2)
        daemon.kill_run(number)  # between two phases, or just behind
        daemon.until_last(run, "phase_started", SECOND, 3)
        daemon.kill_run(number)
        daemon.until_last(run, "run_ended", None, 4)
        daemon.kill_run(number)  # in the report
        job = daemon.until_over(number)
        assert job.state is JobState.DONE, daemon.log()
        daemon.until(lambda: (run / PAGE_FILE).exists())
        assert not rigs_in_use(daemon.home) and fios_below(daemon.home.runs) == []
    assert "Traceback" not in daemon.log() and "unexpected" not in daemon.log()
    outcomes = [attempt.outcome for attempt in job.attempts]
    assert len(outcomes) >= 5 and outcomes[-1] is AttemptOutcome.COMPLETED
    assert set(outcomes[:-1]) == {AttemptOutcome.INTERRUPTED}
    assert {attempt.run for attempt in job.attempts} <= {run.name, None}
    assert find_runs(daemon.home.runs) == [run]
    assert_times_ascend(run)
    events = events_of(run)
    if resume == "repeat":
        assert_completed_once(run)
    else:  # whatever was completed before is prepared for again, and comes once behind that
        resumed = max(i for i, event in enumerate(events) if event["kind"] == "run_resumed")
        kept = set(events[resumed]["kept"])
        again = [
            event["index"]
            for event in events[resumed:]
            if event["kind"] == "phase_ended" and event["outcome"] == "completed"
        ]
        assert sorted([*kept, *again]) == list(range(5))
        assert PURGE in again and FILL in again
    assert sum(event["kind"] == "run_ended" for event in events) == 1
