"""Signals that end a command, at any moment of its waiting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from labctl.cli.terminal.end_signal import ended_by
from labctl.errors import INTERRUPTED
from tests.unit.service.locks.test_rig_lock import bench

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


IN_A_CALLBACK = """
import signal, sys, weakref

class Interrupting:
    times = 2

    def find_spec(self, name, path=None, target=None):
        if name == {module!r} and self.times:
            self.times -= 1
            one = {{1}}
            kept = weakref.ref(one, lambda _: signal.raise_signal(signal.SIGINT))
            del one
            sys.stderr.write("interrupted ")

sys.meta_path.insert(0, Interrupting())
"""
"""For ``sitecustomize``: a Ctrl-C comes in the callback of a weak reference while a module is
imported, as each import has one (importlib's own, of the module's lock). Python gives it up."""


@pytest.mark.parametrize(
    "module",
    ["labctl.cli.overnight.daemon", "labctl.config.find_rig", "labctl.service.daemon.daemon"],
)
def test_an_interrupt_that_python_gives_up_while_it_imports_ends_the_command(
    tmp_path: Path, module: str
) -> None:
    (tmp_path / "rig.toml").write_text(bench(tmp_path, module.replace("_", "-")))
    (tmp_path / "sitecustomize.py").write_text(IN_A_CALLBACK.format(module=module))
    environment = {
        **os.environ, "PYTHONPATH": str(tmp_path), "LABCTL_HOME": str(tmp_path / "home")
    }  # fmt: skip
    daemon = subprocess.run(
        [sys.executable, "-m", "labctl", "daemon", tmp_path / "rig.toml"],
        env=environment, cwd=Path(__file__).parents[4], capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert "interrupted" in daemon.stderr
    assert daemon.returncode in (0, INTERRUPTED, -signal.SIGINT), daemon.stderr
    assert "Traceback" not in daemon.stderr
