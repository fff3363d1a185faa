"""How long ``labctl --help`` takes (a bare typer program: about 0.14 s)."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.benchmarks.figures import Figure, show


def seconds(*command: str) -> float:
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


labctl = str(Path(sys.executable).with_name("labctl"))
taken = statistics.median(seconds(labctl, "--help") for _ in range(7))
show(Figure("labctl --help", "<= 0.25 s", f"{taken:.3f} s", taken <= 0.25))
