"""A PowerSensor3 at 20 kHz and eight channels through a pseudo terminal, as an owner reads it.

``LABCTL_BENCH_MINUTES`` says for how long: 0.25 by default, 10 for the figure.
"""

from __future__ import annotations

import os
import select
import tempfile
import time
from pathlib import Path

import numpy as np

from instruments import drivers
from instruments.reading import EPOCH_NS, Status
from instruments.simulated.bench import MetersProcess
from instruments.simulated.drive.state_ring import StateWriter
from instruments.simulated.meter_kit.config import MeterConfig, MetersConfig
from tests.bench.test_power_sensor import SETTINGS
from tests.benchmarks.figures import Figure, Pairs, core_share, judged, show

MINUTES = float(os.environ.get("LABCTL_BENCH_MINUTES", "0.25"))
CHANNELS = 8
RATE_HZ = 20_000
FRAME_BYTES = 2 * (CHANNELS + 1)
"""Two bytes a channel, and as many for its time."""
PROMISED = 0.25
AT_MOST = 8.0
"""Measured 6: each frame is checked, counted, stamped and scaled."""
PAIRS = 5


def plain_numpy(span_s: float) -> float:
    """CPU share of taking as many bytes as often out of a pseudo terminal, and their values out of
    them by numpy, without looking at any of it."""
    own, peer = os.openpty()
    chunk = bytes(FRAME_BYTES * RATE_HZ // 20)
    if not os.fork():
        os.close(own)
        os.set_blocking(peer, True)
        due, end = time.monotonic(), time.monotonic() + span_s
        while due < end:
            due += 1 / 20
            time.sleep(max(due - time.monotonic(), 0.0))
            os.write(peer, chunk.replace(b"\0", b"\1"))
        os._exit(0)
    os.close(peer)
    begin, cpu, rest = time.monotonic(), time.process_time(), b""
    try:
        while select.select([own], [], [], 1.0)[0] and (data := os.read(own, 1 << 16)):
            whole = len(rest + data) // FRAME_BYTES * FRAME_BYTES
            frames = np.frombuffer((rest + data)[:whole], np.uint8).reshape(-1, FRAME_BYTES)
            rest = (rest + data)[whole:]
            for channel in range(CHANNELS):
                frames[:, 2 * channel] * 128.0 + frames[:, 2 * channel + 1]
    except OSError:  # the other end is closed
        pass
    share = (time.process_time() - cpu) / (time.monotonic() - begin)
    os.close(own)
    os.wait()
    return share


def main() -> None:
    pairs: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        StateWriter(directory / "trace").append(time.monotonic_ns(), *[0.0] * 8, 0, 0, 0, 0, 0)
        config = MeterConfig(
            name="ps", kind="powersensor3", point="frame_numbers", settings=SETTINGS
        )
        meters = MetersProcess(directory, MetersConfig(meters=(config,)))
        settings = SETTINGS | meters.addresses["ps"]
        readings = lost = due = 0
        try:
            for _ in range(PAIRS):
                sensor = drivers.create("ps", "powersensor3", settings, time.monotonic_ns)
                spans: dict[int, tuple[int, int]] = {}
                try:
                    sensor.open()
                    sensor.start()
                    sensor.read()
                    begin, cpu = time.monotonic(), time.process_time()
                    while time.monotonic() - begin < MINUTES * 60 / PAIRS:
                        batch = sensor.read()
                        readings += sum(len(block) for block in batch.blocks)
                        lost += sum(s.count for s in batch.statuses if s.status is Status.LOST)
                        for block in batch.blocks:
                            first_ns, last_ns = int(block.t_ns[0]), int(block.t_ns[-1])
                            epoch = first_ns // EPOCH_NS
                            spans[epoch] = (spans.get(epoch, (first_ns, 0))[0], last_ns)
                    share = (time.process_time() - cpu) / (time.monotonic() - begin)
                finally:
                    sensor.close()
                due += CHANNELS * sum(
                    round((last - first) * 1e-9 * RATE_HZ) + 1 for first, last in spans.values()
                )
                pairs.append((share, plain_numpy(min(MINUTES * 60 / PAIRS, 3.0))))
        finally:
            meters.stop()
    what = f"PowerSensor3 {RATE_HZ // 1000} kHz × {CHANNELS}, {MINUTES:g} min"
    why = "as many bytes from a pseudo terminal, made numbers; labctl checks and stamps each frame"
    show(
        Figure(f"{what}: lost frames", "0", str(lost), lost == 0),
        Figure(f"{what}: readings", f"{due:,}", f"{readings:,}", readings == due),
        judged(f"{what}: CPU", Pairs.of(pairs), AT_MOST, core_share, "plain numpy", why,
               promised=PROMISED),
    )  # fmt: skip


main()
