"""How fast a trace is described, against plain Python that takes its lines apart, and that its
memory does not grow with its length."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.benchmarks.figures import Figure, in_turns, judged, seconds, show

SHORT, LONG = 1_000_000, 5_000_000
PEAK_MIB = 512

MEASURE = """
import json, resource, sys, time
from pathlib import Path
from labctl.trace.describe import describe
from labctl.trace.formats import open_trace
begin = time.perf_counter()
found = describe(open_trace(Path(sys.argv[1])))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"s": time.perf_counter() - begin, "mib": peak, "ios": found.ios}))
"""

PLAIN = """
import json, sys, time
begin = time.perf_counter()
ios = reads = size = busy = 0
for line in open(sys.argv[1], "rb"):
    t, host, disk, kind, at, length, service = line.split(b",")
    ios += 1
    reads += kind == b"Read"
    size += int(length)
    busy += int(service)
print(json.dumps({"s": time.perf_counter() - begin, "ios": ios}))
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


def run(code: str, file: Path) -> dict[str, float]:
    """What ``code`` says of a trace, in a process of its own."""
    command = [sys.executable, "-c", code, str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="labctl-bench-") as folder:
        short, long = Path(folder) / "short.csv", Path(folder) / "long.csv"
        write_trace(short, SHORT)
        write_trace(long, LONG)
        peaks_mib: list[float] = []

        def described() -> float:
            found = run(MEASURE, long)
            assert found["ios"] == LONG
            peaks_mib.append(found["mib"])
            return found["s"]

        pairs = in_turns(described, lambda: run(PLAIN, long)["s"], 3)
        growth = max(peaks_mib) / run(MEASURE, short)["mib"]
    why = "one line after another: split, and three numbers of it added up"
    rate = LONG / statistics.median(pairs.own) / 1e6
    peak_mib = max(peaks_mib)
    show(
        judged("describing a trace of 5 M I/Os", pairs, 1.25, seconds, "plain Python", why),
        Figure("  I/Os a second", "", f"{rate:.2f} M/s"),
        Figure("  its peak of memory", f"≤ {PEAK_MIB} MiB", f"{peak_mib:.0f} MiB",
               peak_mib <= PEAK_MIB),
        Figure("  against that of 1 M I/Os", "≤ 1.1 ×", f"{growth:.2f}", growth <= 1.1),
    )  # fmt: skip


main()
