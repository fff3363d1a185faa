"""Starts a child process that says when it is ready, and ends one."""

from __future__ import annotations

import json
import select
import subprocess
from typing import Any, Final

from instruments.process_environment import environment_without_secrets

_STOP_TIMEOUT_S: Final = 5.0


def start_until_ready(
    command: list[str], name: str, timeout_s: float
) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """Start a program and wait for the line with a JSON object that it prints when it is ready.

    It runs in a process group of its own, as Ctrl-C in a terminal must not reach it; its standard
    input is a pipe from here. Raises RuntimeError where the line does not come.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
        env=environment_without_secrets(),
    )
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], timeout_s)
    line = process.stdout.readline() if ready else b""
    if not line.startswith(b"{"):
        end_process(process)
        raise RuntimeError(
            f"{name} did not start (exit status {process.returncode}, said {line!r})"
        )
    return process, dict(json.loads(line))


def end_process(process: subprocess.Popen[bytes], timeout_s: float = _STOP_TIMEOUT_S) -> None:
    """Send SIGTERM, and SIGKILL after ``timeout_s``; then close its stdin and stdout."""
    process.terminate()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
