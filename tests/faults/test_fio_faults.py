"""A fio that crashes, hangs, prints garbage, or exits with 0 although its JSON has errors.

Its phase has failed with the reason, and the run goes on with the next one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from instruments.simulated.bench import Bench
from instruments.simulated.drive.process import DriveProcess, start_drive
from labctl.analysis.run.summary import summarise
from labctl.capture.phases.fio_process import FioProcess
from labctl.errors import RunFailed
from labctl.record.phase import Pattern
from labctl.record.reader import RunRecord, find_runs
from labctl.record.timebase import Timebase
from tests.bench.test_fio_phases import drive_of, fios_below, phase
from tests.faults.conftest import SLOW
from tests.faults.resumed_run import WITHIN_S, Interruptible, labctl, plan_file

pytestmark = [pytest.mark.bench, pytest.mark.fault]

GARBAGE_AT, ERRORS_AT, SILENT_AT, CRASH_AT, WELL_AT = 2, 4, 5, 8, 16
WRAPPER = f"""#!/bin/bash
# the real fio; what it says is spoilt on its way, by the queue depth of the phase
case "$(sed -n 's/^iodepth=//p' job.fio 2>/dev/null)" in
{GARBAGE_AT}) exec "$FIO" "$@" > >(tr '{{}}' '<>') ;;
{ERRORS_AT}) exec "$FIO" "$@" > >(sed -u 's/"error" : 0/"error" : 5/') ;;
{SILENT_AT}) exec "$FIO" "$@" > /dev/null ;;
esac
exec "$FIO" "$@"
"""


def fio_of(run: Path, depth: int) -> list[int]:
    """The fios that do I/O or are held in a phase of this queue depth."""
    found = []
    for pid in fios_below(run):
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            if process.name() == "fio" and process.cwd().endswith(f"qd{depth}"):
                found.append(pid)
    return found


def begun_with_spoilt_fio(
    tmp_path: Path, bench: Bench, depths: list[int], more: str = ""
) -> Interruptible:
    """A run whose fio is the wrapper."""
    real = shutil.which("fio")
    assert real is not None
    wrapper = tmp_path / "bin" / "fio"
    wrapper.parent.mkdir()
    wrapper.write_text(WRAPPER)
    wrapper.chmod(0o755)
    path = f"{wrapper.parent}:{os.environ['PATH']}"
    plan = plan_file(tmp_path, 1.5, str(depths), more)
    run = Interruptible(bench.rig, plan, tmp_path / "runs")
    run.process = subprocess.Popen(
        labctl("run", str(bench.rig), str(plan), "--runs", str(run.runs)),
        env={**os.environ, "PATH": path, "FIO": real},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    return run


def test_each_costs_its_phase_alone(bench: Bench, tmp_path: Path) -> None:
    depths = [GARBAGE_AT, ERRORS_AT, SILENT_AT, CRASH_AT, WELL_AT]
    run = begun_with_spoilt_fio(tmp_path, bench, depths)
    assert run.process is not None
    run.until("phase_started", index=1 + depths.index(CRASH_AT))
    for pid in fio_of(run.path, CRASH_AT):
        os.kill(pid, signal.SIGSEGV)
    output, _ = run.process.communicate(timeout=WITHIN_S)
    assert run.process.returncode == 1, output
    assert "Traceback" not in output
    assert fios_below(run.path) == []
    ends = {
        event.data["index"]: (event.data["outcome"], event.data["reason"])
        for event in RunRecord(run.path).events
        if event.kind == "phase_ended"
    }
    reported = {depth: ends[1 + index] for index, depth in enumerate(depths)}
    assert {depth for depth, (outcome, _) in reported.items() if outcome == "failed"} == {
        GARBAGE_AT, ERRORS_AT, SILENT_AT, CRASH_AT,
    }  # fmt: skip
    assert "nothing in stdout tells of any I/O" in reported[GARBAGE_AT][1]
    assert "error 5 (Input/output error)" in reported[ERRORS_AT][1]
    assert "nothing in stdout tells of any I/O" in reported[SILENT_AT][1]
    assert "signal 11" in reported[CRASH_AT][1]
    assert reported[WELL_AT] == ("completed", "")
    end = RunRecord(run.path).end
    assert end is not None and end.data["outcome"] == "failed"
    assert f"4 of {len(depths) + 2} phases" in str(end.data["reason"])


@pytest.mark.long
def test_where_the_plan_says_so_the_run_ends_with_it(bench: Bench, tmp_path: Path) -> None:
    depths = [WELL_AT, ERRORS_AT, CRASH_AT]
    more = 'when_phase_fails = "end"'
    run = begun_with_spoilt_fio(tmp_path, bench, depths, more)
    assert run.process is not None
    output, _ = run.process.communicate(timeout=WITHIN_S)
    assert run.process.returncode == 1 and "Traceback" not in output, output
    assert fios_below(run.path) == []
    ends = [event.data for event in RunRecord(run.path).events if event.kind == "phase_ended"]
    assert [end["index"] for end in ends if end["outcome"] == "completed"] == [0, 1]
    assert [end["index"] for end in ends if end["outcome"] == "failed"] == [2]
    end = RunRecord(run.path).end
    assert end is not None and end.data["outcome"] == "failed"
    assert "error 5" in str(end.data["reason"]) and "when_phase_fails" in str(end.data["reason"])


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[DriveProcess]:
    with start_drive(tmp_path / "drive", overrides=SLOW) as process:
        yield process


async def test_one_that_hangs_is_ended_at_its_deadline(
    simulated: DriveProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labctl.capture.phases.fio_process.LATE_BY_S", 1.0)
    work = tmp_path / "000_qd4"
    fio = await FioProcess.start(
        phase(0, duration_s=1.0), {"": drive_of(simulated)}, work, Timebase(), lambda *_: None
    )
    await fio.wait_held()
    fio.release()
    (pid,) = fio_of(tmp_path, 4)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(RunFailed, match="did not end within 2 s"):
        await fio.wait_done()
    await fio.stop()
    deadline = time.monotonic() + 30
    while fios_below(tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.05)


ALWAYS_COLLECTING = {
    "garbage_collection.spare_bytes": 0,  # every random write waits for garbage collection
    "garbage_collection.steady_random_bytes_per_s": 6e6,  # 1 MB/s, by the divisor
    "garbage_collection.cliff_share": 1.0,
    "garbage_collection.dip_s": 0.0,
}


async def test_a_slow_drive_may_finish_its_large_ios(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four times 1 MiB take it four seconds, in which fio tells nothing."""
    monkeypatch.setattr("labctl.capture.phases.fio_process.LATE_BY_S", 0.5)
    monkeypatch.setattr("labctl.capture.phases.fio_process.SLOWEST_BYTES_PER_S", 0.05e6)
    large = replace(phase(0, duration_s=1.0), pattern=Pattern.RANDWRITE, block_size_bytes=1 << 20)
    with start_drive(tmp_path / "drive", overrides=ALWAYS_COLLECTING) as slow:
        fio = await FioProcess.start(
            large, {"": drive_of(slow)}, tmp_path / "run", Timebase(), lambda *_: None
        )
        await fio.wait_held()
        fio.release()
        await fio.wait_done()
        assert await fio.finish() == ""
    assert fio.output.last_status is not None
    written = fio.output.last_status.totals["write"]
    assert written.bytes == written.ios << 20


LIMIT_BYTES = 40 << 10
"""Of every file of a run: what fio prints in five seconds is more, in one second it is less."""


def limited(*words: str) -> list[str]:
    """The command under a limit that takes effect as a quota does: a write ends with an error."""
    return ["prlimit", f"--fsize={LIMIT_BYTES}:{LIMIT_BYTES}", "--", *words]


PLAN = """
name = "long-and-short"
{more}
idle_before_s = 0
idle_after_s = 0
[[sweeps]]
name = "long"
pattern = "randread"
queue_depth = [4]
duration_s = 6
[[sweeps]]
name = "short"
pattern = "randread"
queue_depth = [8]
duration_s = 1
"""


@pytest.mark.parametrize(
    "more", ["", pytest.param('when_phase_fails = "end"', marks=pytest.mark.long)]
)
def test_output_that_cannot_be_kept_fails_its_phase(tmp_path: Path, more: str) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.format(more=more))
    with Bench(tmp_path / "bench") as bench:
        done = subprocess.run(
            limited(*labctl("run", str(bench.rig), str(plan), "--runs", str(tmp_path / "runs"))),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
    (path,) = find_runs(tmp_path / "runs")
    assert done.returncode == 1 and "Traceback" not in done.stdout, done.stdout
    assert fios_below(path) == []
    record = RunRecord(path)
    ends = {end.data["index"]: end.data for end in record.events if end.kind == "phase_ended"}
    assert ends[0]["outcome"] == "failed"
    assert "stdout: File too large" in str(ends[0]["reason"])
    kept = (record.fio_dir(record.header.phases[0]) / "stdout").stat().st_size
    assert kept == LIMIT_BYTES < ends[0]["stdout_bytes"]
    assert record.end is not None and record.end.data["outcome"] == "failed"
    assert "File too large" in str(record.end.data["reason"])
    assert str(record.end.data["reason"]).endswith(more)
    assert (1 in ends) == (not more)
    first, *rest = summarise(record).phases
    assert first.outcome == "failed" and first.iops is None
    assert any("File too large" in note for note in first.notes)
    assert all(item.outcome == "completed" and item.iops for item in rest)
