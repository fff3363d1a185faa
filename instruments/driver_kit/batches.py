"""Makes batches of readings: numbers in blocks, statuses for readings that are no numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from instruments.reading import Batch, Block, Status, StatusReading


def blocks_and_statuses(
    channel: str, t_ns: Sequence[int], readings: Sequence[float | Status], detail: str = ""
) -> tuple[tuple[Block, ...], tuple[StatusReading, ...]]:
    """One block with the numbers, if any, and one status for each run of equal statuses."""
    if Status not in map(type, readings):  # as nearly always
        block = Block(channel, np.array(t_ns, np.int64), np.array(readings, np.float64))
        return (block,) if readings else (), ()
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


def joined(batches: Sequence[Batch]) -> Batch:
    """All readings, statuses and clock pairs of several batches, in their order."""
    return Batch(
        tuple(block for batch in batches for block in batch.blocks),
        tuple(status for batch in batches for status in batch.statuses),
        tuple(pair for batch in batches for pair in batch.clock_pairs),
    )


def batch_of_readings(readings: Iterable[tuple[str, int, float | Status, str]]) -> Batch:
    """A batch of single readings: channel, time in ns, value or status, detail of a status."""
    blocks: list[Block] = []
    statuses: list[StatusReading] = []
    for channel, t_ns, reading, detail in readings:
        some_blocks, some_statuses = blocks_and_statuses(channel, [t_ns], [reading], detail)
        blocks += some_blocks
        statuses += some_statuses
    return Batch(tuple(blocks), tuple(statuses))
