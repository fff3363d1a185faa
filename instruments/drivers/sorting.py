"""Sorts readings into a block of numbers and the statuses of those that are none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instruments.reading import Block, Status, StatusReading


def sort_readings(
    channel: str, t_ns: Sequence[int], readings: Sequence[float | Status], detail: str = ""
) -> tuple[tuple[Block, ...], tuple[StatusReading, ...]]:
    """One block with the numbers (none if there are none), one status for each row of alikes."""
    numbers = [
        (t, value) for t, value in zip(t_ns, readings, strict=True) if not isinstance(value, Status)
    ]
    blocks: tuple[Block, ...] = ()
    if numbers:
        times, values = zip(*numbers, strict=True)
        blocks = (Block(channel, np.array(times, np.int64), np.array(values, np.float64)),)
    statuses: list[StatusReading] = []
    run: list[int] = []
    previous: float | Status = 0.0
    for t, value in [*zip(t_ns, readings, strict=True), (0, 0.0)]:
        if run and value is not previous:
            assert isinstance(previous, Status)
            statuses.append(StatusReading(channel, run[0], previous, detail, len(run)))
            run = []
        if isinstance(value, Status):
            run.append(t)
        previous = value
    return blocks, tuple(statuses)
