"""The daemon and its runs killed at random instants: each job goes on in the run that it began.

Twice in ``make test``; in ``make test-long`` as often as ``LABCTL_KILLS`` says (20, or
hundreds for a long night).
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench
from labctl.record.reader import find_runs
from labctl.service.locks.rig_lock import rigs_in_use
from labctl.service.queue.job import JobState
from tests.bench.test_fio_phases import fios_below
from tests.faults.daemon_run import DaemonProcess, labctl, plan_file
from tests.faults.resumed_run import assert_completed_once, assert_times_ascend

pytestmark = [pytest.mark.bench, pytest.mark.fault]

MANY = int(os.environ.get("LABCTL_KILLS", "20"))


@pytest.mark.timeout(600 + 60 * MANY)
@pytest.mark.long
def test_killed_at_random_instants_no_job_is_lost_and_no_fio_left(
    bench: Bench, tmp_path: Path
) -> None:
    home, rng, kills = tmp_path / "home", random.Random(MANY), 0
    plan = plan_file(tmp_path, seconds=1)
    with DaemonProcess(home, bench.rig) as daemon:
        while kills < MANY:
            if all(job.state.over for job in daemon.queue.jobs()):
                labctl(home, "queue", "add", str(bench.rig), str(plan))
            time.sleep(rng.uniform(0.2, 9.0))
            running = rigs_in_use(daemon.home)
            if running and rng.random() < 0.4:
                running[0].process.signal(signal.SIGKILL)  # the run
            else:
                daemon.end(signal.SIGKILL)
                daemon.until(lambda: not fios_below(daemon.home.runs), 60)
                daemon.start()
            kills += 1
        for job in daemon.queue.jobs():
            assert daemon.until_over(job.id, 900).state is JobState.DONE, daemon.log()
        daemon.end()
    assert "Traceback" not in daemon.log() and "unexpected" not in daemon.log()
    assert fios_below(daemon.home.runs) == []
    runs = {path.name for path in find_runs(daemon.home.runs)}
    for job in daemon.queue.jobs():
        names = {item.run for item in job.attempts if item.run}
        assert len(names) == 1, job.attempts
        name = names.pop()
        assert name in runs
        assert_completed_once(daemon.home.runs / name)
        assert_times_ascend(daemon.home.runs / name)
    print(f"{kills} kills, {len(runs)} runs")
