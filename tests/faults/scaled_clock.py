"""A fio whose own clock runs at another rate: a small library that is loaded before the C library.

fio calibrates the processor's counter by the monotonic clock, or takes that clock itself, so its
runtime, its rates and its latencies are all at that rate. Its wall clock is the true one.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_suffix(".c")


def fio_with_clock(folder: Path, rate: float) -> Path:
    """A folder for PATH whose ``fio`` is the real one with such a clock. Skips the test where there
    is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    real = shutil.which("fio")
    if compiler is None or real is None:
        pytest.skip("no C compiler, which makes the library that scales a clock")
    folder.mkdir(parents=True)
    library = folder / "scaled_clock.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True)
    wrapper = folder / "fio"
    wrapper.write_text(f'#!/bin/sh\nLD_PRELOAD="{library}" CLOCK_RATE={rate} exec "{real}" "$@"\n')
    wrapper.chmod(0o755)
    return folder
