"""A program that prints readings, as a line to an instrument; it goes on, or ends with them."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import IO, Final

from instruments.child_process import end_process
from instruments.errors import ConnectionLost, ProtocolError, SettingRefused
from instruments.process_environment import environment_without_secrets

_STOP_TIMEOUT_S: Final = 1.0
_MOST_OUTPUT: Final = 1 << 16
"""Bytes that a program may print which ends by itself."""


class ProcessLine:
    """The standard output of a program. ``advice`` ends the error of a program that ended itself.

    The program also ends with this process: its standard input is a pipe from here.
    """

    def __init__(self, name: str, command: Sequence[str], package: str, advice: str) -> None:
        self._name = name
        self._command = list(command)
        self._package = package
        self._advice = advice
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None
        self._output = b""

    def open(self) -> None:
        """Start it. Raises SettingRefused where it is not installed."""
        self._output = b""
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 closed with the process
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=environment_without_secrets(),
                process_group=0,  # Ctrl-C in a terminal is for labctl
            )
        except OSError as error:
            raise SettingRefused(
                f"{self._name}: cannot start {self._command[0]}: {error}; install {self._package}"
            ) from error

    def close(self) -> None:
        """End the program: SIGTERM, then SIGKILL after 1 s."""
        process, self._process = self._process, None
        if process is not None:
            end_process(process, _STOP_TIMEOUT_S)
        stderr, self._stderr = self._stderr, None
        if stderr is not None:
            stderr.close()

    def write(self, data: bytes) -> None:
        """Always raises ConnectionLost: the program takes no input."""
        raise ConnectionLost(f"{self._name}: {self._package} takes no input: {data[:20]!r}")

    def discard(self, quiet_s: float = 0.0) -> None:
        """Discard unread output."""
        while self.read_some(quiet_s):
            pass

    def read_some(self, timeout_s: float) -> bytes:
        """New output; empty after ``timeout_s``. Raises ConnectionLost when the program ends."""
        if self._process is None:
            raise ConnectionLost(f"{self._name}: {self._package} is not running")
        output = self._process.stdout
        assert output is not None
        if not select.select([output], [], [], timeout_s)[0]:
            return b""
        data = os.read(output.fileno(), 65536)
        if not data:
            raise self._ended_error()
        return data

    def output_at_end(self, timeout_s: float) -> str | None:
        """All that a program printed which ends by itself, and ended well; None while it has not.

        Raises ConnectionLost where it failed, and ProtocolError for more than 64 KiB.
        """
        process = self._process
        if process is None or process.stdout is None:
            raise ConnectionLost(f"{self._name}: {self._package} is not running")
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = max(deadline - time.monotonic(), 0.0)
            if not select.select([process.stdout], [], [], left_s)[0]:
                return None
            data = os.read(process.stdout.fileno(), 65536)
            if not data:
                break
            self._output += data
            if len(self._output) > _MOST_OUTPUT:
                raise ProtocolError(f"{self._name}: {self._package} prints without an end")
        try:
            status = process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return None
        if status != 0:
            raise self._ended_error()
        return self._output.decode(errors="replace")

    def _ended_error(self) -> ConnectionLost:
        message = ""
        if self._stderr is not None:
            self._stderr.seek(0)
            message = self._stderr.read(2000).decode(errors="replace").strip().partition("\n")[0]
        message = message or "it said nothing"
        return ConnectionLost(f"{self._name}: {self._package} ended ({message}); {self._advice}")
