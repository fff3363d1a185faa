"""No program that labctl starts outlives it, nor the run that waits for it. Real processes."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from labctl.capture.host.drive_host import LocalHost
from labctl.capture.host.machine import TIMED_OUT, LocalMachine
from labctl.capture.host.programs import kill_session
from labctl.record.timebase import Timebase

LONG = "86399.5"
WITHIN_S = 60.0
RUNS_ONE = (
    "import sys; from labctl.capture.host.machine import LocalMachine\n"
    "LocalMachine().run(sys.argv[1:], 100000)\n"
)


def sleeping(mark: str) -> list[psutil.Process]:
    """Every ``sleep`` whose working directory is ``mark``."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.name() == "sleep" and process.cwd() == mark:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def until(condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    yield str(tmp_path.resolve())
    left = sleeping(str(tmp_path.resolve()))
    for process in left:
        process.kill()


@pytest.mark.fault
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_it_dies_with_the_process_that_waits_for_it(here: str, how: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", RUNS_ONE, "sleep", LONG], stderr=subprocess.DEVNULL
    )
    assert until(lambda: sleeping(here))
    process.send_signal(how)
    process.wait(WITHIN_S)
    assert until(lambda: not sleeping(here))


def test_ctrl_c_in_the_terminal_does_not_reach_it(here: str) -> None:
    """It goes to the foreground process group: whether the program ends is labctl's to say."""
    process = subprocess.Popen([sys.executable, "-c", RUNS_ONE, "sleep", LONG])
    assert until(lambda: sleeping(here))
    (one,) = sleeping(here)
    assert os.getpgid(one.pid) != os.getpgid(process.pid)
    process.kill()
    process.wait(WITHIN_S)
    assert until(lambda: not sleeping(here))


@pytest.mark.parametrize("script", [f"sleep {LONG}; true", f"timeout 900000 sleep {LONG} & wait"])
def test_all_that_are_waited_for_can_be_killed_with_what_they_started(
    script: str, here: str
) -> None:
    machine = LocalMachine()
    codes: list[int] = []

    def run() -> None:
        codes.append(machine.run(["sh", "-c", script], 100_000).exit_code)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert until(lambda: len(sleeping(here)) == 2)
    machine.kill()
    for thread in threads:
        thread.join(WITHIN_S)
    assert len(codes) == 2 and all(code in (TIMED_OUT, -signal.SIGKILL) for code in codes)
    assert until(lambda: not sleeping(here))
    assert machine.run(["true"]).exit_code == 0


def test_what_takes_too_long_is_killed_with_the_groups_that_it_started(here: str) -> None:
    script = f"timeout 900000 sleep {LONG} & wait"
    assert LocalMachine().run(["sh", "-c", script], 1.0).exit_code == TIMED_OUT
    assert until(lambda: not sleeping(here))


def test_what_is_started_while_a_session_is_killed_is_killed_too(
    here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"read line; set -m; sleep {LONG} & wait"
    process = subprocess.Popen(
        ["bash", "-c", script], stdin=subprocess.PIPE, start_new_session=True
    )
    killing = os.killpg

    def kill(group: int, number: int) -> None:
        if process.stdin and not process.stdin.closed:
            process.stdin.close()
            assert until(lambda: sleeping(here))
        killing(group, number)

    monkeypatch.setattr(os, "killpg", kill)
    kill_session(process.pid)
    process.wait(WITHIN_S)
    assert until(lambda: not sleeping(here))


@pytest.mark.parametrize("pauses", [True, False])
def test_no_shell_goes_on_after_what_was_killed_in_it(
    here: str, monkeypatch: pytest.MonkeyPatch, pauses: bool
) -> None:
    """Its exit code would be that of a program that did all that it had to."""

    def slow(killing: Callable[[int, int], None], number: int, how: int) -> None:
        killing(number, how)
        time.sleep(0.1)  # as on a busy machine

    if pauses:
        for name in ("kill", "killpg"):
            monkeypatch.setattr(os, name, functools.partial(slow, getattr(os, name)))
    script = f"(sleep {LONG}; echo on >> went) & sleep {LONG}; echo on >> went"
    for _ in range(1 if pauses else 10):
        process = subprocess.Popen(["sh", "-c", script], start_new_session=True)
        assert until(lambda: len(sleeping(here)) == 2)
        kill_session(process.pid)
        assert process.wait(WITHIN_S) == -signal.SIGKILL
        assert until(lambda: not sleeping(here))
    assert not Path("went").exists()


async def test_the_end_of_the_host_ends_all_that_was_started_on_it(
    here: str, tmp_path: Path
) -> None:
    host = LocalHost(Timebase())
    await host.spawn(("sleep", LONG), tmp_path)
    thread = threading.Thread(target=host.machine.run, args=(["sleep", LONG], 100_000))
    thread.start()
    assert until(lambda: len(sleeping(here)) == 2)
    await host.close()
    thread.join(WITHIN_S)
    assert until(lambda: not sleeping(here))


@pytest.mark.parametrize("turns", range(1, 8))
async def test_who_is_cancelled_while_a_process_is_started_leaves_none(
    turns: int, here: str
) -> None:
    """asyncio's own way waits for ever at some of these turns of the loop."""
    host = LocalHost(Timebase())
    starting = asyncio.create_task(host.spawn(("sleep", LONG), Path(here)))
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    async with asyncio.timeout(WITHIN_S):
        await asyncio.wait([starting])
    await host.close()
    assert until(lambda: not sleeping(here))
