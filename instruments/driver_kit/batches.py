"""Sorts readings into a block of numbers and the statuses of those that are none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from instruments.reading import Batch, Block, Status, StatusReading


def blocks_and_statuses(
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


def batch_of_readings(readings: Iterable[tuple[str, int, float | Status, str]]) -> Batch:
    """One reading each of several channels: its channel, ns, what it is, and why it is none."""
    blocks: list[Block] = []
    statuses: list[StatusReading] = []
    for channel, t_ns, reading, detail in readings:
        found, told = blocks_and_statuses(channel, [t_ns], [reading], detail)
        blocks += found
        statuses += told
    return Batch(tuple(blocks), tuple(statuses))
