"""A wall clock that a test can step for one program and its children, while it runs.

A small library that is loaded before the C library answers for the wall clock alone (libfaketime
0.9.10 fails clock_nanosleep(2) with an absolute time, which is what Python sleeps with).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from datetime import datetime
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_suffix(".c")


class SteppedClock:
    """``variables`` are for the environment of the program whose clock it is."""

    def __init__(self, folder: Path) -> None:
        """Skips the test where there is no C compiler."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("no C compiler, which makes the library that steps a clock")
        library = folder / "stepped_clock.so"
        command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
        subprocess.run(command, check=True, capture_output=True)
        self._file = folder / "wall-shift"
        self._shift_ns = 0
        self._file.write_bytes(bytes(8))
        self.variables = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "WALL_SHIFT": str(self._file),
        }

    def begin_at(self, moment: datetime) -> None:
        """Now is another moment."""
        self.step(moment.timestamp() - time.time() - self._shift_ns * 1e-9)

    def step(self, seconds: float) -> None:
        """Step the clock, also of programs that run."""
        self._shift_ns += round(seconds * 1e9)
        with self._file.open("r+b", buffering=0) as file:
            file.write(self._shift_ns.to_bytes(8, "little", signed=True))
