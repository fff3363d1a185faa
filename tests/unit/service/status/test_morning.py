"""The morning summary says what ran, what it found and what to look at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labctl.service.queue.job import Attempt, AttemptOutcome, JobState
from labctl.service.status.morning import lines, morning, title
from tests.unit.service.queue.test_store import NOW_S, job


def attempt(begun_s: float, run: str | None, outcome: AttemptOutcome, reason: str = "") -> Attempt:
    return Attempt(begun_s=begun_s, ended_s=begun_s + 600, run=run, outcome=outcome, reason=reason)


def phase(watts: float, iops_per_watt: float, depth: int, throttled_s: float) -> dict[str, object]:
    return {
        "phase": {
            "index": depth, "role": "measure", "sweep": "s", "pattern": "randread",
            "duration_s": 10.0, "block_size_bytes": 4096, "queue_depth": depth, "jobs": 1,
        },
        "outcome": "completed",
        "watts": {"value": watts, "u": 0.01},
        "iops_per_watt": {"value": iops_per_watt, "u": 1.0},
        "throttled_s": throttled_s,
    }  # fmt: skip


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    run = tmp_path / "20260101T000000Z_bench_short"
    run.mkdir()
    summary = {
        "phases": [phase(5.0, 300.0, 1, 0.0), phase(8.25, 4724.0, 32, 3.0)],
        "problems": ["i12.voltage: 3 readings lost"],
    }
    (run / "summary.json").write_text(json.dumps(summary))
    return tmp_path


def test_it_names_watts_throttling_troubles_and_failures(runs: Path) -> None:
    run = "20260101T000000Z_bench_short"
    jobs = [
        job(1, state=JobState.DONE, attempts=(attempt(NOW_S, run, AttemptOutcome.COMPLETED),)),
        job(
            2,
            state=JobState.FAILED,
            reason="82 °C",
            attempts=(attempt(NOW_S + 700, None, AttemptOutcome.ABORTED, "82 °C"),),
        ),
        job(
            3, state=JobState.DONE, attempts=(attempt(NOW_S - 9e5, None, AttemptOutcome.COMPLETED),)
        ),
        job(4),
    ]
    found = morning(jobs, runs, NOW_S - 3600)
    assert [one.job for one in found.jobs] == [1, 2]
    text = "\n".join(lines(found))
    assert "8.250 ± 0.010 W in randread 4k QD32" in text
    assert "4,724 in randread 4k QD32" in text
    assert "throttled: randread 4k QD32" in text
    assert "3 readings lost" in text
    assert "stopped by a limit: 82 °C" in text
    assert title(found) == "labctl: 1 done, 1 failed, 2 to look at, 1 waiting"
    assert json.loads(json.dumps(found.to_json()))["waiting"] == 1


def test_it_says_why_the_first_attempt_failed(runs: Path) -> None:
    run = "20260101T000000Z_bench_short"
    tried = (
        attempt(NOW_S, None, AttemptOutcome.FAILED, "i12: no answer\nin all"),
        attempt(NOW_S + 700, run, AttemptOutcome.COMPLETED),
    )
    text = "\n".join(lines(morning([job(1, state=JobState.DONE, attempts=tried)], runs, NOW_S)))
    assert "it took 2 attempts (the first: i12: no answer): labctl queue show 1" in text


@pytest.mark.parametrize(
    "damage", ["", "[]", "{}", '{"phases": 3}', '{"phases": [3]}', "[" * 100_000]
)
def test_a_run_without_a_usable_summary_is_something_to_check(runs: Path, damage: str) -> None:
    run = "20260101T000000Z_bench_short"
    (runs / run / "summary.json").write_text(damage)
    jobs = [job(1, state=JobState.DONE, attempts=(attempt(NOW_S, run, AttemptOutcome.COMPLETED),))]
    (only,) = morning(jobs, runs, NOW_S).jobs
    assert any("labctl report" in what for what in only.look_at)


def test_nothing_ran_is_reported_too(runs: Path) -> None:
    assert "no job ran" in lines(morning([job(1)], runs, NOW_S))[0]
