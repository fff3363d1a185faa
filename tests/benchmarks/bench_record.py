"""What recording costs: CPU a reading against plain numpy, and whether the largest rate loses
anything."""

from __future__ import annotations

import os
import tempfile
import time
from itertools import count
from pathlib import Path

import numpy as np

from instruments.reading import Block
from labctl.record import journal as journals
from labctl.record.header import DriveInfo, Header
from labctl.record.journal import Journal
from labctl.record.layout import READING
from labctl.record.phase import Pattern, Phase, Role
from labctl.record.reader import RunRecord
from labctl.record.timebase import Timebase
from tests.benchmarks.figures import Figure, in_turns, judged, seconds, show

CHANNELS = 4
RATE = 250_000
SECONDS = 4
BLOCK_S = 0.05
SIZE = round(RATE * BLOCK_S)
BLOCKS = round(SECONDS / BLOCK_S)
TIMES = np.arange(SIZE, dtype=np.int64) * 4000
VALUES = np.random.default_rng(1).normal(size=SIZE)


def paced(begin: float, number: int) -> None:
    """Wait until the next block is due."""
    time.sleep(max(begin + (number + 1) * BLOCK_S - time.monotonic(), 0.0))


class Recording:
    """Blocks of all channels as they come, into journals under ``root``."""

    def __init__(self, root: Path) -> None:
        self.kept = 0
        self.sent = 0
        self._root = root

    def __call__(self) -> float:
        """CPU seconds a reading."""
        timebase = Timebase()
        phase = Phase(0, Role.MEASURE, "s", Pattern.READ, 1.0)
        header = Header(
            "bench", "rig", "plan", "", "", (phase,), (), (), {}, DriveInfo(), timebase.anchor, {}
        )
        path = journals.create(self._root, header)
        journal = Journal(path, timebase.now_ns)
        cpu, begin = time.process_time(), time.monotonic()
        for number in range(BLOCKS):
            for channel in range(CHANNELS):
                journal.readings("m", Block(str(channel), TIMES, VALUES))
            paced(begin, number)
        journal.flush()
        cpu = time.process_time() - cpu
        journal.close()
        record = RunRecord(path)
        kept = sum(record.readings(f"m.{channel}").size for channel in range(CHANNELS))
        self.kept += kept
        self.sent += CHANNELS * SIZE * BLOCKS
        return cpu / kept


def plain_numpy(folder: Path) -> float:
    """CPU seconds a reading: the same blocks and syncs, times and values put together by numpy."""
    folder.mkdir()
    cpu, begin = time.process_time(), time.monotonic()
    files = [(folder / str(channel)).open("ab") for channel in range(CHANNELS)]
    for number in range(BLOCKS):
        for file in files:
            records = np.empty(SIZE, READING)
            records["t"], records["v"] = TIMES, VALUES
            records.tofile(file)
        if (number + 1) % round(1 / BLOCK_S) == 0:
            for file in files:
                os.fdatasync(file.fileno())
        paced(begin, number)
    cpu = time.process_time() - cpu
    for file in files:
        file.close()
    return cpu / (CHANNELS * SIZE * BLOCKS)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        numbers, recording = count(), Recording(Path(name))
        pairs = in_turns(recording, lambda: plain_numpy(Path(name) / f"plain-{next(numbers)}"))
    lost = recording.sent - recording.kept
    why = "the same blocks and syncs; what is more is a queue, a lock and a thread of its own"
    show(
        judged("recording in blocks, CPU a reading", pairs, 1.5, seconds,
               "plain numpy into files", why, promised=0.25e-6),
        Figure(f"{CHANNELS} channels × 250 kS/s, readings lost", "0", f"{lost}", lost == 0,
               f"of {recording.sent:,}"),
    )  # fmt: skip


main()
