"""Whole runs, as a user starts them, with something going wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from instruments.simulated.bench import Bench, configure
from labctl.record.reader import RunRecord, find_runs
from tests.bench.test_fio_phases import fios_below
from tests.faults.conftest import SLOW
from tests.faults.resumed_run import WITHIN_S
from tests.forked_labctl import labctl

pytestmark = [pytest.mark.bench, pytest.mark.fault]

SWEEP = """
[[sweeps]]
pattern = "randread"
queue_depth = [1, 8]
duration_s = {seconds}
"""
PLAN = f"""
name = "short"
idle_before_s = 2
idle_after_s = 1
{SWEEP}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "short.toml"
    file.write_text(PLAN.format(seconds=3))
    return file


def command(rig: Path, plan: Path, runs: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        "labctl.cli.main",
        "run",
        str(rig),
        str(plan),
        "--runs",
        str(runs),
    ]


def run(rig: Path, plan: Path, runs: Path, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(rig, plan, runs),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
        **more,
    )


def begun(rig: Path, plan: Path, runs: Path, phases: int) -> subprocess.Popen[str]:
    """A run that has begun its ``phases``-th phase."""
    process = subprocess.Popen(
        command(rig, plan, runs), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until_begun(process, runs, phases)
    return process


def until_begun(process: subprocess.Popen[str], runs: Path, phases: int) -> None:
    """Wait until a run has begun its ``phases``-th phase."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        found = find_runs(runs)
        if found and len(kinds(found[0], "phase_started")) >= phases:
            return
        time.sleep(0.05)
    process.kill()
    raise AssertionError(process.communicate())


def kinds(path: Path, kind: str) -> list[dict[str, object]]:
    return [event.data for event in RunRecord(path).events if event.kind == kind]


def no_fio_left(runs: Path) -> bool:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not fios_below(runs):
            return True
        time.sleep(0.05)
    return False


def test_kill_9_leaves_a_record_that_reports_and_no_fio(
    bench: Bench, plan: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    process = begun(bench.rig, plan, runs, phases=3)
    time.sleep(1.0)
    process.kill()
    process.communicate()
    assert no_fio_left(runs)
    (path,) = find_runs(runs)
    report = labctl("report", path, "--json")
    assert report.returncode == 0, report.stderr
    summary = json.loads(report.stdout)
    assert summary["outcome"] == "interrupted"
    outcomes = [item["outcome"] for item in summary["phases"]]
    assert outcomes == ["completed", "completed", "interrupted"]
    assert summary["phases"][1]["watts"]["value"] > 3
    assert (path / "report.html").stat().st_size > 10_000


def test_ctrl_c_once_ends_cleanly_with_a_usable_run(
    bench: Bench, plan: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    process = begun(bench.rig, plan, runs, phases=2)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 130
    assert "what was recorded is kept" in errors
    assert fios_below(runs) == []
    (path,) = find_runs(runs)
    record = RunRecord(path)
    assert record.end is not None
    assert record.end.data["outcome"] == "aborted"
    assert kinds(path, "phase_ended")[-1]["outcome"] == "interrupted"
    assert (path / "report.html").exists()


def purging(process: subprocess.Popen[str]) -> psutil.Process:
    """The program that purges the drive of a run, once it is there."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(process.pid).children(recursive=True):
                if "--name=purge" in child.cmdline():
                    return child
        time.sleep(0.02)
    process.kill()
    raise AssertionError(process.communicate())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_purge_ends_with_its_run(tmp_path: Path, how: signal.Signals) -> None:
    plan, runs = tmp_path / "purge.toml", tmp_path / "runs"
    plan.write_text('name = "p"\n[[prepare]]\nstep = "purge"\n' + SWEEP.format(seconds=2))
    with Bench(tmp_path / "bench") as bench:
        process = subprocess.Popen(
            [*command(bench.rig, plan, runs), "--yes"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        program = purging(process)
        process.send_signal(how)
        printed = process.communicate(timeout=WITHIN_S)
        program.wait(WITHIN_S)
    if how == signal.SIGINT:
        assert process.returncode == 130, printed
        (path,) = find_runs(runs)
        assert "was not over" in str(kinds(path, "phase_ended")[-1]["reason"])
        (end,) = kinds(path, "run_ended")
        assert end["outcome"] == "aborted"


def test_ctrl_c_twice_kills_at_once(bench: Bench, plan: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    process = begun(bench.rig, plan, runs, phases=2)
    process.send_signal(signal.SIGINT)
    time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WITHIN_S)
    assert process.returncode == 130
    assert no_fio_left(runs)
    (path,) = find_runs(runs)
    assert kinds(path, "run_ended")


def test_a_terminal_that_goes_away_ends_the_run_cleanly(
    bench: Bench, plan: Path, tmp_path: Path
) -> None:
    """What an ssh session that drops does: the terminal is gone, and SIGHUP comes."""
    runs = tmp_path / "runs"
    controller, terminal = os.openpty()
    process = subprocess.Popen(
        command(bench.rig, plan, runs), stdin=terminal, stdout=terminal, stderr=terminal,
        start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        found = find_runs(runs)
        if found and len(kinds(found[0], "phase_started")) >= 2:
            break
        if select.select([controller], [], [], 0.05)[0]:
            os.read(controller, 65536)
    os.close(controller)
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=WITHIN_S) == 130
    (path,) = find_runs(runs)
    assert [end["outcome"] for end in kinds(path, "run_ended")] == ["aborted"]
    assert (path / "report.html").exists()
    assert no_fio_left(runs)


@dataclass(frozen=True)
class Trouble:
    """What is done to a meter, and how it shows."""

    meter: str
    fault: str
    seconds: float
    event: str
    """Words of the event that tells of it, as an expression: a busy machine may wait for an answer
    before it sees that the connection is gone."""
    reported: str
    """Words of the report's problem."""


TROUBLES = (
    Trouble("i12", "silent", 3.0, "no whole answer", "i12: lost"),
    Trouble("v12", "nonsense", 1.5, "v12.voltage unreadable", "v12.voltage"),
    Trouble("i33", "overload", 1.5, "i33.current overload", "overload"),
    Trouble("v33", "hold", 1.5, "v33.voltage hold", "hold"),
    Trouble("i12", "memory_overflow", 1.5, "i12.voltage memory_overflow", "memory overflow"),
    Trouble("i12", "disconnect", 1.5, "closed the connection|no whole answer", "i12: lost"),
)
"""Each in a phase of its own; the meter that is lost twice has long been back in between."""


@dataclass(frozen=True)
class TroubledRun:
    """A run whose meters had all of them."""

    path: Path
    output: str

    @property
    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / "summary.json").read_text())
        return found


@pytest.fixture(scope="module")
def troubled(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> TroubledRun:
    folder = tmp_path_factory.mktemp("troubled")
    plan, runs = folder / "short.toml", folder / "runs"
    depths = list(range(1, len(TROUBLES) + 1))
    plan.write_text(PLAN.replace("[1, 8]", str(depths)).format(seconds=4))
    process = begun(bench.rig, plan, runs, phases=2)
    for number, trouble in enumerate(TROUBLES):
        until_begun(process, runs, number + 2)
        bench.inject(trouble.meter, trouble.fault, trouble.seconds)
    output, errors = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0, errors
    (path,) = find_runs(runs)
    return TroubledRun(path, output)


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: one.fault)
def test_a_meter_in_trouble_is_reported(troubled: TroubledRun, trouble: Trouble) -> None:
    reported = [
        f"{event.data.get('channel', '')} {event.data.get('status', event.data.get('reason'))}"
        for event in RunRecord(troubled.path).events
        if event.kind in ("status", "instrument_lost")
    ]
    assert any(re.search(trouble.event, words) for words in reported), (reported, troubled.output)
    problems = troubled.summary["problems"]
    assert any(trouble.reported in problem for problem in problems), problems


def test_a_meter_in_trouble_costs_its_readings_and_gives_no_wrong_watts(
    troubled: TroubledRun,
) -> None:
    record = RunRecord(troubled.path)
    assert all(
        abs(value) < 1000
        for name in record.channel_names
        if not name.startswith("fio")
        for value in record.readings(name)["v"]
    )
    watts = [item["watts"]["value"] for item in troubled.summary["phases"] if item["watts"]]
    assert watts and all(3.5 < value < 9 for value in watts)


def test_a_meter_silent_in_the_middle_is_a_gap_not_zero_watts(troubled: TroubledRun) -> None:
    lost = kinds(troubled.path, "instrument_lost")
    assert [item["instrument"] for item in lost] == ["i12", "i12"]  # silent, and its cable
    assert kinds(troubled.path, "instrument_back")[0]["instrument"] == "i12"
    assert "meter lost: i12" in troubled.output
    idle, silent, *_ = (item["watts"] for item in troubled.summary["phases"])
    assert silent is None or silent["value"] > idle["value"] * 0.95


def test_an_unreachable_meter_is_named_before_anything_is_touched(
    bench: Bench, plan: Path, tmp_path: Path
) -> None:
    rig = tmp_path / "rig.toml"
    port = re.search(r"127\.0\.0\.1::(\d+)::SOCKET", bench.rig.read_text())
    assert port is not None
    rig.write_text(bench.rig.read_text().replace(f"::{port[1]}::", "::9::"))
    done = run(rig, plan, tmp_path / "runs")
    assert done.returncode == 1
    assert "labctl: " in done.stderr and "Traceback" not in done.stderr
    assert find_runs(tmp_path / "runs") == []


def test_a_meter_of_another_model_is_refused(bench: Bench, plan: Path, tmp_path: Path) -> None:
    rig = tmp_path / "rig.toml"
    rig.write_text(bench.rig.read_text().replace('model = "34465A"', 'model = "34470A"', 1))
    done = run(rig, plan, tmp_path / "runs")
    assert done.returncode == 1
    assert "34465A" in done.stderr and "34470A" in done.stderr


def test_missing_fio_says_how_to_install_it(bench: Bench, plan: Path, tmp_path: Path) -> None:
    done = run(bench.rig, plan, tmp_path / "runs", env={**os.environ, "PATH": "/nowhere"})
    assert done.returncode == 2
    assert "fio is not installed" in done.stderr and "apt install fio" in done.stderr


def test_a_target_where_nothing_answers_is_one_message(
    bench: Bench, plan: Path, tmp_path: Path
) -> None:
    rig = tmp_path / "rig.toml"
    rig.write_text(bench.rig.read_text().replace("drive.sock", "no-drive.sock"))
    done = run(rig, plan, tmp_path / "runs")
    assert done.returncode == 2
    assert "is the drive on?" in done.stderr


def test_a_sync_engine_at_queue_depth_8_is_refused(
    bench: Bench, plan: Path, tmp_path: Path
) -> None:
    rig = tmp_path / "rig.toml"
    target = tmp_path / "drive.img"
    target.write_bytes(bytes(1 << 20))
    text = bench.rig.read_text().replace('engine = "nbd"', 'engine = "psync"')
    rig.write_text(re.sub(r'target = ".*"', f'target = "{target}"', text))
    done = run(rig, plan, tmp_path / "runs")
    assert done.returncode == 2
    assert "drive.engine = 'psync'" in done.stderr and "synchronous" in done.stderr


def test_a_drive_that_vanishes_ends_the_run_as_failed(plan: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with Bench(tmp_path / "bench", configure(overrides=SLOW)) as own:
        process = begun(own.rig, plan, runs, phases=2)
        assert own.drive is not None
        own.drive.stop()
        _, errors = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 1
    (path,) = find_runs(runs)
    end = RunRecord(path).end
    assert end is not None and end.data["outcome"] == "failed"
    assert "randread" in str(end.data["reason"])
    assert "Traceback" not in errors


def test_a_full_disk_ends_the_run_with_one_message_and_keeps_the_record(
    bench: Bench, plan: Path, small_disk: Path
) -> None:
    (small_disk / "ballast").write_bytes(bytes(220 * 1024))
    plan.write_text(PLAN.format(seconds=60))  # the disk ends it
    done = run(bench.rig, plan, small_disk / "runs")
    assert done.returncode == 1
    assert "No space left on device" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    (path,) = find_runs(small_disk / "runs")
    record = RunRecord(path)
    assert record.readings("i12.voltage").size > 50
    assert record.problems == []
    (small_disk / "ballast").unlink()
    copy = small_disk.parent / "copy"
    shutil.copytree(path, copy)
    assert labctl("report", copy).returncode == 0


def test_a_truncated_journal_still_reports(troubled: TroubledRun, tmp_path: Path) -> None:
    path = tmp_path / troubled.path.name
    shutil.copytree(troubled.path, path)
    for file in (path / "journal.jsonl", path / "channels" / "i12.voltage"):
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) * 2 // 3 + 5])
    done = labctl("report", path, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert any("torn" in problem for problem in summary["problems"])
    assert summary["outcome"] == "interrupted"


HOT = """
name = "hot"
idle_before_s = 2
idle_after_s = 2
[[sweeps]]
pattern = "write"
block_size = "128k"
queue_depth = [32, 33]
duration_s = 4
"""


@pytest.mark.long
def test_a_drive_that_gets_too_hot_cools_down_and_its_phase_is_done_again(tmp_path: Path) -> None:
    plan = tmp_path / "hot.toml"
    plan.write_text(HOT)
    with Bench(tmp_path / "bench", configure(overrides=SLOW)) as own:
        rig = tmp_path / "limited.toml"
        rig.write_text(own.rig.read_text() + "\n[limits]\ncelsius = 52\nresume_celsius = 44\n")
        done = run(rig, plan, tmp_path / "runs")
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = find_runs(tmp_path / "runs")
    outcomes = [(item["index"], item["outcome"]) for item in kinds(path, "phase_ended")]
    assert (2, "interrupted") in outcomes and outcomes.count((2, "completed")) == 1
    assert kinds(path, "resumed")[0]["reached"] is True
    (tripped,) = {item["limit"] for item in kinds(path, "guard_tripped")}
    assert tripped == "celsius"
    summary = json.loads((path / "summary.json").read_text())
    assert [item["outcome"] for item in summary["phases"]] == ["completed"] * 4
    assert summary["gap_median_ms"] is None
    assert (path / "fio" / "002_write-128k-qd33.1" / "stdout").exists()


def test_a_limit_that_aborts_ends_the_run_with_its_own_exit_code(
    bench: Bench, plan: Path, tmp_path: Path
) -> None:
    rig = tmp_path / "limited.toml"
    rig.write_text(bench.rig.read_text() + "\n[limits]\nwatts = 2.0\n")
    done = run(rig, plan, tmp_path / "runs")
    assert done.returncode == 3
    assert "the limit is 2 W" in done.stdout
    (path,) = find_runs(tmp_path / "runs")
    end = RunRecord(path).end
    assert end is not None and end.data["outcome"] == "aborted"
    assert fios_below(tmp_path) == []
