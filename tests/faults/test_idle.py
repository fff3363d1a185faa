"""An idle rig is recorded as a run is: what happens to time is in its record, too.

``LABCTL_STOPPED_S`` says for how long the recording is stopped.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench
from labctl.analysis.run.summary import summarise
from labctl.record.reader import RunRecord, find_runs
from tests.faults.resumed_run import WITHIN_S, assert_times_ascend, labctl
from tests.faults.stepped_clock import SteppedClock
from tests.soak.counts import CHANNEL, miscounted

pytestmark = [pytest.mark.bench, pytest.mark.fault]

STOPPED_S = float(os.environ.get("LABCTL_STOPPED_S", "5"))
HOUR_S = 3600.0
POLLED = "v12.voltage"


def test_stopped_and_its_clock_stepped_an_idle_record_says_so(bench: Bench, tmp_path: Path) -> None:
    """SIGSTOP costs the meters without a memory their readings, which are counted; a step of the
    wall clock costs nothing."""
    clock, runs = SteppedClock(tmp_path), tmp_path / "idle"
    process = subprocess.Popen(
        labctl("idle", str(bench.rig), "--runs", str(runs)),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=clock.variables,
    )  # fmt: skip
    try:
        path = until_recorded(process, runs, 20)
        process.send_signal(signal.SIGSTOP)
        time.sleep(STOPPED_S)
        process.send_signal(signal.SIGCONT)
        until_reported(process, path, "held_up")
        clock.step(HOUR_S)
        until_reported(process, path, "wall_clock_step")
        until_recorded(process, runs, len(RunRecord(path).readings(POLLED)) + 20)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=WITHIN_S)
    finally:
        process.kill()
    assert process.returncode == 0, output
    record = RunRecord(path)
    (held_up,) = [event for event in record.events if event.kind == "held_up"]
    assert held_up.data["seconds"] > STOPPED_S - 1.5  # it may just have begun to wait for a look
    (step,) = [event for event in record.events if event.kind == "wall_clock_step"]
    assert step.data["seconds"] == pytest.approx(HOUR_S, abs=0.1)
    assert miscounted(record) == []
    assert_times_ascend(path)
    (reported,) = [line for line in summarise(record).problems if "stood still" in line]
    lost = {name: int(count) for count, name in re.findall(r"(\d+) of ([\w.]+)", reported)}
    assert lost[POLLED] > 0.6 * STOPPED_S / record.channel(POLLED).interval_s
    assert CHANNEL not in lost


def until_recorded(process: subprocess.Popen[str], runs: Path, count: int) -> Path:
    """Wait until so many readings of a polled meter are recorded; the record."""
    deadline = time.monotonic() + WITHIN_S
    while not (found := find_runs(runs)) or len(RunRecord(found[0]).readings(POLLED)) < count:
        assert process.poll() is None and time.monotonic() < deadline, "it does not record"
        time.sleep(0.1)
    return found[0]


def until_reported(process: subprocess.Popen[str], path: Path, kind: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not any(event.kind == kind for event in RunRecord(path).events):
        assert process.poll() is None and time.monotonic() < deadline, RunRecord(path).events
        time.sleep(0.1)
