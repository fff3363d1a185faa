"""Phases with the real fio on the simulated drive, whose own clock says when I/O really came."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import psutil
import pytest

from instruments.simulated.drive.ground_truth import GroundTruth
from instruments.simulated.drive.process import DriveProcess, start_drive
from labctl.capture.host import drive_host
from labctl.capture.phases.fio_process import FioProcess
from labctl.config.rig_file import Drive
from labctl.errors import RunFailed
from labctl.fio.status import FioStatus
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.timebase import Timebase
from tests.fio_result import final_result

pytestmark = [pytest.mark.bench]


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[DriveProcess]:
    with start_drive(tmp_path / "drive") as process:
        yield process


def drive_of(simulated: DriveProcess) -> Drive:
    return Drive(target=simulated.uri, engine="nbd", destructive=True)


def phase(index: int, depth: int = 4, jobs: int = 1, duration_s: float = 1.5) -> Phase:
    return Phase(index, Role.MEASURE, "s", Pattern.RANDREAD, duration_s, 4096, depth, jobs)


async def test_held_fios_follow_one_another_and_windows_match_the_drive(
    simulated: DriveProcess, tmp_path: Path
) -> None:
    timebase = Timebase()
    drive = drive_of(simulated)
    statuses: list[FioStatus] = []
    fios = []
    for index, jobs in enumerate((1, 3, 1)):
        fio = await FioProcess.start(
            phase(index, jobs=jobs),
            {"": drive},
            tmp_path / f"{index}",
            timebase,
            lambda status, _: statuses.append(status),
        )
        await fio.wait_held()
        fios.append(fio)
    await asyncio.sleep(0.6)
    assert statuses == []  # what a held fio prints says nothing
    for fio in fios:
        fio.release()
        await fio.wait_done()
    assert [await fio.finish() for fio in fios] == ["", "", ""]
    windows = [fio.window() for fio in fios]
    await asyncio.sleep(0.7)
    truth = GroundTruth(simulated.truth)
    to_monotonic = timebase.anchor.to_monotonic_ns
    begin, end = truth.bursts[0].begin_ns, truth.bursts[-1].end_ns
    assert windows[0] is not None and windows[-1] is not None
    assert to_monotonic(windows[0].begin_ns) < end and to_monotonic(windows[-1].end_ns) > begin
    for fio, window in zip(fios, windows, strict=True):
        assert window is not None and fio.output.last_status is not None
        seen = truth.operations(to_monotonic(window.begin_ns), to_monotonic(window.end_ns))
        counted = fio.output.last_status.totals["read"].ios
        assert seen["reads"] == pytest.approx(counted, rel=0.02)
    result = final_result((tmp_path / "1" / "stdout").read_text())
    assert result is not None and result.read is not None
    assert result.read.total_ios == fios[1].output.last_status.totals["read"].ios
    assert "99.9" in result.read.latency_percentiles_us


async def test_an_unreachable_target_is_reported_in_fios_words(tmp_path: Path) -> None:
    drive = Drive(target=f"nbd+unix:///?socket={tmp_path}/nothing", engine="nbd")
    fio = await FioProcess.start(phase(0), {"": drive}, tmp_path / "0", Timebase(), lambda *_: None)
    with pytest.raises(RunFailed, match="No such file"):
        await fio.wait_held()


async def test_a_drive_that_vanishes_fails_the_phase_and_hangs_nothing(
    simulated: DriveProcess, tmp_path: Path
) -> None:
    fio = await FioProcess.start(
        phase(0, duration_s=20),
        {"": drive_of(simulated)},
        tmp_path / "0",
        Timebase(),
        lambda *_: None,
    )
    await fio.wait_held()
    fio.release()
    await asyncio.sleep(0.5)
    simulated.stop()
    async with asyncio.timeout(60):
        with pytest.raises(RunFailed, match="randread 4k QD4"):
            await fio.wait_done()
    await fio.stop()


async def test_a_drive_that_reads_as_empty_fails_the_phase(tmp_path: Path) -> None:
    """So does a device that is gone: no error, no bytes, and many more I/Os than before."""
    target = tmp_path / "target"
    target.write_bytes(bytes(32 << 20))
    statuses: list[FioStatus] = []
    fio = await FioProcess.start(
        phase(0, duration_s=60),
        {"": Drive(target=str(target), engine="libaio", size_bytes=32 << 20)},
        tmp_path / "0",
        Timebase(),
        lambda status, _: statuses.append(status),
    )
    await fio.wait_held()
    fio.release()
    async with asyncio.timeout(50):
        while not statuses:
            await asyncio.sleep(0.05)
        os.truncate(target, 0)
        with pytest.raises(RunFailed, match="is the drive still there"):
            await fio.wait_done()
    assert "is the drive still there" in await fio.finish()
    reported = [one.totals["read"] for one in statuses[:-1]]  # the one before the end is not known
    assert all(totals.bytes > 2000 * totals.ios for totals in reported)
    await fio.stop()


async def test_an_end_while_the_output_is_full_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """labctl stands still for so long that the pipe is full. fio then ends when it is read again,
    and takes that time for time at work."""
    monkeypatch.setattr(drive_host, "PIPE_LIMIT", 4096)
    target = tmp_path / "target"
    target.write_bytes(bytes(32 << 20))
    problems = []
    for index, duration_s in enumerate((2.0, 6.0)):
        fio = await FioProcess.start(
            phase(index, duration_s=duration_s),
            {"": Drive(target=str(target), engine="libaio", size_bytes=32 << 20)},
            tmp_path / f"{index}",
            Timebase(),
            lambda *_: None,
        )
        await fio.wait_held()
        fio.release()
        await asyncio.sleep(0.2)
        time.sleep(4.0)
        await fio.wait_done()
        problems.append(await fio.finish())
        await fio.stop()
    assert "nobody read what it printed" in problems[0] and not problems[1]


async def done(fio: FioProcess) -> str:
    """Do a phase to its end; what went wrong, or an empty text."""
    try:
        await fio.wait_held()
        fio.release()
        await fio.wait_done()
        return await fio.finish()
    except RunFailed as error:
        await fio.stop()
        return str(error)


async def test_reads_that_come_back_empty_are_reported_as_a_phase_with_one_status(
    tmp_path: Path,
) -> None:
    """A quarter of the file is gone. That is known at the end, when nothing is counted any more."""
    target = tmp_path / "target"
    target.write_bytes(bytes(32 << 20))
    drive = Drive(target=str(target), engine="libaio", size_bytes=32 << 20)
    short = phase(0, depth=128, duration_s=0.3)
    fio = await FioProcess.start(short, {"": drive}, tmp_path / "0", Timebase(), lambda *_: None)
    await fio.wait_held()
    os.truncate(target, 24 << 20)
    assert "is the drive still there" in await done(fio)


@pytest.mark.parametrize(
    "engine",
    ["libaio", *(pytest.param(one, marks=pytest.mark.long) for one in ("nbd", "io_uring"))],
)
async def test_every_queue_depth_runs(
    engine: Literal["nbd", "libaio", "io_uring"], simulated: DriveProcess, tmp_path: Path
) -> None:
    """fio's first status of a deep queue shows many I/Os and no bytes, and more so on a busy
    machine: what it counts at a moment is not what is in flight."""
    target = tmp_path / "target"
    target.touch()
    os.truncate(target, 256 << 20)
    drive = drive_of(simulated)
    if engine != "nbd":
        drive = Drive(target=str(target), engine=engine, size_bytes=256 << 20)
    points = [(depth, 4096) for depth in (1, 64, 100, 101, 256, 1024)]
    points += [(16, 4 << 20), (128, 512), (128, 1 << 20)]
    reasons = []
    for index, (depth, block) in enumerate(points):
        mixed = bool(index % 3)
        one = replace(
            phase(index, depth, jobs=1 + index % 2, duration_s=0.6),
            block_size_bytes=block,
            pattern=Pattern.RANDRW if mixed else Pattern.RANDREAD,
            read_pct=50 if mixed else 100,
        )
        work = tmp_path / str(index)
        fio = await FioProcess.start(one, {"": drive}, work, Timebase(), lambda *_: None)
        reasons.append(await done(fio))
    assert [reason for reason in reasons if reason] == []


async def test_stopping_keeps_the_totals(simulated: DriveProcess, tmp_path: Path) -> None:
    fio = await FioProcess.start(
        phase(0, duration_s=60),
        {"": drive_of(simulated)},
        tmp_path / "0",
        Timebase(),
        lambda *_: None,
    )
    await fio.wait_held()
    fio.release()
    await asyncio.sleep(1.0)
    await fio.stop()
    window = fio.window()
    result = final_result((tmp_path / "0" / "stdout").read_text())
    assert window is not None and result is not None and result.read is not None
    assert window.end_ns > window.begin_ns
    assert result.read.total_ios > 0


_HOLDER = """
import asyncio, sys
from pathlib import Path
from labctl.capture.host import drive_host
from labctl.capture.phases.fio_process import FioProcess
from labctl.config.plan import Pattern, Phase, Role
from labctl.config.rig import Drive
from labctl.record.timebase import Timebase

async def main():
    drive = Drive(target=sys.argv[1], engine="nbd", destructive=True)
    fios = []
    for index in range(2):
        phase = Phase(index, Role.MEASURE, "s", Pattern.RANDWRITE, 60.0, 4096, 4, 2)
        fio = await FioProcess.start(
            phase, {"": drive}, Path(sys.argv[2]) / str(index), Timebase(), lambda *_: None
        )
        await fio.wait_held()
        fios.append(fio)
    fios[0].release()
    await asyncio.sleep(0.5)
    print("working", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def fios_below(directory: Path) -> list[int]:
    """Every fio, and every shell that holds one, whose working directory is below this one."""
    found = []
    for process in psutil.process_iter(["name"]):
        try:
            if process.info["name"] in ("fio", "sh", "setpriv") and process.cwd().startswith(
                str(directory)
            ):
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


@pytest.mark.fault
def test_after_kill_9_no_fio_is_left_and_the_held_one_did_no_io(
    simulated: DriveProcess, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, simulated.uri, str(work)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        assert len(fios_below(work)) >= 2
        os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while fios_below(work) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert fios_below(work) == []
    held = final_result((work / "1" / "stdout").read_text())
    assert held is None or held.write is None
