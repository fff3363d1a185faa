"""Programs that a thread waits for, each of which another thread can kill."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from instruments.process_environment import environment_without_secrets

AFTER_KILL_S = 1.0
"""A program that waits for a dead drive cannot be killed: it is left behind."""
MOST_PASSES = 10
"""Through the processes of a session, to kill those that others started since the pass before."""
POLL_EVERY_S = 0.5
"""How often to check whether a program that is waited for was to be killed."""

_TIED = '[ "$PPID" = "$0" ] && exec "$@"'


def tied(argv: Sequence[str]) -> list[str]:
    """The command line of a program that the kernel kills when this process dies, however it does
    (prctl(2), PR_SET_PDEATHSIG; the thread that starts it must live as long). The shell checks
    whether this process had died before that was set."""
    kept = ["setpriv", "--pdeathsig", "KILL", "/bin/sh", "-c", _TIED, str(os.getpid())]
    return [*kept, *argv]


def kill_session(leader: int) -> None:
    """Kill the process group of ``leader`` and all that is in its session: also what has a process
    group of its own there (timeout, the job control of a shell), and what is started meanwhile.

    Group by group, at first that of the leader: a shell whose program died before it would go on.
    """
    killed: set[int] = set()
    groups = {leader: leader}
    for _ in range(MOST_PASSES):
        for group in dict.fromkeys(groups.values()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        killed |= groups.keys()
        groups = {
            pid: group
            for pid, group in _program_session_groups(leader).items()
            if pid not in killed
        }
        if not groups:
            break


def _program_session_groups(leader: int) -> dict[int, int]:
    """The process group of each process of a session, also of those that are killed and not yet
    gone."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == leader:
                found[pid] = os.getpgid(pid)
    return found


async def start_process(*command: str, **more: Any) -> asyncio.subprocess.Process:
    """Start a process in a session of its own and without labctl's secrets, with ``more`` as
    asyncio takes it; raises OSError.

    Who is cancelled meanwhile leaves no process behind, and ends: asyncio waits for ever then for
    pipes that were not connected yet (Python 3.11).
    """
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            *command, start_new_session=True, env=environment_without_secrets(), **more
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait([starting])
        if starting.exception() is None:
            kill_session(starting.result().pid)
        raise


class Programs:
    """Those that threads wait for. Each leads a session of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._there: set[subprocess.Popen[bytes]] = set()
        self._killed: set[subprocess.Popen[bytes]] = set()
        self._over = False

    def run(
        self, command: Sequence[str], changes: Mapping[str, str], stdin: bytes, timeout_s: float
    ) -> subprocess.CompletedProcess[bytes] | None:
        """Run a program to its end, with ``changes`` of the environment; None when it had to be
        killed, after ``timeout_s`` or by :meth:`kill`, and is perhaps still there. Raises OSError
        when it cannot be started."""
        with self._lock:
            if self._over:
                return None
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment_without_secrets(**changes),
                start_new_session=True,
            )
            self._there.add(process)
        try:
            printed = self._printed(process, stdin or None, timeout_s)
            if printed is not None:
                return subprocess.CompletedProcess(command, process.returncode, *printed)
            _kill_program(process)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=AFTER_KILL_S)
            return None
        except BaseException:  # Ctrl-C
            _kill_program(process)
            raise
        finally:
            with self._lock:
                self._there.discard(process)
                self._killed.discard(process)

    def _printed(
        self, process: subprocess.Popen[bytes], stdin: bytes | None, timeout_s: float
    ) -> tuple[bytes, bytes] | None:
        deadline = time.monotonic() + timeout_s
        while process not in self._killed:
            left_s = deadline - time.monotonic()
            try:
                return process.communicate(stdin, max(min(left_s, POLL_EVERY_S), 0.0))
            except subprocess.TimeoutExpired:
                stdin = None  # the rest of it is still to be sent
                if left_s <= 0:
                    break
        return None

    def kill(self, *, for_good: bool = False) -> None:
        """SIGKILL to all of them, with what they have started. ``for_good``: no other is started
        any more."""
        with self._lock:
            self._over = self._over or for_good
            self._killed |= self._there
            for process in self._there:
                _kill_program(process)


def _kill_program(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        kill_session(process.pid)
