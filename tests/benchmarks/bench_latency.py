"""Whether recording disturbs what it records: fio's latencies at a fixed rate, alone and beside
labctl.

``labctl idle`` reads and records the meters of the bench all the time, but is stopped (SIGSTOP)
while fio runs alone. Beside it fio tells its status twice a second, as in a run. The simulated
drive shares this machine's cores, which makes the comparison harder than a real drive would.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from instruments.simulated.bench import Bench, configure
from tests.benchmarks.figures import Pairs, in_turns, judged, seconds, show
from tests.fio_result import final_result

PAIRS = 8
SECONDS = 5
RATE_IOPS = 1_000
AT_MOST = {"50": 1.05, "99": 1.15}
"""Of a latency percentile: what fio's own runs of a few seconds differ by on a quiet machine."""
LABCTL = (sys.executable, "-m", "labctl.cli.main")
RECORDING_WITHIN_S = 60.0
SETTLED_S = 0.5


def latencies_us(target: str, *more: str) -> dict[str, float]:
    """Latency percentiles of 4 KiB random reads at a fixed rate."""
    command = ["fio", "--name=x", "--ioengine=nbd", f"--uri={target}", "--size=16g", "--bs=4k"]
    command += ["--rw=randread", "--iodepth=4", f"--rate_iops={RATE_IOPS}", "--norandommap"]
    command += ["--time_based", f"--runtime={SECONDS}", "--output-format=json", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = final_result(done.stdout)
    assert result is not None and result.read is not None
    return result.read.latency_percentiles_us


def recording(bench: Bench, home: Path) -> subprocess.Popen[bytes]:
    """labctl, once it records."""
    process = subprocess.Popen(
        [*LABCTL, "idle", str(bench.rig)],
        env={**os.environ, "LABCTL_HOME": str(home)},
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + RECORDING_WITHIN_S
    while not [file for file in home.glob("idle/*/channels/*") if file.stat().st_size]:
        assert time.monotonic() < deadline and process.poll() is None, "labctl idle"
        time.sleep(0.1)
    return process


def main() -> None:
    beside: list[dict[str, float]] = []
    alone: list[dict[str, float]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Bench(Path(folder) / "bench", configure(seed=1)) as bench,
    ):
        target = f"nbd+unix:///?socket={bench.directory / 'drive.sock'}"
        labctl = recording(bench, Path(folder) / "home")

        def with_labctl() -> float:
            labctl.send_signal(signal.SIGCONT)
            time.sleep(SETTLED_S)
            beside.append(latencies_us(target, "--status-interval=500ms"))
            labctl.send_signal(signal.SIGSTOP)
            return beside[-1]["50"]

        def without() -> float:
            alone.append(latencies_us(target))
            return alone[-1]["50"]

        try:
            labctl.send_signal(signal.SIGSTOP)
            in_turns(with_labctl, without, PAIRS)
        finally:
            labctl.send_signal(signal.SIGCONT)
            labctl.terminate()
            labctl.wait()
    for name, at_most in AT_MOST.items():
        own = tuple(one[name] * 1e-6 for one in beside[1:])
        control = tuple(one[name] * 1e-6 for one in alone[1:])
        what = f"fio at {RATE_IOPS:,} IOPS beside labctl, p{name} latency"
        why = "what fio's own short runs differ by; labctl has to stay within that"
        show(judged(what, Pairs(own, control), at_most, seconds, "fio alone", why))


main()
