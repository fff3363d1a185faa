"""A run that is cut off, in whatever way, goes on: nothing of it is lost but the moment.

A sweep is killed once in ``make test``, in ``make test-long`` as often as
``LABCTL_RESUME_KILLS`` says (12, or hundreds for a long night). ``LABCTL_STOPPED_S`` says for how
long one is stopped.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench
from labctl.capture.run.resumption import why_not
from labctl.record.events import EventKind
from labctl.record.layout import CHANNELS_DIR, EVENTS_FILE, HEADER_FILE
from labctl.record.reader import RunRecord
from tests.faults.resumed_run import (
    WITHIN_S,
    HeldUp,
    Interruptible,
    assert_completed_once,
    assert_times_ascend,
    assert_true,
    events_file,
    labctl,
    lost_before,
    plan_file,
)
from tests.soak.counts import CHANNEL, miscounted

pytestmark = [pytest.mark.bench, pytest.mark.fault]

FEW, MANY = 1, int(os.environ.get("LABCTL_RESUME_KILLS", "12"))
STOPPED_S = float(os.environ.get("LABCTL_STOPPED_S", "9"))
LOST_S = 0.25
"""What a kill may cost, from the moment at which the first reading that is lost was due."""


@pytest.fixture
def folder(bench: Bench, tmp_path: Path) -> Path:
    """Where the truth of the bench is."""
    return Path(bench.rig).parent


@pytest.mark.timeout(600 + 60 * MANY)
@pytest.mark.parametrize("most", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
def test_killed_at_random_instants_it_is_completed_and_true(
    bench: Bench, folder: Path, tmp_path: Path, most: int
) -> None:
    rng, kills = random.Random(most), 0
    plan = plan_file(tmp_path, 3)
    with HeldUp() as held_up:
        for number in itertools.count():
            run = Interruptible(bench.rig, plan, tmp_path / f"runs-{number}")
            killed_ns = killed_until_completed(run, rng, most - kills)
            kills += len(killed_ns)
            assert_nothing_lost(run, folder, killed_ns, held_up)
            if kills >= most:
                break


def killed_until_completed(run: Interruptible, rng: random.Random, most: int) -> list[int]:
    """Kill a run, and go on with it, until it is completed; when it was killed."""
    killed_ns: list[int] = []
    before = b""
    process = run.go_on()
    run.until("phase_started")
    while len(killed_ns) < most:
        time.sleep(rng.uniform(0.0, 4.0))
        if process.poll() is not None:
            break
        killed_ns.append(run.kill())
        written = events_file(run.path)
        assert written.startswith(before), "an event was lost"
        before = written[: written.rfind(b"\n") + 1]
        if why_not(RunRecord(run.path)):
            return killed_ns  # it was completed, and only its report was not
        process = run.go_on_until_resumed(len(killed_ns))
    output, _ = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0, output
    assert events_file(run.path).startswith(before)
    return killed_ns


def assert_nothing_lost(
    run: Interruptible, folder: Path, killed_ns: list[int], held_up: HeldUp
) -> None:
    assert_completed_once(run.path)
    assert_times_ascend(run.path)
    record, summary = RunRecord(run.path), run.summary()
    reported = [line for line in summary.problems if line.startswith("interrupted")]
    assert bool(reported) == bool(killed_ns) and len(reported) <= len(killed_ns)
    assert_true(record, summary, folder)
    for name, lost_s in lost_before(run.path, killed_ns).items():
        for kill_ns, seconds in lost_s.items():
            print(f"{name:24} {seconds * 1000:8.1f} ms lost")
            assert seconds < LOST_S + held_up.before(kill_ns), (name, seconds)


@pytest.mark.long
def test_after_a_loss_of_power_it_goes_on_in_another_boot(
    bench: Bench, folder: Path, tmp_path: Path
) -> None:
    """Files are cut at any byte, and the anchor is that of a boot that is over."""
    run, rng = Interruptible(bench.rig, plan_file(tmp_path, 3), tmp_path / "runs"), random.Random(7)
    run.go_on()
    run.until("phase_started", index=2)
    run.kill()
    header = json.loads((run.path / HEADER_FILE).read_text())
    header["anchor"]["boot_id"] = "a boot that is over"
    header["anchor"]["monotonic_ns"] += 10**12
    (run.path / HEADER_FILE).write_text(json.dumps(header))
    for file in (run.path / EVENTS_FILE, *(run.path / CHANNELS_DIR).iterdir()):
        os.truncate(file, max(file.stat().st_size - rng.randrange(60), 0))
    whole = events_file(run.path).rpartition(b"\n")[0]
    summary = run.finish()
    assert_completed_once(run.path)
    assert_times_ascend(run.path)
    assert events_file(run.path).startswith(whole)
    (resumed,) = [
        event for event in RunRecord(run.path).events if event.kind == EventKind.RUN_RESUMED
    ]
    assert resumed.data["anchor"]["boot_id"] != "a boot that is over"
    assert_true(RunRecord(run.path), summary, folder, since_ns=resumed.t_ns)
    assert summary.outcome == "completed"


@pytest.mark.long
def test_ended_by_a_person_it_may_still_go_on(bench: Bench, tmp_path: Path) -> None:
    run = Interruptible(bench.rig, plan_file(tmp_path, 2, "[1, 8]"), tmp_path / "runs")
    run.go_on()
    run.until("phase_started", index=1)
    run.kill(signal.SIGINT)
    end = RunRecord(run.path).end
    assert end is not None and end.data["outcome"] == "aborted"
    assert run.finish().outcome == "completed"
    assert_completed_once(run.path)
    again = subprocess.run(labctl(*run.resume_words), capture_output=True, text=True, check=False)
    assert again.returncode == 2 and "completed" in again.stderr


def test_other_meters_another_drive_and_a_plan_that_forbids_are_refused(
    bench: Bench, tmp_path: Path
) -> None:
    run = Interruptible(bench.rig, plan_file(tmp_path, 60, "[1]"), tmp_path / "runs")
    run.go_on()
    run.until("phase_started", index=1)
    refused = subprocess.run(labctl(*run.resume_words), capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and "in use" in refused.stderr
    run.kill()
    before = events_file(run.path)
    file = run.path / HEADER_FILE
    header = json.loads(file.read_text())
    meter = next(iter(header["identities"]))
    for key, value, reported in (
        ("identities", {**header["identities"], meter: "another"}, meter),
        ("drive_state", {**header["drive_state"], "serial": "ANOTHER"}, "ANOTHER"),
        ("plan_text", 'resume = "forbid"\n' + header["plan_text"], "forbid"),
    ):
        file.write_text(json.dumps({**header, key: value}))
        done = subprocess.run(
            labctl(*run.resume_words), capture_output=True, text=True, check=False
        )
        assert done.returncode == 2 and reported in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
    assert events_file(run.path) == before


@pytest.mark.long
def test_stopped_for_some_seconds_it_goes_on_by_itself(bench: Bench, tmp_path: Path) -> None:
    """SIGSTOP of labctl alone, for longer than what fio prints fits into a usual pipe: fio works
    on, meters with a memory lose nothing, what the others lost is counted."""
    run = Interruptible(bench.rig, plan_file(tmp_path, STOPPED_S + 3, "[8]"), tmp_path / "runs")
    process = run.go_on()
    run.until("phase_started", index=1)
    process.send_signal(signal.SIGSTOP)
    time.sleep(STOPPED_S)
    process.send_signal(signal.SIGCONT)
    output, _ = process.communicate(timeout=WITHIN_S)
    assert process.returncode == 0, output
    assert_completed_once(run.path)
    assert_times_ascend(run.path)
    record, summary = RunRecord(run.path), run.summary()
    assert miscounted(record) == []
    assert not any(event.data.get("channel") == CHANNEL for event in record.events)
    reported = [line for line in summary.problems if line.startswith("labctl stood still for")]
    (marked,) = [line for line in reported if "in phase 2 (randread 4k QD8)" in line]
    lost = {name: int(count) for count, name in re.findall(r"(\d+) of ([\w.]+)", marked)}
    polled = record.channel("v12.voltage").interval_s
    assert lost["v12.voltage"] > 0.7 * STOPPED_S / polled
    assert "i12.voltage" not in lost and "i33.current" not in lost
    lost_for = [e.data["reason"] for e in record.events if e.kind == "instrument_lost"]
    assert not any("silent" in reason for reason in lost_for)  # nobody listened, and that is all
    assert summary.phases[1].iops is not None and summary.phases[1].iops > 100


@pytest.mark.long
def test_after_a_full_disk_was_freed_it_goes_on(
    bench: Bench, tmp_path: Path, small_disk: Path
) -> None:
    (small_disk / "ballast").write_bytes(bytes(180 * 1024))
    run = Interruptible(bench.rig, plan_file(tmp_path, 2, "[1, 8]"), small_disk / "runs")
    output, _ = run.go_on().communicate(timeout=90)
    assert run.process is not None and run.process.returncode == 1
    assert "No space left on device" in output
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    (small_disk / "ballast").unlink()
    assert run.finish().outcome == "completed"
    assert_completed_once(run.path)
