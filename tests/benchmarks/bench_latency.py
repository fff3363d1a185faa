"""Whether recording disturbs what it records: fio's latencies at a fixed rate, alone and beside
labctl.

The meters of the bench run all the time; ``labctl idle`` reads and records them in every second
stretch, and fio then tells its status twice a second, as in a run. The simulated drive shares this
machine's cores, which makes the comparison harder than a real drive would.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from instruments.simulated.bench import Bench, configure
from labctl.fio.results import final_result
from tests.benchmarks.figures import Figure, show

ROUNDS = 4
SECONDS = 6
RATE_IOPS = 1_000
PERCENTILES = ("50", "99")
LABCTL = (sys.executable, "-m", "labctl.cli.main")
RECORDING_WITHIN_S = 60.0


def latencies_us(target: str, *more: str) -> dict[str, float]:
    """Latency percentiles of 4 KiB random reads at a fixed rate."""
    command = ["fio", "--name=x", "--ioengine=nbd", f"--uri={target}", "--size=16g", "--bs=4k"]
    command += ["--rw=randread", "--iodepth=4", f"--rate_iops={RATE_IOPS}", "--norandommap"]
    command += ["--time_based", f"--runtime={SECONDS}", "--output-format=json", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = final_result(done.stdout)
    assert result is not None and result.read is not None
    return result.read.latency_percentiles_us


def beside_labctl(bench: Bench, target: str, home: Path) -> dict[str, float]:
    """The same while labctl records the meters."""
    recording = subprocess.Popen(
        [*LABCTL, "idle", str(bench.rig)],
        env={**os.environ, "LABCTL_HOME": str(home)},
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + RECORDING_WITHIN_S
        while not [file for file in home.glob("idle/*/channels/*") if file.stat().st_size]:
            assert time.monotonic() < deadline and recording.poll() is None, "labctl idle"
            time.sleep(0.1)
        return latencies_us(target, "--status-interval=500ms")
    finally:
        recording.terminate()
        recording.wait()


def main() -> None:
    alone: list[dict[str, float]] = []
    beside: list[dict[str, float]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Bench(Path(folder) / "bench", configure(seed=1)) as bench,
    ):
        target = f"nbd+unix:///?socket={bench.directory / 'drive.sock'}"
        for number in range(ROUNDS):
            alone.append(latencies_us(target))
            beside.append(beside_labctl(bench, target, Path(folder) / f"home-{number}"))
    for name in PERCENTILES:
        without = [one[name] for one in alone]
        usual, spread = statistics.median(without), max(without) - min(without)
        ours = statistics.median(one[name] for one in beside)
        show(
            Figure(
                f"fio at {RATE_IOPS:,} IOPS beside labctl, p{name} latency",
                f"{usual:.0f} ± {spread:.0f} µs alone",
                f"{ours:.0f} µs",
                abs(ours - usual) <= spread,
            )
        )


main()
