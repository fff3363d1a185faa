"""The daemon as a process, on a simulated bench, for tests that look at it from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labctl.service.data_dir import Home
from labctl.service.queue.job import Job
from labctl.service.queue.store import Queue
from tests import forked_labctl

WITHIN_S = 300.0
PLAN = """
name = "{name}"
idle_before_s = 1
idle_after_s = 1
[[sweeps]]
pattern = "randread"
queue_depth = {depths}
duration_s = {seconds}
"""


def labctl(home: Path, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    done = forked_labctl.labctl(*words, env=environment(home), timeout=WITHIN_S)
    assert code is None or done.returncode == code, done.stderr + done.stdout
    return done


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "LABCTL_HOME": str(home)}


def plan_file(
    folder: Path, name: str = "short", seconds: float = 1, depths: str = "[1, 8]"
) -> Path:
    file = folder / f"{name}.toml"
    file.write_text(PLAN.format(name=name, seconds=seconds, depths=depths))
    return file


class DaemonProcess:
    """``labctl daemon`` on one data directory. Ends with the ``with``."""

    def __init__(self, home: Path, *rigs: Path, **variables: str) -> None:
        self.home = Home(home)
        self.queue = Queue(self.home)
        self._rigs = [str(rig) for rig in rigs]
        self._environment = {**environment(home), **variables}
        self.log_file = home.parent / f"{home.name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "labctl.cli.main", "daemon", *self._rigs],
                stdout=log, stderr=log, env=self._environment,
            )  # fmt: skip

    def __enter__(self) -> DaemonProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.send(number)
        assert self.process is not None
        return self.process.wait(60)

    def log(self) -> str:
        return self.log_file.read_text() if self.log_file.exists() else ""

    def until(self, reached: Callable[[], bool], within_s: float = WITHIN_S) -> None:
        deadline = time.monotonic() + within_s
        while not reached():
            assert time.monotonic() < deadline, (self.log(), self.queue.jobs())
            time.sleep(0.1)

    def until_over(self, number: int, within_s: float = WITHIN_S) -> Job:
        self.until(lambda: self.queue.job(number).state.over, within_s)
        return self.queue.job(number)

    def until_in_phase(self, number: int, index: int, attempt: int = 1) -> Path:
        """Wait until the job's ``attempt``-th run is in a phase; the run's directory."""

        def begun() -> bool:
            job = self.queue.job(number)
            last = job.last
            if len(job.attempts) < attempt or last is None or last.run is None:
                return False
            return any(
                event["kind"] == "phase_started" and event["index"] >= index
                for event in events_of(self.home.runs / last.run)
            )

        self.until(begun)
        last = self.queue.job(number).last
        assert last is not None and last.run is not None
        return self.home.runs / last.run


def events_of(run: Path) -> list[dict[str, Any]]:
    file = run / "journal.jsonl"
    if not file.exists():
        return []
    return [
        json.loads(line)
        for line in file.read_text().splitlines(keepends=True)
        if line.endswith("\n")
    ]
