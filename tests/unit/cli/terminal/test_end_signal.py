"""Signals that end a command, at any moment of its waiting."""

from __future__ import annotations

import signal
import subprocess
import sys

from labctl.cli.terminal.end_signal import ended_by

MANY = """
import os, signal, threading, time
from {module} import {name}

def shots():
    for _ in range(300):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.0002)
    over.append(True)

over = []
{begin}
    thread = threading.Thread(target=shots)
    thread.start()
    while not over:
        end.wait(0.0)
        {again}
    thread.join()
print("ended")
"""


def waited(module: str, name: str, begin: str, again: str) -> str:
    """What a program prints that is interrupted 300 times while it waits."""
    code = MANY.format(module=module, name=name, begin=begin, again=again)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        return "stands still"
    return done.stdout.strip() or done.stderr


def test_a_signal_at_any_moment_of_the_wait_leaves_no_command_standing_still() -> None:
    module = "labctl.cli.terminal.end_signal"
    begin = "with ended_by(signal.SIGINT) as end:"
    assert waited(module, "ended_by", begin, "end._asked = False") == "ended"


def test_what_was_asked_for_stays_asked_for_and_the_handler_of_before_comes_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with ended_by(signal.SIGTERM) as end:
        assert not end.wait(0.0)
        signal.raise_signal(signal.SIGTERM)
        assert end.wait(10.0) and end.wait(0.0)
    assert signal.getsignal(signal.SIGTERM) is before
