"""Which run ``labctl run --job`` goes on with: as far as to the meters, which are not there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from labctl.config.rig import load_rig
from labctl.errors import NOT_NOW
from labctl.record.layout import EVENTS_FILE
from labctl.record.reader import find_runs
from labctl.service.data_dir import Home
from labctl.service.locks.rig_lock import RigLock
from labctl.service.runs.run_of_job import run_of_job
from tests.forked_labctl import labctl
from tests.unit.capture.run.test_resumed_elsewhere import PLAN, Place, place

__all__ = ["place"]

NAME = "20261121T220000Z_bench_plan"


class Lab:
    """A rig of this machine with runs, and a scheduler that begins jobs there."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.runs = place.folder / "runs"
        self.plan = place.folder / "plan.toml"
        self.plan.write_text(PLAN)
        self.rig = place.own(command="no-such-program")
        place.keep_rig(self.rig)

    def recorded(self, job: str, name: str = NAME, events: str = "", **changes: str) -> Path:
        """A run of ``job`` that was cut off, or ended as the events say."""
        self.place.record(self.rig, job=job, **changes)
        run = self.runs / name
        self.runs.mkdir(exist_ok=True)
        self.place.run.rename(run)
        (run / EVENTS_FILE).write_text('{"t": 1, "kind": "run_started"}\n' + events)
        return run

    def begun(self, job: str, *words: str) -> tuple[int, str]:
        """The exit code and what was said."""
        environment = {
            **os.environ,
            "LABCTL_HOME": str(self.place.folder / "home"),
            "LABCTL_RIGS": str(self.place.folder / "rigs"),
        }
        done = labctl(
            *("run", "bench", self.plan, "--runs", self.runs, "--yes", "--job", job, *words),
            cwd=self.place.folder, env=environment, timeout=120,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr


@pytest.fixture
def lab(place: Place) -> Lab:
    return Lab(place)


def test_the_newest_run_of_the_job_on_this_rig_is_found(lab: Lab) -> None:
    lab.recorded("a", "20261121T220000Z_bench_plan")
    newest = lab.recorded("a", "20261121T230000Z_bench_plan")
    lab.recorded("b", "20261121T233000Z_bench_plan")
    lab.recorded("a", "20261121T234000Z_another_plan", rig_name="another")
    unreadable = lab.recorded("a", "20261121T235000Z_bench_plan")
    (unreadable / "run.json").write_text('{"job": "a", ')
    found = run_of_job("a", "bench", "plan", PLAN, [lab.runs, lab.place.folder / "none"])
    assert found.record is not None and found.record.path == newest
    assert run_of_job("c", "bench", "plan", PLAN, [lab.runs]).record is None


def test_a_plan_whose_name_only_begins_the_same_is_another(lab: Lab) -> None:
    run = lab.recorded("a")
    lab.recorded("a", f"{NAME}-by-night", plan_name="plan-by-night")
    found = run_of_job("a", "bench", "plan", PLAN, [lab.runs])
    assert found.record is not None and found.record.path == run


COMPLETED = '{"t": 2, "kind": "run_ended", "outcome": "completed", "reason": ""}\n'


@pytest.mark.parametrize(
    ("words", "differs"),
    [
        (("--scale", "0.5"), "scale is 1.0 there and 0.5 here"),
        (("--until", "settled"), "until is not said there and 'settled' here"),
    ],
)
def test_a_plan_with_other_options_is_another_measurement(
    lab: Lab, words: tuple[str, str], differs: str
) -> None:
    run = lab.recorded("a", events=COMPLETED)
    code, said = lab.begun("a", *words)
    assert code == 1 and "cannot start" in said and "completed already" not in said
    assert f"run {run.name} of this job is another measurement: {differs}. The" in said, said


def test_of_a_job_that_does_a_plan_twice_each_run_is_found(lab: Lab) -> None:
    scaled = lab.recorded("a", f"{NAME}-2", events=COMPLETED, plan_text=f"scale = 0.5\n{PLAN}")
    plain = lab.recorded("a", events=COMPLETED)
    for words, run in ((("--scale", "0.5"), scaled), ((), plain)):
        code, said = lab.begun("a", *words)
        assert code == 0 and f"completed already: {run.name}\n" in said, said


FAILED = '{"t": 2, "kind": "run_ended", "outcome": "failed", "reason": "the host is away"}\n'


@pytest.mark.parametrize("events", ["", FAILED], ids=["killed", "failed"])
def test_a_run_that_was_cut_off_goes_on(lab: Lab, events: str) -> None:
    run = lab.recorded("a", events=events)
    code, said = lab.begun("a")
    assert code == 1 and "cannot start" in said and f"goes on with its run {run.name}" in said
    assert find_runs(lab.runs) == [run]


def test_a_run_of_another_job_does_not(lab: Lab) -> None:
    lab.recorded("a")
    code, said = lab.begun("b")
    assert code == 1 and "cannot start" in said and "goes on" not in said


def test_a_rig_that_was_changed_since_begins_anew(lab: Lab) -> None:
    lab.recorded("a")
    lab.place.keep_rig(lab.rig.replace("nominal_volts = 12.0", "nominal_volts = 11.5"))
    code, said = lab.begun("a")
    assert code == 1 and "The job begins a new run" in said, said
    assert "nominal_volts is 12.0 there and 11.5 here" in said


def test_a_run_that_is_completed_is_not_done_again_and_has_a_report(lab: Lab) -> None:
    run = lab.recorded("a", events=COMPLETED)
    code, said = lab.begun("a", "--json")
    assert code == 0 and f"completed already: {run.name}" in said, said
    assert (run / "report.html").is_file()
    assert json.loads((run / "summary.json").read_text())["outcome"] == "completed"


def test_a_job_on_a_rig_in_use_is_for_a_later_try(lab: Lab) -> None:
    run = lab.recorded("a")
    rig = load_rig(lab.place.folder / "rigs" / "bench.toml")
    before = (run / EVENTS_FILE).read_bytes()
    lock = RigLock.take(Home(lab.place.folder / "home"), rig, "labctl run")
    code, said = lab.begun("a")
    lock.release()
    assert code == NOT_NOW and "in use" in said
    assert (run / EVENTS_FILE).read_bytes() == before
