"""Work that goes on beside other work, and whose failure does not stay unnoticed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any


@contextlib.asynccontextmanager
async def alongside(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Let ``work`` go on while the ``async with`` lasts; its end is cancelled. When ``work`` fails,
    the block is cancelled, and what it raised is raised."""
    try:
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(work, name=name)
            try:
                yield
            finally:
                task.cancel()
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
