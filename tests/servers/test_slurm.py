"""labctl as a job of Slurm: the shipped script and settings, on two rigs of two machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench, configure
from labctl.config.rig import load_rig
from labctl.errors import Refused
from labctl.record.events import EventKind
from labctl.record.reader import RunRecord, find_runs
from labctl.service.data_dir import Home
from labctl.service.locks.rig_lock import RigLock
from tests.faults.conftest import SLOW
from tests.faults.resumed_run import assert_completed_once
from tests.servers.slurm_cluster import WITHIN_S, Cluster, missing
from tests.waiting import until

pytestmark = [
    pytest.mark.bench,
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]
PLAN = """
name = "{name}"
idle_before_s = 1
idle_after_s = 0
[[sweeps]]
pattern = "randread"
queue_depth = [8, 1, 4]
duration_s = {seconds}
"""
LEFT, RIGHT = "--gres=rig:left:1", "--gres=rig:right:1"
SECONDS = {"short": 2, "long": 15, "endless": 600}
"""Of each of three phases, by the plan."""
BEGINS = (EventKind.RUN_STARTED, EventKind.RUN_RESUMED)


class Lab:
    """Two machines, "left" and "right", each with a rig of its name."""

    def __init__(self, cluster: Cluster, plans: Path) -> None:
        self.cluster = cluster
        self._plans = plans

    def submit(self, plan: str, *options: str) -> int:
        """A job of the shipped script, with options of sbatch."""
        if plan in SECONDS:
            file = self._plans / f"{plan}.toml"
            file.write_text(PLAN.format(name=plan, seconds=SECONDS[plan]))
            plan = str(file)
        return self.cluster.submit(*options, "--", plan)

    def runs_of(self, job: int) -> list[RunRecord]:
        runs = [run for name in ("left", "right") for run in find_runs(self.cluster.runs(name))]
        records = map(RunRecord, runs)
        return [record for record in records if record.header.job == f"slurm-lab-{job}"]

    def until_state(self, job: int, *states: str) -> None:
        until(lambda: self.cluster.state(job) in states, WITHIN_S)

    def until_in_phase(self, job: int, index: int) -> RunRecord:
        """Wait until a job's run has begun a phase, or a later one; the run."""

        def begun() -> bool:
            return any(
                event.kind == EventKind.PHASE_STARTED and event.data["index"] >= index
                for record in self.runs_of(job)
                for event in record.events
            )

        until(begun, WITHIN_S)
        return self.runs_of(job)[-1]

    def assert_done_once(self, job: int, machine: str, resumed: bool) -> None:
        """Its one run is on the machine of its rig, and each phase was completed once."""
        (record,) = self.runs_of(job)
        assert record.path.parent == self.cluster.runs(machine)
        assert_completed_once(record.path)
        again = [event for event in record.events if event.kind == EventKind.RUN_RESUMED]
        assert bool(again) == resumed, self.cluster.said(job)
        assert (record.path / "report.html").is_file()

    def assert_one_at_a_time(self, machine: str) -> None:
        """No process of a run worked on a drive while another did."""
        spans = []
        for run in find_runs(self.cluster.runs(machine)):
            events = RunRecord(run).events
            begins = [place for place, event in enumerate(events) if event.kind in BEGINS]
            ends = [place - 1 for place in begins[1:]] + [len(events) - 1]
            spans += [
                (events[begin].t_ns, events[end].t_ns)
                for begin, end in zip(begins, ends, strict=True)
            ]
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(spans))), spans


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    folder = tmp_path_factory.mktemp("slurm")
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(Bench(folder / name, configure(overrides=SLOW))).rig
            for name in ("left", "right")
        }


@pytest.fixture
def lab(tmp_path: Path, benches: dict[str, Path]) -> Iterator[Lab]:
    with Cluster(tmp_path / "cluster", benches) as cluster:
        yield Lab(cluster, tmp_path)


def test_six_jobs_through_a_drained_rig_a_killed_machine_a_cancel_and_a_preemption(
    lab: Lab,
) -> None:
    cluster = lab.cluster
    killed, preempted = lab.submit("long", LEFT), lab.submit("long", RIGHT)
    lab.until_in_phase(killed, 2)
    cluster.kill_machine("left")
    lab.until_in_phase(preempted, 2)
    urgent = lab.submit("short", RIGHT, "--partition=urgent")
    lab.until_in_phase(urgent, 1)
    (cut_off,) = lab.runs_of(preempted)
    assert cut_off.end is not None and cut_off.end.data["reason"] == "SIGTERM"
    cluster.call("scontrol", "update", "nodename=right", "state=drain", "reason=a cable is changed")
    behind, anywhere = lab.submit("short", LEFT), lab.submit("short", "--constraint=truevolt")
    cancelled = lab.submit("long", RIGHT)
    lab.until_state(killed, "PENDING")
    lab.until_state(urgent, "COMPLETED")  # what is on when a rig is drained is done to its end
    cluster.start_machine("left")
    for job in (killed, behind, anywhere):
        lab.until_state(job, "COMPLETED")
    assert cluster.state(preempted) == cluster.state(cancelled) == "PENDING"

    cluster.call("scontrol", "update", "nodename=right", "state=resume")
    lab.until_in_phase(cancelled, 1)
    cluster.call("scancel", str(cancelled))
    lab.until_state(cancelled, "CANCELLED")
    lab.until_state(preempted, "COMPLETED")

    lab.assert_done_once(killed, "left", resumed=True)
    lab.assert_done_once(preempted, "right", resumed=True)
    lab.assert_done_once(urgent, "right", resumed=False)
    lab.assert_done_once(behind, "left", resumed=False)
    lab.assert_done_once(anywhere, "left", resumed=False)
    (ended,) = lab.runs_of(cancelled)
    until(lambda: RunRecord(ended.path).end is not None, WITHIN_S)
    end = RunRecord(ended.path).end
    assert end is not None and end.data["outcome"] == "aborted"
    for machine in ("left", "right"):
        lab.assert_one_at_a_time(machine)
    assert cluster.state(cancelled) == "CANCELLED"
    assert {int(cluster.job(job)["Restarts"]) for job in (killed, preempted)} == {1}


def test_a_busy_rig_is_tried_again_and_neither_a_refusal_nor_a_job_whose_time_is_over(
    lab: Lab,
) -> None:
    cluster = lab.cluster
    over = lab.submit("endless", RIGHT, "--time=1")
    home = Home(cluster.runs("left").parent)
    by_hand = RigLock.take(home, load_rig(cluster.rig("left")), "labctl read")
    busy = lab.submit("short", LEFT)
    until(lambda: int(cluster.job(busy)["Restarts"]) >= 1, WITHIN_S)
    assert "in use by labctl read" in cluster.said(busy)
    by_hand.release()
    lab.until_state(busy, "COMPLETED")
    lab.assert_done_once(busy, "left", resumed=False)

    rig = cluster.rig("left")
    rig.write_text(rig.read_text().replace("destructive = true", "destructive = false"))
    refused, unknown = lab.submit("demo", LEFT), lab.submit("no-such-plan", LEFT)
    for job in (refused, unknown):
        lab.until_state(job, "FAILED")
        found = cluster.job(job)
        assert (found["ExitCode"], found["Restarts"]) == (f"{Refused.exit_code}:0", "0")
    assert "destructive = true" in cluster.said(refused)

    lab.until_state(over, "TIMEOUT")
    assert cluster.job(over)["Restarts"] == "0"
    (record,) = lab.runs_of(over)
    assert record.end is not None and record.end.data["reason"] == "SIGTERM"
