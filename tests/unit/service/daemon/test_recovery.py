"""With which run a job goes on, from its attempts and their records."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from labctl.config.rig import Rig, parse_rig
from labctl.record.layout import HEADER_FILE
from labctl.report.pages.report_files import PAGE_FILE, REVIEW_FILE
from labctl.service.daemon.recovery import run_to_resume
from labctl.service.queue.job import Attempt, AttemptOutcome
from labctl.service.runs.killed_runs import finish_report
from tests.unit.config.test_rig import RIG as RIG_TEXT
from tests.unit.service.queue.test_store import NOW_S, job
from tests.unit.synthetic_run import WORK, Bench, build

RIG = parse_rig(RIG_TEXT, "bench.toml")
PLAN = (
    'name = "p"\n[[sweeps]]\npattern = "randread"\nqueue_depth = [1, 8, 32, 64]\nduration_s = 10\n'
)


@pytest.fixture
def cut_off(tmp_path: Path) -> Path:
    path = build(tmp_path, Bench(WORK, cut_off=True)).path
    header = json.loads((path / HEADER_FILE).read_text())
    own = {"plan_text": PLAN, "rig_text": RIG_TEXT, "rig_name": "bench"}
    (path / HEADER_FILE).write_text(json.dumps({**header, **own}))
    return path


def attempts(*ends: tuple[AttemptOutcome | None, str | None]) -> tuple[Attempt, ...]:
    return tuple(Attempt(begun_s=NOW_S, outcome=outcome, run=run) for outcome, run in ends)


def resumed(kept: tuple[Attempt, ...], runs: Path, rig: Rig = RIG) -> tuple[Path | None, str]:
    """The run to go on with, and what was told."""
    reported: list[str] = []
    return run_to_resume(job(1, attempts=kept), rig, runs, reported.append), "\n".join(reported)


def test_an_attempt_that_failed_before_it_began_takes_nothing_from_the_run_before(
    cut_off: Path,
) -> None:
    kept = attempts((AttemptOutcome.INTERRUPTED, cut_off.name), (AttemptOutcome.FAILED, None))
    assert resumed(kept, cut_off.parent) == (cut_off, "")


def test_a_run_where_an_older_daemon_wrote_goes_on_there(
    cut_off: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABCTL_HOME", str(tmp_path / "home"))
    before = tmp_path / "home" / "runs" / cut_off.name
    before.parent.mkdir(parents=True)
    cut_off.rename(before)
    kept = attempts((AttemptOutcome.INTERRUPTED, before.name))
    assert resumed(kept, tmp_path / "labctl-runs") == (before, "")


@pytest.mark.parametrize(
    "outcome", [AttemptOutcome.ABORTED, AttemptOutcome.REFUSED, AttemptOutcome.CANCELLED]
)
def test_what_was_ended_for_a_reason_begins_anew(cut_off: Path, outcome: AttemptOutcome) -> None:
    kept = attempts((AttemptOutcome.INTERRUPTED, cut_off.name), (outcome, None))
    assert resumed(kept, cut_off.parent) == (None, "")


@pytest.mark.parametrize("asked", [pytest.param("report", marks=pytest.mark.long), "review"])
def test_a_report_of_the_first_part_alone_is_made_anew(tmp_path: Path, asked: str) -> None:
    """The run was stopped, which wrote one, went on, and was killed right behind its end; or it was
    killed between the report and the review that the plan asks for."""
    path = build(tmp_path, Bench(WORK)).path
    header = json.loads((path / HEADER_FILE).read_text())
    plan = PLAN.replace("[[", 'report = "review"\n[[', 1) if asked == "review" else PLAN
    (path / HEADER_FILE).write_text(json.dumps({**header, "plan_text": plan}))
    page = path / PAGE_FILE
    page.write_text("of the first part")
    if asked == "report":
        os.utime(page, (1.0, 1.0))
    assert finish_report(path) == [f"{path.name}: report made"]
    assert len(page.read_text()) > 1000
    assert (path / REVIEW_FILE).exists() == (asked == "review")
    assert finish_report(path) == []


def test_a_run_that_failed_begins_anew(tmp_path: Path) -> None:
    ended = build(tmp_path, Bench(WORK)).path
    kept = attempts((AttemptOutcome.FAILED, ended.name))
    assert resumed(kept, ended.parent) == (None, "")


def test_after_a_change_of_the_rig_the_job_begins_anew_and_says_why(cut_off: Path) -> None:
    """What was measured with another shunt must not stand in one run with the rest."""
    kept = attempts((AttemptOutcome.INTERRUPTED, cut_off.name))
    corrected = parse_rig(RIG_TEXT.replace("shunt_ohm = 0.05", "shunt_ohm = 0.0493"), "bench.toml")
    run, reported = resumed(kept, cut_off.parent, corrected)
    assert run is None
    assert "rails.12V.current.shunt_ohm is 0.05 there and 0.0493 here" in reported
    assert cut_off.name in reported


def test_where_runs_are_sent_may_change(cut_off: Path) -> None:
    kept = attempts((AttemptOutcome.INTERRUPTED, cut_off.name))
    text = f'# moved\n{RIG_TEXT}\n[sinks.influxdb]\nurl = "http://x:8086"\nbucket = "b"\n'
    assert resumed(kept, cut_off.parent, parse_rig(text, "bench.toml")) == (cut_off, "")
