"""However a run with its drive behind ssh ends, nothing is left there; and ssh never holds up the
event loop, so that Ctrl-C works from the first connection on."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from instruments.simulated.bench import Bench, configure
from labctl.capture.host import remote_host
from labctl.capture.host.programs import Programs
from labctl.capture.phases.fio_process import FioProcess
from labctl.capture.phases.stopping import StopRequest
from labctl.capture.run.expand import planned_work
from labctl.capture.run.run import Run
from labctl.capture.run.run_end import StoppedBeforehand
from labctl.config.plan import parse_plan
from labctl.config.rig import load_rig
from labctl.errors import NOT_NOW
from labctl.record.events import EventKind
from labctl.record.reader import RunRecord, find_runs
from tests.faults.conftest import SLOW
from tests.faults.resumed_run import WITHIN_S
from tests.faults.test_runs import command
from tests.ssh.sshd import HOST, Sshd, rig_on_host
from tests.ssh.test_runs_over_ssh import nothing_left

pytestmark = [pytest.mark.bench, pytest.mark.fault, pytest.mark.long]

PLAN = """
name = "one"
idle_before_s = 0
idle_after_s = 0
[[sweeps]]
pattern = "randread"
queue_depth = [4]
duration_s = 2
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("ends") / "bench", configure(overrides=SLOW)) as running:
        yield running


@pytest.fixture
def in_loop(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The programs that were waited for in the event loop."""
    found: list[Sequence[str]] = []
    run = Programs.run

    def noted(
        self: Programs, command: Sequence[str], changes: Mapping[str, str], stdin: bytes, s: float
    ) -> subprocess.CompletedProcess[bytes] | None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return run(self, command, changes, stdin, s)
        found.append(command)
        return run(self, command, changes, stdin, s)

    monkeypatch.setattr(Programs, "run", noted)
    return found


def made(bench: Bench, tmp_path: Path) -> Run:
    rig, plan = load_rig(rig_on_host(bench, tmp_path)), parse_plan(PLAN, "one.toml")
    work = planned_work(rig, plan)
    return Run(rig, plan, PLAN, work, tmp_path / "runs", lambda event: None)


@pytest.mark.parametrize("fails", [False, True])
async def test_whatever_raises_nothing_is_left_there(
    bench: Bench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    in_loop: list[Sequence[str]],
    fails: bool,
) -> None:
    hosted = tmp_path / "tmp-of-host"
    hosted.mkdir()

    async def failing(self: FioProcess) -> None:
        await asyncio.sleep(0.3)
        raise ExceptionGroup("several", [KeyError("unforeseen")])

    with Sshd(tmp_path / "sshd", {"TMPDIR": str(hosted)}) as server:
        monkeypatch.setenv("LABCTL_SSH_CONFIG", str(server.config))
        run = await asyncio.to_thread(made, bench, tmp_path)
        if fails:
            monkeypatch.setattr(FioProcess, "wait_done", failing)
        outcome = await run.execute(StopRequest())
        assert outcome.exit_code == int(fails), outcome
        assert ("unforeseen" in outcome.reason) == fails
        end = RunRecord(outcome.path).end
        assert end is not None and end.data["outcome"] == ("failed" if fails else "completed")
        assert await asyncio.to_thread(nothing_left, hosted)
    assert in_loop == []


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The port of a host that takes the connection, and then sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = tmp_path / "config"
        config.write_text(
            f"Host {HOST}\n HostName 127.0.0.1\n Port {server.getsockname()[1]}\n"
            " UserKnownHostsFile /dev/null\n"
        )
        monkeypatch.setenv("LABCTL_SSH_CONFIG", str(config))
        yield server


async def test_a_stop_during_the_first_connection_ends_it(
    bench: Bench, tmp_path: Path, silent: socket.socket
) -> None:
    run = await asyncio.to_thread(made, bench, tmp_path)
    stop = StopRequest()
    task: asyncio.Task[Any] = asyncio.create_task(run.execute(stop))
    connection, _ = await asyncio.to_thread(silent.accept)
    stop.ask("aborted", "Ctrl-C", 130)
    with pytest.raises(StoppedBeforehand, match="Ctrl-C"):
        await task
    connection.close()
    assert find_runs(tmp_path / "runs") == []


@pytest.mark.parametrize("sized", [True, False])
def test_ctrl_c_works_from_the_first_connection_on(
    bench: Bench, tmp_path: Path, silent: socket.socket, sized: bool
) -> None:
    """The first question is for the drive's size, where the rig does not say it."""
    text = bench.rig.read_text().replace('host = "local"', f'host = "{HOST}"')
    assert "size_bytes" in text
    if not sized:
        text = re.sub(r"size_bytes *=.*\n", "", text)
        text = re.sub(r'engine *= *"nbd"', 'engine = "libaio"', text)
        text = re.sub(r"target *=.*\n", 'target = "/dev/nvme7n1"\n', text)
    rig, plan = tmp_path / "rig.toml", tmp_path / "one.toml"
    rig.write_text(text)
    plan.write_text(PLAN)
    process = subprocess.Popen(
        command(rig, plan, tmp_path / "runs"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    silent.settimeout(WITHIN_S)
    connection, _ = silent.accept()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=WITHIN_S)
    connection.settimeout(WITHIN_S)
    while connection.recv(1000):  # until its ssh is gone
        pass
    connection.close()
    assert process.returncode == 130, errors
    assert "Traceback" not in errors and "no answer" not in errors
    assert find_runs(tmp_path / "runs") == []


async def test_a_host_that_is_lost_and_does_not_come_back_is_for_a_later_try(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_host, "BACK_WITHIN_S", 1.0)
    with Sshd(tmp_path / "sshd") as server:
        monkeypatch.setenv("LABCTL_SSH_CONFIG", str(server.config))
        run = await asyncio.to_thread(made, bench, tmp_path)
        running = asyncio.create_task(run.execute(StopRequest()))

        def working() -> bool:
            events = [] if run.path is None else RunRecord(run.path).events
            return any(event.kind == EventKind.PHASE_STARTED for event in events)

        while not running.done() and not working():
            await asyncio.sleep(0.05)
        await asyncio.to_thread(server.stop)
        outcome = await running
    assert outcome.exit_code == NOT_NOW, outcome
    end = RunRecord(outcome.path).end
    assert end is not None and end.data["outcome"] == "failed"
