"""Whole runs with the drive's host behind a real sshd, and with the connection cut."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from instruments.simulated.bench import Bench, configure
from instruments.simulated.drive.ground_truth import GroundTruth
from labctl.errors import NOT_NOW
from labctl.record.reader import RunRecord, find_runs
from tests.bench.test_end_of_points import EVEN
from tests.faults.resumed_run import assert_completed_once, assert_times_ascend
from tests.faults.test_runs import begun, kinds, run
from tests.ssh.sshd import HOST, Sshd, rig_on_host

pytestmark = [pytest.mark.bench, pytest.mark.fault]

PLAN = """
name = "short"
idle_before_s = 3
idle_after_s = 2
[[sweeps]]
pattern = "randread"
queue_depth = [1, 4, 8]
duration_s = {seconds}
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("ssh") / "bench") as running:
        yield running


@pytest.fixture
def hosted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the host's directory for temporary files is: see ``server``."""
    folder = tmp_path / "tmp-of-host"
    folder.mkdir()
    return folder


@pytest.fixture
def server(tmp_path: Path, hosted: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    with Sshd(tmp_path / "sshd", {"TMPDIR": str(hosted)}) as running:
        monkeypatch.setenv("LABCTL_SSH_CONFIG", str(running.config))
        yield running


@pytest.fixture
def rig(bench: Bench, tmp_path: Path, server: Sshd) -> Path:
    return rig_on_host(bench, tmp_path)


def plan(tmp_path: Path, seconds: float) -> Path:
    file = tmp_path / "short.toml"
    file.write_text(PLAN.format(seconds=seconds))
    return file


def fios_in(folder: Path) -> list[int]:
    """Every process whose working directory is below ``folder``, deleted or not."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.name() == "fio" and process.cwd().startswith(str(folder)):
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def nothing_left(folder: Path) -> bool:
    """Whether within seconds no fio is left, nor anything in the host's temporary directory."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if not fios_in(folder) and not list(folder.iterdir()):
            return True
        time.sleep(0.1)
    return False


def summary_of(path: Path) -> dict[str, object]:
    return dict(json.loads((path / "summary.json").read_text()))


def test_a_run_over_ssh_is_as_one_here(
    bench: Bench, rig: Path, hosted: Path, tmp_path: Path
) -> None:
    done = run(rig, plan(tmp_path, 3), tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    (path,) = find_runs(tmp_path / "runs")
    record = RunRecord(path)
    assert record.header.versions["host"] == HOST
    assert record.header.versions["host_kernel"].startswith("Linux ")
    assert len(record.clock_pairs("host.wall")) > 20
    summary = json.loads((path / "summary.json").read_text())
    clock = next(item for item in summary["clocks"] if item["channel"] == "host.wall")
    assert abs(clock["offset_ms"]) < 20
    assert bench.drive is not None
    truth = GroundTruth(bench.drive.truth)
    for item in summary["phases"]:
        if item["phase"]["role"] != "measure":
            continue
        begin, end = (
            record.header.anchor.to_monotonic_ns(item[key]) for key in ("begin_ns", "end_ns")
        )
        seen = truth.operations(begin, end)["reads"]
        before = truth.operations(begin - 50_000_000, end + 50_000_000)["reads"]
        assert seen == pytest.approx(item["read"]["total_ios"], rel=0.02)
        assert before >= seen
    assert nothing_left(hosted)


@pytest.mark.long
def test_a_point_over_ssh_ends_when_it_is_good_enough(
    hosted: Path, tmp_path: Path, server: Sshd
) -> None:
    """fio's last document comes over the wire, and the drive saw as many reads as it counts."""
    file = tmp_path / "until.toml"
    until = "until_pct = { watts = 5 }\nmin_duration_s = 4\n"
    file.write_text(until + PLAN.format(seconds=600))
    with Bench(tmp_path / "even", configure(43, EVEN)) as even:
        rig = rig_on_host(even, tmp_path)
        done = run(rig, file, tmp_path / "runs")
        assert done.returncode == 0, done.stderr
        assert even.drive is not None
        truth = GroundTruth(even.drive.truth)
    (path,) = find_runs(tmp_path / "runs")
    anchor = RunRecord(path).header.anchor
    measured = [
        item
        for item in json.loads((path / "summary.json").read_text())["phases"]
        if item["phase"]["role"] == "measure"
    ]
    assert len(measured) == 3
    for item in measured:
        assert item["outcome"] == "completed" and item["point_end"]["ended"] == "target"
        begin, end = (anchor.to_monotonic_ns(item[key]) for key in ("begin_ns", "end_ns"))
        seen = truth.operations(begin, end)["reads"]
        assert seen == pytest.approx(item["read"]["total_ios"], rel=0.02)
    assert nothing_left(hosted)


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_phase_that_a_cut_connection_ended_comes_again(
    rig: Path, server: Sshd, hosted: Path, tmp_path: Path, how: signal.Signals
) -> None:
    """SIGKILL closes the connection; after SIGSTOP nothing comes any more, not even a FIN."""
    process = begun(rig, plan(tmp_path, 6), tmp_path / "runs", phases=3)
    time.sleep(1.0)
    working = fios_in(hosted)
    assert working
    server.signal_sessions(how)
    deadline = time.monotonic() + 15
    while set(fios_in(hosted)) & set(working) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not set(fios_in(hosted)) & set(working)
    output, errors = process.communicate(timeout=90)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    (path,) = find_runs(tmp_path / "runs")
    assert len(kinds(path, "host_lost")) == 1, output
    assert len(kinds(path, "host_back")) == 1
    ended = [(item["index"], item["outcome"]) for item in kinds(path, "phase_ended")]
    assert ended == [(0, "completed"), (1, "completed"), (2, "interrupted")] + [
        (index, "completed") for index in (2, 3, 4)
    ]
    (cut_off,) = [item for item in kinds(path, "phase_ended") if item["outcome"] == "interrupted"]
    assert "connection to its host was lost" in str(cut_off["reason"])
    assert any(
        "host was lost" in line
        for line in json.loads((path / "summary.json").read_text())["problems"]
    )
    server.stop()
    assert nothing_left(hosted)


@pytest.mark.long
def test_kill_9_leaves_no_fio_on_the_host(rig: Path, hosted: Path, tmp_path: Path) -> None:
    process = begun(rig, plan(tmp_path, 20), tmp_path / "runs", phases=2)
    time.sleep(1.0)
    assert fios_in(hosted)
    process.kill()
    process.communicate()
    assert nothing_left(hosted)


@pytest.mark.long
def test_killed_and_resumed_at_once_it_ends_what_was_left_and_completes(
    rig: Path, hosted: Path, tmp_path: Path
) -> None:
    """Also the host's clock goes on in epochs of its own."""
    runs = tmp_path / "runs"
    process = begun(rig, plan(tmp_path, 4), runs, phases=3)
    process.kill()
    process.communicate()
    (path,) = find_runs(runs)
    resumed = subprocess.run(
        [sys.executable, "-m", "labctl.cli.main", "run", str(rig), "--resume", str(path)],
        capture_output=True, text=True, check=False, timeout=90,
    )  # fmt: skip
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert_completed_once(path)
    assert_times_ascend(path)
    summary = json.loads((path / "summary.json").read_text())
    clocks = {item["channel"]: item for item in summary["clocks"]}
    assert clocks["host.wall"]["epochs"] == 2
    assert len({item["token"] for item in kinds(path, "host_session")}) == 1
    assert nothing_left(hosted)


@pytest.mark.long
def test_ctrl_c_keeps_the_totals(rig: Path, hosted: Path, tmp_path: Path) -> None:
    process = begun(rig, plan(tmp_path, 20), tmp_path / "runs", phases=2)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    (path,) = find_runs(tmp_path / "runs")
    (ended,) = [item for item in kinds(path, "phase_ended") if item["outcome"] == "interrupted"]
    phases = json.loads((path / "summary.json").read_text())["phases"]
    assert phases[ended["index"]]["read"]["total_ios"] > 100
    assert nothing_left(hosted)


def test_a_host_that_is_away_is_for_a_later_try(server: Sshd, rig: Path, tmp_path: Path) -> None:
    server.stop()
    done = run(rig, plan(tmp_path, 3), tmp_path / "runs")
    assert done.returncode == NOT_NOW, done.stderr
    assert "is sshd running there" in done.stderr and "Traceback" not in done.stderr
    assert find_runs(tmp_path / "runs") == []


def test_a_host_without_fio_or_room_is_one_message(
    bench: Bench, rig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "env", "date", "mkdir", "rm", "cat", "sleep", "uname"):
        found = subprocess.run(["which", name], capture_output=True, text=True, check=True)
        (tools / name).symlink_to(found.stdout.strip())
    for environment, code, message in (
        ({"PATH": str(tools)}, 2, f"fio is not installed on {HOST}"),
        ({"TMPDIR": "/no/such/folder"}, 1, "temporary files cannot be written"),
    ):
        with Sshd(tmp_path / f"sshd-{code}", environment) as other:
            monkeypatch.setenv("LABCTL_SSH_CONFIG", str(other.config))
            done = run(rig, plan(tmp_path, 3), tmp_path / "runs")
        assert done.returncode == code, done.stderr
        assert message in done.stderr and "Traceback" not in done.stderr
    assert find_runs(tmp_path / "runs") == []
