"""What ``labctl status`` and ``labctl watch`` show of a run that is on, from outside."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from instruments.simulated.bench import Bench
from labctl.service.queue.job import JobState
from tests.faults.daemon_run import DaemonProcess, environment, labctl, plan_file

pytestmark = [pytest.mark.bench]


class Terminal:
    """A program on a terminal of 80 by 24."""

    def __init__(self, home: Path, *words: str) -> None:
        self.shown = ""
        parent, child = pty.openpty()
        self._descriptor = parent
        variables = {**environment(home), "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "labctl.cli.main", *words],
            stdin=child, stdout=child, stderr=child, env=variables, start_new_session=True,
        )  # fmt: skip
        os.close(child)

    def press(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def until(self, pattern: str, within_s: float = 30.0) -> None:
        deadline = time.monotonic() + within_s
        while not re.search(pattern, self.shown):
            assert time.monotonic() < deadline, self.shown[-3000:]
            if select.select([self._descriptor], [], [], 0.2)[0]:
                text = os.read(self._descriptor, 65_536).decode("utf-8", "replace")
                self.shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)

    def hang_up(self) -> None:
        os.close(self._descriptor)

    def ended(self) -> int:
        """Read to its end; the exit code."""
        with contextlib.suppress(OSError):  # how a terminal says that nobody writes any more
            while os.read(self._descriptor, 65_536):
                pass
        return self.process.wait(20)


def test_a_running_job_is_shown_and_keys_pause_and_cancel(bench: Bench, tmp_path: Path) -> None:
    home = tmp_path / "home"
    plan = plan_file(tmp_path, "long", seconds=60)
    labctl(home, "queue", "add", str(bench.rig), str(plan), "--repeat", "2")
    with DaemonProcess(home, bench.rig) as daemon:
        daemon.until_in_phase(1, 1)
        time.sleep(2.5)
        message = labctl(home, "status").stdout
        assert (
            "job 1: long" in message and "phase 2/4 randread 4k QD1" in message and " W" in message
        )
        assert all(len(line) <= 80 for line in message.splitlines()), message
        data = json.loads(labctl(home, "status", "--json").stdout)
        (rig,) = data["rigs"]
        assert rig["state"] == "running" and rig["now"]["io"]["iops"] > 10
        assert all(rail["watts"] > 0.1 for rail in rig["now"]["rails"].values())
        assert data["daemon"]["alive"] and len(rig["waiting"]) == 1

        terminal = Terminal(home, "watch")
        terminal.until(r"randread 4k QD1")
        terminal.until(r"IOPS")
        terminal.until(r"q quit")
        terminal.press("p")
        terminal.until("no further job begins")
        assert daemon.queue.is_paused("bench")
        terminal.press("c")
        terminal.until(r"cancel job 1")
        terminal.press("n")
        terminal.press("c")
        terminal.until(r"cancel job 1(?s:.*)cancel job 1")
        daemon.queue.cancel(1)  # meanwhile, by somebody else: the answer is not for the next job
        assert daemon.until_over(1).state is JobState.CANCELLED
        daemon.queue.resume("bench")
        daemon.until_in_phase(2, 0)
        terminal.press("y")
        terminal.until("job 1 is cancelled already")
        assert daemon.queue.job(2).state is JobState.RUNNING
        terminal.press("c")
        terminal.until(r"cancel job 2")
        terminal.press("y")
        assert daemon.until_over(2).state is JobState.CANCELLED
        terminal.press("q")
        assert terminal.ended() == 0


def test_without_a_terminal_watch_says_what_to_use(tmp_path: Path) -> None:
    assert "labctl status" in labctl(tmp_path / "home", "watch", code=1).stderr


def test_with_nothing_there_status_says_so(tmp_path: Path) -> None:
    assert "no daemon is running" in labctl(tmp_path / "home", "status").stdout


def test_a_terminal_that_goes_away_ends_it(tmp_path: Path) -> None:
    """Else it would look at the terminal's end for ever, as fast as it can."""
    terminal = Terminal(tmp_path / "home", "watch")
    terminal.until(r"q quit")
    terminal.hang_up()
    terminal.process.wait(20)
