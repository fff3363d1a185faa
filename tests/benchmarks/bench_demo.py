"""The demo, watched from outside: gap between phases, CPU of the whole program, phases inside."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from instruments.simulated.bench import Bench, configure
from tests.benchmarks.figures import Figure, show

CPU_TARGET_PCT = 2.0
LABCTL = (sys.executable, "-m", "labctl.cli.main")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        with Bench(Path(folder) / "bench", configure(seed=1)) as bench:
            process = subprocess.Popen(
                [*LABCTL, "run", bench.rig, "demo", "--runs", runs],
                stdout=subprocess.DEVNULL,
            )
            cpu_pct = cpu_while_recording(process.pid, runs)
            if process.wait():
                raise SystemExit("the demo failed")
        (summary_file,) = runs.glob("*/summary.json")
        summary = json.loads(summary_file.read_text())
    gap_ms = summary["gap_median_ms"]
    alignment_ms = max(phase["alignment_ms"] for phase in summary["phases"])
    show(
        Figure("gap between phases, median", "<= 20 ms", f"{gap_ms:.1f} ms", gap_ms <= 20),
        Figure("alignment of meters, worst phase", "<= 5 ms", f"{alignment_ms:.1f} ms",
               alignment_ms <= 5),
        Figure("CPU of labctl while recording (6 meters, 164 S/s)",
               f"<= {CPU_TARGET_PCT:.0f} %", f"{cpu_pct:.1f} %", cpu_pct <= CPU_TARGET_PCT),
    )  # fmt: skip


def cpu_while_recording(pid: int, runs: Path) -> float:
    """CPU of the program itself (not of fio) from the first to the last event, % of a core."""
    process = psutil.Process(pid)
    while not list(runs.glob("*/journal.jsonl")):
        time.sleep(0.05)
    time.sleep(1.0)
    begin, before = time.monotonic(), process.cpu_times()
    journal = next(runs.glob("*/journal.jsonl"))
    after, end = before, begin
    while '"kind": "run_ended"' not in journal.read_text():
        after, end = process.cpu_times(), time.monotonic()
        time.sleep(0.1)
    used_s = after.user + after.system - before.user - before.system
    return 100 * used_s / (end - begin)


main()
