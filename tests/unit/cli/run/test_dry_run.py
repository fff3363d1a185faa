"""What a dry run says of points that may end early: shortest, longest, and what to expect."""

from __future__ import annotations

from pathlib import Path

from labctl.capture.run.expand import phases_for
from labctl.capture.run.header import make_header
from labctl.config.find_rig import EXAMPLES
from labctl.config.plan import load_plan
from labctl.config.rig import load_rig
from labctl.record.drive_state import DriveState
from labctl.record.events import EventKind, Outcome
from labctl.record.journal import Journal, create
from labctl.record.point_end import PointEnd, PointEnding, PointState
from labctl.record.timebase import NS_PER_S, Timebase
from tests.forked_labctl import labctl

PLAN = """
name = "p"
until = "settled"
idle_before_s = 10
idle_after_s = 10
[[sweeps]]
pattern = "randread"
queue_depth = [1, 2]
duration_s = 180
[[sweeps]]
pattern = "randwrite"
duration_s = 180
[[sweeps]]
pattern = "randwrite"
duration_s = 600
[[sweeps]]
pattern = "read"
block_size = "128k"
until = "duration"
duration_s = 180
"""


def record(runs: Path, plan: Path, seconds: float) -> None:
    """A run of the plan whose first point ended after so many seconds."""
    rig = load_rig(EXAMPLES / "nvme-adapter.toml")
    loaded, text = load_plan(str(plan))
    phases = phases_for(rig, loaded, "p", None)
    timebase, state = Timebase(), {"": DriveState("no-target")}
    path = create(runs, make_header(rig, loaded, text, phases, timebase, {}, {}, state))
    journal = Journal(path, timebase.now_ns)
    begin_ns = timebase.now_ns()
    (point, *_) = [one for one in phases if one.until is not None]
    end = PointEnd(PointEnding.SETTLED, PointState())
    journal.event(
        EventKind.PHASE_ENDED, index=point.index, outcome=Outcome.COMPLETED, reason="",
        begin_ns=begin_ns, end_ns=begin_ns + round(seconds * NS_PER_S), point=end.to_json(),
    )  # fmt: skip
    journal.close()


def said(folder: Path, *words: str | Path) -> list[str]:
    done = labctl(
        "run",
        EXAMPLES / "nvme-adapter.toml",
        *words,
        "--runs",
        folder / "runs",
        "--dry-run",
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_each_point_has_its_shortest_and_its_longest_time(tmp_path: Path) -> None:
    plan = tmp_path / "p.toml"
    plan.write_text(PLAN)
    lines = said(tmp_path, plan)
    sizes = [line[5:17].strip() for line in lines if line.startswith("  ")]
    assert sizes == ["10 s", "20–180 s", "20–180 s", "180 s", "200–600 s", "180 s", "10 s"]
    assert "time: 10 min 20 s to 22 min 20 s" in lines
    assert any(line.startswith("expected: not known") for line in lines)
    assert "never early: 1 of 4 points, which take 200 s at least" in lines


def test_what_to_expect_is_what_the_same_work_took(tmp_path: Path) -> None:
    plan = tmp_path / "p.toml"
    plan.write_text(PLAN)
    for seconds in (5.0, 60.0, 61.0):
        record(tmp_path / "runs", plan, seconds)
    lines = said(tmp_path, plan)
    assert [line for line in lines if "about 60 s" in line] == [lines[2]]
    assert "expected: about 20 min 20 s" in lines
    assert "          (1 of 4 points as in 3 earlier runs of this rig)" in lines


def test_where_no_point_can_end_early_nothing_is_expected(tmp_path: Path) -> None:
    plan = tmp_path / "p.toml"
    plan.write_text(PLAN.replace('"randread"', '"randwrite"').replace("= 600", "= 100"))
    lines = said(tmp_path, plan)
    assert "time: about 14 min 00 s" in lines
    assert not any(line.startswith("expected") for line in lines)
    assert "never early: 4 of 4 points, which take 200 s at least" in lines


def test_a_target_that_the_meters_cannot_reach_is_told_by_the_check_too(tmp_path: Path) -> None:
    plan, rig = tmp_path / "p.toml", EXAMPLES / "nvme-adapter.toml"
    plan.write_text(PLAN.replace('until = "settled"', "until_pct = { watts = 0.01 }", 1))
    words = "until_pct.watts = 0.01: is out of reach: the meters know watts to 0.1 % at best"
    checked = labctl("check", rig, plan, cwd=tmp_path)
    tried = labctl("run", rig, plan, "--dry-run", cwd=tmp_path)
    assert checked.returncode == tried.returncode == 2
    assert words in checked.stderr and words in tried.stderr
    plan.write_text(PLAN)
    assert labctl("check", rig, plan, cwd=tmp_path).returncode == 0
