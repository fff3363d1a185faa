"""What recording costs: CPU a reading, and whether the largest rate loses anything."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from instruments.reading import Block
from labctl.record import journal as journals
from labctl.record.header import DriveInfo, Header
from labctl.record.journal import Journal
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.reader import RunRecord
from labctl.record.timebase import Timebase
from tests.benchmarks.figures import Figure, show

CHANNELS = 4
RATE = 250_000
SECONDS = 6
BLOCK_S = 0.05


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        timebase = Timebase()
        phase = Phase(0, Role.MEASURE, "s", Pattern.READ, 1.0)
        header = Header(
            "bench", "rig", "plan", "", "", (phase,), (), (), {}, DriveInfo(), timebase.anchor, {}
        )
        path = journals.create(Path(folder), header)
        journal = Journal(path, timebase.now_ns)
        size = round(RATE * BLOCK_S)
        times = np.arange(size, dtype=np.int64) * 4000
        values = np.random.default_rng(1).normal(size=size)
        cpu = time.process_time()
        begin = time.monotonic()
        for number in range(round(SECONDS / BLOCK_S)):
            for channel in range(CHANNELS):
                journal.readings("m", Block(str(channel), times, values))
            wait = begin + (number + 1) * BLOCK_S - time.monotonic()
            if wait > 0:
                time.sleep(wait)
        journal.flush()
        took = time.monotonic() - begin
        cpu = time.process_time() - cpu
        journal.close()
        record = RunRecord(path)
        kept = sum(record.readings(f"m.{channel}").size for channel in range(CHANNELS))
    sent = CHANNELS * size * round(SECONDS / BLOCK_S)
    each = cpu / kept * 1e6
    show(
        Figure("recording, CPU a reading", "<= 0.25 µs", f"{each:.3f} µs", each <= 0.25),
        Figure(
            f"{CHANNELS} channels x 250 kS/s, readings lost", "0", f"{sent - kept}", sent == kept
        ),
        Figure("  in", f"{SECONDS} s", f"{took:.2f} s"),
    )


main()
