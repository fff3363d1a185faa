"""The picture of ``labctl watch`` on terminals of several heights: nothing pushes the keys off."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.screen import Screen

from labctl.capture.meters.live_values import LiveRail
from labctl.cli.overnight.status import rig_lines
from labctl.cli.overnight.watch_screen import KEYS, ScreenState, local_screen
from labctl.fio.status import LiveRates
from labctl.service.data_dir import Home
from labctl.service.queue.job import Attempt, Job, JobState
from labctl.service.queue.schedule import expected_schedule
from labctl.service.queue.store import Queue
from labctl.service.runs.run_view import RunView
from labctl.service.status.local_rigs import LocalStatus, RigStatus, StatusReader
from tests.unit.synthetic_run import Bench, build

NOW_S = time.time()


def job(number: int, state: JobState) -> Job:
    begun_s = NOW_S - 86_400  # told with its day, which is wider
    attempts = () if state is JobState.QUEUED else (Attempt(begun_s=begun_s),)
    return Job(
        id=number, rig="bench", plan="short", plan_text="", drive_target="x", added_s=NOW_S,
        state=state, attempts=attempts, estimate_s=60.0, tags=("a-long-tag",) * 3,
    )  # fmt: skip


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    """A run with events."""
    return RunView(build(tmp_path_factory.mktemp("screen"), Bench()).path)


def shown(look: RunView, height: int, waiting: int) -> list[str]:
    """The lines of the screen of a rig with a job that runs, some that wait, and three that are
    over."""
    queued = tuple(job(number, JobState.QUEUED) for number in range(5, 5 + waiting))
    over = tuple(job(number, JobState.DONE) for number in (1, 2, 3))
    view = replace(
        look.view(),
        phase=look.header.phases[0],
        phases_total=2,
        rails={"12V": LiveRail(12.0, 0.5, 6.0), "3V3": LiveRail(3.3, 0.1, 0.33)},
        celsius={"composite": 40.0},
        rates=LiveRates(1000.0, 4e6, 90.0),
    )
    running = job(4, JobState.RUNNING)
    rig = RigStatus("bench", False, True, None, look, view, running, queued, over)
    expected = expected_schedule((running, *queued), NOW_S, ())
    picture = local_screen(LocalStatus(None, (rig,), expected), ScreenState())
    out = io.StringIO()
    Console(file=out, width=80, height=height, color_system=None).print(Screen(picture))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("height", [16, 24, 40, 60])
@pytest.mark.parametrize("waiting", [0, 2, 40])
def test_keys_are_on_the_screen_and_so_is_what_runs(
    look: RunView, height: int, waiting: int
) -> None:
    lines = shown(look, height, waiting)
    assert len(lines) == height and all(len(line) <= 80 for line in lines)
    text = "\n".join(lines)
    assert KEYS in text and "12.000 V" in text
    running = any(line.split()[:2] == ["4", "running"] for line in lines)
    assert running or height < 20, text


def test_a_job_whose_daemon_is_gone_does_not_look_as_if_it_ran(tmp_path: Path) -> None:
    queue = Queue(Home(tmp_path))
    queue.add(lambda number: job(number, JobState.QUEUED))
    queue.claim("bench", Attempt(begun_s=NOW_S))
    status = StatusReader(Home(tmp_path)).status()
    (rig,) = status.rigs
    assert rig.state == "interrupted"
    assert "labctl daemon" in " ".join(rig_lines(rig, status))


def test_the_queue_tells_how_many_more_there_are(look: RunView) -> None:
    assert any("more" in line for line in shown(look, 24, 40))
    assert "and 32 more" in "\n".join(shown(look, 60, 40))
