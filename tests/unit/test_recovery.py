"""With which run a job goes on, from its attempts and their records."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from labctl.record import HEADER_FILE
from labctl.report.write import PAGE_FILE, REVIEW_FILE
from labctl.service.job import Attempt, Outcome
from labctl.service.leftovers import finish_report
from labctl.service.recovery import run_to_resume
from tests.unit.synthetic_run import WORK, Bench, build
from tests.unit.test_queue import NOW_S, job

PLAN = (
    'name = "p"\n[[sweeps]]\npattern = "randread"\nqueue_depth = [1, 8, 32, 64]\nduration_s = 10\n'
)


@pytest.fixture
def cut_off(tmp_path: Path) -> Path:
    path = build(tmp_path, Bench(WORK, cut_off=True)).path
    header = json.loads((path / HEADER_FILE).read_text())
    (path / HEADER_FILE).write_text(json.dumps({**header, "plan_text": PLAN}))
    return path


def attempts(*ends: tuple[Outcome | None, str | None]) -> tuple[Attempt, ...]:
    return tuple(Attempt(begun_s=NOW_S, outcome=outcome, run=run) for outcome, run in ends)


def test_an_attempt_that_failed_before_it_began_takes_nothing_from_the_run_before(
    cut_off: Path,
) -> None:
    kept = attempts((Outcome.INTERRUPTED, cut_off.name), (Outcome.FAILED, None))
    assert run_to_resume(job(1, attempts=kept), cut_off.parent) == cut_off


@pytest.mark.parametrize("outcome", [Outcome.ABORTED, Outcome.REFUSED, Outcome.CANCELLED])
def test_what_was_ended_for_a_reason_begins_anew(cut_off: Path, outcome: Outcome) -> None:
    kept = attempts((Outcome.INTERRUPTED, cut_off.name), (outcome, None))
    assert run_to_resume(job(1, attempts=kept), cut_off.parent) is None


@pytest.mark.parametrize("asked", ["report", "review"])
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
    kept = attempts((Outcome.FAILED, ended.name))
    assert run_to_resume(job(1, attempts=kept), ended.parent) is None
