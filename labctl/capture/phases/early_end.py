"""The end of a phase before its time: when its numbers, or its temperature, are good enough.

Its fio is asked for its last document only when the fio of the next phase is held ready, which then
begins at once, as after an end that was planned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from labctl.capture.phases.fio_process import FioProcess
from labctl.record.phase import Phase
from labctl.record.point_end import PointEnd, PointEnding, PointState

ENDS_ANYHOW_S = 1.0
"""A phase whose time is over so soon is not ended early: fio may be printing its last words."""


def point_end(
    phase: Phase, state: PointState | None, kept_s: Mapping[str, float]
) -> PointEnd | None:
    """How a phase ended whose end depends on its numbers, which stood like this (``kept_s``: for
    how long each reason kept it going); None of others."""
    if phase.until is None or state is None:
        return None
    ended = PointEnding.SETTLED if phase.until.settled else PointEnding.TARGET
    return PointEnd(ended if state.enough else PointEnding.LONGEST, state, kept_s)


async def end_early(
    fio: FioProcess,
    left_s: Callable[[], float],
    done: asyncio.Task[None],
    held: Coroutine[Any, Any, None],
    others: Sequence[asyncio.Task[Any]],
) -> asyncio.Task[None]:
    """End a phase before its time, when the fio of the next is ready (``held``), else the drive
    would idle meanwhile; or leave it to what ends it first: ``done``, or one of ``others``.

    ``left_s``: how much of its time is left. Gives the task that is done with the phase.
    """
    ready = asyncio.create_task(held, name="held")
    try:
        await asyncio.wait((ready, done, *others), return_when=asyncio.FIRST_COMPLETED)
    finally:
        ready.cancel()
    if left_s() > ENDS_ANYHOW_S and not any(task.done() for task in (done, *others)):
        done.cancel()
        done = asyncio.create_task(fio.end_early(), name=f"end-{fio.phase.index}")
    await asyncio.wait((done, *others), return_when=asyncio.FIRST_COMPLETED)
    return done
