"""How fast a trace is described, and that its memory does not grow with its length."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.benchmarks.figures import Figure, show

SHORT, LONG = 1_000_000, 5_000_000
PEAK_MIB = 512

MEASURE = """
import json, resource, sys, time
from pathlib import Path
from labctl.trace import describe, open_trace
begin = time.perf_counter()
found = describe(open_trace(Path(sys.argv[1])))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"s": time.perf_counter() - begin, "mib": peak, "ios": found.ios}))
"""


def write_trace(file: Path, ios: int) -> None:
    """An MSR Cambridge trace of so many I/Os."""
    random = np.random.default_rng(1)
    with file.open("w") as stream:
        for first in range(0, ios, 500_000):
            n = min(500_000, ios - first)
            t = 128_166_372_003_061_629 + (first + np.arange(n)) * 2_000
            kinds = np.where(random.random(n) < 0.7, "Read", "Write")
            at = random.integers(0, 1 << 28, n) * 4096
            sizes = 4096 << random.integers(0, 6, n)
            service = random.integers(500, 20_000, n)
            rows = zip(t, kinds, at, sizes, service, strict=True)
            stream.writelines(f"{a},usr,0,{b},{c},{d},{e}\n" for a, b, c, d, e in rows)


def measure(ios: int) -> dict[str, float]:
    """Time and peak memory of describing a fresh trace, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="labctl-bench-") as folder:
        file = Path(folder) / "trace.csv"
        write_trace(file, ios)
        command = [sys.executable, "-c", MEASURE, str(file)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    assert found["ios"] == ios
    return found


short, long = measure(SHORT), measure(LONG)
growth = long["mib"] / short["mib"]
show(
    Figure("describing a trace of 5 M I/Os", "", f"{long['s']:.1f} s"),
    Figure("  I/Os a second", "", f"{LONG / long['s'] / 1e6:.2f} M/s"),
    Figure("  its peak of memory", f"<= {PEAK_MIB} MiB", f"{long['mib']:.0f} MiB",
           long["mib"] <= PEAK_MIB),
    Figure("  against that of 1 M I/Os", "<= 1.1 x", f"{growth:.2f} x", growth <= 1.1),
)  # fmt: skip
