"""A PowerSensor3 at 20 kHz and eight channels through a pseudo terminal, as an owner reads it.

``LABCTL_BENCH_MINUTES`` says for how long: 0.25 unless told, 10 for the figure of the issue.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from instruments import drivers
from instruments.reading import EPOCH_NS, Status
from instruments.simulated.bench import MetersProcess
from instruments.simulated.drive.state_ring import StateWriter
from instruments.simulated.meter_kit.config import MeterConfig, MetersConfig
from tests.bench.test_power_sensor import SETTINGS
from tests.benchmarks.figures import Figure, show

MINUTES = float(os.environ.get("LABCTL_BENCH_MINUTES", "0.25"))
CHANNELS = 8
RATE_HZ = 20_000


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        StateWriter(directory / "trace").append(time.monotonic_ns(), *[0.0] * 8, 0, 0, 0, 0, 0)
        config = MeterConfig(
            name="ps", kind="powersensor3", point="frame_numbers", settings=SETTINGS
        )
        meters = MetersProcess(directory, MetersConfig(meters=(config,)))
        settings = SETTINGS | meters.addresses["ps"]
        sensor = drivers.create("ps", "powersensor3", settings, time.monotonic_ns)
        try:
            sensor.open()
            sensor.start()
            sensor.read()
            begin, cpu = time.monotonic(), time.process_time()
            readings = lost = 0
            spans: dict[int, tuple[int, int]] = {}
            while time.monotonic() - begin < MINUTES * 60:
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
            meters.stop()
    due = CHANNELS * sum(
        round((last - first) * 1e-9 * RATE_HZ) + 1 for first, last in spans.values()
    )
    what = f"PowerSensor3 {RATE_HZ // 1000} kHz x {CHANNELS}, {MINUTES:g} min"
    show(
        Figure(f"{what}: lost frames", "0", str(lost), lost == 0),
        Figure(f"{what}: readings", f"{due:,}", f"{readings:,}", readings == due),
        Figure(f"{what}: CPU", "<= 25 % of a core", f"{share:.1%}", share <= 0.25),
    )


main()
