"""How fast the simulated drive serves the real fio, from one core, against a bare socket.

``--sweep`` adds a table over queue depths. Needs a second core for fio.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instruments.simulated.drive.ground_truth import GroundTruth
from instruments.simulated.drive.process import DriveProcess, start_drive
from tests.benchmarks.bare_loop import bare_loop, cpu_s
from tests.benchmarks.figures import Pairs, core_share, in_turns, judged, show

IDLE_SECONDS = 3.0
RUN_SECONDS = 3.0
IDLE_PROMISED = 0.03
"""Of one core."""
IDLE_HZ = 50.0
RANDOM_READ_PROMISED = 30_000.0
"""IOPS of 4 KiB at queue depth 32."""
IDLE_AT_MOST, MODEL_AT_MOST, SERVER_AT_MOST = 15.0, 8.0, 4.0
DEPTH = 32
REQUEST, ANSWER = 28, 16 + 4096
"""Bytes of an NBD read of 4 KiB and of its answer."""
SOCKET_REQUESTS = 200_000
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


def measure(drive: DriveProcess, pattern: str, block: str, depth: int) -> Result:
    """Run fio once; its figures, and the drive's."""
    command = ["fio", "--name=x", "--ioengine=nbd", f"--uri={drive.uri}", "--size=16g"]
    command += [f"--rw={pattern}", f"--bs={block}", f"--iodepth={depth}", "--norandommap"]
    command += ["--time_based", f"--runtime={RUN_SECONDS}", "--output-format=json"]
    begin_ns, cpu = time.monotonic_ns(), cpu_s(drive.process.pid)
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    cpu = cpu_s(drive.process.pid) - cpu
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


def socket_s() -> float:
    """Seconds a request that is answered with 4 KiB over a bare socket, 32 in flight: two Python
    processes that do nothing else."""
    own, peer = socket.socketpair()
    if not os.fork():
        own.close()
        answer = bytes(ANSWER)
        with contextlib.suppress(OSError):  # who asks has all it wanted, and is gone
            while peer.recv(REQUEST):
                peer.sendall(answer)
        os._exit(0)
    peer.close()
    begin, left, got = time.perf_counter(), SOCKET_REQUESTS, 0
    own.sendall(bytes(REQUEST * DEPTH))
    while left > 0:
        answers, got = divmod(got + len(own.recv(1 << 18)), ANSWER)
        left -= answers
        own.sendall(bytes(REQUEST * answers))
    taken = time.perf_counter() - begin
    own.close()
    os.wait()
    return taken / SOCKET_REQUESTS


def an_io(each_s: float) -> str:
    """A time for one I/O, and how many a second that is."""
    return f"{each_s * 1e6:.1f} µs an I/O ({1 / each_s / 1e3:.1f} k IOPS)"


def against_socket(what: str, drive: DriveProcess, at_most: float, promised: float | None) -> None:
    """Show how long a random read takes against a bare socket."""
    pairs = in_turns(lambda: 1 / measure(drive, "randread", "4k", DEPTH).iops, socket_s, 3)
    why = "a Python process that answers as many bytes; the rest is NBD, model and truth"
    promised_s = None if promised is None else 1 / promised
    show(judged(what, pairs, at_most, an_io, "a bare socket", why, promised=promised_s))


def idle_cpu(drive: DriveProcess) -> Pairs:
    """CPU of the drive without I/O, and of a loop that writes as often."""
    found = []
    with bare_loop([IDLE_HZ]) as control:
        for _ in range(3):
            pids = drive.process.pid, control
            before = [cpu_s(pid) for pid in pids]
            time.sleep(IDLE_SECONDS)
            own, beside = (cpu_s(pid) - cpu for pid, cpu in zip(pids, before, strict=True))
            found.append((own / IDLE_SECONDS, beside / IDLE_SECONDS))
    return Pairs.of(found)


def main() -> None:
    """Measure."""
    with tempfile.TemporaryDirectory() as directory:
        with start_drive(Path(directory) / "shipped", overrides=COLD) as drive:
            why = "the model takes a step each millisecond; the loop writes 50 times a second"
            show(
                judged("simulated drive, CPU idle", idle_cpu(drive), IDLE_AT_MOST, core_share,
                       "a bare loop that writes", why, promised=IDLE_PROMISED)
            )  # fmt: skip
            what = f"simulated drive, 4k random read QD {DEPTH}"
            against_socket(what, drive, MODEL_AT_MOST, RANDOM_READ_PROMISED)
            if "--sweep" in sys.argv:
                for pattern in ("randread", "randwrite"):
                    sweep(drive, pattern, "4k", (1, 2, 4, 8, 16, 32))
                for pattern in ("read", "write"):
                    sweep(drive, pattern, "128k", (1, 2, 4, 8, 16, 32))
        with start_drive(Path(directory) / "fast", overrides=FAST) as drive:
            against_socket("  the same, unscaled", drive, SERVER_AT_MOST, None)


if __name__ == "__main__":
    main()
