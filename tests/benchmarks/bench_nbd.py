"""How fast the simulated drive serves the real fio, from one core: target and measured.

``--sweep`` adds a table over queue depths. Needs a second core for fio.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from instruments.simulated.drive.ground_truth import GroundTruth
from instruments.simulated.drive.process import DriveProcess, start_drive
from tests.benchmarks.figures import Figure, show

IDLE_SECONDS = 3.0
RUN_SECONDS = 3.0
IDLE_CPU_TARGET = 0.03
"""Of one core."""
RANDOM_READ_TARGET = 30_000.0
"""IOPS of 4 KiB at queue depth 32."""
COLD = {"thermal.ambient_celsius": -60}
"""No throttling: it is the server that is measured."""
FAST = {**COLD, "speed_divisor": 1}
"""The drive as fast as the real one, so that only the server limits."""


@dataclass(frozen=True)
class Result:
    """Of one fio run."""

    iops: float
    latency_us: float
    p99_us: float
    watts: float
    cpu: float


def cpu_seconds(drive: DriveProcess) -> float:
    """CPU time that the drive's process has used."""
    times = psutil.Process(drive.process.pid).cpu_times()
    return float(times.user + times.system)


def measure(drive: DriveProcess, pattern: str, block: str, depth: int) -> Result:
    """Run fio once; its figures, and the drive's."""
    command = ["fio", "--name=x", "--ioengine=nbd", f"--uri={drive.uri}", "--size=16g"]
    command += [f"--rw={pattern}", f"--bs={block}", f"--iodepth={depth}", "--norandommap"]
    command += ["--time_based", f"--runtime={RUN_SECONDS}", "--output-format=json"]
    begin_ns, cpu = time.monotonic_ns(), cpu_seconds(drive)
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    cpu = cpu_seconds(drive) - cpu
    job: dict[str, Any] = json.loads(out[out.index("{") :])["jobs"][0]
    figures = job["write" if "write" in pattern else "read"]
    time.sleep(0.6)  # the truth is flushed each 0.25 s
    truth = GroundTruth(drive.truth)
    bursts = [burst for burst in truth.bursts if burst.begin_ns > begin_ns]
    watts = sum(truth.mean_watts(bursts[0].begin_ns, bursts[-1].end_ns).values())
    return Result(
        iops=figures["iops"],
        latency_us=figures["lat_ns"]["mean"] / 1e3,
        p99_us=figures["clat_ns"]["percentile"]["99.000000"] / 1e3,
        watts=watts,
        cpu=cpu / RUN_SECONDS,
    )


def sweep(drive: DriveProcess, pattern: str, block: str, depths: tuple[int, ...]) -> None:
    """Print a table of queue depths."""
    for depth in depths:
        result = measure(drive, pattern, block, depth)
        print(
            f"{pattern:10} {block:>5} QD {depth:<4}{result.iops:9.0f} IOPS"
            f"{result.latency_us:10.0f} us mean{result.p99_us:9.0f} us p99"
            f"{result.watts:8.2f} W   drive process {result.cpu:4.0%} of a core",
            flush=True,
        )


def show_iops(what: str, iops: float) -> None:
    """Print one rate against the target."""
    target = f">= {RANDOM_READ_TARGET / 1000:.0f} k IOPS"
    show(Figure(what, target, f"{iops / 1000:.1f} k IOPS", iops >= RANDOM_READ_TARGET))


def main() -> None:
    """Measure."""
    with tempfile.TemporaryDirectory() as directory:
        with start_drive(Path(directory) / "shipped", overrides=COLD) as drive:
            cpu = cpu_seconds(drive)
            time.sleep(IDLE_SECONDS)
            cpu = (cpu_seconds(drive) - cpu) / IDLE_SECONDS
            target = f"<= {IDLE_CPU_TARGET:.0%}"
            show(Figure("simulated drive, CPU idle", target, f"{cpu:.1%}", cpu <= IDLE_CPU_TARGET))
            iops = measure(drive, "randread", "4k", 32).iops
            show_iops("simulated drive, 4k random read QD 32", iops)
            if "--sweep" in sys.argv:
                for pattern in ("randread", "randwrite"):
                    sweep(drive, pattern, "4k", (1, 2, 4, 8, 16, 32))
                for pattern in ("read", "write"):
                    sweep(drive, pattern, "128k", (1, 2, 4, 8, 16, 32))
        with start_drive(Path(directory) / "fast", overrides=FAST) as drive:
            show_iops("  the same, unscaled", measure(drive, "randread", "4k", 32).iops)


if __name__ == "__main__":
    main()
