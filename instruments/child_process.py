"""Ends a child process and closes its pipes."""

from __future__ import annotations

import subprocess


def end_process(process: subprocess.Popen[bytes], timeout_s: float) -> None:
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
