"""Programs on the drive's host, behind a real sshd: who keeps them, how their files get there."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from labctl.capture.host import remote_host
from labctl.capture.host.keeper import Keeper
from labctl.capture.host.machine import TIMED_OUT
from labctl.capture.host.remote_host import RemoteHost
from labctl.capture.host.ssh import HostUnreachable, ssh_script
from labctl.errors import RunFailed
from labctl.record.timebase import Timebase
from tests.ssh.sshd import HOST, Sshd
from tests.unit.capture.host.test_programs import WITHIN_S, until

pytestmark = pytest.mark.fault

LONG = "86399.7"
"""No other module sleeps for so long: its programs are looked for by it on the whole machine."""
RUNS_ONE = f"""
import asyncio, time
from labctl.capture.host.remote_host import RemoteHost
async def main():
    host = RemoteHost({HOST!r}, time.monotonic_ns)
    await host.connect()
    await asyncio.to_thread(host.machine.run, ["sh", "-c", "exec sleep {LONG}"], 100000)
asyncio.run(main())
"""


def sleepers() -> list[str]:
    """The processes that sleep for as long as only these tests do."""
    done = subprocess.run(["pgrep", "-fx", f"sleep {LONG}"], capture_output=True, text=True)
    return done.stdout.split()


def in_thread(host: RemoteHost, codes: list[int], timeout_s: float = 100_000) -> threading.Thread:
    """Lets a program run there for long."""

    def run() -> None:
        try:
            codes.append(host.machine.run(["sleep", LONG], timeout_s).exit_code)
        except HostUnreachable:
            codes.append(-1)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


async def until_async(condition: Any) -> bool:
    return await asyncio.to_thread(until, condition)


def test_a_program_dies_with_labctl(sshd: Sshd) -> None:
    process = subprocess.Popen([sys.executable, "-c", RUNS_ONE])
    assert until(sleepers)
    process.kill()
    process.wait(WITHIN_S)
    assert until(lambda: not sleepers())


@pytest.mark.parametrize("how", ["connection", "time", "kill", "close"])
async def test_a_program_ends_with(sshd: Sshd, how: str) -> None:
    host = RemoteHost(HOST, Timebase().now_ns)
    await host.connect()
    codes: list[int] = []
    try:
        thread = in_thread(host, codes, 3.0 if how == "time" else 100_000)
        assert await until_async(sleepers)
        if how == "connection":
            sshd.signal_sessions(signal.SIGKILL)
        elif how == "kill":
            host.kill()
        elif how == "close":
            await host.close()
        assert await until_async(lambda: not sleepers())
        await asyncio.to_thread(thread.join, WITHIN_S)
        assert codes and codes[0] != 0
        if how in ("time", "kill"):
            assert codes == [TIMED_OUT] or how == "kill"
            done = await asyncio.to_thread(host.machine.run, ["sh", "-c", "echo again; pwd"])
            assert done.stdout.startswith("again\n")
            folder = Path(done.stdout.split()[1]).parent
            assert how == "kill" or await until_async(lambda: not list(folder.glob("h*")))
    finally:
        await host.close()


@pytest.mark.parametrize(
    "script",
    [
        f"cd / && exec sleep {LONG}",
        f"timeout 100000 sleep {LONG} & wait",
        f"cd /; bash -c 'set -m; sleep {LONG} & wait'",
    ],
)
@pytest.mark.parametrize(
    "how",
    ["kill", *(pytest.param(how, marks=pytest.mark.long) for how in ("silent", "connection"))],
)
async def test_wherever_it_went_it_ends_with(
    sshd: Sshd, tmp_path: Path, script: str, how: str
) -> None:
    """In another directory and in a process group of its own."""
    host = RemoteHost(HOST, Timebase().now_ns)
    await host.connect()
    try:
        process = await host.spawn(("sh", "-c", script), tmp_path)
        assert await until_async(sleepers)
        if how == "silent":  # no heartbeat comes any more
            sshd.signal_sessions(signal.SIGSTOP)
        elif how == "connection":
            sshd.signal_sessions(signal.SIGKILL)
        else:
            process.kill()
        assert await until_async(lambda: not sleepers())
    finally:
        sshd.signal_sessions(signal.SIGCONT)
        await host.close()


@pytest.mark.parametrize("name", ["started.sh", "program.sh"])
@pytest.mark.parametrize("has_ended", [True, False])
def test_a_program_that_comes_after_its_keeper_has_ended_does_not_start(
    tmp_path: Path, name: str, has_ended: bool
) -> None:
    """A keeper that has ended has removed its directory; one that is about to has said so."""
    keeper, ran = tmp_path / "labctl-run-1", tmp_path / "ran"
    if not has_ended:
        keeper.mkdir()
        (keeper / "over").touch()
    words = ["sh", "-c", ssh_script(name), "labctl", str(keeper), "h1", "touch", str(ran)]
    done = subprocess.run(words, capture_output=True, timeout=WITHIN_S)
    assert done.returncode == 73
    assert not ran.exists()
    assert keeper.exists() is not has_ended


async def test_without_its_connection_no_program_is_started(sshd: Sshd) -> None:
    host = RemoteHost(HOST, Timebase().now_ns)
    await host.connect()
    try:
        sshd.stop()
        await asyncio.wait_for(host._keeper.closed.wait(), WITHIN_S)  # type: ignore[union-attr]
        with pytest.raises(HostUnreachable):
            await asyncio.to_thread(host.machine.run, ["true"])
    finally:
        await host.close()


async def test_files_and_commands_of_any_size_get_there(sshd: Sshd, tmp_path: Path) -> None:
    """One argument may have 128 KiB (MAX_ARG_STRLEN)."""
    content = os.urandom(3_000_000)
    (tmp_path / "replay.log").write_bytes(content)
    (tmp_path / "job.fio").write_text("it's\n[global]\n")
    host = RemoteHost(HOST, Timebase().now_ns)
    await host.connect()
    try:
        names = ("job.fio", "replay.log")
        process = await host.spawn(("sh", "-c", "read go; cat job.fio replay.log"), tmp_path, names)
        process.stdin.write(b"go\n")
        assert await process.stdout.read() == b"it's\n[global]\n" + content
        assert await process.wait() == 0
        many = [f"word {number} isn't long" for number in range(10_000)]
        done = await asyncio.to_thread(host.machine.run, ["printf", "%s\\n", *many])
        assert done.exit_code == 0 and done.stdout.splitlines() == many
        with pytest.raises(OSError, match="No such file"):
            await host.spawn(("true",), tmp_path, ("no-such-file",))
    finally:
        await host.close()


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), ValueError("unforeseen")])
async def test_a_reconnection_that_fails_is_reported_in_time_and_ends_in_order(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    host = RemoteHost(HOST, Timebase().now_ns)
    await host.connect()
    try:

        async def failing(*_: object) -> Keeper:
            raise error

        monkeypatch.setattr(remote_host, "BACK_WITHIN_S", 1.0)
        monkeypatch.setattr(Keeper, "start", failing)
        sshd.signal_sessions(signal.SIGKILL)
        await until_async(lambda: not host._back.is_set())
        with pytest.raises(RunFailed, match=r"not back within 1 s.*(Too many|unforeseen)"):
            await asyncio.wait_for(host.wait_back(), WITHIN_S)
    finally:
        await host.close()


async def test_a_watch_that_fails_is_reported_and_ends_in_order(
    sshd: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = RemoteHost(HOST, Timebase().now_ns)
    await host.connect()
    try:

        def failing(*_: object, **__: object) -> None:
            raise ValueError("unforeseen")

        monkeypatch.setattr(host, "_on_event", failing)
        sshd.signal_sessions(signal.SIGKILL)
        await until_async(lambda: host._gone is not None)
        with pytest.raises(RunFailed, match=r"not watched any more.*unforeseen"):
            await asyncio.wait_for(host.wait_back(), WITHIN_S)
    finally:
        await host.close()
