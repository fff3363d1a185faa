"""A run as a child process: started for a job, stopped, and its result read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from labctl.errors import NOT_NOW
from labctl.service.data_dir import make_folder
from labctl.service.locks.processes import ProcessIdentity, identity_of
from labctl.service.locks.rig_lock import HANDED_DOWN_VARIABLE, JOB_VARIABLE, RigLock
from labctl.service.queue.job import AttemptOutcome

LIFELINE_VARIABLE = "LABCTL_LIFELINE"
"""The descriptor of a pipe whose other end the daemon holds: it breaks when the daemon ends."""
STOP_WITHIN_S = 40.0
"""After SIGTERM a run ends fio (3 s), the meters (3 s), the last points (10 s) and its report."""
KILL_WITHIN_S = 10.0
MOST_RESULT_BYTES = 1 << 26
MOST_REASON_BYTES = 4_096

_OUTCOMES = {
    0: AttemptOutcome.COMPLETED,
    1: AttemptOutcome.FAILED,
    2: AttemptOutcome.REFUSED,
    3: AttemptOutcome.ABORTED,
    NOT_NOW: AttemptOutcome.FAILED,
}
"""By the exit code of ``labctl run``; anything else is an interruption."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended, as its process reported. ``run`` is its directory, if it has one."""

    outcome: AttemptOutcome
    reason: str
    run: Path | None


class RunProcess:
    """One ``labctl run`` or ``labctl idle``, with its two output files."""

    def __init__(
        self, process: asyncio.subprocess.Process, folder: Path, stem: str, lifeline: int
    ) -> None:
        self.identity: ProcessIdentity = identity_of(process.pid)
        self._process = process
        self._stdout = folder / f"{stem}.json"
        self._stderr = folder / f"{stem}.log"
        self._lifeline = lifeline
        self._stop_requested = False

    @classmethod
    async def start(
        cls, arguments: list[str], folder: Path, stem: str, lock: RigLock, job: int
    ) -> RunProcess:
        """Start ``labctl`` with ``arguments``; its output goes to files in ``folder``.

        Raises OSError, HomeUnusable.
        """
        make_folder(folder)
        reading, writing = os.pipe2(os.O_CLOEXEC)
        environment = {
            **os.environ,
            HANDED_DOWN_VARIABLE: ",".join(map(str, lock.descriptors)),
            LIFELINE_VARIABLE: str(reading),
            JOB_VARIABLE: str(job),
        }
        environment.pop("NOTIFY_SOCKET", None)  # only the daemon reports to systemd
        try:
            with (
                (folder / f"{stem}.json").open("wb") as stdout,
                (folder / f"{stem}.log").open("wb") as stderr,
            ):
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", "labctl.cli.main", *arguments),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=(*lock.descriptors, reading),
                    env=environment,
                    start_new_session=True,  # Ctrl-C in the daemon's terminal is not for the run
                )
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        return cls(process, folder, stem, writing)

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.returncode is None

    async def wait(self, seconds: float) -> bool:
        """Wait at most so long for its end; whether it has ended."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._process.wait()
        return not self.running

    def ask_to_stop(self) -> None:
        """Send SIGTERM, once."""
        if not self._stop_requested:
            self._stop_requested = True
            self._signal(signal.SIGCONT)
            self._signal(signal.SIGTERM)

    async def end(self) -> None:
        """SIGTERM, and SIGKILL after ``STOP_WITHIN_S``."""
        self.ask_to_stop()
        if not await self.wait(STOP_WITHIN_S):
            self._signal(signal.SIGKILL)
            await self.wait(KILL_WITHIN_S)

    def close(self) -> None:
        """Close the lifeline; a process that still runs ends itself."""
        os.close(self._lifeline)

    def result(self) -> RunResult:
        """How it ended, from its exit code and its printed JSON."""
        code = self._process.returncode
        printed = self._printed()
        outcome = _OUTCOMES.get(-1 if code is None else code, AttemptOutcome.INTERRUPTED)
        run = printed.get("run")
        path = Path(run) if isinstance(run, str) else None
        reason = str(printed.get("reason") or "")
        if code is not None and code < 0:
            reason = f"labctl run was killed by signal {-code}"
        elif not reason and outcome is not AttemptOutcome.COMPLETED:
            reason = self._last_error_line() or f"exit code {code}"
        return RunResult(outcome, reason[:MOST_REASON_BYTES], path)

    def _printed(self) -> dict[str, object]:
        """The JSON that it printed; empty when there is none."""
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if self._stdout.stat().st_size <= MOST_RESULT_BYTES:
                found = json.loads(self._stdout.read_bytes())
                if isinstance(found, dict):
                    return {key: found.get(key) for key in ("run", "outcome", "reason")}
        return {}

    def _last_error_line(self) -> str:
        with contextlib.suppress(OSError):
            with self._stderr.open("rb") as file:
                file.seek(max(self._stderr.stat().st_size - MOST_REASON_BYTES, 0))
                lines = file.read().decode("utf-8", "replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self.running:
                self._process.send_signal(number)


def watch_lifeline(loop: asyncio.AbstractEventLoop, on_daemon_ended: Callable[[], None]) -> None:
    """Call ``on_daemon_ended`` once when the daemon that started this process has ended.

    Does nothing in a process that no daemon started.
    """
    number = os.environ.get(LIFELINE_VARIABLE, "")
    if not number.isdigit() or not _is_pipe(int(number)):
        return

    def broken() -> None:
        loop.remove_reader(int(number))
        on_daemon_ended()

    loop.add_reader(int(number), broken)


def _is_pipe(descriptor: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except (OSError, OverflowError):
        return False
