"""``labctl run --job``: however often a scheduler begins a job, it is one run, done once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from instruments.simulated.bench import Bench
from labctl.errors import INTERRUPTED
from labctl.record.events import EventKind
from labctl.record.reader import RunRecord, find_runs
from tests.faults.resumed_run import WITHIN_S, assert_completed_once, labctl
from tests.waiting import until

pytestmark = [pytest.mark.bench, pytest.mark.fault, pytest.mark.long]


PLAN = """
name = "short"
idle_before_s = 1
idle_after_s = 0
{more}
[[sweeps]]
pattern = "randread"
queue_depth = [8, 1]
duration_s = 5
"""


class Job:
    """A job of a scheduler: ``labctl run`` with its name, begun as often as it takes."""

    def __init__(self, rig: Path, plan: Path, runs: Path, name: str) -> None:
        self.runs = runs
        self._words = ["run", str(rig), str(plan), "--runs", str(runs), "--job", name]

    def begin(self) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(labctl(*self._words), stdout=pipe, stderr=pipe, text=True)

    def ended(self) -> tuple[int, str]:
        """Begun, and waited for: its exit code and what it said."""
        with self.begin() as process:
            _, said = process.communicate(timeout=WITHIN_S)
        return process.returncode, said

    @property
    def phases_begun(self) -> int:
        kinds = [event.kind for run in find_runs(self.runs) for event in RunRecord(run).events]
        return kinds.count(EventKind.PHASE_STARTED)


def terminate_all_of(process: subprocess.Popen[str]) -> None:
    """SIGTERM to each process of a job, those that it started first, as schedulers send it."""
    own = psutil.Process(process.pid)
    for one in [*reversed(own.children(recursive=True)), own]:
        with contextlib.suppress(psutil.NoSuchProcess):
            os.kill(one.pid, signal.SIGTERM)


def test_it_goes_on_with_its_own_run_and_does_it_once(bench: Bench, tmp_path: Path) -> None:
    plan = tmp_path / "short.toml"
    plan.write_text(PLAN.format(more=""))
    job = Job(bench.rig, plan, tmp_path / "runs", "slurm-lab-7")
    with job.begin() as process:
        until(lambda: job.phases_begun >= 2, WITHIN_S)
        terminate_all_of(process)
        _, said = process.communicate(timeout=WITHIN_S)
    assert process.returncode == INTERRUPTED, said
    (run,) = find_runs(job.runs)
    assert RunRecord(run).header.job == "slurm-lab-7"
    code, said = job.ended()
    assert code == 0 and f"goes on with its run {run.name}" in said, said
    assert_completed_once(run)
    code, said = job.ended()
    assert code == 0 and f"completed already: {run.name}" in said, said
    assert find_runs(job.runs) == [run]


def test_a_run_that_must_be_in_one_piece_begins_anew_and_another_job_has_another(
    bench: Bench, tmp_path: Path
) -> None:
    plan = tmp_path / "short.toml"
    plan.write_text(PLAN.format(more='resume = "forbid"'))
    job = Job(bench.rig, plan, tmp_path / "runs", "a")
    with job.begin() as process:
        until(lambda: job.phases_begun >= 2, WITHIN_S)
        process.kill()
    code, said = job.ended()
    assert code == 0 and "begins a new run" in said, said
    cut_off, whole = (RunRecord(run) for run in find_runs(job.runs))
    assert cut_off.end is None and whole.end is not None
    assert whole.header.job == cut_off.header.job == "a"
    code, said = Job(bench.rig, plan, tmp_path / "runs", "b").ended()
    assert code == 0 and len(find_runs(job.runs)) == 3, said
