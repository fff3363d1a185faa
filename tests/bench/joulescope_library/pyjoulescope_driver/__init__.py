"""Stands in for the maker's library where no Joulescope can be plugged in: two JS220 on the bench.

``u/js220/000012`` is in the 12 V rail of the bench whose directory ``JOULESCOPE_BENCH`` names,
``u/js220/000033`` in its 3.3 V rail. Blocks of 50 ms are handed on as the maker's binding does
(binding.pyx: keys and units): numbers count at 2 MHz and every second one is a sample. Their clocks
are 60 ppm fast and began long ago; each has errors of its own, and now and then a block is lost.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from instruments.simulated.drive.state_ring import StateReader

PPM = 60.0
FIRST_ID = 7_200 * 2_000_000
BLOCK_MS = 50
RAILS = {"000012": "12V", "000033": "3V3"}
ERRORS = {"000012": (1.0005, 0.001, 0.9985, 0.0004), "000033": (0.9996, -0.001, 1.0015, -0.0003)}
"""Gain and offset of volts, then of amps."""
LOST_EVERY = 97


class Driver:
    """What labctl uses of the library's class of this name."""

    def __init__(self) -> None:
        self._calls: dict[str, Callable[[str, Any], None]] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._over = threading.Event()

    def device_paths(self, timeout: float | None = None) -> list[str]:
        return [f"u/js220/{serial}" for serial in RAILS]

    def open(self, device_prefix: str, mode: Any = None, timeout: float | None = None) -> None:
        if device_prefix not in self.device_paths():
            raise RuntimeError(f"jsdrv_open failed for {device_prefix}")

    def close(self, device_prefix: str, timeout: float | None = None) -> None:
        self._over.set()

    def finalize(self, timeout: float | None = None) -> None:
        self._over.set()
        for thread in self._threads.values():
            thread.join()

    def query(self, topic: str, timeout: float | None = None) -> Any:
        return 1 << 24 | 2 << 16

    def publish(self, topic: str, value: Any, timeout: float | None = None) -> None:
        device = "/".join(topic.split("/")[:3])
        if topic.endswith("/s/i/ctrl") and value and device not in self._threads:
            self._threads[device] = threading.Thread(
                target=self._stream, args=[device], daemon=True
            )
            self._threads[device].start()

    def subscribe(self, topic: str, flags: Any, fn: Any, timeout: float | None = None) -> None:
        self._calls[topic] = fn

    def unsubscribe(self, topic: str, fn: Any, timeout: float | None = None) -> None:
        self._calls.pop(topic, None)

    def _stream(self, device: str) -> None:
        serial = device.rpartition("/")[2]
        rail = RAILS[serial]
        volt_gain, volt_offset, amp_gain, amp_offset = ERRORS[serial]
        state = StateReader(Path(os.environ["JOULESCOPE_BENCH"]) / "trace")
        ms_ns = 1e6 / (1 + PPM * 1e-6)
        begin_ns = time.monotonic_ns() - 10_000_000
        rng = np.random.default_rng(int(serial))
        number = 0
        while not self._over.is_set():
            edges = begin_ns + np.rint(np.arange(BLOCK_MS + 1) * ms_ns).astype(np.int64)
            wait_s = (int(edges[-1]) - time.monotonic_ns()) * 1e-9 + 0.002
            if wait_s > 0:
                time.sleep(wait_s)
            volts = state.means(f"volt_seconds_{rail}", edges[:-1], edges[1:])
            amps = state.means(f"coulombs_{rail}", edges[:-1], edges[1:])
            signals = {
                "s/v/!data": volts * volt_gain + volt_offset,
                "s/i/!data": amps * amp_gain + amp_offset,
            }
            for topic, values in signals.items():
                samples = np.repeat(values, 1000) + rng.normal(0.0, 1e-4, BLOCK_MS * 1000)
                call = self._calls.get(f"{device}/{topic}")
                if call is None or (number % LOST_EVERY == LOST_EVERY - 1 and "i" in topic):
                    continue
                call(
                    f"{device}/{topic}",
                    {
                        "sample_id": FIRST_ID + number * BLOCK_MS * 2_000,
                        "utc": 0,
                        "field_id": 1,
                        "index": 0,
                        "sample_rate": 2_000_000,
                        "decimate_factor": 2,
                        "time_map": {},
                        "data": samples.astype(np.float32),
                    },
                )
            begin_ns += round(BLOCK_MS * ms_ns)
            number += 1
