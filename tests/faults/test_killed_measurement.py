"""What a drive was having measured of itself when labctl was killed is ended by who comes next."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from instruments.simulated.bench import Bench
from labctl.config.rig import load_rig
from labctl.record.events import EventKind
from labctl.record.reader import RunRecord
from labctl.service.runs.killed_runs import end_leftovers
from tests.faults.resumed_run import Interruptible, plan_file

pytestmark = [pytest.mark.bench, pytest.mark.fault, pytest.mark.timeout(600)]


def ask_drive(bench: Bench, *words: str) -> bytes:
    """What nvme-cli answers on the bench, without labctl."""
    rig = load_rig(bench.rig)
    command, *options = words
    return subprocess.run(
        [f"{rig.tools}/nvme", command, rig.drive.smart_device, *options],
        check=True, capture_output=True,
    ).stdout  # fmt: skip


def measures(bench: Bench) -> bool:
    """Whether the simulated drive measures itself now: bit 0 of the attributes of log page 25h."""
    page = ask_drive(bench, "get-log", "--log-id=0x25", "--log-len=64", "--raw-binary")
    return bool(page[2] & 1)


def is_asking_drive(labctl_pid: int) -> bool:
    """Whether an nvme-cli of it has not ended; one that has, a stopped parent leaves a zombie."""
    for child in psutil.Process(labctl_pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.name() == "nvme" and child.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


def stopped_measuring(run: Interruptible, bench: Bench) -> bool:
    """Stop labctl where it stands; whether the drive measures for it then.

    A new measurement is begun in each phase: the last one is reported and stopped, the next is
    marked and started, and a kill in between leaves none.
    """
    assert run.process is not None
    run.process.send_signal(signal.SIGSTOP)
    while is_asking_drive(run.process.pid):
        time.sleep(0.01)
    of_measurements = (EventKind.DRIVE_MEASUREMENT, EventKind.SETTING_CHANGED)
    kinds = [one.kind for one in RunRecord(run.path).events if one.kind in of_measurements]
    is_marked = EventKind.DRIVE_MEASUREMENT in kinds and kinds[-1] == EventKind.SETTING_CHANGED
    return is_marked and measures(bench)


def killed(bench: Bench, folder: Path, seconds: int) -> Interruptible:
    """A run that was killed while the drive measured itself for it, in a phase of ``seconds``."""
    # the bench is shared: a run that another test killed may have left a measurement of its own
    ask_drive(bench, "set-feature", "--feature-id=0x25", "--value=0")
    run = Interruptible(Path(bench.rig), plan_file(folder, seconds), folder / "runs")
    run.go_on()
    # the idle phase before it is too short to be killed in for sure
    run.until(EventKind.PHASE_STARTED, index=1)
    while not stopped_measuring(run, bench):
        assert run.process is not None
        run.process.send_signal(signal.SIGCONT)
        time.sleep(0.3)
        assert run.process.poll() is None, RunRecord(run.path).events
    run.kill()
    assert measures(bench)
    return run


def test_the_next_run_ends_the_measurement_of_a_killed_one(bench: Bench, tmp_path: Path) -> None:
    run = killed(bench, tmp_path, seconds=60)
    (line,) = end_leftovers(run.path, load_rig(bench.rig))
    assert "had left power measurement" in line and line.endswith("put back")
    assert not measures(bench)


@pytest.mark.long
def test_a_run_that_goes_on_takes_up_its_own_measurement(bench: Bench, tmp_path: Path) -> None:
    run = killed(bench, tmp_path, seconds=10)
    run.finish()
    events = RunRecord(run.path).events
    resumed_ns = max(one.t_ns for one in events if one.kind == EventKind.RUN_RESUMED)
    after = [
        one for one in events
        if one.kind == EventKind.DRIVE_MEASUREMENT and one.t_ns > resumed_ns
    ]  # fmt: skip
    assert any("average_watts" in one.data for one in after)
    assert not any("reason" in one.data for one in after)
    assert not measures(bench)
