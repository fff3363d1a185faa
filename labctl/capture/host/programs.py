"""Programs that a thread waits for, each of which another thread can kill."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence

from instruments.process_environment import environment_without_secrets

AFTER_KILL_S = 1.0
"""A program that waits for a dead drive cannot be killed: it is left behind."""
POLL_EVERY_S = 0.5
"""How often to check whether a program that is waited for was to be killed."""

_TIED = '[ "$PPID" = "$0" ] && exec "$@"'


def tied(argv: Sequence[str]) -> list[str]:
    """The command line of a program that the kernel kills when this process dies, however it does
    (prctl(2), PR_SET_PDEATHSIG; the thread that starts it must live as long). The shell checks
    whether this process had died before that was set."""
    kept = ["setpriv", "--pdeathsig", "KILL", "/bin/sh", "-c", _TIED, str(os.getpid())]
    return [*kept, *argv]


class Programs:
    """Those that threads wait for. Each leads a process group of its own."""

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
            _kill_group(process)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=AFTER_KILL_S)
            return None
        except BaseException:  # Ctrl-C
            _kill_group(process)
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
                _kill_group(process)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
