"""The program of a phase, with real processes of this machine: what it leaves behind is ended, and
its end is recorded also of a run that is cancelled."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from labctl.capture.host.drive_host import LocalHost
from labctl.capture.phases import program as programs
from labctl.capture.phases.kept_output import KeptFile
from labctl.capture.phases.program import STDOUT_FILE, Program, ProgramProcess
from labctl.capture.phases.sequence import PhaseSequence
from labctl.capture.phases.stopping import StopRequest
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.timebase import Timebase

WITHIN_S = 20.0


@pytest.fixture
def seconds() -> Iterator[str]:
    """For how long nobody else lets a process sleep; what does is killed at the end."""
    text = f"9{secrets.randbelow(10**8):08d}.5"
    yield text
    for pid in sleeping(text):
        os.kill(pid, signal.SIGKILL)


def sleeping(seconds: str) -> list[int]:
    return [one.pid for one in psutil.process_iter(["cmdline"])
            if (one.info["cmdline"] or [""])[-2:] == ["sleep", seconds]]  # fmt: skip


async def until(true: Callable[[], object]) -> bool:
    deadline = time.monotonic() + WITHIN_S
    while not true() and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    return bool(true())


async def started(
    script: str, folder: Path, on_line: Callable[[str], None] = lambda line: None
) -> ProgramProcess:
    timebase = Timebase()
    program = Program(("bash", "-c", script), folder, on_line=on_line)
    return await ProgramProcess.start(
        program, folder / "out", timebase, LocalHost(timebase), lambda text: None
    )


@pytest.mark.parametrize(
    "script",
    [
        "timeout 900 sleep {} & wait",
        "set -m; sleep {} & wait",
        "trap '' INT; sleep {} & kill -QUIT 0; wait",
        "trap '' USR1 RTMIN; sleep {} & kill -USR1 0; kill -RTMIN 0; wait",
    ],
)
async def test_what_has_a_process_group_of_its_own_ends_too(
    script: str, tmp_path: Path, seconds: str
) -> None:
    program = await started("trap '' QUIT; " + script.format(seconds), tmp_path)
    assert await until(lambda: sleeping(seconds))
    await asyncio.sleep(0.3)
    assert sleeping(seconds), "it ignores the signals of the test"
    await program.finish()
    assert await until(lambda: not sleeping(seconds))


async def test_one_that_does_not_let_itself_be_interrupted_is_killed_with_all_groups(
    tmp_path: Path, seconds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "STOP_WITHIN_S", 0.5)
    script = f"trap '' INT; timeout 900 sleep {seconds} & wait; wait"
    program = await started(script, tmp_path)
    assert await until(lambda: sleeping(seconds))
    await program.stop()
    await program.finish()
    assert program.printed["exit_code"] == -signal.SIGKILL
    assert await until(lambda: not sleeping(seconds))


async def test_a_host_that_is_killed_ends_all_groups(tmp_path: Path, seconds: str) -> None:
    host = LocalHost(Timebase())
    await host.spawn(("bash", "-c", f"timeout 900 sleep {seconds} & wait"), tmp_path)
    assert await until(lambda: sleeping(seconds))
    await host.close()
    assert await until(lambda: not sleeping(seconds))


async def test_output_that_is_not_read_to_its_end_is_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: KeptFile, data: bytes) -> None:
        raise MemoryError("too much")

    monkeypatch.setattr(KeptFile, "write", fail)
    program = await started("echo one; exec sleep 900", tmp_path)
    async with asyncio.timeout(WITHIN_S):
        await program.wait()
    await program.finish()
    assert not program.printed["output_whole"]
    assert "is not read any more" in program.problem and "too much" in program.problem


async def test_output_that_somebody_else_holds_open_is_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: str
) -> None:
    monkeypatch.setattr(programs, "READ_OUT_WITHIN_S", 0.5)
    program = await started(f"setsid sleep {seconds} 2> /dev/null & sleep 0.5", tmp_path)
    await program.wait()
    await program.finish()
    assert program.printed == {"exit_code": 0, "output_whole": False}


async def test_much_output_lets_others_work(tmp_path: Path) -> None:
    lines, since, most = 0, 0, 0

    def count(line: str) -> None:
        nonlocal lines, since, most
        lines, since = lines + 1, since + 1
        most = max(most, since)

    async def work() -> None:
        nonlocal since
        while True:
            since = 0
            await asyncio.sleep(0)

    program = await started("yes x | head -c 100000", tmp_path, count)
    working = asyncio.create_task(work())
    await program.wait()
    await program.finish()
    working.cancel()
    assert lines == 50_000
    assert most <= programs.CHUNK_BYTES


async def test_it_has_ended_when_what_it_left_behind_still_has_its_output_open(
    tmp_path: Path, seconds: str
) -> None:
    program = await started(f"echo begun; sleep {seconds} & exit 3", tmp_path)
    async with asyncio.timeout(WITHIN_S):
        await program.wait()
    await program.finish()
    assert program.printed == {"exit_code": 3, "output_whole": True}
    assert (tmp_path / "out" / STDOUT_FILE).read_text() == "begun\n"
    assert await until(lambda: not sleeping(seconds))


@dataclass
class Drive:
    """A drive beside which a program runs."""

    folder: Path
    script: str
    ended: list[dict[str, Any]] = field(default_factory=list)
    program: ProgramProcess | None = None

    async def start_program(self, phase: Phase) -> ProgramProcess:
        self.program = await started(self.script, self.folder)
        return self.program

    async def set_power(self, state: int | None, limit_watts: float | None) -> None:
        assert state is None is limit_watts

    async def settings_found(self) -> list[dict[str, Any]]:
        return []

    def phase_began(self, phase: Phase, t_ns: int) -> None:
        """Of no interest here."""

    def event(self, kind: str, t_ns: int | None = None, **data: Any) -> None:
        if kind == "phase_ended":
            self.ended.append(data)


def measured(drive: Drive, limit_s: float = 0.0) -> asyncio.Task[None]:
    phase = Phase(0, Role.MEASURE, "own", Pattern.PROGRAM, limit_s, command="own")
    sequence = PhaseSequence((phase,), drive, drive, time.monotonic_ns)  # type: ignore[arg-type]
    return asyncio.create_task(sequence.carry_out(StopRequest()))


async def test_a_program_that_a_cancelled_run_cuts_off_is_interrupted(
    tmp_path: Path, seconds: str
) -> None:
    drive = Drive(tmp_path, f"exec sleep {seconds}")
    run = measured(drive)
    assert await until(lambda: drive.program is not None and sleeping(seconds))
    run.cancel()
    await asyncio.wait([run])
    (ended,) = drive.ended
    assert (ended["outcome"], ended["reason"]) == ("interrupted", "the run ended")
    assert not sleeping(seconds)


async def test_a_run_that_is_cancelled_while_its_program_ends_records_that_end(
    tmp_path: Path, seconds: str
) -> None:
    drive = Drive(tmp_path, f"trap 'sleep 1; exit 0' INT; sleep {seconds} & wait")
    run = measured(drive, limit_s=0.5)
    assert await until(lambda: drive.program is not None and drive.program.ended)
    run.cancel()
    await asyncio.wait([run])
    (ended,) = drive.ended
    assert ended["outcome"] == "completed" and "its limit" in ended["reason"]
    assert await until(lambda: not sleeping(seconds))
