"""``labctl queue`` as a person uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labctl.config.find_rig import EXAMPLES
from tests.forked_labctl import labctl

ROOT = Path(__file__).parents[4]
MATRIX = """
[[jobs]]
rigs = ["nvme-adapter", "sata-12v-5v"]
plans = ["demo", "short.toml"]
repeat = 2
tags = ["night"]
after = "22:00"
"""
SHORT = """
name = "short"
idle_before_s = 0
idle_after_s = 0
[[sweeps]]
pattern = "randread"
duration_s = 60
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def queue(home: Path, *words: str, code: int = 0) -> str:
    environment = {
        **os.environ, "LABCTL_HOME": str(home), "LABCTL_RIGS": str(EXAMPLES), "COLUMNS": "80"
    }  # fmt: skip
    done = labctl("queue", *words, cwd=ROOT, env=environment)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    if "--json" not in words:
        assert all(len(line) <= 80 for line in done.stdout.splitlines()), done.stdout
    return done.stdout if code == 0 else done.stderr


def listed(home: Path) -> list[dict[str, Any]]:
    found = json.loads(queue(home, "list", "--json"))
    assert isinstance(found, list)
    return found


def test_a_matrix_becomes_every_combination_and_a_wrong_one_none(
    home: Path, tmp_path: Path
) -> None:
    matrix = tmp_path / "matrix.toml"
    matrix.write_text(MATRIX)
    said = queue(home, "add", "--matrix", str(matrix), code=2)
    assert "short.toml" in said and listed(home) == []
    (tmp_path / "short.toml").write_text(SHORT)
    queue(home, "add", "--matrix", str(matrix), "--json")
    jobs = listed(home)
    assert [(job["rig"], job["plan"], job["repeat"]) for job in jobs] == [
        (rig, plan, [number, 2])
        for plan in ("demo", "short")
        for rig in ("nvme-adapter", "sata-12v-5v")
        for number in (1, 2)
    ]
    assert all(job["tags"] == ["night"] and job["after_s"] for job in jobs)


def test_editing_a_plan_file_does_not_change_what_is_queued(home: Path, tmp_path: Path) -> None:
    plan = tmp_path / "short.toml"
    plan.write_text(SHORT)
    queue(home, "add", "nvme-adapter", str(plan))
    plan.write_text(SHORT.replace("60", "6000"))
    assert listed(home)[0]["plan_text"] == SHORT
    assert "duration_s = 60\n" in queue(home, "show", "1")


def test_order_cancel_and_pause_show_in_the_list(home: Path) -> None:
    queue(home, "add", "nvme-adapter", "demo", "--repeat", "2", "--tag", "a")
    queue(home, "add", "nvme-adapter", "power-per-qd", "--tag", "b")
    queue(home, "move", "3", "1")
    queue(home, "cancel", "1")
    waiting = [job["id"] for job in listed(home) if job["state"] == "queued"]
    assert waiting == [3, 2]
    queue(home, "pause", "nvme-adapter")
    assert "paused" in queue(home, "list")
    assert listed(home)[-1]["expected"]["begin_s"] is None
    queue(home, "resume", "nvme-adapter")
    assert listed(home)[-1]["expected"]["begin_s"] is not None
    told = queue(home, "cancel", "1", "2", "9", code=2)
    assert "job 1 is cancelled already" in told and "there is no job 9" in told
    assert {job["id"]: job["state"] for job in listed(home)}[2] == "cancelled"


def test_the_list_leaves_out_no_word_of_a_job_of_another_day(home: Path) -> None:
    words = ("first-night", "heat-sink-b", "sample-3")
    tags = [word for tag in words for word in ("--tag", tag)]
    queue(home, "add", "nvme-adapter", "power-per-qd", "--after", "+30h", "--repeat", "2", *tags)
    said = queue(home, "list")
    assert all(word in said for word in ("power-per-qd", "1/2", *words)), said


def test_many_repetitions_are_asked_about_like_a_long_plan(home: Path) -> None:
    many = ("add", "nvme-adapter", "power-per-qd", "--repeat", "40")
    told = queue(home, *many, code=2)
    assert "40 times" in told and "hours" in told and "--yes" in told and listed(home) == []
    queue(home, *many, "--yes", "--json")
    assert len(listed(home)) == 40


def test_on_a_full_disk_the_output_that_is_lost_is_one_message(home: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "labctl.cli.main", "plans"],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False, cwd=ROOT,
        )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "No space left on device" in done.stderr


def test_a_dry_run_queues_nothing(home: Path) -> None:
    assert "demo" in queue(home, "add", "nvme-adapter", "demo", "--dry-run")
    assert listed(home) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add", "nvme-adapter"], "a rig and a plan"),
        (["add", "nowhere", "demo"], "no rig of that name"),
        (["add", "nvme-adapter", "nothing"], "built-in plans"),
        (["add", "nvme-adapter", "demo", "--after", "late"], "22:00"),
        (["add", "nvme-adapter", "demo", "--repeat", "0"], "1 to 1000"),
        (["add", "nvme-adapter", "demo", "--tag", "a b"], "tags"),
        (["add", "nvme-adapter", "demo", "--tag", "a b", "--repeat", "0"], "1 to 1000"),
        (["add", "nvme-adapter", "demo", "--tag", "a b", "--repeat", "0"], "tags"),
        (["show", "9"], "there is no job 9"),
        (["pause", "../x"], "no name of a rig"),
    ],
)
def test_what_is_wrong_is_said_with_what_would_be_right(
    home: Path, words: list[str], said: str
) -> None:
    assert said in queue(home, *words, code=2)
